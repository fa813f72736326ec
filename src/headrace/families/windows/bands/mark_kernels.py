"""Folding rows into bands of several cells, compiled.

The first cell leaves a run of rows of a stretch; those whose other cells lie in the band too are
marked: all bits of their mask are set.  Loops over marks are written so that the compiler makes
vectors of them, and inlined, as calling them would take longer.
"""

from __future__ import annotations

import numpy as np

from headrace.families.windows.bands.arrays import (
    Bands,
    Floats,
    Ints,
    Ints32,
    Numbers,
    Scratch,
    SharedRings,
    Stretches,
    Written,
    band_group_of,
)
from headrace.families.windows.rings.arrays import (
    ADD,
    INT_MAX,
    INT_MIN,
    MIN,
    MOMENTS_N,
    Ops,
)
from headrace.families.windows.rings.join_kernels import join_moments
from headrace.kernel_cache import numba

ANY_ORDER = {"reassoc", "nsz"}  # of additions
NAN_BITS = int(np.array([np.nan]).view(np.int64)[0])


@numba.njit(cache=True, nogil=True, fastmath=ANY_ORDER)
def take_rows(
    start: int,
    stop: int,
    rows: Stretches,
    ops: Ops,
    bands: Bands,
    shared_rings: SharedRings,
    numbers: Numbers,
    room: Scratch,
    out: Written,
) -> None:
    """Take the rows of one stretch into every band that they lie in."""
    before, row_at, mask = room.before, room.row, room.mask
    at, firsts, lasts, shared_ring_of, number = (
        bands.at,
        bands.first,
        bands.last,
        bands.shared_ring,
        bands.number,
    )
    page, pool, following, fresh, used = numbers
    int_at, int_columns, float_at, float_columns, spaces, base, int_base, float_base = shared_rings
    written, panes, band_groups, out_ints, out_floats = out
    cells, others_at, out_bits = rows.ranks.shape[0], bands.others_at, out_floats.view(np.int64)
    ints, same = rows.ints, room.same
    for c in range(ops.ints.size):
        same[c] = is_same(ints[c, start:stop])
    order_floats(start, stop, ops.floats, rows.floats, room.ordered)
    for band in range(number.size):
        first = last = -1
        found = 0
        for i in range(at[band], at[band + 1]):
            low, high = row_at[before[firsts[i]]] - start, row_at[before[lasts[i] + 1]] - start
            if low < high:
                mask[max(last, 0) : low] = 0
                first, last = low if first < 0 else first, high
                found += mark_within(
                    start,
                    low,
                    high,
                    rows.ranks,
                    others_at[band * cells : band * cells + cells + 1],
                    bands.others_first,
                    bands.others_last,
                    mask,
                )
        if not found:
            continue
        marks, own = mask[first:last], slice(start + first, start + last)
        shared_ring = shared_ring_of[band]
        row, space = written[shared_ring], spaces[shared_ring]
        written[shared_ring] = row + 1
        panes[base[shared_ring] + row] = rows.pane[start]
        band_groups[base[shared_ring] + row] = band_group_of(
            shared_ring, number[band], rows.group[start], page, pool, following, fresh, used
        )
        to = int_base[shared_ring] + row
        for k in range(int_at[shared_ring], int_at[shared_ring + 1]):
            c = int_columns[k]
            if same[c]:
                out_ints[to] = ints[c, start] * (found if ops.ints[c] == ADD else 1)
            else:
                out_ints[to] = fold_marked(ops.ints[c], ints[c, own], marks)
            to += space
        to = float_base[shared_ring] + row
        for k in range(float_at[shared_ring], float_at[shared_ring + 1]):
            c = float_columns[k]
            op = ops.floats[c]
            if op == ADD:
                out_floats[to] = add_marked(rows.floats[c, own], marks)
            elif op < MOMENTS_N:
                out_bits[to] = float_bits(fold_marked(op, room.ordered[c, first:last], marks))
            elif op == MOMENTS_N:
                out_floats[to], out_floats[to + space], out_floats[to + 2 * space] = join_marked(
                    rows.floats[c, own], rows.floats[c + 1, own], rows.floats[c + 2, own], marks
                )
            to += space


@numba.njit(cache=True, nogil=True, inline="always")
def mark_within(
    start: int,
    low: int,
    high: int,
    ranks: Ints32,
    at: Ints,
    firsts: Ints32,
    lasts: Ints32,
    mask: Ints,
) -> int:
    """Set the mask of the rows low … high - 1 of a stretch whose other cells lie in the band, clear
    that of others; how many are set."""
    marks, count = mask[low:high], 0
    for c in range(ranks.shape[0]):
        line, count = ranks[c, start + low : start + high], 0
        if at[c + 1] - at[c] == 1:
            first, last = firsts[at[c]], lasts[at[c]]
            for n in range(line.size):
                marks[n] = -np.int64((line[n] >= first) & (line[n] <= last)) & (
                    marks[n] if c else -1
                )
                count -= marks[n]
        else:
            for n in range(line.size):
                inside = False
                for i in range(at[c], at[c + 1]):
                    inside |= (line[n] >= firsts[i]) & (line[n] <= lasts[i])
                marks[n] = -np.int64(inside) & (marks[n] if c else -1)
                count -= marks[n]
    return count


@numba.njit(cache=True, nogil=True)
def is_same(line: Ints) -> bool:
    """Whether all values are: counts of single rows are, and the high halves of small sums."""
    different = 0
    for n in range(line.size):
        different |= line[n] ^ line[0]
    return different == 0


@numba.njit(cache=True, nogil=True, inline="always")
def fold_marked(op: int, line: Ints, marks: Ints) -> int:
    """The marked rows of a column."""
    if op == ADD:
        x = 0
        for n in range(line.size):
            x += line[n] & marks[n]
    elif op == MIN:
        x = INT_MAX
        for n in range(line.size):
            x = min(x, (line[n] & marks[n]) | (INT_MAX & ~marks[n]))
    else:
        x = INT_MIN
        for n in range(line.size):
            x = max(x, (line[n] & marks[n]) | (INT_MIN & ~marks[n]))
    return x


@numba.njit(cache=True, nogil=True, inline="always", fastmath=ANY_ORDER)
def add_marked(line: Floats, marks: Ints) -> float:
    """In any order; values that are not marked do not count, they may be infinite."""
    x = 0.0
    for n in range(line.size):
        x += line[n] if marks[n] else 0.0
    return x


@numba.njit(cache=True, nogil=True)
def join_marked(
    counts: Floats, means: Floats, squares: Floats, marks: Ints
) -> tuple[float, float, float]:
    count = mean = m2 = 0.0
    for n in range(marks.size):
        if marks[n]:
            count, mean, m2 = join_moments(count, mean, m2, counts[n], means[n], squares[n])
    return count, mean, m2


@numba.njit(cache=True, nogil=True)
def order_floats(start: int, stop: int, ops: Ints, source: Floats, ordered: Ints) -> None:
    """Columns of extremes as whole numbers in Spark's order: NaN above all, -0.0 below 0.0."""
    for c in range(ops.size):
        if ops[c] != ADD and ops[c] < MOMENTS_N:
            bits, line = source[c].view(np.int64), ordered[c]
            for row in range(start, stop):
                own = bits[row] ^ ((bits[row] >> 63) & INT_MAX)
                line[row - start] = INT_MAX if np.isnan(source[c, row]) else own


@numba.njit(cache=True, nogil=True, inline="always")
def float_bits(x: int) -> int:
    """Of the value that has this place in the order."""
    return NAN_BITS if x == INT_MAX else x ^ ((x >> 63) & INT_MAX)
