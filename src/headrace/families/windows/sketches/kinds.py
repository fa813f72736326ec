"""Which aggregates are kept as sketches, what Spark computes of them, and how an answer is read
from a bundle.

    hll        approx_count_distinct   the 2^p registers of Spark's own HyperLogLog++
    points     percentile_approx       sorted values with weights, at most 2·accuracy a group
    values     median, percentile, mode    every value with its count, up to a limit
    distinct   count(DISTINCT x)       every different value, up to a limit

`points` are thinned twice, on the executors (or on arrival) and when a fragment is sealed: each
time a rank moves by at most n / (2 · accuracy), so by n / accuracy in all, which is the error Spark
states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.sketches.bias import Bias
from headrace.families.windows.sketches.bundles import Bundle, Points, Registers
from headrace.families.windows.sketches.hll_kernels import Ints, Ints32
from headrace.sql.sketch_parameters import accuracy_of, number_of, precision_of
from headrace.sql.tree import Aggregate, Expr
from headrace.values import Type

KINDS = ("hll", "points", "values", "distinct")
OPS = ("approx_count_distinct", "percentile_approx", "percentile", "median", "mode")
PRECISION_MAX = 14
SENT_MAX = 1 << 12  # rows of a cell whose values are sent as they come
SENT_TIMES = 4  # or so many times what is kept of them
HLL_FORM = (
    2  # which registers a pane log holds: those of form 1, without a number, were of another hash
)
WHOLE = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Limits:
    """How many values a group may have in a window (and in a cell that Spark sends).

    `is_small`: of a round that is one task, whose values are sent as they come and put in order
    where they arrive (`arriving.py`)."""

    values: int
    distinct: int
    is_small: bool = False

    def of(self, kind: str) -> int:
        return self.distinct if kind == "distinct" else self.values

    @staticmethod
    def name(kind: str) -> str:
        return "distinct_values_max" if kind == "distinct" else "sketch_values_max"


def is_sketched(aggregate: Aggregate) -> bool:
    return aggregate.op in OPS or (aggregate.op == "count" and aggregate.distinct)


def sketch_refusal(aggregate: Aggregate) -> str | None:
    """Why a sketched aggregate is left to plain Spark; None if it is not."""
    op, kind = aggregate.op, aggregate.args[0].type
    if kind.name == "void":
        return f"{op} of NULL"
    if op == "count":
        return "count(DISTINCT …) of several expressions" if len(aggregate.args) > 1 else None
    if aggregate.distinct:
        return f"{op}(DISTINCT …)"
    if op == "approx_count_distinct":
        fine = precision_of(aggregate.args) > PRECISION_MAX
        return (
            f"approx_count_distinct with an error below {1.04 / 2 ** (PRECISION_MAX / 2):.2%}"
            if fine
            else None
        )
    if op == "mode":
        return None if kind.name in WHOLE else f"mode of a {kind}"
    return None if kind.is_integral or kind.is_fractional else f"{op} of a {kind}"


def sketch_of(aggregate: Aggregate) -> tuple[str, Expr, tuple[int, ...]]:
    """Kind, argument and parameters of what is kept for it."""
    arg = aggregate.args[0]
    match aggregate.op:
        case "approx_count_distinct":
            return "hll", arg, (precision_of(aggregate.args), HLL_FORM)
        case "percentile_approx":
            return "points", arg, (accuracy_of(aggregate.args),)
        case "count":
            return "distinct", arg, ()
        case _:
            return "values", arg, ()


def points_max(accuracy: int) -> int:
    """So many values of a group have ranks within n / (2 · accuracy)."""
    return 2 * accuracy


# -- what Spark computes ---------------------------------------------------------------------------


def part_sql(function: str, arg: str, limits: Limits) -> str | None:
    """SQL of a part over the column `arg`; None if the part is not a sketch's."""
    name, _, parameter = function.partition(":")
    match name:
        case "coupons":
            # nothing more is left out, but as a second place that names the column it makes Spark
            # compute the column before, in compiled code and with one hash, not in the aggregate
            return f"collect_set({arg}) FILTER (WHERE {arg} IS NOT NULL)"
        case "sent" | "hashes":
            return f"IF(count(1) > {parameter}, NULL, collect_list({arg}))"
        case "set":
            return _unless_too_many(
                f"size(collect_set({arg}))", limits.distinct, f"collect_set({arg})"
            )
        case "list":
            values = (
                f"collect_list({arg})" if limits.is_small else f"sort_array(collect_list({arg}))"
            )
            return _unless_too_many(f"count({arg})", limits.values, values)
        case "thin":
            return _thinned(arg, int(parameter))
        case _:
            return None


def argument_sql(function: str, text: str) -> str:
    """What a part is made of: of a value its coupon."""
    name, _, parameter = function.partition(":")
    return coupon_sql(text, int(parameter)) if name == "coupons" else text


