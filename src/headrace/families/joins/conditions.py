"""What the condition of a join says: equalities and differences between the two sides, ranges on
each, and the rest.

Sides are 0, the relation after FROM, and 1, the joined one.  A *difference* is a number of side 1
less one of side 0. Differences of doubles are as Spark rounds them; those of whole numbers, dates
and times are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.evaluation.finish import why_unsupported
from headrace.sql.bands import (
    ALL,
    LEAST,
    MOST,
    Band,
    conjuncts,
    double_key,
    is_ordered,
    split_parts,
)
from headrace.sql.functions import may_raise
from headrace.sql.tree import Call, Column, Expr, Literal, walk
from headrace.values import INTERVAL, TIMESTAMP, Type

_INFINITE = double_key(math.inf)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Pair = tuple[Expr, Expr]
"""An expression of side 0 and one of side 1."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of it must hold.  Bands are of keys (`sql/bands.py`); of what is in `empty` no value
    passes.

    A comparison of doubles is one of their difference too, if both are finite; of others it is
    asked as it stands."""

    equalities: tuple[Pair, ...] = ()
    differences: tuple[tuple[Pair, Band], ...] = ()
    ranges: tuple[tuple[tuple[Expr, Band], ...], tuple[tuple[Expr, Band], ...]] = ((), ())
    rest: tuple[Expr, ...] = ()
    empty: tuple[Expr, ...] = ()
    comparisons: tuple[tuple[Pair, Band, Expr], ...] = ()


def sides_of(expr: Expr) -> frozenset[int]:
    return frozenset(node.side for node in walk(expr) if isinstance(node, Column))


@lru_cache(maxsize=100_000)
def conditions_of(where: Expr | None) -> Conditions:
    """Read a condition.  Parts that may fail on a row, or that are not evaluated here, stay in the
    rest, which is asked only where all others hold."""
    found = _Found()
    parts = [] if where is None else conjuncts(where)
    takes = (found.take_equality, found.take_comparison, found.take_interval)
    others = [part for part in parts if not any(take(part) for take in takes)]
    split = split_parts(others)
    taken = [attribute for attribute, band in split.bands if found.take_band(attribute, band)]
    rest = split.rest(taken)
    return found.conditions(conjuncts(rest) if rest is not None else [], split.empty)


class _Found:
    """What has been read so far; several bands of one thing are their intersection."""

    def __init__(self) -> None:
        self._equalities: dict[Pair, None] = {}
        self._differences: dict[Pair, Band] = {}
        self._ranges: tuple[dict[Expr, Band], dict[Expr, Band]] = ({}, {})
        self._comparisons: list[tuple[Pair, Band, Expr]] = []

    def take_equality(self, part: Expr) -> bool:
        """`l = r`, of one type or of whole numbers."""
        pair = _across(part) if isinstance(part, Call) and part.op == "=" else None
        if pair is None or not _is_one_kind(pair[0].type, pair[1].type):
            return False
        self._equalities[pair] = None
        return True

    def take_comparison(self, part: Expr) -> bool:
        """`r > l`, and of exact types `r <= l + 5`, as differences; of doubles beside the
        comparison."""
        if not isinstance(part, Call) or part.op not in _MIRRORED:
            return False
        (left, below), (right, above) = (_shifted(arg) for arg in part.args)
        pair = _across(replace(part, args=(left, right)))
        if pair is None or not _is_one_kind(left.type, right.type) or not is_ordered(left.type):
            return False
        is_swapped = sides_of(left) == {1}
        op, limit = (part.op, above - below) if is_swapped else (_MIRRORED[part.op], below - above)
        if left.type.is_fractional:
            self._comparisons.append((pair, _beyond(op, limit), part))
        else:
            self._meet(pair, _beyond(op, limit))
        return True

    def take_interval(self, part: Expr) -> bool:
        """`r - l <= INTERVAL '1' HOUR`, of times."""
        if not isinstance(part, Call) or part.op not in ("=", *_MIRRORED):
            return False
        (apart, limit), op = part.args, part.op
        if isinstance(apart, Literal):
            apart, limit, op = limit, apart, _MIRRORED.get(op, op)
        if not (
            isinstance(apart, Call)
            and apart.op == "-"
            and apart.type == INTERVAL
            and _is_interval(limit)
        ):
            return False
        pair = _across(apart)
        if pair is None or not (pair[0].type == pair[1].type == TIMESTAMP):
            return False
        assert isinstance(limit, Literal)
        band = _beyond(op, int(str(limit.value)))
        self._meet(pair, band if apart.args[0] == pair[1] else _negative(band, INTERVAL))
        return True

    def take_band(self, attribute: Expr, band: Band) -> bool:
        """A range on one side, or a difference compared with constants."""
        sides = sides_of(attribute)
        if len(sides) == 1:
            if not _is_evaluated(attribute):
                return False
            self._ranges[min(sides)][attribute] = band
            return True
        if isinstance(attribute, Call) and attribute.op == "abs":
            positive = band.intersection(Band(((0, MOST),)))
            (attribute,), band = attribute.args, positive.union(_negative(positive, attribute.type))
        pair = _across(attribute) if isinstance(attribute, Call) and attribute.op == "-" else None
        if pair is None or not isinstance(attribute, Call):
            return False
        alike = _as(pair[0], attribute.type), _as(pair[1], attribute.type)
        if not all(map(_is_evaluated, alike)):
            return False
        self._meet(alike, band if attribute.args[0] == pair[1] else _negative(band, attribute.type))
        return True

    def _meet(self, pair: Pair, band: Band) -> None:
        self._differences[pair] = self._differences.get(pair, ALL).intersection(band)

    def conditions(self, rest: Iterable[Expr], empty: Iterable[Expr]) -> Conditions:
        ranges = (tuple(self._ranges[0].items()), tuple(self._ranges[1].items()))
        crossed = [
            difference(pair) for pair, band in self._differences.items() if not band.intervals
        ]
        return Conditions(
            tuple(self._equalities),
            tuple(self._differences.items()),
            ranges,
            tuple(rest),
            (*empty, *crossed),
            tuple(self._comparisons),
        )


def difference(pair: Pair) -> Expr:
    """As it is told; it is never evaluated."""
    return Call("-", (pair[1], pair[0]), pair[1].type)


def _across(part: Expr) -> Pair | None:
    """The two arguments by side, if each is of one side of its own."""
    assert isinstance(part, Call)
    if len(part.args) != 2 or not all(map(_is_evaluated, part.args)):
        return None
    a, b = part.args
    match sides_of(a), sides_of(b):
        case (first, second) if first == {0} and second == {1}:
            return a, b
        case (first, second) if first == {1} and second == {0}:
            return b, a
    return None


def _is_evaluated(expr: Expr) -> bool:
    """On every row, here, and as Spark does."""
    return not may_raise(expr) and why_unsupported(expr) is None


def _is_one_kind(a: Type, b: Type) -> bool:
    return a == b or (a.is_integral and b.is_integral)


def _as(expr: Expr, kind: Type) -> Expr:
    """As Spark subtracts it: beside a double a whole number is one."""
    return expr if expr.type == kind or kind.is_integral else Call("cast", (expr,), kind)


def _shifted(expr: Expr) -> tuple[Expr, int]:
    """`x + 5` is x and 5; only of exact types, where nothing is rounded."""
    if (
        isinstance(expr, Call)
        and expr.op in ("+", "-")
        and len(expr.args) == 2
        and not expr.type.is_fractional
    ):
        base, by = expr.args
        if expr.op == "+" and isinstance(base, Literal):
            base, by = by, base
        if (
            isinstance(by, Literal)
            and isinstance(by.value, int)
            and (by.type.is_integral or _is_interval(by))
        ):
            inner, shift = _shifted(base)
            return inner, shift + (by.value if expr.op == "+" else -by.value)
    return expr, 0


def _is_interval(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.type == INTERVAL and expr.value is not None


def _beyond(op: str, limit: int) -> Band:
    first, last = {
        "=": (limit, limit),
        ">": (limit + 1, MOST),
        ">=": (limit, MOST),
        "<": (LEAST, limit - 1),
        "<=": (LEAST, limit),
    }[op]
    return (
        Band(((max(first, LEAST), min(last, MOST)),))
        if first <= MOST and last >= LEAST
        else Band(())
    )


def _negative(band: Band, kind: Type) -> Band:
    """Of the negative numbers; keys of doubles are mirrored at zero, and NaN is its own
    negative."""
    numbers = band.intersection(Band(((-_INFINITE, _INFINITE),))) if kind.is_fractional else band
    nans = band.intersection(Band(((_INFINITE + 1, MOST),))) if kind.is_fractional else Band(())
    ends = (
        (LEAST if last == MOST else -last, min(-first, MOST))
        for first, last in reversed(numbers.intervals)
    )
    return Band(tuple(ends)).union(nans)
