"""Equality joins with local selections without groups, compiled: the methods stabbing groups are measured against, and
the way for queries that are not clustered (thesis 4.3.2 and 4.5.1).

Each tells, for one event after the other, which queries are affected: marked with the number of the event, and counted.
Rows `first` … `last` - 1 of S join an event; they are in order of c.
"""

from __future__ import annotations

from typing import NamedTuple

import numba

from headrace.families.joins.arrays import Ints, Ints32, Numbers
from headrace.families.joins.select_kernels import reach


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
def naive(queries: Boxes, row_c: Numbers, first: Ints, last: Ints, event_a: Numbers, marks: Marks) -> None:
    """Join first, then ask every query (SJ-JoinFirst-S)."""
    for e in range(event_a.size):
        a, found = event_a[e], 0
        for q in range(queries.a_lo.size):
            if queries.a_lo[q] <= a <= queries.a_hi[q] and has_row(queries, q, row_c, first[e], last[e]):
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
    queries: Boxes, most: Numbers, row_c: Numbers, first: Ints, last: Ints, event_a: Numbers, marks: Marks
) -> None:  # fmt: skip
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
