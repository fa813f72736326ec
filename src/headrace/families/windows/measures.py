"""What an aggregate is made of: measures that panes keep and rings join, and how the answer comes
out of them.

Exact sums of integers are two columns, Σx = hi·2³² + lo with hi = Σ(x >> 32), lo = Σ(x &
0xffffffff): neither overflows below 2³¹ rows, so an overflow is found at the end, where Spark's
bigint would not hold the total. Variances are (n, mean, m2), as in Spark's CentralMomentAgg.
Extremes of dates, times and booleans are kept as int64.  Whether a group had any value is told by a
count, never by the identity of another column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.evaluation.arrow import ARROW
from headrace.evaluation.vectors import FinishError, Vector, to_arrow
from headrace.families.windows.rings.arrays import (
    ADD,
    MAX,
    MIN,
    MOMENTS_M2,
    MOMENTS_MEAN,
    MOMENTS_N,
    Floats,
    Ints,
)
from headrace.families.windows.rings.ring import Layout
from headrace.families.windows.sketches.kinds import KINDS, is_sketched, sketch_of, sketch_refusal
from headrace.sql.tree import Aggregate, Call, Expr, Literal, remember_hash
from headrace.values import DOUBLE, Type

Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """Something kept per pane and group.  `arg` is None for 'rows' only; `params` are those of a
    sketch."""

    kind: str
    arg: Expr | None
    params: tuple[int, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remember_hash(self, (self.kind, self.arg, self.params))

    def __reduce__(self) -> tuple[object, ...]:
        return Measure, (self.kind, self.arg, self.params)

    @property
    def is_sketch(self) -> bool:
        """Kept in trees or a table of its own (`sketches/`), not in rings."""
        return self.kind in KINDS


ROWS = Measure("rows", None)
COLUMNS: Mapping[str, Layout] = {
    "rows": Layout((ADD,), ()),
    "count": Layout((ADD,), ()),
    "sum_int": Layout((ADD, ADD), ()),
    "sum_float": Layout((), (ADD,)),
    "moments": Layout((), (MOMENTS_N, MOMENTS_MEAN, MOMENTS_M2)),
    "min_int": Layout((MIN,), ()),
    "max_int": Layout((MAX,), ()),
    "min_float": Layout((), (MIN,)),
    "max_float": Layout((), (MAX,)),
    **dict.fromkeys(KINDS, Layout((), ())),
}
MOMENTS = ("stddev_samp", "stddev_pop", "var_samp", "var_pop")
INT_EXTREMES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "date",
    "timestamp",
    "timestamp_ntz",
)
WORD = 32


def refusal(aggregate: Aggregate) -> str | None:
    """Why this aggregate cannot be kept in panes; None if it can."""
    if is_sketched(aggregate):
        return sketch_refusal(aggregate)
    if aggregate.op not in ("count", "sum", "avg", "min", "max", *MOMENTS):
        return f"aggregate {aggregate.op} is not kept in panes"
    if aggregate.distinct and aggregate.op not in ("min", "max"):
        return f"{aggregate.op}(DISTINCT …) needs every value, not a total per pane"
    if len(aggregate.args) > 1:
        return f"{aggregate.op} of several expressions"
    if aggregate.op == "count":
        return None
    kind = aggregate.args[0].type
    if aggregate.op in ("min", "max"):
        fits = kind.name in INT_EXTREMES or kind.is_fractional
    else:
        fits = kind.is_integral or kind.is_fractional
    return None if fits else f"{aggregate.op} of a {kind}"


@lru_cache(maxsize=100_000)
def measures_for(aggregate: Aggregate) -> tuple[Measure, ...]:
    """The measures this aggregate is finished from."""
    if not aggregate.args:
        return (ROWS,)
    if is_sketched(aggregate):
        kind, arg, params = sketch_of(aggregate)
        return (_count(arg), Measure(kind, arg, params))
    (arg,) = aggregate.args
    counted = _count(arg)
    if aggregate.op == "count":
        return (counted,)
    if aggregate.op in MOMENTS:
        return (Measure("moments", _as_double(arg)),)
    if aggregate.op in ("min", "max"):
        suffix = "float" if arg.type.is_fractional else "int"
        return (counted, Measure(f"{aggregate.op}_{suffix}", arg))
    if aggregate.op == "sum" and arg.type.is_integral:
        return (counted, Measure("sum_int", arg))
    return (counted, Measure("sum_float", _as_double(arg)))


def _count(arg: Expr) -> Measure:
    constant = isinstance(arg, Literal) and arg.value is not None
    return ROWS if constant else Measure("count", arg)


def _as_double(arg: Expr) -> Expr:
    return arg if arg.type == DOUBLE else Call("cast", (arg,), DOUBLE)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which columns of a ring hold which measure."""

    layout: Layout
    ints: Mapping[Measure, slice]
    floats: Mapping[Measure, slice]

    def columns(self, ints: Ints, floats: Floats) -> dict[Measure, tuple[Column, ...]]:
        """The columns of each measure, out of those of the ring's answers."""
        return {m: (*ints[self.ints[m]], *floats[self.floats[m]]) for m in self.ints}


