"""Band joins without groups, compiled: the methods stabbing groups are measured against.

Each tells, for one event after the other, which ranges are affected: marked with the number of the
event, and counted.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.3.1.
"""

from __future__ import annotations

from headrace.families.joins.bands.kernels import Runs, first_above, first_at_least, write_run
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers


@numba.njit(cache=True, nogil=True)
def query_outer(
    lo: Numbers, hi: Numbers, rows: Numbers, events: Numbers, marks: Ints32, counts: Ints
) -> None:
    """Every range looks for its first row."""
    for e in range(events.size):
        b, found = events[e], 0
        for q in range(lo.size):
            row = first_at_least(rows, b, lo[q])
            if row < rows.size and rows[row] - b <= hi[q]:
                marks[q] = e
                found += 1
        counts[e] = found


@numba.njit(cache=True, nogil=True)
def merge(
    lo: Numbers, hi: Numbers, rows: Numbers, events: Numbers, marks: Ints32, counts: Ints
) -> None:
    """Ranges by left end, rows in order: one walk along both."""
    for e in range(events.size):
        b, found, row = events[e], 0, 0
        for q in range(lo.size):
            while row < rows.size and rows[row] - b < lo[q]:
                row += 1
            if row == rows.size:
                break
            if rows[row] - b <= hi[q]:
                marks[q] = e
                found += 1
        counts[e] = found


@numba.njit(cache=True, nogil=True)
def merge_runs(lo: Numbers, hi: Numbers, rows: Numbers, events: Numbers, out: Runs) -> int:
    """The same with output, ranges named by their place; how many answers there are."""
    to = 0
    for e in range(events.size):
        b, row = events[e], 0
        for q in range(lo.size):
            while row < rows.size and rows[row] - b < lo[q]:
                row += 1
            if row == rows.size:
                break
            if rows[row] - b <= hi[q]:
                to = write_run(out, to, e, q, row, first_above(rows, b, hi[q], row) - 1)
    return to


@numba.njit(cache=True, nogil=True)
def data_outer(
    lo: Numbers,
    hi: Numbers,
    most: Numbers,
    rows: Numbers,
    events: Numbers,
    marks: Ints32,
    counts: Ints,
) -> None:
    """Every row looks for the ranges that hold it.  Ranges are by left end; `most[q]` is the
    greatest right end of the ranges up to q: below the row, no earlier range holds it."""
    for e in range(events.size):
        b, found = events[e], 0
        for row in range(rows.size):
            d = rows[row] - b
            low, high = 0, lo.size
            while low < high:
                middle = (low + high) // 2
                if lo[middle] <= d:
                    low = middle + 1
                else:
                    high = middle
            q = low - 1
            while q >= 0 and most[q] >= d:
                if hi[q] >= d and marks[q] != e:
                    marks[q] = e
                    found += 1
                q -= 1
        counts[e] = found
