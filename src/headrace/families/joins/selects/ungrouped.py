"""Equality joins with local selections without groups, compiled: the methods stabbing groups are
measured against, and the way for queries that are not clustered.

Each tells, for one event after the other, which queries are affected: marked with the number of the
event, and counted. Rows `first` … `last` - 1 of S join an event; they are in order of c.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, sections 4.3.2 and 4.5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headrace.families.joins.selects.index import Rectangles
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers
from headrace.relations.kernels import reach

LEAF = 16


class Marks(NamedTuple):
    """The last event that affects each query, and how many queries each event affects."""

    event: Ints32
    counts: Ints


class Boxes(NamedTuple):
    """Queries as rectangles of a and c, in the order a method wants them."""

    a_lo: Numbers
    a_hi: Numbers
    c_lo: Numbers
    c_hi: Numbers


@numba.njit(cache=True, nogil=True)
def naive(
    queries: Boxes, row_c: Numbers, first: Ints, last: Ints, event_a: Numbers, marks: Marks
) -> None:
    """Join first, then ask every query (SJ-JoinFirst-S)."""
    for e in range(event_a.size):
        a, found = event_a[e], 0
        for q in range(queries.a_lo.size):
            if queries.a_lo[q] <= a <= queries.a_hi[q] and has_row(
                queries, q, row_c, first[e], last[e]
            ):
                marks.event[q] = e
                found += 1
        marks.counts[e] = found


@numba.njit(cache=True, nogil=True, inline="always")
def has_row(queries: Boxes, q: int, row_c: Numbers, first: int, last: int) -> bool:
    """Whether one of the joining rows is within the query's range of c."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if row_c[middle] < queries.c_lo[q]:
            low = middle + 1
        else:
            high = middle
    return low < last and row_c[low] <= queries.c_hi[q]


@numba.njit(cache=True, nogil=True)
def select_first(
    queries: Boxes,
    most: Numbers,
    row_c: Numbers,
    first: Ints,
    last: Ints,
    event_a: Numbers,
    marks: Marks,
) -> None:
    """Find the queries whose range of a holds the event's, ask each for a row (SJ-SelectFirst).

    Queries are by left end of a; `most[q]` is the greatest right end of a up to q."""
    for e in range(event_a.size):
        a, found = event_a[e], 0
        if first[e] < last[e]:
            q = reach(queries.a_lo, 0, queries.a_lo.size, a, True) - 1
            while q >= 0 and most[q] >= a:
                if queries.a_hi[q] >= a and has_row(queries, q, row_c, first[e], last[e]):
                    marks.event[q] = e
                    found += 1
                q -= 1
        marks.counts[e] = found


@numba.njit(cache=True, nogil=True)
def select_stabbed(
    queries: Boxes, at: Ints, ids: Ints32, row_c: Numbers, first: Ints, last: Ints, counts: Ints
) -> int:
    """Of the queries `ids[at[e]]` … that have the a of each event, keep those that have a row, one
    list after the other; how many those are."""
    to = 0
    for e in range(counts.size):
        began = to
        for k in range(at[e], at[e + 1]):
            if has_row(queries, ids[k], row_c, first[e], last[e]):
                ids[to] = ids[k]
                to += 1
        counts[e] = to - began
    return to


# -- join first: a packed R-tree of the rectangles -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """Rectangles in slabs of c, within each by a; LEAF neighbours are a node, LEAF nodes one of the
    next level.

    Nodes of level l are at `levels[l]` … `levels[l + 1]`; `order[q]` is where the rectangle was."""

    boxes: Boxes
    nodes: Boxes
    levels: Ints
    order: Ints

    @staticmethod
    def of(queries: Rectangles) -> Packed:
        slabs = max(1, round((queries.ids.size / LEAF) ** 0.5))
        by_c = np.argsort(queries.c_lo)
        order = np.concatenate(
            [own[np.argsort(queries.a_lo[own])] for own in np.array_split(by_c, slabs)]
        )
        sides = (queries.a_lo, queries.a_hi, queries.c_lo, queries.c_hi)
        boxes = Boxes(*(side[order] for side in sides))
        levels = [_spans(boxes)]
        while levels[-1].a_lo.size > 1:
            levels.append(_spans(levels[-1]))
        nodes = Boxes(*(np.concatenate(sides) for sides in zip(*levels, strict=True)))
        return Packed(boxes, nodes, np.cumsum([0, *(level.a_lo.size for level in levels)]), order)


def _spans(boxes: Boxes) -> Boxes:
    """The rectangle around each run of LEAF neighbouring ones."""
    starts = np.arange(0, boxes.a_lo.size, LEAF)
    return Boxes(
        np.minimum.reduceat(boxes.a_lo, starts),
        np.maximum.reduceat(boxes.a_hi, starts),
        np.minimum.reduceat(boxes.c_lo, starts),
        np.maximum.reduceat(boxes.c_hi, starts),
    )


@numba.njit(cache=True, nogil=True)
def join_first(
    queries: Boxes,
    nodes: Boxes,
    levels: Ints,
    row_c: Numbers,
    first: Ints,
    last: Ints,
    event_a: Numbers,
    marks: Marks,
    at: Ints,
    ids: Ints32,
) -> None:
    """Join, then find the rectangles that hold each pair (SJ-JoinFirst-E); they are listed from
    `at[e]` on."""
    stack = np.empty(LEAF * levels.size, np.int64)
    for e in range(event_a.size):
        a, to = event_a[e], at[e]
        for row in range(first[e], last[e]):
            to = list_holding(queries, nodes, levels, row_c[row], a, e, marks.event, stack, to, ids)
        marks.counts[e] = to - at[e]


@numba.njit(cache=True, nogil=True)
def list_holding(
    queries: Boxes,
    nodes: Boxes,
    levels: Ints,
    c: Any,
    a: Any,
    event: int,
    marked: Ints32,
    stack: Ints,
    to: int,
    ids: Ints32,
) -> int:
    """List the rectangles that hold the point and are not marked with the event yet; where the list
    ends then."""
    top, level = 1, levels.size - 2
    stack[0] = levels[level]
    while top:
        top -= 1
        node = stack[top]
        if not holds(nodes, node, c, a):
            continue
        level = 0
        while node >= levels[level + 1]:
            level += 1
        start = (node - levels[level]) * LEAF
        if level:
            for child in range(
                levels[level - 1] + start, min(levels[level - 1] + start + LEAF, levels[level])
            ):
                stack[top] = child
                top += 1
            continue
        for q in range(start, min(start + LEAF, queries.a_lo.size)):
            if marked[q] != event and holds(queries, q, c, a):
                marked[q] = event
                ids[to] = q
                to += 1
    return to


@numba.njit(cache=True, nogil=True)
def name_listed(order: Ints, at: Ints, counts: Ints, marked: Ints32, ids: Ints32) -> int:
    """Name listed rectangles by where they were, one list after the other, and take their marks
    away, so that not all marks must be written over for every call; how many are listed."""
    to = 0
    for e in range(counts.size):
        for k in range(at[e], at[e] + counts[e]):
            marked[ids[k]] = -1
            ids[to] = order[ids[k]]
            to += 1
    return to


@numba.njit(cache=True, nogil=True, inline="always")
def holds(boxes: Boxes, n: int, c: Any, a: Any) -> bool:
    return bool(boxes.c_lo[n] <= c <= boxes.c_hi[n] and boxes.a_lo[n] <= a <= boxes.a_hi[n])
