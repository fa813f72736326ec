"""Sorted values with weights, compiled: merge runs, thin, and read ranks.

A *run* is a stretch of values in order.  Several runs belong to one place (a group, or a pane and
group); merging leaves one run a place, equal values together.  The values of place i are
`offsets[i]:offsets[i + 1]`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def sort_runs(values: Ints, offsets: Ints) -> None:
    """Put each run in order, in place."""
    for i in range(offsets.size - 1):
        values[offsets[i] : offsets[i + 1]].sort()


@numba.njit(cache=True, nogil=True)
def merge_runs(
    values: Ints, weights: Ints, starts: Ints, stops: Ints, places: Ints, count: int, is_set: bool
) -> tuple[Ints, Ints, Ints]:
    """Runs `starts[i]:stops[i]` of `places[i]` → (values, weights, offsets) of `count` places.

    The weights of equal values are added; of a set they stay 1."""
    runs, room = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    for i in range(places.size):
        runs[places[i] + 1] += 1
        room[places[i] + 1] += stops[i] - starts[i]
    for p in range(count):
        runs[p + 1] += runs[p]
        room[p + 1] += room[p]
    order = np.empty(places.size, np.int64)
    at = runs[:-1].copy()
    for i in range(places.size):
        order[at[places[i]]] = i
        at[places[i]] += 1
    out, out_weights = np.empty(room[count], np.int64), np.empty(room[count], np.int64)
    most = 0
    for p in range(count):
        most = max(most, room[p + 1] - room[p])
    spare = (np.empty(most, np.int64), np.empty(most, np.int64))
    ends = np.empty(places.size + 1, np.int64)
    offsets = np.zeros(count + 1, np.int64)
    written = 0
    for p in range(count):
        size, many = 0, 0
        first = written
        for r in range(runs[p], runs[p + 1]):
            i = order[r]
            if stops[i] > starts[i]:
                length = stops[i] - starts[i]
                out[first + size : first + size + length] = values[starts[i] : stops[i]]
                out_weights[first + size : first + size + length] = weights[starts[i] : stops[i]]
                size += length
                ends[many] = size
                many += 1
        merge_adjacent(
            out[first : first + size],
            out_weights[first : first + size],
            ends,
            many,
            spare[0],
            spare[1],
        )
        written = first + join_equals(
            out[first : first + size], out_weights[first : first + size], is_set
        )
        offsets[p + 1] = written
    return out[:written].copy(), out_weights[:written].copy(), offsets


@numba.njit(cache=True, nogil=True)
def merge_adjacent(
    values: Ints, weights: Ints, ends: Ints, many: int, spare: Ints, spare_weights: Ints
) -> None:
    """Merge runs that end at `ends[:many]`, pair by pair, until there is one."""
    while many > 1:
        begin, left = 0, 0
        for pair in range(0, many - 1, 2):
            merge_two(values, weights, begin, ends[pair], ends[pair + 1], spare, spare_weights)
            begin = ends[pair + 1]
            ends[left] = begin
            left += 1
        if many % 2:
            ends[left] = ends[many - 1]
            left += 1
        many = left


@numba.njit(cache=True, nogil=True)
def merge_two(
    values: Ints, weights: Ints, begin: int, middle: int, end: int, spare: Ints, spare_weights: Ints
) -> None:
    """Two neighbouring runs become one; the first is moved aside."""
    size = middle - begin
    spare[:size] = values[begin:middle]
    spare_weights[:size] = weights[begin:middle]
    a, b, at = 0, middle, begin
    while a < size and b < end:
        if spare[a] <= values[b]:
            values[at], weights[at] = spare[a], spare_weights[a]
            a += 1
        else:
            values[at], weights[at] = values[b], weights[b]
            b += 1
        at += 1
    while a < size:
        values[at], weights[at] = spare[a], spare_weights[a]
        a += 1
        at += 1


@numba.njit(cache=True, nogil=True)
def join_equals(values: Ints, weights: Ints, is_set: bool) -> int:
    """One entry a value; how many are left."""
    kept = 0
    for i in range(values.size):
        if kept > 0 and values[kept - 1] == values[i]:
            if not is_set:
                weights[kept - 1] += weights[i]
        else:
            values[kept], weights[kept] = values[i], weights[i]
            kept += 1
    return kept


@numba.njit(cache=True, nogil=True)
def thin(values: Ints, weights: Ints, offsets: Ints, most: int) -> tuple[Ints, Ints, Ints]:
    """At most `most` values a place, each for an equal share of the ranks: the value in the middle
    of its share.

    A rank read from them is off by at most half a share, which is at most total / most."""
    out, out_weights, kept = np.empty_like(values), np.empty_like(weights), np.zeros_like(offsets)
    written = 0
    for p in range(offsets.size - 1):
        start, stop = offsets[p], offsets[p + 1]
        if stop - start <= most:
            size = stop - start
            out[written : written + size] = values[start:stop]
            out_weights[written : written + size] = weights[start:stop]
            written += size
        else:
            first = written
            total = weights[start:stop].sum()
            at, seen, done = start, weights[start], 0
            for share in range(most):
                upto = share_end(share + 1, total, most)
                rank = (done + 1 + upto) // 2  # from 1 on
                while seen < rank:
                    at += 1
                    seen += weights[at]
                if written > first and out[written - 1] == values[at]:
                    out_weights[written - 1] += upto - done
                elif upto > done:
                    out[written], out_weights[written] = values[at], upto - done
                    written += 1
                done = upto
        kept[p + 1] = written
    return out[:written].copy(), out_weights[:written].copy(), kept


@numba.njit(cache=True, nogil=True)
def thin_runs(values: Ints, offsets: Ints, most: int) -> tuple[Ints, Ints]:
    """(values, offsets) of runs in order, of which each value counts once: as Spark thins them
    (`kinds.part_sql`)."""
    out, kept = np.empty_like(values), np.zeros_like(offsets)
    written = 0
    for i in range(offsets.size - 1):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        for share in range(min(size, most)):
            if size <= most:
                place = share
            else:
                place = (share_end(share, size, most) + share_end(share + 1, size, most) - 1) // 2
            out[written] = values[start + place]
            written += 1
        kept[i + 1] = written
    return out[:written].copy(), kept


@numba.njit(cache=True, nogil=True)
def share_end(share: int, total: int, most: int) -> int:
    """Ranks up to this are in the first `share` of `most` shares; wide numbers would pass 2⁶³ only
    above 2⁴³ rows."""
    return (share * total + most - 1) // most


@numba.njit(cache=True, nogil=True)
def share_weights(counts: Ints, offsets: Ints, most: int) -> Ints:
    """The weights of runs that Spark has thinned to `most` of `counts` values; of the others 1."""
    weights = np.ones(offsets[-1], np.int64)
    for i in range(offsets.size - 1):
        if counts[i] > most:
            for share in range(most):
                weights[offsets[i] + share] = share_end(share + 1, counts[i], most) - share_end(
                    share, counts[i], most
                )
    return weights


@numba.njit(cache=True, nogil=True)
def at_share(values: Ints, weights: Ints, offsets: Ints, share: float) -> Ints:
    """The value at rank ceil(share · n) of each place, as Spark's percentile_approx; 0 where there
    is none."""
    found = np.zeros(offsets.size - 1, np.int64)
    for p in range(found.size):
        start, stop = offsets[p], offsets[p + 1]
        if stop > start:
            total = weights[start:stop].sum()
            found[p] = values[place_of(weights, start, max(1, int(np.ceil(share * total))))]
    return found


@numba.njit(cache=True, nogil=True)
def around_share(
    values: Ints, weights: Ints, offsets: Ints, share: float
) -> tuple[Ints, Ints, Floats]:
    """The values below and above position (n - 1) · share of each place, and how far past the first
    it is."""
    below, above = np.zeros(offsets.size - 1, np.int64), np.zeros(offsets.size - 1, np.int64)
    past = np.zeros(offsets.size - 1)
    for p in range(below.size):
        start, stop = offsets[p], offsets[p + 1]
        if stop > start:
            position = (weights[start:stop].sum() - 1) * share
            low, high = int(np.floor(position)), int(np.ceil(position))
            below[p] = values[place_of(weights, start, low + 1)]
            above[p] = values[place_of(weights, start, high + 1)]
            past[p] = position - low
    return below, above, past


@numba.njit(cache=True, nogil=True)
def place_of(weights: Ints, start: int, rank: int) -> int:
    """Where the value of that rank, from 1 on, is."""
    at = start
    seen = weights[at]
    while seen < rank:
        at += 1
        seen += weights[at]
    return at


@numba.njit(cache=True, nogil=True)
def most_frequent(values: Ints, weights: Ints, offsets: Ints) -> Ints:
    """The value with the greatest weight of each place, the least of several; 0 where there is
    none."""
    found = np.zeros(offsets.size - 1, np.int64)
    for p in range(found.size):
        if offsets[p + 1] > offsets[p]:
            best = offsets[p]
            for i in range(offsets[p], offsets[p + 1]):
                if weights[i] > weights[best]:
                    best = i
            found[p] = values[best]
    return found
