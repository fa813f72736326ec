"""Equality joins with local selections by stabbing groups, compiled.

A query asks for pairs of rows with the same b, a of the event within one range, c of the row of S
within another. Queries are grouped by their ranges of c.  Rows of S that join an event are in order
of c; as with bands, a query of a group with the point p has a row only if it has one of the two
neighbours of p.  It is affected if its range of a holds the event's too.

So that this takes no look at each query, every group has a *segment tree* over the ends of its
ranges of a: a range is the union of few nodes, and the nodes on the path to a value are those whose
queries have it.  A node keeps its queries by left end of c and by falling right end: two counts a
node say who is affected, as with bands.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.3.2.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.families.joins.bands.kernels import Runs, count_down_to, count_up_to, write_run
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers
from headrace.relations.kernels import reach


class SelectGroups(NamedTuple):
    """Trees of all groups.  `cuts[cut_at[g]]` … are the ends of the ranges of a of group g, as
    places where who holds a value changes: place i is for values from cut i on, below the next.
    Its tree has `width[g]` leaves, a power of two; node n of it (root 1) has entries `at[node_at[g]
    + n]` …

    `of_right` holds for each entry in right order its place in left order, counted from the node's
    first."""

    point: Numbers
    cut_at: Ints
    cuts: Numbers
    width: Ints
    node_at: Ints
    at: Ints
    left: Numbers
    right: Numbers
    of_right: Ints32


class Nodes(NamedTuple):
    """Records: by an event, so many queries of a node are affected, by left end and by right."""

    event: Ints32
    node: Ints32
    lefts: Ints32
    rights: Ints32


@numba.njit(cache=True, nogil=True)
def probe(
    groups: SelectGroups,
    row_c: Numbers,
    first: Ints,
    last: Ints,
    event_a: Numbers,
    start: int,
    stop: int,
    out: Nodes,
) -> int:
    """The records of the events `start` … `stop` - 1; how many there are.  Events without rows have
    none."""
    written = 0
    for g in range(groups.point.size):
        p, cut_at, cut_end = groups.point[g], groups.cut_at[g], groups.cut_at[g + 1]
        for e in range(start, stop):
            if first[e] == last[e]:
                continue
            leaf = reach(groups.cuts, cut_at, cut_end, event_a[e], True) - cut_at - 1
            if leaf < 0:
                continue
            place = reach(row_c, first[e], last[e], p, True)
            written = walk(groups, g, leaf, row_c, place, first[e], last[e], e, out, written)
    return written


@numba.njit(cache=True, nogil=True, inline="always")
def walk(
    groups: SelectGroups,
    g: int,
    leaf: int,
    row_c: Numbers,
    place: int,
    first: int,
    last: int,
    event: int,
    out: Nodes,
    written: int,
) -> int:
    """From a leaf up to the root; rows before `place` are not above the point."""
    node = groups.width[g] + leaf
    while node:
        entry = groups.node_at[g] + node
        start, stop = groups.at[entry], groups.at[entry + 1]
        if start < stop:
            by_left = by_right = 0
            if place > first:
                by_left = count_up_to(groups.left, start, stop, row_c[place - 1])
            if place < last:
                by_right = count_down_to(groups.right, start, stop, row_c[place])
            if by_left or by_right:
                out.event[written], out.node[written] = event, entry
                out.lefts[written], out.rights[written] = by_left, by_right
                written += 1
        node //= 2
    return written


@numba.njit(cache=True, nogil=True)
def count_affected(groups: SelectGroups, records: Nodes, size: int, counts: Ints) -> None:
    """How many queries each event affects; nodes on one path have no query in common."""
    for r in range(size):
        start, found = groups.at[records.node[r]], records.lefts[r]
        for k in range(start, start + records.rights[r]):
            found += groups.of_right[k] >= records.lefts[r]
        counts[records.event[r]] += found


@numba.njit(cache=True, nogil=True)
def write_affected(
    groups: SelectGroups, ids: Ints, records: Nodes, size: int, cursor: Ints, out: Ints
) -> None:
    """The queries each event affects, from its cursor on; `ids` are of entries in left order."""
    for r in range(size):
        event, start, lefts = records.event[r], groups.at[records.node[r]], records.lefts[r]
        for k in range(start, start + lefts):
            out[cursor[event]] = ids[k]
            cursor[event] += 1
        for k in range(start, start + records.rights[r]):
            if groups.of_right[k] >= lefts:
                out[cursor[event]] = ids[start + groups.of_right[k]]
                cursor[event] += 1


@numba.njit(cache=True, nogil=True)
def write_runs(
    c_lo: Numbers,
    c_hi: Numbers,
    at: Ints,
    queries: Ints,
    row_c: Numbers,
    first: Ints,
    last: Ints,
    out: Runs,
) -> None:
    """The rows of each answer, of queries that have some: those of event e are `queries[at[e]]` …
    `queries[at[e + 1]]`, named by the places of their ranges of c."""
    for e in range(first.size):
        for k in range(at[e], at[e + 1]):
            q = queries[k]
            begin = reach(row_c, first[e], last[e], c_lo[q], False)
            write_run(out, k, e, q, begin, reach(row_c, begin, last[e], c_hi[q], True) - 1)


@numba.njit(cache=True, nogil=True)
def assign_nodes(
    width: int, low: Ints, high: Ints, counts: Ints, at: Ints, entry: Ints, write: bool
) -> None:
    """Cut each span of leaves low … high - 1 into nodes: count the entries of each, or write the
    span there."""
    for q in range(low.size):
        left, right = low[q] + width, high[q] + width
        while left < right:
            if left & 1:
                if write:
                    entry[at[left] + counts[left]] = q
                counts[left] += 1
                left += 1
            if right & 1:
                right -= 1
                if write:
                    entry[at[right] + counts[right]] = q
                counts[right] += 1
            left //= 2
            right //= 2
