"""What thousands of window queries share.  Pure: no Spark, no clock, no disk.

A query asks for a *slot* (its predicate and group-by), a *grain* (the widest panes whose edges hold
every edge of its window), *measures* (what its aggregates decompose into) and a *program* (its
SELECT and HAVING over those aggregates).  Queries of one slot sit on *rings*: on one of their own
grain, or on a finer one where that is short enough.  Every ring is fed from one Spark aggregate a
round, whose rows are grouped by *cuts*: one by all keys, or one for each maximal group-by when that
proves cheaper.  Predicates are bits of a signature: rows with the same bits meet.  Where many
compare one attribute with constants, they are bands of its *cells* instead (`cells.py`): Spark
groups by the cell, and a slot of such a crowd has one *shared ring* for all queries of one window
and the same measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from headrace.evaluation.finish import why_unsupported
from headrace.families.contract import Refusal
from headrace.families.windows.aggregation.sameness import having_of_rows, swaps_zeros_of_rows
from headrace.families.windows.measures import ROWS, Measure, measures_for, refusal
from headrace.sql.bands import Band
from headrace.sql.functions import may_raise
from headrace.sql.query import Output, Query
from headrace.sql.tree import (
    FILTERED,
    Aggregate,
    Bound,
    Call,
    Column,
    Expr,
    Literal,
    aggregates_of,
    remember_hash,
)
from headrace.sql.zeros import SWAPS_ZEROS
from headrace.values import BOOLEAN, VOID, Relation, Type, Window

SIGNATURE_BITS = 62
CROWD_MIN = 16
"""So many different bands of one attribute are dearer as bits than as cells (`headrace bench
predicates`)."""
SHARED_PANES_MAX = 256  # a window of more panes than this gets a ring of its own grain


@dataclass(frozen=True, slots=True)
class Slot:
    """A predicate and a group-by: the rows and groups of a query, whatever its window.

    With cells, its queries differ in the bands of them they take."""

    where: Expr | None
    keys: tuple[Expr, ...]
    cells: tuple[Expr, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remember_hash(self, (self.where, self.keys, self.cells))

    def __reduce__(self) -> tuple[object, ...]:
        return Slot, (self.where, self.keys, self.cells)


@dataclass(frozen=True, slots=True)
class Program:
    """SELECT and HAVING over finished aggregates; bare window bounds are not stored (see
    runtime.answers)."""

    outputs: tuple[Expr, ...]
    having: Expr | None
    aggregates: tuple[Aggregate, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What one query asks of the shared work; `bands` are of the slot's cells, one of each."""

    slot: Slot
    window: Window
    measures: tuple[Measure, ...]
    program: Program
    bands: tuple[Band, ...] = ()

    @property
    def shared_ring(self) -> SharedRing | None:
        return SharedRing(self.window, self.measures) if self.bands else None

    @property
    def has_sketches(self) -> bool:
        return any(m.is_sketch for m in self.measures)


def share(query: Query, relation: Relation) -> Share | Refusal:
    """How a query with a window is shared, or why it is not."""
    assert query.window is not None, "family.py asks for no other"
    if relation.is_table:
        return Refusal("it is over a table")
    if swaps_zeros_of_rows(query.where, query.having):
        return Refusal(SWAPS_ZEROS)
    asked = _asked(query.outputs, query.having)
    if isinstance(asked, Refusal):
        return asked
    slot = Slot(query.where, tuple([guard(k, query.where) for k in query.keys]))
    program, measures = asked or _program(query.outputs, query.having, query.where)
    return Share(slot, query.window, measures, program)


@lru_cache(maxsize=100_000)
def _asked(
    outputs: tuple[Output, ...], having: Expr | None
) -> Refusal | tuple[Program, tuple[Measure, ...]] | None:
    """What a query asks for, whatever its predicate and window; of 100,000 queries few differ in
    more.  None if its predicate counts too: what is aggregated may fail on rows that the query does
    not select."""
    reason = _refused(outputs, having)
    if reason is not None:
        return Refusal(reason)
    return None if _can_fail(outputs, having) else _program(outputs, having, None)


def _refused(outputs: tuple[Output, ...], having: Expr | None) -> str | None:
    """Why SELECT and HAVING cannot be computed from panes."""
    finished: list[Expr] = [o.expr for o in outputs if not isinstance(o.expr, Bound)]
    finished += [] if having is None else [having]
    reason = next(
        (r for a in aggregates_of(*(o.expr for o in outputs), having) if (r := refusal(a))), None
    )
    if reason is None:
        reason = next((f"{r} over aggregates" for e in finished if (r := why_unsupported(e))), None)
    if reason is None and having_of_rows(having):
        reason = "its HAVING asks more of a DOUBLE or FLOAT key than a comparison, and Spark asks that of the rows"
    return reason


def _can_fail(outputs: tuple[Output, ...], having: Expr | None) -> bool:
    """Whether what is aggregated may fail on some row: such a row is looked at only if the query
    selects it."""
    aggregates = aggregates_of(*(o.expr for o in outputs), having)
    return any(may_raise(arg) for aggregate in aggregates for arg in aggregate.args)


def guard(expr: Expr, where: Expr | None) -> Expr:
    """An expression that can fail must only see the rows its own query selects, as in Spark."""
    if where is None or isinstance(expr, Column) or not may_raise(expr):
        return expr
    return Call("case", (where, expr, Literal(None, VOID)), expr.type)