def as_it_comes(function: str, text: str, number: str | None) -> tuple[str, str]:
    """The part that a small round sends in place of this one: the values, to be hashed or thinned
    where they arrive, or their hashes, if they are not a `number`."""
    name, _, parameter = function.partition(":")
    match name:
        case "coupons":
            if number is None:
                return f"hashes:{SENT_MAX}", f"IF({text} IS NULL, NULL, xxhash64({text}))"
            return f"sent:{SENT_MAX}", number
        case "thin":
            return f"sent:{max(SENT_MAX, SENT_TIMES * int(parameter))}", text
        case _:
            return function, text


def coupon_sql(text: str, precision: int) -> str:
    """The register that a value falls in, below the number of zeros + 1 it has there; null of null.

    With y the bits of the hash behind the register's number, that is 65 - p - l, where l, the
    length of y, is the place of the highest bit of u = 2y + 1.  Take from u the bits that follow a
    bit: it is 2^l at least and less than 1.5 · 2^l, so its logarithm is within l … l + 0.59, and
    0.2 more has the whole part l, however it is rounded."""
    hashed = f"xxhash64({text})"
    u = f"(shiftleft({hashed} & {(1 << 64 - precision) - 1}L, 1) | 1L)"
    zeros = f"{65 - precision} - CAST(log2({u} & ~shiftright({u}, 1)) + 0.2D AS INT)"
    register = f"CAST(shiftrightunsigned({hashed}, {64 - precision}) AS INT)"
    return f"({zeros}) * {1 << precision} + {register} + IF({text} IS NULL, NULL, 0)"


def _unless_too_many(size: str, limit: int, values: str) -> str:
    """All values, or null: a part of them could later be taken for all, under another limit."""
    return f"IF({size} > {limit}, NULL, {values})"


def _thinned(arg: str, most: int) -> str:
    """Of each of `most` equal shares of the ranks the value in the middle
    (`value_kernels.thin`)."""
    share, count = f"(i * {most}L) div count({arg})", f"count({arg})"
    start, stop = (f"((({share}) + {k}) * {count} + {most - 1}L) div {most}L" for k in (0, 1))
    middle = f"(({start}) + ({stop}) - 1) div 2"
    return f"filter(sort_array(collect_list({arg})), (v, i) -> {count} <= {most}L OR i = {middle})"


# -- what is read from a bundle --------------------------------------------------------------------

FLIP = np.int64(np.iinfo(np.int64).max)


def to_keys(values: NDArray[np.float64], is_set: bool = False) -> Ints:
    """Doubles as whole numbers of the same order; NaN is greatest.  Only in a set both zeros are
    one: a percentile that is a zero has its sign."""
    known = np.where(np.isnan(values), np.nan, values)
    bits = (known + 0.0 if is_set else known).view(np.int64)
    return np.where(bits < 0, bits ^ FLIP, bits)


def from_keys(keys: Ints) -> NDArray[np.float64]:
    return np.where(keys < 0, keys ^ FLIP, keys).view(np.float64)


def read(
    aggregate: Aggregate, bundle: Bundle, groups: Ints32, bias: Mapping[int, Bias]
) -> NDArray[Any]:
    """The aggregate of each of these groups; anything where a group has no value."""
    if isinstance(bundle, Registers):
        return bundle.distinct(groups, bias[precision_of(aggregate.args)])
    assert isinstance(bundle, Points)
    match aggregate.op:
        case "count":
            return bundle.sizes(groups)
        case "mode":
            return bundle.most_frequent(groups)
        case "percentile_approx":
            found = from_keys(bundle.at_share(groups, number_of(aggregate.args[1])))
            return found if aggregate.type.is_fractional else _to_whole(found)
        case _:
            return _interpolated(aggregate, bundle, groups)


def _to_whole(values: NDArray[np.float64]) -> Ints:
    """As Java casts: the nearest double of the largest BIGINT is above it, and becomes it again."""
    above = values >= 2.0**63
    return np.where(above, np.iinfo(np.int64).max, np.where(above, 0.0, values).astype(np.int64))


def _interpolated(aggregate: Aggregate, bundle: Points, groups: Ints32) -> NDArray[np.float64]:
    """Between the two nearest values, in Spark's order of operations."""
    share = 0.5 if aggregate.op == "median" else number_of(aggregate.args[1])
    low, high, past = bundle.around_share(groups, share)
    below, above = _real(low, aggregate.args[0].type), _real(high, aggregate.args[0].type)
    with np.errstate(invalid="ignore"):
        return np.where(low == high, below, below + (above - below) * past)


def _real(keys: Ints, kind: Type) -> NDArray[np.float64]:
    return from_keys(keys) if kind.is_fractional else keys.astype(np.float64)
