"""What Spark computes of a measure, and how the measure's ring columns come out of it.

Measures overlap: a mean is a sum and a count, moments are those and a variance.  Spark is asked for
each such *part* once, whoever needs it; the rest is arithmetic on the groups Spark leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.families.windows.measures import COLUMNS, Measure
from headrace.families.windows.rings.arrays import (
    ADD,
    MAX,
    MIN,
    MOMENTS_N,
)
from headrace.families.windows.sketches import kinds
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.tree import Call, Expr

KIND = "_headrace_kind"
LOW = (1 << 32) - 1
NUMBERS = ("tinyint", "smallint", "int", "bigint", "double")  # hashed where they arrive
SMALL = ("tinyint", "smallint", "int")  # too small for a sum to overflow below 2³² rows

Part = tuple[str, str]
"""An aggregate function and the SQL of its argument."""
Values = NDArray[Any]

ROWS_PART: Part = ("count", "1")
NO_LIMITS = kinds.Limits((1 << 31) - 2, (1 << 31) - 2)
_INT = np.iinfo(np.int64)


def counted(expr: Expr, text: str) -> str:
    """What can fail is only asked of rows that count."""
    return f"IF({KIND} = 0, {text}, NULL)" if may_raise(expr) else text


@lru_cache(maxsize=100_000)
def parts_of(measure: Measure) -> tuple[Part, ...]:
    """What Spark must compute for this measure."""
    if measure.arg is None:
        return (ROWS_PART,)
    arg, kind = measure.arg, measure.kind
    match kind:
        case "count":
            return (_count(arg),)
        case "sum_int":
            whole = _whole(arg)
            return (
                (("sum", whole),)
                if arg.type.name in SMALL
                else (("sum_high", whole), ("sum_low", whole))
            )
        case "sum_float":
            return (_total(arg),)
        case "moments":
            return (_count(arg), _total(arg), ("var_pop", _real(arg)))
        case "min_int" | "max_int":
            return ((kind[:3], _whole(arg)),)
        case "min_float" | "max_float":
            return ((kind[:3], _real(arg)),)
        case "hll":
            if len(measure.params) == 1:  # in a pane log of before: named, never asked for
                return ((f"hll:{measure.params[0]}", emit(arg)),)
            return ((f"coupons:{measure.params[0]}", _hashed(arg)),)
        case "points":
            return (f"thin:{kinds.points_max(measure.params[0])}", _real(arg)), _count(arg)
        case "values" | "distinct":
            return (("set", _told_apart(arg)) if kind == "distinct" else ("list", _ordered(arg)),)
        case other:
            raise AssertionError(other)


def part_sql(function: str, arg: str, limits: kinds.Limits = NO_LIMITS) -> str:
    sketched = kinds.part_sql(function, arg, limits)
    if sketched is not None:
        return sketched
    if function == "sum_high":
        return f"sum(shiftright({arg}, 32))"
    if function == "sum_low":
        return f"sum({arg} & {LOW}L)"
    return f"{function}({arg})"


@lru_cache(maxsize=64)
def part_names(measures: tuple[Measure, ...]) -> Mapping[Part, str]:
    """The name of each part in the aggregate and in the pane log; the number of rows is always
    among them."""
    parts = dict.fromkeys([ROWS_PART, *(p for m in measures for p in parts_of(m))])
    return {part: f"m{i}" for i, part in enumerate(parts)}


@dataclass(frozen=True, slots=True)
class Asked:
    """What Spark is asked for, by the name of the column it is sent as; and, for each part that is
    needed, the column it is made of."""

    columns: Mapping[str, Part]
    sources: Mapping[Part, str]


@lru_cache(maxsize=64)
def asked_for(measures: tuple[Measure, ...], limits: kinds.Limits) -> Asked:
    """Where values are sent as they come, a percentile and a distinct count may be made of the same
    ones."""
    names: dict[Part, str] = {}
    numbers = {
        parts_of(m)[0]: _number(m.arg)
        for m in measures
        if m.kind == "hll" and m.arg is not None and m.arg.type.name in NUMBERS
    }
    sources = {}
    for part, name in part_names(measures).items():
        asked = kinds.as_it_comes(*part, numbers.get(part)) if limits.is_small else part
        sources[part] = names.setdefault(asked, name)
    return Asked({name: part for part, name in names.items()}, sources)


def _number(arg: Expr) -> str:
    return _real(arg) if arg.type.name == "double" else counted(arg, emit(arg))


def ring_columns(measure: Measure, parts: Sequence[pa.ChunkedArray]) -> list[Values]:
    """The measure's columns, ints before floats as in its layout, out of its parts; nulls are
    identities."""
    own = COLUMNS[measure.kind]
    match measure.kind:
        case "moments":
            count = parts[0].to_numpy().astype(np.float64)
            total, variance = _filled(parts[1], 0), _filled(parts[2], 0)
            with np.errstate(invalid="ignore", over="ignore"):  # sums may be infinite, or NaN
                return [count, total / np.maximum(count, 1.0), variance * count]
        case "sum_int" if len(parts) == 1:
            total = _filled(parts[0], 0)
            return [np.zeros_like(total), total]
        case _:
            ops, identity = (
                (own.int_ops, int_identity) if own.int_ops else (own.float_ops, float_identity)
            )
            kind = np.int64 if own.int_ops else np.float64
            return [
                np.asarray(_filled(p, identity(op)), kind) for p, op in zip(parts, ops, strict=True)
            ]


def int_identity(op: int) -> int:
    return 0 if op == ADD else int(_INT.max if op == MIN else _INT.min)


def float_identity(op: int) -> float:
    """Empty as the ring knows it: NaN is above every number, so it is the identity of MIN."""
    if op == ADD or op >= MOMENTS_N:
        return 0.0
    assert op in (MIN, MAX)
    return float("nan") if op == MIN else float("-inf")


def _filled(column: pa.ChunkedArray, identity: float) -> Values:
    values: Values = (column.fill_null(identity) if column.null_count else column).to_numpy()
    return values


def _count(arg: Expr) -> Part:
    """Of what is cast without loss, count the original: it is null for the same rows."""
    while isinstance(arg, Call) and arg.op == "cast" and _is_widened(arg):
        arg = arg.args[0]
    return "count", counted(arg, emit(arg))


def _total(arg: Expr) -> Part:
    """A sum of doubles; of small integers the exact sum, which is the same number."""
    if (
        isinstance(arg, Call)
        and arg.op == "cast"
        and arg.args[0].type.name in SMALL
        and arg.type.name == "double"
    ):
        return "sum", _whole(arg.args[0])
    return "sum", _real(arg)


def _is_widened(cast: Call) -> bool:
    origin = cast.args[0].type
    return origin.is_integral and (cast.type.name == "bigint" or cast.type.is_fractional)


def _hashed(arg: Expr) -> str:
    """What is hashed: 0.0 and -0.0 are one value; Spark's hash makes one of all NaN."""
    return counted(arg, _plain(arg, emit(arg)))


