"""The type rule of each aggregate (`rules.py` has those of functions)."""

from __future__ import annotations

from headrace.sql import types
from headrace.sql.rules import Args, constant_int, value_of
from headrace.sql.tree import Literal
from headrace.sql.types import MismatchError, require_numeric
from headrace.values import BIGINT, DOUBLE, Type

RSD_MAX = 0.39


def count(args: Args) -> Type:
    types.require_ordered(args)
    return BIGINT


def approx_distinct(args: Args) -> Type:
    """The second argument is the standard error, a constant that Spark accepts."""
    if len(args) == 2:
        known = isinstance(args[1], Literal) and args[1].type.name in ("decimal", "double")
        if not known or not 0 < float(str(value_of(args[1]))) <= RSD_MAX:
            raise MismatchError(
                f"expected a constant above 0 and up to {RSD_MAX}", arg=1, value=value_of(args[1])
            )
    return count(args[:1])


def total(args: Args) -> Type:
    require_numeric(args)
    kind = args[0].type
    if kind.name == "decimal":
        return types.bounded(kind.precision + 10, kind.scale)
    return BIGINT if kind.is_integral else DOUBLE


def average(args: Args) -> Type:
    require_numeric(args)
    kind = args[0].type
    return types.bounded(kind.precision + 4, kind.scale + 4) if kind.name == "decimal" else DOUBLE


def extreme(args: Args) -> Type:
    types.require_ordered(args)
    return args[0].type


def any_same(args: Args) -> Type:
    return extreme(args)


def collected(args: Args) -> Type:
    types.require_ordered(args)
    return Type(f"array<{args[0].type}>")


def by_other(args: Args) -> Type:
    types.require_ordered(args)
    return args[0].type


def percentile(args: Args) -> Type:
    require_numeric(args[:1])
    _require_share(args)
    return DOUBLE


def percentile_approx(args: Args) -> Type:
    require_numeric(args[:1])
    _require_share(args)
    if len(args) == 3:
        constant_int(args, 2, 1, (1 << 31) - 1)
    return args[0].type


def _require_share(args: Args) -> None:
    share = args[1]
    known = isinstance(share, Literal) and share.type.is_numeric and share.value is not None
    if not known or not 0 <= float(str(value_of(share))) <= 1:
        raise MismatchError("expected a constant between 0 and 1", arg=1, value=value_of(share))
