"""One-attribute predicates as bands: sets of intervals of the attribute's values.  Pure.

Values of an attribute (a column, or an expression over columns) are put on a line of int64 *keys*
that keeps Spark's order: whole numbers, dates and times are their own key; of doubles it is the
bits, mirrored below zero, with NaN above infinity and both zeros one key.  The next key up is the
next value, so every comparison with a constant is an interval with both ends inside, and AND, OR,
NOT, IN are unions, intersections and complements of intervals.

A predicate is split into a band of one attribute and the rest, both of which a row must pass;
`cells.py` says what is gained by it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache, reduce

from headrace.sql.functions import may_raise
from headrace.sql.tree import Call, Expr, Literal, columns_of
from headrace.values import BOOLEAN, Type

LEAST, MOST = -(1 << 63), (1 << 63) - 1
INTERVALS_MAX = 64
EXACT = 1 << 53
_EPOCH = date(1970, 1, 1).toordinal()
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_NAN: int = struct.unpack("<q", struct.pack("<d", math.inf))[0] + 1

Interval = tuple[int, int]
"""First and last key, both inside."""


@dataclass(frozen=True, slots=True)
class Band:
    """Intervals that neither meet nor overlap, in order."""

    intervals: tuple[Interval, ...]

    def edges(self) -> list[int]:
        """Keys from which on, seen from below, something else holds."""
        starts = [first for first, _ in self.intervals if first > LEAST]
        return starts + [last + 1 for _, last in self.intervals if last < MOST]

    def __contains__(self, key: int) -> bool:
        return any(first <= key <= last for first, last in self.intervals)

    def union(self, other: Band) -> Band:
        return _joined((*self.intervals, *other.intervals))

    def complement(self) -> Band:
        firsts = [LEAST, *(last + 1 for _, last in self.intervals)]
        lasts = [*(first - 1 for first, _ in self.intervals), MOST]
        return Band(tuple((f, t) for f, t in zip(firsts, lasts, strict=True) if f <= t))

    def intersection(self, other: Band) -> Band:
        return self.complement().union(other.complement()).complement()


ALL = Band(((LEAST, MOST),))


def _joined(intervals: Iterable[Interval]) -> Band:
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return Band(tuple(found))


# -- keys ------------------------------------------------------------------------------------------


def double_key(value: float) -> int:
    if math.isnan(value):
        return _NAN
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & MOST)


def double_of(key: int) -> float:
    """The value of a key; whatever is above infinity is NaN."""
    if key >= _NAN:
        return math.nan
    value: float = struct.unpack("<d", struct.pack("<q", abs(key)))[0]
    return value if key >= 0 else -value


def is_ordered(kind: Type) -> bool:
    """Whether values of this type have keys."""
    return kind.is_integral or kind.name in ("double", "date", "timestamp")


@lru_cache(maxsize=100_000)
def _limits(kind: Type, constant: Literal) -> tuple[int, int] | None:
    """The least key at or above the constant, and the least above it, as Spark compares the two
    types; None where the comparison is not one of keys."""
    value, its = constant.value, constant.type
    if kind.name == "double":
        return _just(double_key(float(value))) if _is_number(its) and value is not None else None
    if kind.is_integral:
        return _whole_limits(constant) if _is_number(its) and value is not None else None
    if kind != its or not isinstance(value, str):
        return None
    if kind.name == "date":
        return _just(date.fromisoformat(value).toordinal() - _EPOCH)
    since = datetime.fromisoformat(value).replace(tzinfo=UTC) - _EPOCH_TIME
    return _just((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def _is_number(kind: Type) -> bool:
    """Not a float: beside some types Spark compares it in single precision."""
    return kind.is_integral or kind.name in ("double", "decimal")


def _whole_limits(constant: Literal) -> tuple[int, int] | None:
    if constant.type.is_integral:
        return _just(int(str(constant.value)))
    if constant.type.name == "double" and not abs(float(str(constant.value))) < EXACT:
        return None  # Spark compares doubles, and two whole numbers may be the same double
    exact = (
        Decimal(str(constant.value))
        if constant.type.name == "decimal"
        else Decimal(float(str(constant.value)))
    )
    return math.ceil(exact), math.floor(exact) + 1


def _just(key: int) -> tuple[int, int]:
    return key, key + 1


# -- predicates ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a predicate on one attribute is true; and what it is of a null: true, false or null."""

    attribute: Expr
    band: Band
    of_null: bool | None


