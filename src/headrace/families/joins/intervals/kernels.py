"""Stabbing sorted intervals, compiled.

The line is cut at some of the intervals' ends into *windows* `edges[j] ≤ a < edges[j + 1]`, the
last without an upper edge.  Every window lists the intervals that cover it whole; the others it
touches begin or end inside it and are found in the two sorted orders, by `lo` and by `hi`, of which
a window is a slice of each.  A value stabs the covers of its window, those that began since the
edge and have not ended, and those that were open at the edge and end later.

A window is cut before it holds more ends than its `limit`: a share of the intervals open at its
edge, and never fewer than a few.  So the covers of all windows are O(n), and what is looked at in
vain is O(1 + k) of the k that are stabbed, whatever the intervals are: O(log n + k) a value (the
filtering search of Chazelle, SIAM J. Computing 15, 1986).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers

LEAST, SHARE = 16, 2  # the limit of a window: ends, and which share of those open at its edge
SCANNED = 16  # numbers that are compared faster all at once than by halves
LANES = 16  # searches that are under way at a time, so that their cache misses overlap
BUCKETS = 2_048


class Windows(NamedTuple):
    """An interval's *place* is its rank by `lo`; `ids` and `last` are by place."""

    lo: Numbers
    hi: Numbers  # by itself: not the end of the interval in the same place
    ids: Ints32
    last: Ints32  # rank by `hi` of the interval in a place
    place: Ints32  # the inverse: the place of the interval with a rank by `hi`
    edges: Numbers
    begun: Ints32  # intervals that begin at or before an edge
    ended: Ints32  # intervals that end before an edge
    cover_at: Ints
    covers: Ints32  # places


class Located(NamedTuple):
    """Of each value: its window, or -1 below all; how many intervals begin at or before it, and end
    before it."""

    window: Ints32
    begun: Ints32
    ended: Ints32
    order: Ints32  # in which to look at them: by window, roughly


