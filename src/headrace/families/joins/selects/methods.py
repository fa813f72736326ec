"""The ways to find the select-joins that an event affects, over the same queries; each gives the
same answer.

- *groups*: stabbing groups (`selects/kernels.py`), whatever joins and however many queries have the
  a.
- *hotspots*: groups for the queries of large groups, select first for the scattered rest.
- *select_first*: find the queries that have the a, ask each for a row.
- *join_first*: for each row that joins, find the queries that have the pair.

Groups are kept by falling size, so hotspots are the first ones of the same index.  Queries that may
be affected are listed in one room for all calls: a method is for one thread at a time.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from headrace.families.joins.intervals.index import IntervalIndex, offsets_of
from headrace.families.joins.intervals.kernels import Located, fill, order_by_window
from headrace.families.joins.selects.index import Events, Rectangles, Rows, SelectIndex
from headrace.families.joins.selects.kernels import Nodes
from headrace.families.joins.selects.ungrouped import (
    Boxes,
    Marks,
    Packed,
    join_first,
    name_listed,
    select_stabbed,
)
from headrace.relations.arrays import Ints, Ints32, Numbers
from headrace.relations.kernels import joining

METHODS = ("groups", "hotspots", "select_first", "join_first")
ALPHA = 0.001  # a group of this share of all queries is hot
ROOM = 1 << 19  # queries that are listed at a time, before most are left out
UNBOUNDED = 2.0**62  # ends of one-sided ranges are at least this far away


@dataclass(frozen=True, slots=True)
class Shape:
    """What the time of a method depends on, whatever the event: groups, hot ones, scattered
    queries; leaves of the tree of rectangles, and the share of them that hold a c."""

    groups: int
    hot_groups: int
    scattered: int
    leaves: int
    crowding: float

    @property
    def ways(self) -> tuple[str, ...]:
        """Methods that are not the same as another one."""
        return (
            METHODS
            if self.hot_groups and self.scattered
            else tuple(m for m in METHODS if m != "hotspots")
        )


@dataclass(frozen=True, slots=True)
class Met:
    """Events, the rows `first` … `last` - 1 that join each, and where its a is among the ranges of
    all queries and of the scattered ones."""

    shape: Shape
    events: Events
    first: Ints
    last: Ints
    stabs: Located
    cold_stabs: Located

    @property
    def rows(self) -> Ints:
        return self.last - self.first

    @property
    def having(self) -> Ints32:
        """How many queries have the a."""
        return self.stabs.begun - self.stabs.ended

    @property
    def cold(self) -> Ints32:
        """How many of those are scattered."""
        return self.cold_stabs.begun - self.cold_stabs.ended

    def take(self, chosen: Ints) -> Met:
        events = self.events.take(chosen)
        stabs, cold = (
            Located(*(column[chosen] for column in own)) for own in (self.stabs, self.cold_stabs)
        )
        return Met(self.shape, events, self.first[chosen], self.last[chosen], stabs, cold)


@dataclass(frozen=True, slots=True)
class Lists:
    """Queries by place: those of event e are `ids[at[e]]` …, `counts[e]` of them."""

    at: Ints
    counts: Ints
    ids: Ints32


@dataclass(frozen=True, slots=True)
class Found:
    """Who is affected: nodes of groups, or queries in lists, or some of each."""

    nodes: Nodes | None
    lists: Lists | None


class Methods:
    """The indexes of all methods over the same queries.  `group` is the stabbing group of each
    one's range of c; one of at least `alpha` of all queries is hot, and all groups are, if the
    others together have fewer."""

    def __init__(self, queries: Rectangles, group: Ints32, alpha: float = ALPHA) -> None:
        rank, hot = _by_size(group, alpha)
        self.groups = SelectIndex.build(queries, rank[group])
        self._hot = _first_groups(self.groups, hot)
        cold, places = (
            np.flatnonzero(rank[group] >= hot),
            np.arange(queries.ids.size, dtype=np.int32),
        )
        self._stabs = IntervalIndex.build(places, queries.a_lo, queries.a_hi)
        self._cold_stabs = IntervalIndex.build(places[cold], queries.a_lo[cold], queries.a_hi[cold])
        self._boxes = Boxes(queries.a_lo, queries.a_hi, queries.c_lo, queries.c_hi)
        self._packed, self._ids = Packed.of(queries), queries.ids
        self._marked: Ints32 = np.full(queries.ids.size, -1, np.int32)  # between calls, none is
        self._room: Ints32 = np.empty(max(ROOM, queries.ids.size), np.int32)
        self.shape = Shape(
            rank.size, hot, cold.size, int(self._packed.levels[1]), _crowding(self._packed)
        )

    def meet(self, rows: Rows, events: Events, *, counts: bool = True) -> Met:
        """Without `counts`, which *groups* alone does not need, nobody has the a of an event."""
        first, last = np.empty(events.b.size, np.int64), np.empty(events.b.size, np.int64)
        joining(rows.b, events.b, first, last)
        if not counts:
            nobody = Located(*(np.zeros(events.b.size, np.int32) for _ in range(4)))
            return Met(self.shape, events, first, last, nobody, nobody)
        stabs = self._stabs.locate(events.a)
        cold = self._cold_stabs.locate(events.a) if "hotspots" in self.shape.ways else stabs
        return Met(self.shape, events, first, last, stabs, cold)

    def run(self, method: str, row_c: Numbers, met: Met) -> Found:
        if method not in self.shape.ways:
            method = "groups" if self.shape.hot_groups else "select_first"
        if method == "groups":
            return Found(self._probe(self.groups, row_c, met), None)
        if method == "hotspots":
            return Found(
                self._probe(self._hot, row_c, met),
                self._select(self._cold_stabs, met.cold_stabs, row_c, met),
            )
        if method == "select_first":
            return Found(None, self._select(self._stabs, met.stabs, row_c, met))
        return Found(None, self._join_first(row_c, met))

    def affected(self, found: Found, events: int) -> list[Ints]:
        """The ids of the queries each event affects."""
        by_group, one_by_one = [[np.empty(0, np.int64)] * events for _ in range(2)]
        if found.nodes is not None:
            ends, ids = self.groups.affected(found.nodes, events)
            by_group = np.split(ids, ends[:-1])[:events]  # of no events, one part is left
        if found.lists is not None:
            spans = zip(found.lists.at[:-1].tolist(), found.lists.counts.tolist(), strict=True)
            one_by_one = [
                self._ids[found.lists.ids[start : start + count]] for start, count in spans
            ]
        return [np.concatenate(both) for both in zip(by_group, one_by_one, strict=True)]

    def _probe(self, index: SelectIndex, row_c: Numbers, met: Met) -> Nodes:
        """Events that nothing joins are not taken to every group."""
        joined = np.flatnonzero(met.first < met.last)
        if joined.size == met.first.size:
            return index.probe_met(row_c, met.first, met.last, met.events.a)
        found = index.probe_met(row_c, met.first[joined], met.last[joined], met.events.a[joined])
        return found._replace(event=joined.astype(np.int32)[found.event])

    def _select(self, index: IntervalIndex, stabs: Located, row_c: Numbers, met: Met) -> Lists:
        having = np.where(met.first < met.last, stabs.begun - stabs.ended, 0)
        window = np.where(having > 0, stabs.window, -1)  # so nothing is listed where nothing joins

        def listed(part: slice, counts: Ints) -> int:
            at, order = offsets_of(having[part]), np.empty(counts.size, np.int32)
            order_by_window(window[part], index.windows.edges.size, order)
            own = Located(window[part], stabs.begun[part], stabs.ended[part], order)
            fill(index.windows, own, at[:-1].copy(), self._room)
            return select_stabbed(
                self._boxes, at, self._room, row_c, met.first[part], met.last[part], counts
            )

        return self._listed(having, listed)

    def _join_first(self, row_c: Numbers, met: Met) -> Lists:
        having, packed = np.where(met.first < met.last, met.having, 0), self._packed

        def listed(part: slice, counts: Ints) -> int:
            at, marks = offsets_of(having[part]), Marks(self._marked, counts)
            join_first(
                packed.boxes,
                packed.nodes,
                packed.levels,
                row_c,
                met.first[part],
                met.last[part],
                met.events.a[part],
                marks,
                at,
                self._room,
            )
            return name_listed(packed.order, at, counts, self._marked, self._room)

        return self._listed(having, listed)

    def _listed(self, having: Ints32, listed: Callable[[slice, Ints], int]) -> Lists:
        """Lists of at most so many queries an event, made for so few events at a time that they are
        in the cache."""
        counts = np.empty(having.size, np.int64)
        ids = [self._room[: listed(part, counts[part])].copy() for part in parts(having, ROOM)]
        return Lists(offsets_of(counts), counts, np.concatenate(ids or [self._room[:0]]))


def parts(having: Ints32, room: int) -> Iterator[slice]:
    """Of events, one after the other: each for no more queries than there is room for, or of a
    single event."""
    start, ends = 0, np.cumsum(having, dtype=np.int64)
    while start < having.size:
        limit = room + (ends[start - 1] if start else 0)
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield slice(start, stop)
        start = stop


def _by_size(group: Ints32, alpha: float) -> tuple[Ints32, int]:
    """The rank of each group, the largest first, and how many are hot."""
    sizes = np.bincount(group)
    rank = np.empty(sizes.size, np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(sizes.size)
    is_hot = sizes >= alpha * group.size
    return rank, int(is_hot.sum()) if sizes[~is_hot].sum() >= alpha * group.size else sizes.size


def _first_groups(index: SelectIndex, count: int) -> SelectIndex:
    """An index of the first groups alone; its nodes keep their numbers."""
    own = index.groups
    first = own._replace(
        point=own.point[:count],
        cut_at=own.cut_at[: count + 1],
        width=own.width[:count],
        node_at=own.node_at[:count],
    )
    return SelectIndex(first, index.ids, sum(int(width).bit_length() for width in first.width))


def _crowding(packed: Packed) -> float:
    """Of leaves, that hold a c: as if c were uniform from where nearly all ranges begin to where
    they end."""
    boxes, leaves = packed.boxes, packed.nodes
    ends = np.concatenate((boxes.c_lo, boxes.c_hi)).astype(np.float64)
    ends = ends[np.abs(ends) < UNBOUNDED]
    if not ends.size:
        return 1.0
    first, last = np.quantile(ends, (0.01, 0.99), method="nearest")
    lo, hi = (
        np.clip(side[: packed.levels[1]].astype(np.float64), first, last)
        for side in (leaves.c_lo, leaves.c_hi)
    )
    return float(np.mean(hi - lo) / (last - first)) if first < last else 1.0