def arrange(measures: Sequence[Measure]) -> Arrangement:
    """Columns in the order of the measures; 'rows' comes first, as a ring wants it."""
    ordered = dict.fromkeys((ROWS, *measures))
    int_ops: list[int] = []
    float_ops: list[int] = []
    ints: dict[Measure, slice] = {}
    floats: dict[Measure, slice] = {}
    for measure in ordered:
        own = COLUMNS[measure.kind]
        ints[measure] = slice(len(int_ops), len(int_ops) + len(own.int_ops))
        floats[measure] = slice(len(float_ops), len(float_ops) + len(own.float_ops))
        int_ops += own.int_ops
        float_ops += own.float_ops
    return Arrangement(Layout(tuple(int_ops), tuple(float_ops)), ints, floats)


def places_in(wanted: Arrangement, given: Arrangement) -> tuple[Ints, Ints]:
    """Where the wanted columns are among the given ones."""
    ints = [i for m in wanted.ints for i in range(given.ints[m].start, given.ints[m].stop)]
    floats = [i for m in wanted.floats for i in range(given.floats[m].start, given.floats[m].stop)]
    return np.array(ints, np.int64), np.array(floats, np.int64)


def finish_aggregate(
    aggregate: Aggregate, columns: Mapping[Measure, tuple[Column, ...]]
) -> pa.Array:
    """The aggregate's values, as Spark would type and null them."""
    measures = measures_for(aggregate)
    if measures[-1].kind in ("hll", "distinct"):
        return pa.array(columns[measures[1]][0])
    if aggregate.op == "count":
        return pa.array(columns[measures[0]][0])
    if aggregate.op in MOMENTS:
        return to_arrow(_spread(aggregate.op, *columns[measures[0]]), DOUBLE)
    count = columns[measures[0]][0]
    value = columns[measures[1]]
    empty = count == 0
    nulls = empty if empty.any() else None
    if measures[1].kind == "sum_int":
        return to_arrow(Vector(_whole(*value), nulls), aggregate.type)
    if aggregate.op == "avg":
        return to_arrow(Vector(value[0] / np.maximum(count, 1), nulls), DOUBLE)
    return to_arrow(_native(value[0], nulls, aggregate.type), aggregate.type)


def _whole(hi: Ints, lo: Ints) -> Ints:
    """hi·2³² + lo as int64."""
    hi = hi + (lo >> WORD)
    if hi.size and (hi.max() >= 1 << (WORD - 1) or hi.min() < -(1 << (WORD - 1))):
        raise FinishError("a sum does not fit a bigint", code="ARITHMETIC_OVERFLOW")
    return (hi << WORD) | (lo & ((1 << WORD) - 1))


def _spread(op: str, n: Floats, _mean: Floats, m2: Floats) -> Vector:
    """Null without values, and for a sample of one."""
    least = 2 if op.endswith("samp") else 1
    nulls = n < least
    variance = m2 / np.maximum(n - (least - 1), 1.0)
    return Vector(
        np.sqrt(variance) if op.startswith("stddev") else variance, nulls if nulls.any() else None
    )


def _native(values: Column, nulls: NDArray[np.bool_] | None, kind: Type) -> Vector:
    """An extreme in its own type; what an empty group holds (an identity) may not fit it."""
    assert kind.name in ARROW
    if nulls is not None:
        values = np.where(nulls, 0, values)
    if kind.name == "boolean":
        return Vector(values.astype(np.bool_), nulls)
    if kind.is_fractional:
        values = values.astype(np.float32 if kind.name == "float" else np.float64)
    return Vector(values, nulls)
