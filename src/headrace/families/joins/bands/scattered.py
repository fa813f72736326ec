"""Band joins whose ranges have few points in common: an event goes along ranges and rows, whatever
the groups.

This is the merge of `headrace/bench/joins/band_rivals.py` with three differences.  Rows that no range can
reach are not looked at, nor ranges that no row can.  If there are many more of one than of the
other, each of the few looks for its place among the many, by steps that double.  And who is
affected is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headrace.families.joins.bands.kernels import first_at_least, next_at_least
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers
from headrace.relations.kernels import reach

ROOM = 1 << 21  # queries that are listed at a time
# times as many: then it can be told what comes next; then looking for places is faster
MORE, MANY = (
    3,
    10,
)
LOOK_STEPS = 8  # that a look takes the time of


class Scattered(NamedTuple):
    """Ranges by left end; `most[q]` is the greatest right end up to q, `place` names them."""

    lo: Numbers
    hi: Numbers
    most: Numbers
    place: Ints32

    @staticmethod
    def of(lo: Numbers, hi: Numbers, place: Ints) -> Scattered:
        """Of ranges in order of left end."""
        return Scattered(lo, hi, np.maximum.accumulate(hi), place.astype(np.int32))

    def affected(self, rows: Numbers, events: Numbers) -> Iterator[tuple[int, Ints, Ints32, int]]:
        """Of some events after the other: how many of all are done, and the event and query of each
        pair.  With that, how many steps it took."""
        if not self.lo.size or not rows.size:
            return
        room, counts = (
            np.empty(max(ROOM, self.lo.size) + 1, np.int32),
            np.zeros(events.size, np.int64),
        )
        start = 0
        while start < events.size:
            stop, written, steps = walk(self, rows, events, start, counts, room)
            event = np.repeat(np.arange(start, stop), counts[start:stop])
            yield stop, event, self.place[room[:written]], steps
            start = stop


@numba.njit(cache=True, nogil=True)
def walk(
    own: Scattered, rows: Numbers, events: Numbers, start: int, counts: Ints, out: Ints32
) -> tuple[int, int, int]:
    """List the places of ranges that events from `start` on affect, as long as there is room for
    all of one: up to which event, how many, in how many steps."""
    lo, hi, most = own.lo, own.hi, own.most
    to = steps = 0
    for e in range(start, events.size):
        if to + lo.size >= out.size:
            return e, to, steps
        b, before = events[e], to
        first = first_at_least(rows, b, lo[0])
        end = count_until(rows, first, b, most[-1])
        counts[e] = 0
        if first < end:
            q, stop = (
                first_reaching(most, rows[first] - b),
                count_until(lo, 0, 0, rows[end - 1] - b),
            )
            if stop - q > MANY * (end - first):
                to, looked = rows_look(own, rows, b, first, end, q, stop, out, to)
                steps += looked
            elif end - first > MANY * (stop - q):
                to = ranges_look(lo, hi, rows, b, first, q, stop, out, to)
                steps += LOOK_STEPS * (stop - q)
            elif max(stop - q, end - first) > MORE * min(stop - q, end - first):
                to = go_along_runs(lo, hi, rows, b, first, q, stop, out, to)
                steps += stop - q + end - first
            else:
                to = go_along(lo, hi, rows, b, first, q, stop, out, to)
                steps += stop - q + end - first
        counts[e] = to - before
    return events.size, to, steps


@numba.njit(cache=True, nogil=True, inline="always")
def go_along(
    lo: Numbers,
    hi: Numbers,
    rows: Numbers,
    b: float,
    row: int,
    q: int,
    stop: int,
    out: Ints32,
    to: int,
) -> int:
    """Every range has a row that is not below it.  Without branches: which of the two comes next is
    chance."""
    while q < stop:
        d = rows[row] - b
        is_past = d >= lo[q]
        out[to] = q
        to += is_past & (d <= hi[q])
        q += is_past
        row += not is_past
    return to


@numba.njit(cache=True, nogil=True, inline="always")
def go_along_runs(
    lo: Numbers,
    hi: Numbers,
    rows: Numbers,
    b: float,
    row: int,
    q: int,
    stop: int,
    out: Ints32,
    to: int,
) -> int:
    """The same, where mostly the same of the two comes next."""
    d = rows[row] - b
    for k in range(q, stop):
        while d < lo[k]:
            row += 1
            d = rows[row] - b
        if d <= hi[k]:
            out[to] = k
            to += 1
    return to


@numba.njit(cache=True, nogil=True, inline="always")
def ranges_look(
    lo: Numbers,
    hi: Numbers,
    rows: Numbers,
    b: float,
    row: int,
    q: int,
    stop: int,
    out: Ints32,
    to: int,
) -> int:
    """Each range for its first row."""
    for k in range(q, stop):
        row = next_at_least(rows, b, lo[k], row)
        out[to] = k
        to += rows[row] - b <= hi[k]
    return to


@numba.njit(cache=True, nogil=True, inline="always")
def rows_look(
    own: Scattered,
    rows: Numbers,
    b: float,
    row: int,
    end: int,
    q: int,
    stop: int,
    out: Ints32,
    to: int,
) -> tuple[int, int]:
    """Each row for the ranges that begin at or below it, and above the row before."""
    lo, hi, most, steps = own.lo, own.hi, own.most, 0
    for k in range(row, end):
        d = rows[k] - b
        past = reach(lo, q, stop, d, True)
        i = past - 1
        while i >= q and most[i] >= d:
            out[to] = i
            to += hi[i] >= d
            i -= 1
        steps += LOOK_STEPS + past - 1 - i
        q = past
    return to, steps


@numba.njit(cache=True, nogil=True)
def count_until(line: Numbers, low: int, b: float, limit: float) -> int:
    """The first place from `low` on of a difference above the limit."""
    high = line.size
    while low < high:
        middle = (low + high) // 2
        if line[middle] - b <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def first_reaching(most: Numbers, d: float) -> int:
    low, high = 0, most.size
    while low < high:
        middle = (low + high) // 2
        if most[middle] < d:
            low = middle + 1
        else:
            high = middle
    return low
