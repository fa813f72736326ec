"""What a standing join shares.  Pure.

Queries are answered together if they are of one *shape*: the same two relations, met in the same
way, with ranges on the same attributes.
- A *band* shape: rows meet by the difference of a number of each side, and each query has its band
  of differences.
- A *filter* is a shape of one relation: each query has its range of one attribute.
- A *select* shape: rows meet where some attributes are equal (or all of them, without any), and
  each query has a range of an attribute of each side; one that is absent is the whole line.

Whatever else a query asks for is looked at when its answers are read; a *bound* on the difference
of event times tells how long a row may still be joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from headrace.errors import PlanError
from headrace.evaluation.finish import why_unsupported
from headrace.families.contract import Refusal
from headrace.families.joins.conditions import Conditions, Pair, conditions_of, difference
from headrace.relations.comparing import WIDEST, is_exact
from headrace.sql.bands import ALL, LEAST, MOST, conjuncts, double_of
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.query import Query
from headrace.sql.tree import Column, Expr
from headrace.sql.zeros import SWAPS_ZEROS, swaps_zeros
from headrace.values import Relation

P = ParamSpec("P")
T = TypeVar("T")
BAND, SELECT, FILTER = "band", "select", "filter"
NOBODY = ""  # the other side of a filter
BOXES_MAX = 256  # of a query: they are numbered in 8 bits (`stabbing/tracking.py`)
_FINITE = 0x7FEFFFFFFFFFFFFF  # the key of the greatest double


@dataclass(frozen=True, slots=True)
class JoinShape:
    """`meets`: what of each side is subtracted, or must be equal; `ranged`: of each side, what has
    a range."""

    relations: tuple[str, str]
    kind: str
    meets: tuple[tuple[Expr, ...], tuple[Expr, ...]]
    ranged: tuple[Expr | None, Expr | None] = (None, None)


Box = tuple[float, float, float, float]
"""Of a band: its ends, twice; of a select-join the range of side 0 and that of side 1."""


@dataclass(frozen=True, slots=True)
class Share:
    """A query as part of a shape: a row and a joining one of the other side are an answer if they
    are in one of its boxes, and pass the residue.  `bound`: the least and the most by which the
    event time of side 1 may be later."""

    shape: JoinShape
    boxes: tuple[Box, ...]
    residue: Conditions
    bound: tuple[int, int] | None

    @property
    def is_cross(self) -> bool:
        """Whether all pairs of rows there can be are in its boxes."""
        is_met = self.shape.kind == BAND or not self.shape.meets[0]
        return is_met and any(
            max(box[0], box[2]) <= -WIDEST and min(box[1], box[3]) >= WIDEST for box in self.boxes
        )


def _remembered(plan: Callable[Concatenate[Query, P], T]) -> Callable[Concatenate[Query, P], T]:
    """As long as the query lives: all are asked for when queries are listed, and one that is
    dropped leaves nothing."""
    known: WeakKeyDictionary[Query, dict[tuple[object, ...], T]] = WeakKeyDictionary()

    @wraps(plan)
    def found(query: Query, /, *relations: P.args, **named: P.kwargs) -> T:
        own = known.setdefault(query, {})
        if relations not in own:
            own[relations] = plan(query, *relations, **named)
        return own[relations]

    return found


@_remembered
def share(query: Query, left: Relation, right: Relation) -> Share:
    """Raises a PlanError for what cannot run."""
    found = conditions_of(query.where)
    if found.empty:
        raise _empty(query, found.empty[0])
    if query.where is not None and swaps_zeros([query.where]):
        raise PlanError(
            f"{query.name!r} cannot be joined: {SWAPS_ZEROS}",
            value=query.sql,
            code="ZEROS_TOLD_APART",
            hint="compare with < and > instead of =, or leave out the part that tells 0.0 from -0.0",
        )
    pair = _band_pair(found, left, right) if not found.equalities else None
    made = (
        _select(found, (left.name, right.name))
        if pair is None
        else _band(found, pair, (left.name, right.name))
    )
    shape, boxes, residue = made
    if not boxes:
        assert pair is not None
        raise _empty(query, difference(pair))
    return Share(shape, boxes, residue, _bound(found, left, right))


@_remembered
def filter_share(query: Query, relation: Relation) -> Share | Refusal:
    """A query over one stream, each row on its own, with a range of some attribute; or why it is
    none."""
    if query.grouped or relation.is_table:
        return Refusal()
    found = conditions_of(query.where)
    if found.empty:
        raise _empty(query, found.empty[0])
    if not found.ranges[0]:
        return Refusal("it has no range of one attribute")
    if query.where is not None and swaps_zeros([query.where]):
        return Refusal(SWAPS_ZEROS)
    (attribute, band), *others = found.ranges[0]
    exprs = (attribute, *(e for e, _ in others), *found.rest, *(o.expr for o in query.outputs))
    reason = next((r for e in exprs if (r := why_unsupported(e))), None)
    if reason is None and any(may_raise(e) for e in exprs):
        reason = "an expression that may fail on a row"
    if reason is not None:
        return Refusal(f"it uses {reason}")
    shape = JoinShape((relation.name, NOBODY), FILTER, ((), ()), (attribute, None))
    boxes = tuple((*interval, LEAST, MOST) for interval in band.intervals)
    return Share(shape, boxes, Conditions((), (), (tuple(others), ()), found.rest), None)


def _empty(query: Query, what: Expr) -> PlanError:
    """Of one part of its condition, or of several together."""
    assert query.where is not None
    never = next((part for part in conjuncts(query.where) if conditions_of(part).empty), None)
    together = (
        f"what it asks of {_sql(query, what)} cannot hold together: put the smaller end first "
        "(BETWEEN low AND high), or leave a part out"
    )
    alone = (
        ""
        if never is None
        else f"{_sql(query, never)} is never true: leave it out, or ask for values it can have"
    )
    return PlanError(
        f"no row can pass {query.name!r}: its range of {_sql(query, what)} is empty",
        value=query.sql,
        code="EMPTY_RANGE",
        hint=alone or together,
    )


def _sql(query: Query, expr: Expr) -> str:
    """For people: by the names of the relations, backquotes only where they are needed."""
    names = query.relations if len(set(query.relations)) == 2 else ("left", "right")
    text = emit(expr, sides=[f"{name}." for name in names] if query.joined else ("", ""))
    return re.sub(r"`([a-z_]\w*)`", r"\1", text, flags=re.IGNORECASE | re.ASCII)


# -- bands -----------------------------------------------------------------------------------------


def _band_pair(found: Conditions, left: Relation, right: Relation) -> Pair | None:
    """The difference rows are looked up by: not that of the event times, if there is another."""
    pairs = [*(pair for pair, _ in found.differences), *(pair for pair, _, _ in found.comparisons)]
    return next(
        (pair for pair in pairs if not _is_time(pair, left, right)), next(iter(pairs), None)
    )


def _band(
    found: Conditions, pair: Pair, names: tuple[str, str]
) -> tuple[JoinShape, tuple[Box, ...], Conditions]:
    shape = JoinShape(names, BAND, ((pair[0],), (pair[1],)))
    band = dict(found.differences).get(pair, ALL)
    for own, beyond, _ in found.comparisons:
        band = band.intersection(beyond) if own == pair else band
    is_double = pair[0].type.is_fractional
    others = tuple(d for d in found.differences if d[0] != pair)
    intervals = band.intervals
    # looked up by the one around them all, and told apart on reading
    if len(intervals) > BOXES_MAX:
        others, intervals = ((pair, band), *others), ((intervals[0][0], intervals[-1][1]),)
    ends = [_doubles(i) if is_double else (max(i[0], -MOST), i[1]) for i in intervals]
    boxes = tuple((lo, hi, lo, hi) for lo, hi in ends if lo <= hi)
    rest = (*found.rest, *(part for own, _, part in found.comparisons if own != pair))
    return shape, boxes, Conditions((), others, found.ranges, rest)


def _doubles(interval: tuple[int, int]) -> tuple[float, float]:
    """Of keys; beyond the finite ones are the infinities, which no difference of finite numbers
    passes."""
    first, last = (max(-_FINITE - 1, min(key, _FINITE + 1)) for key in interval)
    return double_of(first), double_of(last)


# -- select-joins ----------------------------------------------------------------------------------


def _select(
    found: Conditions, names: tuple[str, str]
) -> tuple[JoinShape, tuple[Box, ...], Conditions]:
    pairs = tuple(sorted(found.equalities, key=repr))
    meets = tuple(left for left, _ in pairs), tuple(right for _, right in pairs)
    chosen = [next(iter(side), None) for side in found.ranges]
    bands = [ALL if c is None else c[1] for c in chosen]
    if len(bands[0].intervals) * len(bands[1].intervals) > BOXES_MAX:
        bands[1], chosen[1] = ALL, None
    boxes = tuple((*a, *c) for a in bands[0].intervals for c in bands[1].intervals)
    ranged = tuple(c and c[0] for c in chosen)
    others = tuple(
        tuple(r for r in side if r != c) for side, c in zip(found.ranges, chosen, strict=True)
    )
    unsure = () if not pairs or (is_exact(meets[0]) and is_exact(meets[1])) else pairs
    shape = JoinShape(names, SELECT, meets, (ranged[0], ranged[1]))
    rest = (*found.rest, *(part for _, _, part in found.comparisons))
    return shape, boxes, Conditions(unsure, found.differences, (others[0], others[1]), rest)


# -- time ------------------------------------------------------------------------------------------


def _is_time(pair: Pair, left: Relation, right: Relation) -> bool:
    names = [e.name if isinstance(e, Column) else None for e in pair]
    return left.time is not None and right.time is not None and names == [left.time, right.time]


def _bound(found: Conditions, left: Relation, right: Relation) -> tuple[int, int] | None:
    for pair, band in found.differences:
        if _is_time(pair, left, right) and band.intervals:
            return band.intervals[0][0], band.intervals[-1][1]
    return None


def horizon_us(bound: tuple[int, int] | None, side: int, watermark_us: int | None) -> int | None:
    """Rows of a side older than this join nothing that is still to come on the other, whose
    watermark this is; None when all are needed."""
    if watermark_us is None or bound is None:
        return None
    limit = bound[1] if side == 0 else bound[0]
    if abs(limit) >= MOST:
        return None
    return watermark_us - limit if side == 0 else watermark_us + limit
