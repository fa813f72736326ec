"""Folding cells into bands, compiled.

Rows of one window, one for each group and cell that holds something, come in order of both.  The edges of the bands
that are asked of the window cut the cells of a group into *segments*, which are folded first.  Segments are made a
*disjoint sparse table*: on level l, runs of 2^(l+1) of them are folded from their middle outwards, so segments i … j
are one join of two entries, on the level of the highest bit in which i and j differ.  Totals are joined, never
subtracted, as everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.ring_kernels import (
    ADD,
    MIN,
    MOMENTS_N,
    Columns,
    Ops,
    join_moments,
    max_nan_last,
    min_nan_last,
)  # fmt: skip

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Values = NDArray[Any]


class Others(NamedTuple):
    """Bands of the cells after the first, those of one query together: intervals `at[band]` … `at[band + 1]`."""

    at: Ints
    first: Ints
    last: Ints


class Bands(NamedTuple):
    """Bands of a window shape are `of[shape]` … `of[shape + 1]`; intervals of a band `at[band]` … `at[band + 1]`.

    They are of the first cell.  An interval is of the segments `first` … `last` of its shape; segment n is what has n
    of the edges `cuts[shape]` … `cuts[shape + 1]` at or below it."""

    of: Ints
    at: Ints
    first: Ints
    last: Ints
    cuts: Ints
    edges: Ints
    others: Others


class Pairs(NamedTuple):
    """Pairs of group and cell by number; `rank` is a pair's place in the order of both, -1 for cells of nulls.

    With several cells `[cell, pair]`, the order is that of the first."""

    rank: Ints
    group: Ints32
    cells: Ints


class Scratch(NamedTuple):
    """Room for one group: the segment of each row, for each segment how many before it hold rows, and the table."""

    segment: Ints
    before: Ints
    ints: Ints
    floats: Floats


@numba.njit(cache=True, nogil=True)
def merge_orders(left: Ints, right: Ints, group: Ints32, cell: Ints, out: Ints) -> None:
    """Two lists of pairs, each by group and cell, as one."""
    i = j = 0
    for n in range(out.size):
        if j == right.size:
            takes_left = True
        elif i == left.size:
            takes_left = False
        else:
            a, b = left[i], right[j]
            takes_left = group[a] < group[b] or (group[a] == group[b] and cell[a] < cell[b])
        if takes_left:
            out[n] = left[i]
            i += 1
        else:
            out[n] = right[j]
            j += 1


@numba.njit(cache=True, nogil=True)
def sort_rows(start: int, stop: int, numbers: Ints32, pairs: Pairs, spots: Ints, out: Ints) -> int:
    """Rows start … stop of one window in the order of their pairs, without those of nulls; how many they are.

    `spots` has a zero for each pair, and is left so."""
    low, high = spots.size, -1
    for row in range(start, stop):
        rank = pairs.rank[numbers[row]]
        if rank >= 0:
            spots[rank] = row + 1
            low, high = min(low, rank), max(high, rank)
    found = 0
    for rank in range(low, high + 1):
        if spots[rank]:
            out[found] = spots[rank] - 1
            spots[rank] = 0
            found += 1
    return found


@numba.njit(cache=True, nogil=True)
def cut_group(start: int, rows: Ints, numbers: Ints32, pairs: Pairs, edges: Ints, room: Scratch) -> int:
    """Place the rows of the group that begins at `start` in the segments that hold any; where its rows end."""
    group = pairs.group[numbers[rows[start]]]
    stop, segment, held = start, 0, -1
    room.before[0] = 0
    while stop < rows.size and pairs.group[numbers[rows[stop]]] == group:
        cell = pairs.cells[0, numbers[rows[stop]]]
        is_new = stop == start
        while segment < edges.size and edges[segment] <= cell:
            segment += 1
            room.before[segment] = held + 1
            is_new = True
        held += is_new
        room.segment[stop - start] = held
        stop += 1
    for rest in range(segment + 1, edges.size + 2):
        room.before[rest] = held + 1
    return stop


@numba.njit(cache=True, nogil=True)
def count_bands(rows: Ints, numbers: Ints32, pairs: Pairs, shape: int, bands: Bands, room: Scratch,
                counts: Ints) -> None:  # fmt: skip
    """Add to `counts` how many groups of one window each band of the shape has rows of."""
    edges = bands.edges[bands.cuts[shape] : bands.cuts[shape + 1]]
    start = 0
    while start < rows.size:
        stop = cut_group(start, rows, numbers, pairs, edges, room)
        for band in range(bands.of[shape], bands.of[shape + 1]):
            for i in range(bands.at[band], bands.at[band + 1]):
                low, high = room.before[bands.first[i]], room.before[bands.last[i] + 1]
                if low < high and (
                    pairs.cells.shape[0] == 1
                    or next_within(band, start, start, stop, low, high, rows, numbers, pairs, bands, room) < stop
                ):
                    counts[band] += 1
                    break
        start = stop


@numba.njit(cache=True, nogil=True)
def next_within(
    band: int, start: int, row: int, stop: int, low: int, high: int, rows: Ints, numbers: Ints32, pairs: Pairs,
    bands: Bands, room: Scratch,
) -> int:  # fmt: skip
    """Of the group's rows start … stop, from `row` on, the first in the segments low … high - 1 whose other cells lie
    in the query's bands."""
    while row < stop and room.segment[row - start] < high:
        if room.segment[row - start] >= low and is_within(band, numbers[rows[row]], pairs, bands):
            return row
        row += 1
    return stop


