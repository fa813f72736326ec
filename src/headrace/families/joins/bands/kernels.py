"""Band joins by stabbing groups, compiled.

A band join asks for rows of S whose b is, less that of the event, within [lo, hi].  For an event,
rows of S in order of b are in order of that difference too, whatever a subtraction of doubles
rounds.  Ranges of a group have the point p in common, so each of them that has a row has one of the
two neighbours of p: the last row with a difference ≤ p, or the first above it.  Ranges by left end
up to the difference of the first, and by falling right end down to that of the second, are the
affected ones: two counts say which.

Groups are the outer loop and events come by b: then the place in S only moves forward, and what a
group has stays in the cache.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.3.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers


class BandGroups(NamedTuple):
    """Ranges by group: those of group g stand at `at[g]` … `at[g + 1]`, once by left end, once by
    falling right end.

    `by_right` holds for each place in right order the place in left order, counted from the group's
    first."""

    at: Ints
    point: Numbers
    left: Numbers
    right: Numbers
    by_right: Ints32


@numba.njit(cache=True, nogil=True)
def count_prefixes(
    groups: BandGroups,
    rows: Numbers,
    events: Numbers,
    lefts: Ints32,
    rights: Ints32,
    has_more: bool,
) -> None:
    """How many ranges of each group are affected by each event: `lefts[group, event]` by left end,
    `rights` by right; with `has_more` rows than those that were counted.

    Rows and events are in order."""
    at, point, left, right = groups.at, groups.point, groups.left, groups.right
    for g in range(point.size):
        start, stop, p = at[g], at[g + 1], point[g]
        place = 0
        for e in range(events.size):
            b = events[e]
            place = first_above(rows, b, p, place)
            by_left = by_right = 0
            if place > 0:
                by_left = count_up_to(left, start, stop, rows[place - 1] - b)
            if place < rows.size:
                by_right = count_down_to(right, start, stop, rows[place] - b)
            if has_more:
                by_left, by_right = max(by_left, lefts[g, e]), max(by_right, rights[g, e])
            lefts[g, e], rights[g, e] = by_left, by_right


@numba.njit(cache=True, nogil=True, inline="always")
def first_above(rows: Numbers, b: Any, p: Any, place: int) -> int:
    """The first row whose difference is above p, from `place` on: steps that double, then halve."""
    size = rows.size
    if place >= size or rows[place] - b > p:
        return place
    step = 1
    while place + step < size and rows[place + step] - b <= p:
        place += step
        step *= 2
    low, high = place + 1, min(place + step, size)
    while low < high:
        middle = (low + high) // 2
        if rows[middle] - b <= p:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True, inline="always")
def count_up_to(ends: Numbers, start: int, stop: int, limit: Any) -> int:
    """How many of these rising ends are ≤ limit; mostly all but a few: from the last one on, by
    steps that double."""
    if start == stop or ends[start] > limit:
        return 0
    high, step = stop, 1
    while high > start and ends[max(high - step, start)] > limit:
        high = max(high - step, start)
        step *= 2
    low = max(high - step, start)
    while low < high:
        middle = (low + high) // 2
        if ends[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low - start


@numba.njit(cache=True, nogil=True, inline="always")
def count_down_to(ends: Numbers, start: int, stop: int, limit: Any) -> int:
    """How many of these falling ends are ≥ limit."""
    if start == stop or ends[start] < limit:
        return 0
    high, step = stop, 1
    while high > start and ends[max(high - step, start)] < limit:
        high = max(high - step, start)
        step *= 2
    low = max(high - step, start)
    while low < high:
        middle = (low + high) // 2
        if ends[middle] >= limit:
            low = middle + 1
        else:
            high = middle
    return low - start


class Runs(NamedTuple):
    """Answers: the rows `first` … `last` of S are new for a query by an event."""

    event: Ints
    query: Ints
    first: Ints
    last: Ints


@numba.njit(cache=True, nogil=True)
def count_affected(groups: BandGroups, lefts: Ints32, rights: Ints32) -> Ints:
    """How many ranges each event affects, those of both counts once."""
    found = np.zeros(lefts.shape[1], np.int64)
    for g in range(lefts.shape[0]):
        start = groups.at[g]
        for e in range(found.size):
            found[e] += lefts[g, e]
            for k in range(start, start + rights[g, e]):
                found[e] += groups.by_right[k] >= lefts[g, e]
    return found


@numba.njit(cache=True, nogil=True)
def write_runs(
    groups: BandGroups,
    ids: Ints,
    rows: Numbers,
    events: Numbers,
    lefts: Ints32,
    rights: Ints32,
    cursor: Ints,
    out: Runs,
) -> None:
    """Who is affected by what: `ids` are of ranges in left order; answers of an event are written
    from `cursor` on.

    Rows of an answer are those on both sides of the point.  Before it they begin later the greater
    the left end, after it they end later the greater the right end: both are found by walking
    on."""
    at, left, right = groups.at, groups.left, groups.right
    lasts = np.empty(np.max(at[1:] - at[:-1]), np.int64)  # of a group's ranges in left order
    for g in range(lefts.shape[0]):
        start, place = at[g], 0
        for e in range(events.size):
            b, to, by_left = events[e], cursor[e], lefts[g, e]
            place = first_above(rows, b, groups.point[g], place)
            lasts[:by_left] = place - 1
            after = place
            for k in range(start + rights[g, e] - 1, start - 1, -1):
                after = first_above(rows, b, right[k], after)
                if groups.by_right[k] < by_left:
                    lasts[groups.by_right[k]] = after - 1
                else:
                    to = write_run(out, to, e, ids[start + groups.by_right[k]], place, after - 1)
            first = first_at_least(rows, b, left[start])
            for k in range(by_left):
                first = next_at_least(rows, b, left[start + k], first)
                to = write_run(out, to, e, ids[start + k], first, lasts[k])
            cursor[e] = to


@numba.njit(cache=True, nogil=True, inline="always")
def write_run(out: Runs, to: int, event: int, query: int, first: int, last: int) -> int:
    """Write one answer at `to`; the place of the next."""
    out.event[to], out.query[to], out.first[to], out.last[to] = event, query, first, last
    return to + 1


@numba.njit(cache=True, nogil=True)
def first_at_least(rows: Numbers, b: Any, lo: Any) -> int:
    """The first row whose difference is not below lo."""
    low, high = 0, rows.size
    while low < high:
        middle = (low + high) // 2
        if rows[middle] - b < lo:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True, inline="always")
def next_at_least(rows: Numbers, b: Any, lo: Any, place: int) -> int:
    """The same from `place` on: steps that double, then halve."""
    step, low, size = 1, place, rows.size
    while low + step <= size and rows[low + step - 1] - b < lo:
        low += step
        step *= 2
    high = min(low + step - 1, size)
    while low < high:
        middle = (low + high) // 2
        if rows[middle] - b < lo:
            low = middle + 1
        else:
            high = middle
    return low
