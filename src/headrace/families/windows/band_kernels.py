"""Folding cells into bands, compiled.

Rows of one window, one for each group and cell that holds something, come in order of both.  The cells of a group are
made a *disjoint sparse table*: on level l, runs of 2^(l+1) cells are folded from their middle outwards, so a run of
cells [i, j] is one join of two entries, on the level of the highest bit in which i and j differ.  Totals are joined,
never subtracted, as everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Bands(NamedTuple):
    """Bands of a window shape are `of[shape]` … `of[shape + 1]`; intervals of a band `at[band]` … `at[band + 1]`."""

    of: Ints
    at: Ints
    first: Ints
    last: Ints


class Pairs(NamedTuple):
    """Pairs of group and cell by number; `rank` is a pair's place in the order of both, -1 for cells of nulls."""

    rank: Ints
    group: Ints32
    cell: Ints


class Table(NamedTuple):
    """`[level, column, cell]`."""

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
def lower_bound(cells: Ints, low: int, high: int, key: int) -> int:
    """The first of cells[low:high] that is at least `key`."""
    while low < high:
        mid = (low + high) >> 1
        if cells[mid] < key:
            low = mid + 1
        else:
            high = mid
    return low


@numba.njit(cache=True, nogil=True)
def upper_bound(cells: Ints, low: int, high: int, key: int) -> int:
    """The first of cells[low:high] that is above `key`."""
    while low < high:
        mid = (low + high) >> 1
        if cells[mid] <= key:
            low = mid + 1
        else:
            high = mid
    return low


@numba.njit(cache=True, nogil=True)
def count_bands(rows: Ints, numbers: Ints32, pairs: Pairs, shape: int, bands: Bands, cells: Ints, counts: Ints) -> None:
    """Add to `counts` how many groups of one window each band of the shape has rows of."""
    start = 0
    while start < rows.size:
        stop = gather(start, rows, numbers, pairs, cells)
        for band in range(bands.of[shape], bands.of[shape + 1]):
            for i in range(bands.at[band], bands.at[band + 1]):
                low = lower_bound(cells, 0, stop - start, bands.first[i])
                if low < stop - start and cells[low] <= bands.last[i]:
                    counts[band] += 1
                    break
        start = stop


@numba.njit(cache=True, nogil=True)
def gather(start: int, rows: Ints, numbers: Ints32, pairs: Pairs, cells: Ints) -> int:
    """The cells of the group whose rows begin at `start`; where they end."""
    group = pairs.group[numbers[rows[start]]]
    stop = start
    while stop < rows.size and pairs.group[numbers[rows[stop]]] == group:
        cells[stop - start] = pairs.cell[numbers[rows[stop]]]
        stop += 1
    return stop


@numba.njit(cache=True, nogil=True)
def write_bands(
    rows: Ints, end: int, numbers: Ints32, pairs: Pairs, shape: int, bands: Bands, ops: Ops, source: Columns,
    cells: Ints, table: Table, cursor: Ints, ends: Ints, out: Columns,
) -> None:  # fmt: skip
    """Write one answer for each group of one window and each band of the shape that has rows of it."""
    start = 0
    while start < rows.size:
        stop = gather(start, rows, numbers, pairs, cells)
        size = stop - start
        fold_ints(rows[start:stop], ops.ints, source.ints, table.ints)
        fold_floats(rows[start:stop], ops.floats, source.floats, table.floats)
        for band in range(bands.of[shape], bands.of[shape + 1]):
            at = cursor[band]
            is_empty = True
            for i in range(bands.at[band], bands.at[band + 1]):
                low = lower_bound(cells, 0, size, bands.first[i])
                high = upper_bound(cells, low, size, bands.last[i]) - 1
                if low <= high:
                    take_ints(low, high, is_empty, ops.ints, table.ints, at, out.ints)
                    take_floats(low, high, is_empty, ops.floats, table.floats, at, out.floats)
                    is_empty = False
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
def join_int(op: int, x: int, y: int) -> int:
    if op == ADD:
        return x + y
    return min(x, y) if op == MIN else max(x, y)


@numba.njit(cache=True, nogil=True)
def join_float(op: int, x: float, y: float) -> float:
    if op == ADD:
        return x + y
    return min_nan_last(x, y) if op == MIN else max_nan_last(x, y)


@numba.njit(cache=True, nogil=True)
def fold_ints(rows: Ints, ops: Ints, source: Ints, table: Ints) -> None:
    size = rows.size
    for c in range(ops.size):
        level = 0
        while level == 0 or (1 << level) < size:
            line, half = table[level, c], 1 << level
            for middle in range(half, size + half, 2 * half):
                for i in range(min(middle, size) - 1, middle - half - 1, -1):
                    own = source[c, rows[i]]
                    line[i] = own if i == middle - 1 or i == size - 1 else join_int(ops[c], own, line[i + 1])
                for i in range(middle, min(middle + half, size)):
                    own = source[c, rows[i]]
                    line[i] = own if i == middle else join_int(ops[c], line[i - 1], own)
            level += 1


@numba.njit(cache=True, nogil=True)
def fold_floats(rows: Ints, ops: Ints, source: Floats, table: Floats) -> None:
    size = rows.size
    for c in range(ops.size):
        if ops[c] > MOMENTS_N:
            continue
        level = 0
        while level == 0 or (1 << level) < size:
            half = 1 << level
            for middle in range(half, size + half, 2 * half):
                for i in range(min(middle, size) - 1, middle - half - 1, -1):
                    starts = i == middle - 1 or i == size - 1
                    fold_float(c, ops[c], rows[i], source, table[level], i, -1 if starts else i + 1, False)
                for i in range(middle, min(middle + half, size)):
                    fold_float(c, ops[c], rows[i], source, table[level], i, -1 if i == middle else i - 1, True)
            level += 1


@numba.njit(cache=True, nogil=True)
def fold_float(c: int, op: int, row: int, source: Floats, lines: Floats, to: int, before: int, is_after: bool) -> None:
    """lines[c, to] = what is at `before` (nothing if negative) and the row's own, after it or in front of it."""
    width = 3 if op == MOMENTS_N else 1
    if before < 0:
        for k in range(width):
            lines[c + k, to] = source[c + k, row]
    elif op == MOMENTS_N:
        n, mean, m2 = lines[c, before], lines[c + 1, before], lines[c + 2, before]
        own_n, own_mean, own_m2 = source[c, row], source[c + 1, row], source[c + 2, row]
        if is_after:
            lines[c, to], lines[c + 1, to], lines[c + 2, to] = join_moments(n, mean, m2, own_n, own_mean, own_m2)
        else:
            lines[c, to], lines[c + 1, to], lines[c + 2, to] = join_moments(own_n, own_mean, own_m2, n, mean, m2)
    elif is_after:
        lines[c, to] = join_float(op, lines[c, before], source[c, row])
    else:
        lines[c, to] = join_float(op, source[c, row], lines[c, before])


@numba.njit(cache=True, nogil=True)
def take_ints(low: int, high: int, is_first: bool, ops: Ints, table: Ints, at: int, out: Ints) -> None:
    """Cells low … high, joined to what is there unless they are the first."""
    level = 0 if low == high else split_level(low, high)
    for c in range(ops.size):
        line = table[level, c]
        found = line[low] if low == high else join_int(ops[c], line[low], line[high])
        out[c, at] = found if is_first else join_int(ops[c], out[c, at], found)


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
            found = line[c, low] if low == high else join_float(ops[c], line[c, low], line[c, high])
            out[c, at] = found if is_first else join_float(ops[c], out[c, at], found)