@numba.njit(cache=True, nogil=True)
def is_within(band: int, pair: int, pairs: Pairs, bands: Bands) -> bool:
    """Whether the cells after the first lie in the query's bands of them."""
    others = pairs.cells.shape[0] - 1
    for c in range(others):
        own = band * others + c
        found = False
        for i in range(bands.others.at[own], bands.others.at[own + 1]):
            found |= bands.others.first[i] <= pairs.cells[c + 1, pair] <= bands.others.last[i]
        if not found:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def write_bands(
    rows: Ints, end: int, numbers: Ints32, pairs: Pairs, shape: int, bands: Bands, ops: Ops, source: Columns,
    room: Scratch, cursor: Ints, ends: Ints, out: Columns,
) -> None:  # fmt: skip
    """Write one answer for each group of one window and each band of the shape that has rows of it."""
    edges = bands.edges[bands.cuts[shape] : bands.cuts[shape + 1]]
    start = 0
    while start < rows.size:
        stop = cut_group(start, rows, numbers, pairs, edges, room)
        is_table = pairs.cells.shape[0] == 1
        if is_table:
            held = room.segment[stop - start - 1] + 1
            fold_ints(rows[start:stop], room.segment, held, ops.ints, source.ints, room.ints)
            fold_floats(rows[start:stop], room.segment, held, ops.floats, source.floats, room.floats)
        for band in range(bands.of[shape], bands.of[shape + 1]):
            at = cursor[band]
            is_empty = True
            for i in range(bands.at[band], bands.at[band + 1]):
                low, high = room.before[bands.first[i]], room.before[bands.last[i] + 1] - 1
                if low <= high and is_table:
                    take_ints(low, high, is_empty, ops.ints, room.ints, at, out.ints)
                    take_floats(low, high, is_empty, ops.floats, room.floats, at, out.floats)
                    is_empty = False
                elif low <= high:
                    row = start
                    while row < stop:
                        row = next_within(band, start, row, stop, low, high + 1, rows, numbers, pairs, bands, room)
                        if row < stop:
                            take_row(rows[row], is_empty, ops, source, at, out)
                            is_empty = False
                            row += 1
            if not is_empty:
                out.group[at] = pairs.group[numbers[rows[start]]]
                ends[at] = end
                cursor[band] += 1
        start = stop