def _truth(expr: Expr) -> _Truth | None:
    if not isinstance(expr, Call) or expr.type != BOOLEAN:
        return None
    if expr.op in ("and", "or"):
        return _combined(expr.op, *(_truth(arg) for arg in expr.args))
    if expr.op == "not":
        found = _truth(expr.args[0])
        return found and _Truth(
            found.attribute,
            found.band.complement(),
            None if found.of_null is None else not found.of_null,
        )
    attribute, *constants = expr.args
    if not is_ordered(attribute.type) or not columns_of(attribute):
        return None
    if expr.op == "is_not_null":
        return _Truth(attribute, ALL, False)
    if expr.op == "is_null":
        return _Truth(attribute, Band(()), True)
    bands = [_compared("=" if expr.op == "in" else expr.op, attribute.type, c) for c in constants]
    if not bands or None in bands or len(bands) > INTERVALS_MAX:
        return None
    return _Truth(attribute, _joined(i for b in bands if b for i in b.intervals), None)


def _combined(op: str, left: _Truth | None, right: _Truth | None) -> _Truth | None:
    if left is None or right is None or left.attribute != right.attribute:
        return None
    nulls = (left.of_null, right.of_null)
    if op == "and":
        band = left.band.intersection(right.band)
        return _Truth(
            left.attribute, band, False if False in nulls else None if None in nulls else True
        )
    return _Truth(
        left.attribute,
        left.band.union(right.band),
        True if True in nulls else None if None in nulls else False,
    )


def _compared(op: str, kind: Type, constant: Expr) -> Band | None:
    """The values for which `attribute op constant` is true; None where no band says it."""
    limits = _limits(kind, constant) if isinstance(constant, Literal) else None
    if limits is None:
        return None
    at, above = limits
    match op:
        case "=":
            return _clipped(at, above - 1)
        case "<>":
            return _clipped(at, above - 1).complement()
        case "<":
            return _clipped(LEAST, at - 1)
        case "<=":
            return _clipped(LEAST, above - 1)
        case ">":
            return _clipped(above, MOST)
        case ">=":
            return _clipped(at, MOST)
        case _:
            return None


def _clipped(first: int, last: int) -> Band:
    first, last = max(first, LEAST), min(last, MOST)
    return Band(((first, last),)) if first <= last else Band(())


# -- splitting -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Split:
    """A predicate as what must all hold: bands of attributes, and the rest; `empty` are attributes
    of which it says what no value fulfils."""

    bands: tuple[tuple[Expr, Band], ...]
    _parts: tuple[tuple[Expr, Expr | None], ...]  # each with the attribute whose band it is part of
    empty: tuple[Expr, ...] = ()

    def band(self, attribute: Expr) -> Band:
        return next(band for own, band in self.bands if own == attribute)

    def rest(self, taken: Collection[Expr]) -> Expr | None:
        """What must hold besides the bands of the attributes `taken`."""
        parts = [
            part for part, attribute in self._parts if attribute is None or attribute not in taken
        ]
        return conjunction(parts) if parts else None


NO_BANDS = Split((), ())


@lru_cache(maxsize=100_000)
def split(where: Expr | None) -> Split:
    """The bands of a predicate, each of an attribute.

    None of a predicate that may fail: `n <> 0 AND 10 / n > 1` must not lose its first half."""
    return NO_BANDS if where is None or may_raise(where) else split_parts(conjuncts(where))


def split_parts(parts: Sequence[Expr]) -> Split:
    """The same of what must all hold, for who evaluates the rest only where the bands hold."""
    truths = [_truth(part) for part in parts]
    bands: dict[Expr, Band] = {}
    empty: list[Expr] = []
    for attribute in dict.fromkeys(t.attribute for t in truths if t is not None):
        mine = [t for t in truths if t is not None and t.attribute == attribute]
        band = ALL
        for truth in mine:
            band = band.intersection(truth.band)
        takes_nulls = all(truth.of_null for truth in mine)
        if not takes_nulls and band != ALL and 0 < len(band.intervals) <= INTERVALS_MAX:
            bands[attribute] = band
        if not takes_nulls and not band.intervals:
            empty.append(attribute)
    owners = [t.attribute if t is not None and t.attribute in bands else None for t in truths]
    return Split(tuple(bands.items()), tuple(zip(parts, owners, strict=True)), tuple(empty))


def conjunction(parts: Sequence[Expr]) -> Expr:
    return reduce(lambda whole, part: Call("and", (whole, part), BOOLEAN), parts)


def conjuncts(expr: Expr) -> list[Expr]:
    found: list[Expr] = []
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Call) and node.op == "and":
            stack.extend(reversed(node.args))
        else:
            found.append(node)
    return found
