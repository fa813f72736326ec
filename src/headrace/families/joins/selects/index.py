"""Standing select-joins, arranged by stabbing group and tree for the kernels; immutable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headrace.families.joins.selects import kernels
from headrace.families.joins.selects.kernels import Nodes, SelectGroups
from headrace.relations.arrays import Ints, Ints32, Numbers, falling
from headrace.relations.kernels import joining

EVENTS_AT_ONCE, EVENTS_LEAST = 4_096, 64
ROOM = 1 << 22  # records for which memory is taken, however few they are


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Queries: a of the event within [a_lo, a_hi], c of the row of S within [c_lo, c_hi]."""

    ids: Ints
    a_lo: Numbers
    a_hi: Numbers
    c_lo: Numbers
    c_hi: Numbers

    def take(self, chosen: Ints) -> Rectangles:
        return Rectangles(
            self.ids[chosen],
            self.a_lo[chosen],
            self.a_hi[chosen],
            self.c_lo[chosen],
            self.c_hi[chosen],
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of S, sorted by b, then c."""

    b: Numbers
    c: Numbers


@dataclass(frozen=True, slots=True)
class Events:
    """Rows of R as they are looked up, sorted by b."""

    a: Numbers
    b: Numbers

    def take(self, chosen: Ints) -> Events:
        return Events(self.a[chosen], self.b[chosen])


@dataclass(frozen=True, slots=True)
class SelectIndex:
    """`ids` belong to entries in left order."""

    groups: SelectGroups
    ids: Ints
    depth: int

    @staticmethod
    def build(queries: Rectangles, group: Ints32) -> SelectIndex:
        """Queries, and the stabbing group of the range of c of each; groups are numbered from 0."""
        order = np.argsort(group, kind="stable")
        bounds = np.append(0, np.cumsum(np.bincount(group)))
        trees = [_Tree.of(queries.take(order[a:b])) for a, b in pairwise(bounds)]
        entries = [tree.at[-1] for tree in trees]
        shift = np.cumsum([0, *entries])
        at = np.concatenate(
            [*(tree.at[:-1] + s for tree, s in zip(trees, shift[:-1], strict=True)), shift[-1:]]
        )
        groups = SelectGroups(
            np.array([tree.point for tree in trees], queries.c_lo.dtype),
            np.cumsum([0, *(tree.cuts.size for tree in trees)]),
            np.concatenate([tree.cuts for tree in trees]),
            np.array([tree.width for tree in trees], np.int64),
            np.cumsum([0, *(tree.at.size - 1 for tree in trees)])[:-1],
            at,
            np.concatenate([tree.left for tree in trees]),
            np.concatenate([tree.right for tree in trees]),
            np.concatenate([tree.of_right for tree in trees]),
        )
        depth = sum(int(tree.width).bit_length() for tree in trees)
        return SelectIndex(groups, np.concatenate([tree.ids for tree in trees]), depth)

    def probe(self, rows: Rows, events: Events) -> Nodes:
        """Who is affected by each event: counts for nodes of the groups' trees."""
        first, last = np.empty(events.b.size, np.int64), np.empty(events.b.size, np.int64)
        joining(rows.b, events.b, first, last)
        return self.probe_met(rows.c, first, last, events.a)

    def probe_met(self, row_c: Numbers, first: Ints, last: Ints, event_a: Numbers) -> Nodes:
        """The same of events whose rows `first` … `last` - 1 are known."""
        size = event_a.size
        at_once = min(EVENTS_AT_ONCE, max(EVENTS_LEAST, ROOM // max(1, self.depth)))
        room = Nodes(*(np.empty(min(at_once, size) * self.depth, np.int32) for _ in range(4)))
        found = [Nodes(*(np.empty(0, np.int32) for _ in range(4)))]
        for start in range(0, size, at_once):
            stop = min(start + at_once, size)
            written = kernels.probe(self.groups, row_c, first, last, event_a, start, stop, room)
            found.append(Nodes(*(column[:written].copy() for column in room)))
        return Nodes(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def count(self, records: Nodes, events: int) -> Ints:
        """How many queries each event affects."""
        counts = np.zeros(events, np.int64)
        kernels.count_affected(self.groups, records, records.event.size, counts)
        return counts

    def affected(self, records: Nodes, events: int) -> tuple[Ints, Ints]:
        """The queries each event affects: those of event e at `ends[e - 1]` … `ends[e]`."""
        counts = self.count(records, events)
        ends = np.cumsum(counts)
        out = np.empty(int(counts.sum()), np.int64)
        kernels.write_affected(
            self.groups, self.ids, records, records.event.size, ends - counts, out
        )
        return ends, out


@dataclass(frozen=True, slots=True)
class _Tree:
    """The segment tree of one group."""

    point: int | float
    cuts: Numbers
    width: int
    at: Ints
    left: Numbers
    right: Numbers
    of_right: Ints32
    ids: Ints

    @staticmethod
    def of(own: Rectangles) -> _Tree:
        cuts = np.unique(np.concatenate((own.a_lo, _after(own.a_hi))))
        width = 1 << max(0, int(cuts.size - 1).bit_length())
        low = np.searchsorted(cuts, own.a_lo)
        high = np.searchsorted(cuts, own.a_hi, side="right")
        counts, nothing = np.zeros(2 * width, np.int64), np.empty(0, np.int64)
        kernels.assign_nodes(width, low, high, counts, nothing, nothing, False)
        at = np.append(0, np.cumsum(counts))
        entry = np.empty(at[-1], np.int64)
        kernels.assign_nodes(width, low, high, np.zeros_like(counts), at, entry, True)
        node = np.repeat(np.arange(counts.size), counts)
        by_left = np.lexsort((own.c_lo[entry], node))
        by_right = np.lexsort((falling(own.c_hi[entry]), node))
        place = np.empty(entry.size, np.int64)
        place[by_left] = np.arange(entry.size)
        of_right = (place[by_right] - at[node]).astype(np.int32)
        lefts, rights = entry[by_left], entry[by_right]
        point = own.c_lo.max()  # the greatest left end is common to all
        return _Tree(
            point, cuts, width, at, own.c_lo[lefts], own.c_hi[rights], of_right, own.ids[lefts]
        )


def _after(ends: Numbers) -> Numbers:
    """The next number; after the last there is none, and it stays."""
    if ends.dtype == np.float64:
        return np.nextafter(ends, np.inf)
    return ends + (ends < np.iinfo(np.int64).max)