@numba.njit(cache=True, nogil=True)
def split_level(low: int, high: int) -> int:
    """The highest bit in which low < high differ."""
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
def fold_ints(rows: Ints, segment: Ints, held: int, ops: Ints, source: Ints, table: Ints) -> None:
    """Fold rows into segments, and those into the table."""
    for c in range(ops.size):
        fold_column(rows, segment, held, ops[c], source[c], table[:, c])


@numba.njit(cache=True, nogil=True)
def fold_floats(rows: Ints, segment: Ints, held: int, ops: Ints, source: Floats, table: Floats) -> None:
    for c in range(ops.size):
        if ops[c] == MOMENTS_N:
            fold_moments(rows, segment, held, c, source, table)
        elif ops[c] < MOMENTS_N:
            fold_column(rows, segment, held, ops[c], source[c], table[:, c])


@numba.njit(cache=True, nogil=True)
def fold_column(rows: Ints, segment: Ints, held: int, op: int, source: Values, table: Values) -> None:
    """One column of either kind."""
    own = table[0]
    last = -1
    for i in range(rows.size):
        s, x = segment[i], source[rows[i]]
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
def fold_moments(rows: Ints, segment: Ints, held: int, c: int, source: Floats, table: Floats) -> None:
    """Columns c … c + 2."""
    own = table[0]
    last = -1
    for i in range(rows.size):
        s, row = segment[i], rows[i]
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


@numba.njit(cache=True, nogil=True)
def take_row(row: int, is_first: bool, ops: Ops, source: Columns, at: int, out: Columns) -> None:
    """One row, joined to what is there unless it is the first."""
    for c in range(ops.ints.size):
        x = source.ints[c, row]
        out.ints[c, at] = x if is_first else join(ops.ints[c], out.ints[c, at], x)
    for c in range(ops.floats.size):
        if is_first:
            out.floats[c, at] = source.floats[c, row]
        elif ops.floats[c] == MOMENTS_N:
            own, to = source.floats, out.floats
            to[c, at], to[c + 1, at], to[c + 2, at] = join_moments(
                to[c, at], to[c + 1, at], to[c + 2, at], own[c, row], own[c + 1, row], own[c + 2, row]
            )
        elif ops.floats[c] < MOMENTS_N:
            out.floats[c, at] = join(ops.floats[c], out.floats[c, at], source.floats[c, row])


@numba.njit(cache=True, nogil=True)
def take_ints(low: int, high: int, is_first: bool, ops: Ints, table: Ints, at: int, out: Ints) -> None:
    """Segments low … high, joined to what is there unless they are the first."""
    level = 0 if low == high else split_level(low, high)
    for c in range(ops.size):
        line = table[level, c]
        found = line[low] if low == high else join(ops[c], line[low], line[high])
        out[c, at] = found if is_first else join(ops[c], out[c, at], found)


@numba.njit(cache=True, nogil=True)
def take_floats(low: int, high: int, is_first: bool, ops: Ints, table: Floats, at: int, out: Floats) -> None:
    level = 0 if low == high else split_level(low, high)
    for c in range(ops.size):
        line = table[level]
        if ops[c] == MOMENTS_N:
            n, mean, m2 = line[c, low], line[c + 1, low], line[c + 2, low]
            if low != high:
                n, mean, m2 = join_moments(n, mean, m2, line[c, high], line[c + 1, high], line[c + 2, high])
            if not is_first:
                n, mean, m2 = join_moments(out[c, at], out[c + 1, at], out[c + 2, at], n, mean, m2)
            out[c, at], out[c + 1, at], out[c + 2, at] = n, mean, m2
        elif ops[c] < MOMENTS_N:
            found = line[c, low] if low == high else join(ops[c], line[c, low], line[c, high])
            out[c, at] = found if is_first else join(ops[c], out[c, at], found)
