"""Folding the rows of cells into bands, compiled.

Rows of a round come by pane, group and first cell; rows of one pane and group are a *stretch*.  The
edges of the bands that are asked for cut the first cell into *segments*.  Of a stretch, the
segments that hold rows are folded first, then made a *disjoint sparse table*: on level l, runs of
2^(l+1) of them are folded from their middle outwards, so segments i … j are one join of two
entries, on the level of the highest bit in which i and j differ.  Totals are joined, never
subtracted, as everywhere.  Bands of more cells than one are for `bands/mark_kernels.py`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

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
from headrace.families.windows.bands.mark_kernels import take_rows
from headrace.families.windows.rings.arrays import (
    ADD,
    MIN,
    MOMENTS_N,
    Columns,
    Ops,
)
from headrace.families.windows.rings.join_kernels import join_moments, max_nan_last, min_nan_last
from headrace.kernel_cache import numba

Values = NDArray[Any]


@numba.njit(cache=True, nogil=True)
def fold_stretches(
    first: int,
    last: int,
    rows: Stretches,
    ops: Ops,
    bands: Bands,
    shared_rings: SharedRings,
    numbers: Numbers,
    room: Scratch,
    out: Written,
) -> None:
    """Write one row for each of the stretches first … last - 1 and each band that has rows of
    it."""
    for s in range(first, last):
        start, stop = rows.starts[s], rows.starts[s + 1]
        held = cut_stretch(start, stop, rows.segment, room)
        if rows.ranks.shape[0]:
            take_rows(start, stop, rows, ops, bands, shared_rings, numbers, room, out)
        else:
            fold_ints(start, stop, room.held, held, ops.ints, rows.ints, room.ints)
            fold_floats(start, stop, room.held, held, ops.floats, rows.floats, room.floats)
            take_segments(
                rows.pane[start], rows.group[start], ops, bands, shared_rings, numbers, room, out
            )


@numba.njit(cache=True, nogil=True)
def cut_stretch(start: int, stop: int, segments: Ints32, room: Scratch) -> int:
    """Place the rows in the segments that hold any; how many those are."""
    segment, held = 0, -1
    room.before[0] = 0
    for row in range(start, stop):
        is_new = row == start
        while segment < segments[row]:
            segment += 1
            room.before[segment] = held + 1
            is_new = True
        if is_new:
            held += 1
            room.row[held] = row
        room.held[row - start] = held
    for rest in range(segment + 1, room.before.size):
        room.before[rest] = held + 1
    room.row[held + 1] = stop
    return held + 1


# What follows runs for each band and group: calls that pass many arrays would cost more than the
# work.


@numba.njit(cache=True, nogil=True)
def take_segments(
    pane: int,
    group: int,
    ops: Ops,
    bands: Bands,
    shared_rings: SharedRings,
    numbers: Numbers,
    room: Scratch,
    out: Written,
) -> None:
    """Every band of a stretch, out of its table."""
    before, ints, floats = room.before, room.ints, room.floats
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
    for band in range(number.size):
        row = -1
        for i in range(at[band], at[band + 1]):
            low, high = before[firsts[i]], before[lasts[i] + 1] - 1
            if low > high:
                continue
            shared_ring, is_first = shared_ring_of[band], row < 0
            if is_first:
                row = written[shared_ring]
                written[shared_ring] = row + 1
                panes[base[shared_ring] + row] = pane
                band_groups[base[shared_ring] + row] = band_group_of(
                    shared_ring, number[band], group, page, pool, following, fresh, used
                )
            level, space = split_level(low, high), spaces[shared_ring]
            to = int_base[shared_ring] + row
            for k in range(int_at[shared_ring], int_at[shared_ring + 1]):
                c = int_columns[k]
                x = (
                    ints[level, c, low]
                    if low == high
                    else join(ops.ints[c], ints[level, c, low], ints[level, c, high])
                )
                out_ints[to] = x if is_first else join(ops.ints[c], out_ints[to], x)
                to += space
            to = float_base[shared_ring] + row
            for k in range(float_at[shared_ring], float_at[shared_ring + 1]):
                c = float_columns[k]
                op, line = ops.floats[c], floats[level, c]
                if op == MOMENTS_N:
                    means, squares = floats[level, c + 1], floats[level, c + 2]
                    n, mean, m2 = line[low], means[low], squares[low]
                    if low != high:
                        n, mean, m2 = join_moments(
                            n, mean, m2, line[high], means[high], squares[high]
                        )
                    if not is_first:
                        n, mean, m2 = join_moments(
                            out_floats[to],
                            out_floats[to + space],
                            out_floats[to + 2 * space],
                            n,
                            mean,
                            m2,
                        )
                    out_floats[to], out_floats[to + space], out_floats[to + 2 * space] = n, mean, m2
                elif op < MOMENTS_N:
                    y = line[low] if low == high else join(op, line[low], line[high])
                    out_floats[to] = y if is_first else join(op, out_floats[to], y)
                to += space


@numba.njit(cache=True, nogil=True)
def split_level(low: int, high: int) -> int:
    """The highest bit in which low ≤ high differ; 0 if they do not."""
    level = 0
    while (low ^ high) >> (level + 1):
        level += 1
    return level


@numba.njit(cache=True, nogil=True)
def join(op: int, x: Any, y: Any) -> Any:
    """Two numbers of either kind; a whole one is never NaN."""
    if op == ADD:
        return x + y
    return min_nan_last(x, y) if op == MIN else max_nan_last(x, y)


@numba.njit(cache=True, nogil=True)
def fold_ints(
    start: int, stop: int, place: Ints, held: int, ops: Ints, source: Ints, table: Ints
) -> None:
    """Fold rows into segments, and those into the table."""
    for c in range(ops.size):
        fold_column(start, stop, place, held, ops[c], source[c], table[:, c])


@numba.njit(cache=True, nogil=True)
def fold_floats(
    start: int, stop: int, place: Ints, held: int, ops: Ints, source: Floats, table: Floats
) -> None:
    for c in range(ops.size):
        if ops[c] == MOMENTS_N:
            fold_moments(start, stop, place, held, c, source, table)
        elif ops[c] < MOMENTS_N:
            fold_column(start, stop, place, held, ops[c], source[c], table[:, c])


@numba.njit(cache=True, nogil=True)
def fold_column(
    start: int, stop: int, place: Ints, held: int, op: int, source: Values, table: Values
) -> None:
    """Join the rows from `start` to `stop` of one column, of ints or floats, into their places."""
    own = table[0]
    last = -1
    for row in range(start, stop):
        s, x = place[row - start], source[row]
        own[s] = x if s != last else join(op, own[s], x)
        last = s
    level = 1
    while (1 << level) < held:
        line, half = table[level], 1 << level
        for middle in range(half, held, 2 * half):
            x = own[middle - 1]
            line[middle - 1] = x
            for i in range(middle - 2, middle - half - 1, -1):
                x = join(op, own[i], x)
                line[i] = x
            x = own[middle]
            line[middle] = x
            for i in range(middle + 1, min(middle + half, held)):
                x = join(op, x, own[i])
                line[i] = x
        level += 1


@numba.njit(cache=True, nogil=True)
def fold_moments(
    start: int, stop: int, place: Ints, held: int, c: int, source: Floats, table: Floats
) -> None:
    """Columns c … c + 2."""
    own = table[0]
    last = -1
    for row in range(start, stop):
        s = place[row - start]
        n, mean, m2 = source[c, row], source[c + 1, row], source[c + 2, row]
        if s == last:
            n, mean, m2 = join_moments(own[c, s], own[c + 1, s], own[c + 2, s], n, mean, m2)
        own[c, s], own[c + 1, s], own[c + 2, s] = n, mean, m2
        last = s
    level = 1
    while (1 << level) < held:
        line, half = table[level], 1 << level
        for middle in range(half, held, 2 * half):
            i = middle - 1
            n, mean, m2 = own[c, i], own[c + 1, i], own[c + 2, i]
            line[c, i], line[c + 1, i], line[c + 2, i] = n, mean, m2
            for i in range(middle - 2, middle - half - 1, -1):
                n, mean, m2 = join_moments(own[c, i], own[c + 1, i], own[c + 2, i], n, mean, m2)
                line[c, i], line[c + 1, i], line[c + 2, i] = n, mean, m2
            n, mean, m2 = own[c, middle], own[c + 1, middle], own[c + 2, middle]
            line[c, middle], line[c + 1, middle], line[c + 2, middle] = n, mean, m2
            for i in range(middle + 1, min(middle + half, held)):
                n, mean, m2 = join_moments(n, mean, m2, own[c, i], own[c + 1, i], own[c + 2, i])
                line[c, i], line[c + 1, i], line[c + 2, i] = n, mean, m2
        level += 1


# -- answers ---------------------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def count_answers(
    band_group: Ints32,
    end: Ints,
    band_of: Ints32,
    at: Ints,
    shapes: Ints,
    first_end: Ints,
    counts: Ints,
) -> None:
    """How many answers of band groups each shape has: those of its band, from its first end on.

    The shapes of a band are `shapes[at[band]]` …; a band below zero is nobody's any more."""
    for i in range(band_group.size):
        band = band_of[band_group[i]]
        if band >= 0:
            for k in range(at[band], at[band + 1]):
                counts[shapes[k]] += end[i] >= first_end[shapes[k]]


@numba.njit(cache=True, nogil=True)
def place_answers(
    end: Ints,
    source: Columns,
    band_of: Ints32,
    group_of: Ints32,
    at: Ints,
    shapes: Ints,
    first_end: Ints,
    cursor: Ints,
    ends: Ints,
    out: Columns,
) -> None:
    """Write the answers of band groups by shape; within one they stay as they come, by end."""
    for i in range(end.size):
        band_group = source.group[i]
        band = band_of[band_group]
        if band < 0:
            continue
        for k in range(at[band], at[band + 1]):
            shape = shapes[k]
            if end[i] >= first_end[shape]:
                to = cursor[shape]
                cursor[shape] += 1
                ends[to], out.group[to] = end[i], group_of[band_group]
                for c in range(out.ints.shape[0]):
                    out.ints[c, to] = source.ints[c, i]
                for c in range(out.floats.shape[0]):
                    out.floats[c, to] = source.floats[c, i]