@lru_cache(maxsize=100_000)
def _program(
    outputs: tuple[Output, ...], having: Expr | None, where: Expr | None
) -> tuple[Program, tuple[Measure, ...]]:
    exprs = tuple(
        _guard_aggregates(o.expr, where) for o in outputs if not isinstance(o.expr, Bound)
    )
    kept = None if having is None else _guard_aggregates(having, where)
    if kept is not None and kept.type != BOOLEAN:  # a bare NULL
        kept = Call("cast", (kept,), BOOLEAN)
    program = _compiled(exprs, kept)
    return program, tuple(
        {ROWS: None, **{m: None for a in program.aggregates for m in measures_for(a)}}
    )


@lru_cache(maxsize=100_000)
def _compiled(exprs: tuple[Expr, ...], having: Expr | None) -> Program:
    return Program(exprs, having, aggregates_of(*exprs, having), tuple(e.type for e in exprs))


def _as_case(arg: Expr) -> Expr:
    """FILTER and CASE WHEN are one measure."""
    if isinstance(arg, Call) and arg.op == FILTERED:
        return Call("case", (*arg.args, Literal(None, VOID)), arg.type)
    return arg


def _guard_aggregates(expr: Expr, where: Expr | None) -> Expr:
    if isinstance(expr, Aggregate):
        return Aggregate(
            expr.op, tuple(guard(_as_case(a), where) for a in expr.args), expr.type, expr.distinct
        )
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_guard_aggregates(a, where) for a in expr.args), expr.type)
    return expr


# -- rings: who sits where -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedRing:
    """What queries of a crowd must have in common to share a ring."""

    window: Window
    measures: tuple[Measure, ...]


RingKey = tuple[Slot, int, SharedRing | None]


@dataclass(slots=True, eq=False)
class RingPlan:
    """Queries of one slot whose windows start and end at edges of these panes; of a crowd, those of
    one shared ring."""

    slot: Slot
    grain_us: int
    shared_ring: SharedRing | None = None
    members: dict[int, Share] = field(default_factory=dict)
    measures: Counter[Measure] = field(default_factory=Counter)
    _edges: dict[Expr, set[int]] | None = None  # as far as they are known

    def add(self, query_id: int, share: Share) -> None:
        self.members[query_id] = share
        self.measures.update(share.measures)
        if self._edges is not None:
            for cell, band in zip(self.slot.cells, share.bands, strict=True):
                self._edges[cell].update(band.edges())

    def remove(self, query_id: int) -> None:
        self.measures.subtract(self.members.pop(query_id).measures)
        self.measures += Counter()  # drops what nobody needs
        self._edges = None

    @property
    def key(self) -> RingKey:
        return self.slot, self.grain_us, self.shared_ring

    @property
    def length(self) -> int:
        """Panes of the longest window."""
        return max(s.window.range_us for s in self.members.values()) // self.grain_us

    def edges(self) -> Mapping[Expr, set[int]]:
        """Of the bands its queries take, for each cell."""
        if self._edges is None:
            taken = zip(*{s.bands for s in self.members.values()}, strict=True)
            self._edges = {
                cell: {edge for band in set(bands) for edge in band.edges()}
                for cell, bands in zip(self.slot.cells, taken, strict=True)
            }
        return self._edges


class RingAssignment:
    """Which query sits on which ring.  Adding or removing one costs that one, however many there
    are."""

    def __init__(self) -> None:
        self.rings: dict[RingKey, RingPlan] = {}
        self.shares: dict[int, Share] = {}
        self.ring_of: dict[int, RingPlan] = {}
        self._by_slot: dict[Slot, list[RingPlan]] = {}

    def add(self, query_id: int, share: Share, grain_us: int | None = None) -> RingPlan:
        """`grain_us`: on a ring of these panes, made if it is not there."""
        shared_ring = share.shared_ring
        if grain_us is None:
            ring = self._fitting(share, shared_ring)
        else:
            ring = self.rings.get((share.slot, grain_us, shared_ring))
        if ring is None:
            ring = RingPlan(share.slot, grain_us or share.window.grain_us, shared_ring)
            self.rings[ring.key] = ring
            self._by_slot.setdefault(share.slot, []).append(ring)
        ring.add(query_id, share)
        self.shares[query_id] = share
        self.ring_of[query_id] = ring
        return ring

    def _fitting(self, share: Share, shared_ring: SharedRing | None) -> RingPlan | None:
        """The shared ring of a crowd; else the slot's coarsest ring whose panes fit the window and
        are not too many for it."""
        if shared_ring is not None:
            return self.rings.get((share.slot, share.window.grain_us, shared_ring))
        grain, reach = share.window.grain_us, share.window.range_us
        fits = [
            r
            for r in self._by_slot.get(share.slot, ())
            if grain % r.grain_us == 0
            and (r.grain_us == grain or reach // r.grain_us <= SHARED_PANES_MAX)
        ]
        return max(fits, key=lambda r: r.grain_us, default=None)

    def rings_of(self, slot: Slot) -> Sequence[RingPlan]:
        return self._by_slot.get(slot, ())

    def remove(self, query_id: int) -> RingPlan:
        del self.shares[query_id]
        ring = self.ring_of.pop(query_id)
        ring.remove(query_id)
        if not ring.members:
            del self.rings[ring.key]
            self._by_slot[ring.slot].remove(ring)
        return ring


def in_order(assignment: RingAssignment) -> list[RingPlan]:
    """Finer rings first, then by whose query came first: what is made of them does not depend on
    the order in which queries came."""
    return sorted(assignment.rings.values(), key=lambda ring: (ring.grain_us, min(ring.members)))


# -- cuts: what Spark aggregates -------------------------------------------------------------------