@numba.njit(cache=True, nogil=True)
def cut_windows(lo: Numbers, hi: Numbers) -> tuple[Numbers, Ints32, Ints32]:
    """The edges, with `begun` and `ended` at each and at the end of the line."""
    n = lo.size
    # every cut has more than LEAST ends before and at it, and an end is counted twice
    most = 4 * n // LEAST + 2
    edges, begun, ended = (
        np.empty(most, lo.dtype),
        np.empty(most + 1, np.int32),
        np.empty(most + 1, np.int32),
    )
    windows, held, limit = 0, 0, -1
    first = last = 0
    while last < n:
        at = lo[first] if first < n and lo[first] < hi[last] else hi[last]
        next_first, next_last = first, last
        while next_first < n and lo[next_first] == at:
            next_first += 1
        while next_last < n and hi[next_last] == at:
            next_last += 1
        ends = next_first - first + next_last - last
        if held + ends > limit:
            edges[windows], begun[windows], ended[windows] = at, next_first, last
            limit = max(LEAST, (next_first - last) // SHARE)
            windows, held = windows + 1, next_last - last
        else:
            held += ends
        first, last = next_first, next_last
    begun[windows] = ended[windows] = n
    return edges[:windows].copy(), begun[: windows + 1].copy(), ended[: windows + 1].copy()


@numba.njit(cache=True, nogil=True)
def cover_windows(lo: Numbers, hi: Numbers, last: Ints32, edges: Numbers) -> tuple[Ints, Ints32]:
    """Which places cover each window, in order."""
    n, windows = lo.size, edges.size
    # by place, by rank of `hi`: windows covered
    starts, stops = (
        np.empty(n, np.int32),
        np.empty(n, np.int32),
    )
    window = 0
    for i in range(n):
        while window < windows and edges[window] < lo[i]:
            window += 1
        starts[i] = window
    window = 0
    for i in range(n):
        while window + 1 < windows and edges[window + 1] <= hi[i]:
            window += 1
        stops[i] = window
    at = np.zeros(windows + 1, np.int64)
    for i in range(n):
        for window in range(starts[i], stops[last[i]]):
            at[window + 1] += 1
    for window in range(windows):
        at[window + 1] += at[window]
    cursor, covers = at.copy(), np.empty(at[windows], np.int32)
    for i in range(n):
        for window in range(starts[i], stops[last[i]]):
            covers[cursor[window]] = i
            cursor[window] += 1
    return at, covers


@numba.njit(cache=True, nogil=True)
def locate(values: Numbers, index: Windows, found: Located) -> None:
    find_windows(values, index.edges, found.window)
    order_by_window(found.window, index.edges.size, found.order)
    lo, hi, begun, ended = index.lo, index.hi, index.begun, index.ended
    for k in range(values.size):
        i = found.order[k]
        value, window = values[i], found.window[i]
        found.begun[i] = count_to(lo, begun[window], begun[window + 1], value) if window >= 0 else 0
        found.ended[i] = (
            count_below(hi, ended[window], ended[window + 1], value) if window >= 0 else 0
        )


@numba.njit(cache=True, nogil=True)
def find_windows(values: Numbers, edges: Numbers, window: Ints32) -> None:
    """A NaN is below everything: it stabs nothing."""
    base = np.empty(LANES, np.int64)
    for first in range(0, values.size, LANES):
        lanes = min(LANES, values.size - first)
        base[:] = 0
        left = edges.size
        while left > 1:
            half = left >> 1
            for i in range(lanes):
                at = base[i]
                base[i] = at + half if edges[at + half - 1] <= values[first + i] else at
            left -= half
        for i in range(lanes):
            is_past = edges.size > 0 and edges[base[i]] <= values[first + i]
            window[first + i] = base[i] if is_past else base[i] - 1


@numba.njit(cache=True, nogil=True)
def order_by_window(window: Ints32, windows: int, order: Ints32) -> None:
    """Nearly: by the upper bits of the window, which is enough for neighbours to find the same
    memory in the cache."""
    shift = 0
    while windows >> shift > min(BUCKETS, window.size):
        shift += 1
    at = np.zeros((windows >> shift) + 2, np.int32)
    for i in range(window.size):
        at[(window[i] + 1 >> shift) + 1] += 1
    for bucket in range(1, at.size):
        at[bucket] += at[bucket - 1]
    for i in range(window.size):
        bucket = window[i] + 1 >> shift
        order[at[bucket]] = i
        at[bucket] += 1


@numba.njit(cache=True, nogil=True)
def count_to(line: Numbers, first: int, stop: int, value: Any) -> int:
    """How many of the line are at or below the value: at least `first`, at most `stop`."""
    while stop - first > SCANNED:
        middle = (first + stop) >> 1
        if line[middle] <= value:
            first = middle + 1
        else:
            stop = middle
    more = 0
    # those past `stop` are above the value: a fixed number is compared at once
    if first + SCANNED <= line.size:
        part = line[first : first + SCANNED]
        for i in range(SCANNED):
            more += part[i] <= value
    else:
        for i in range(first, stop):
            more += line[i] <= value
    return first + more


@numba.njit(cache=True, nogil=True)
def count_below(line: Numbers, first: int, stop: int, value: Any) -> int:
    """As `count_to`, of those below the value."""
    while stop - first > SCANNED:
        middle = (first + stop) >> 1
        if line[middle] < value:
            first = middle + 1
        else:
            stop = middle
    more = 0
    if first + SCANNED <= line.size:
        part = line[first : first + SCANNED]
        for i in range(SCANNED):
            more += part[i] < value
    else:
        for i in range(first, stop):
            more += line[i] < value
    return first + more


@numba.njit(cache=True, nogil=True)
def fill(index: Windows, found: Located, cursor: Ints, out: Ints32) -> None:
    """Write the ids that each value stabs at its cursor, which moves on."""
    ids, last, place, covers = index.ids, index.last, index.place, index.covers
    for i in found.order:
        window = found.window[i]
        if window < 0:
            continue
        to, ended, edge = cursor[i], found.ended[i], index.begun[window]
        for k in range(index.cover_at[window], index.cover_at[window + 1]):
            out[to] = ids[covers[k]]
            to += 1
        for k in range(edge, found.begun[i]):
            if last[k] >= ended:
                out[to] = ids[k]
                to += 1
        for k in range(ended, index.ended[window + 1]):
            if place[k] < edge:
                out[to] = ids[place[k]]
                to += 1
        cursor[i] = to