def _told_apart(arg: Expr) -> str:
    """Values of which equal ones are one: 0.0 and -0.0 are."""
    return _plain(arg, _ordered(arg))


def _ordered(arg: Expr) -> str:
    """Values as numbers of the same order; text and binaries as they are."""
    if arg.type.is_fractional:
        return _real(arg)
    if arg.type.name in kinds.WHOLE:
        return _whole(arg)
    text = emit(arg)
    return counted(arg, f"CAST({text} AS STRING)" if arg.type.name == "decimal" else text)


def _plain(arg: Expr, text: str) -> str:
    """SQL that makes 0.0 of -0.0, and leaves all other values alone."""
    return f"({text} + CAST(0 AS {arg.type}))" if arg.type.is_fractional else text


def _real(arg: Expr) -> str:
    text = emit(arg)
    return counted(arg, text if arg.type.name == "double" else f"CAST({text} AS DOUBLE)")


def _whole(arg: Expr) -> str:
    """As a bigint; dates and times by their numbers."""
    text, kind = emit(arg), arg.type.name
    if kind in ("timestamp", "timestamp_ntz"):
        text = f"unix_micros(CAST({text} AS TIMESTAMP))"
    elif kind == "date":
        text = f"CAST(unix_date({text}) AS BIGINT)"
    elif kind == "boolean":
        text = f"CAST(CAST({text} AS INT) AS BIGINT)"
    elif kind != "bigint":
        text = f"CAST({text} AS BIGINT)"
    return counted(arg, text)
