"""Stabbing sorted intervals, compiled.

The line is cut at some of the intervals' ends into *windows* `edges[j] ≤ a < edges[j + 1]`, the last without an upper
edge.  Every window lists the intervals that cover it whole; the others it touches begin or end inside it and are found
in the two sorted orders, by `lo` and by `hi`, of which a window is a slice of each.  A value stabs the covers of its
window, those that began since the edge and have not ended, and those that were open at the edge and end later.

A window is cut before it holds more ends than its `limit`: a share of the intervals open at its edge, and never fewer
than a few.  So the covers of all windows are O(n), and what is looked at in vain is O(1 + k) of the k that are stabbed,
whatever the intervals are: O(log n + k) a value (the filtering search of Chazelle, SIAM J. Computing 15, 1986).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
"""float64 or int64: what intervals are made of."""
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Bits = NDArray[np.uint8]

LEAST, SHARE = 16, 2  # the limit of a window: ends, and which share of those open at its edge
LANES = 16  # searches that are under way at a time, so that their cache misses overlap


class Windows(NamedTuple):
    """An interval's *place* is its rank by `lo`; `ids` and `last` are by place."""

    lo: Values
    hi: Values  # by itself: not the end of the interval in the same place
    ids: Ints32
    last: Ints32  # rank by `hi` of the interval in a place
    place: Ints32  # the inverse: the place of the interval with a rank by `hi`
    edges: Values
    begun: Ints32  # intervals that begin at or before an edge
    ended: Ints32  # intervals that end before an edge
    cover_at: Ints
    covers: Ints32  # places


class Located(NamedTuple):
    """Of each value: its window, or -1 below all; how many intervals begin at or before it, and end before it."""

    window: Ints32
    begun: Ints32
    ended: Ints32


@numba.njit(cache=True, nogil=True)
def cut_windows(lo: Values, hi: Values) -> tuple[Values, Ints32, Ints32]:
    """The edges, with `begun` and `ended` at each and at the end of the line."""
    n = lo.size
    most = 4 * n // LEAST + 2  # every cut has more than LEAST ends before and at it, and an end is counted twice
    edges, begun, ended = np.empty(most, lo.dtype), np.empty(most + 1, np.int32), np.empty(most + 1, np.int32)
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
def cover_windows(lo: Values, hi: Values, last: Ints32, edges: Values) -> tuple[Ints, Ints32]:
    """Which places cover each window, in order."""
    n, windows = lo.size, edges.size
    starts, stops = np.empty(n, np.int32), np.empty(n, np.int32)  # by place, by rank of `hi`: windows covered
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
def locate(values: Values, index: Windows, found: Located) -> None:
    """A NaN is below everything: it stabs nothing."""
    edges, windows = index.edges, index.edges.size
    base = np.empty(LANES, np.int64)
    for first in range(0, values.size, LANES):
        lanes = min(LANES, values.size - first)
        base[:] = 0
        left = windows
        while left > 1:
            half = left >> 1
            for i in range(lanes):
                at = base[i]
                base[i] = at + half if edges[at + half - 1] <= values[first + i] else at
            left -= half
        for i in range(lanes):
            value, window = values[first + i], base[i] - 1
            if windows and edges[base[i]] <= value:
                window += 1
            locate_in(value, window, index, first + i, found)


@numba.njit(cache=True, nogil=True)
def locate_in(value: Any, window: int, index: Windows, i: int, found: Located) -> None:
    begun = ended = 0
    if window >= 0:
        begun, left = index.begun[window], index.begun[window + 1] - index.begun[window]
        while left > 0:
            half = left >> 1
            if index.lo[begun + half] <= value:
                begun, left = begun + half + 1, left - half - 1
            else:
                left = half
        ended, left = index.ended[window], index.ended[window + 1] - index.ended[window]
        while left > 0:
            half = left >> 1
            if index.hi[ended + half] < value:
                ended, left = ended + half + 1, left - half - 1
            else:
                left = half
    found.window[i], found.begun[i], found.ended[i] = window, begun, ended


@numba.njit(cache=True, nogil=True)
def fill(index: Windows, found: Located, gone: Bits, cursor: Ints, out: Ints32) -> None:
    """Write the ids that each value stabs at its cursor, which moves on; places whose bit is set are `gone`."""
    ids, last, place, covers = index.ids, index.last, index.place, index.covers
    for i in range(cursor.size):
        window = found.window[i]
        if window < 0:
            continue
        to, ended, edge = cursor[i], found.ended[i], index.begun[window]
        for k in range(index.cover_at[window], index.cover_at[window + 1]):
            if not is_set(gone, covers[k]):
                out[to] = ids[covers[k]]
                to += 1
        for k in range(edge, found.begun[i]):
            if last[k] >= ended and not is_set(gone, k):
                out[to] = ids[k]
                to += 1
        for k in range(ended, index.ended[window + 1]):
            if place[k] < edge and not is_set(gone, place[k]):
                out[to] = ids[place[k]]
                to += 1
        cursor[i] = to


@numba.njit(cache=True, nogil=True)
def is_set(bits: Bits, i: int) -> bool:
    """No bits at all are none set."""
    return bits.size > 0 and bits[i >> 3] >> (i & 7) & 1 != 0
