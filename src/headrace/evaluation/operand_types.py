"""The type Spark casts each operand to."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.evaluation import operators
from headrace.sql.tree import Call, Expr
from headrace.sql.types import common_type
from headrace.values import BIGINT, BOOLEAN, DOUBLE, VOID, Type

REAL = ("sign", "sqrt", "exp", "ln", "log10", "power")


def operand_types(call: Call) -> tuple[Type, ...]:
    """The type each argument is evaluated in."""
    op, args = call.op, call.args
    if op in (
        "+",
        "-",
        "*",
        "%",
        "/",
        "try_divide",
        "negate",
        "abs",
        "coalesce",
        "greatest",
        "least",
    ):
        return (call.type,) * len(args)
    if op in REAL:
        return (DOUBLE,) * len(args)
    if op == "div":
        return BIGINT, BIGINT
    if op in ("and", "or", "not"):
        return (BOOLEAN,) * len(args)
    if op == "case":
        return (*(BOOLEAN if i % 2 == 0 else call.type for i in range(len(args) - 1)), call.type)
    if op in operators.COMPARISONS or op in ("<=>", "in", "nullif"):
        return (common_of(args),) * len(args)
    if op in ("floor", "ceil"):
        return (BIGINT if args[0].type.is_integral else DOUBLE,)
    if op in ("cast", "try_cast") and args[0].type.name in ("decimal", "void"):
        return (call.type,)
    return tuple(a.type for a in args)


def common_of(args: Sequence[Expr]) -> Type:
    common: Type | None = VOID
    for arg in args:
        common = None if common is None else common_type(common, arg.type)
    return BOOLEAN if common is None or common == VOID else common
