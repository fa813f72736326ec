"""Folding the rows of cells into bands, compiled.

Rows of a round come by pane, group and first cell; rows of one pane and group are a *stretch*.  The edges of the bands
that are asked for cut the first cell into *segments*.  Of a stretch, the segments that hold rows are folded first, then
made a *disjoint sparse table*: on level l, runs of 2^(l+1) of them are folded from their middle outwards, so segments
i … j are one join of two entries, on the level of the highest bit in which i and j differ.  Totals are joined, never
subtracted, as everywhere.  Where a band has more cells than one, the rows between its edges are looked at one by one.
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
PAGE = 64


class Stretches(NamedTuple):
    """Rows by pane, group and segment of the first cell; `ranks[c, row]` are of the other cells."""

    starts: Ints
    pane: Ints
    group: Ints32
    segment: Ints32
    ranks: Ints32
    ints: Ints
    floats: Floats


class Bands(NamedTuple):
    """What is asked for: the lane each band is for, and its intervals of segments `at[band]` … `at[band + 1]`.

    Intervals of the other cells, those of one band together, are of ranks: `others_at[band · cells + c]` …"""

    number: Ints
    lane: Ints
    at: Ints
    first: Ints
    last: Ints
    others_at: Ints
    others_first: Ints
    others_last: Ints


class Lanes(NamedTuple):
    """Which columns a lane keeps, and where its rows are written: from `base` on there is `room` for so many, a column
    of them at `int_base + column · room`."""

    int_at: Ints
    int_columns: Ints
    float_at: Ints
    float_columns: Ints
    room: Ints
    base: Ints
    int_base: Ints
    float_base: Ints


class Numbers(NamedTuple):
    """The number of a spot: `pool[page[group, band // PAGE], band % PAGE]`, -1 if there is none yet.

    New ones are given by `next`, one counter a lane; `fresh` lists them as (lane, band, group)."""

    page: Ints32
    pool: Ints32
    next: Ints
    fresh: Ints
    used: Ints  # pages, fresh spots


class Written(NamedTuple):
    """Rows of all lanes, and how many each has."""

    rows: Ints
    pane: Ints
    spot: Ints32
    ints: Ints
    floats: Floats


class Scratch(NamedTuple):
    """Room for one stretch: the held segment of each row, for each segment how many before it hold rows, where the rows
    of each held one begin, the table, and rows that lie in a band."""

    held: Ints
    before: Ints
    row: Ints
    ints: Ints
    floats: Floats
    within: Ints


@numba.njit(cache=True, nogil=True)
def fold_stretches(
    first: int, last: int, rows: Stretches, ops: Ops, bands: Bands, lanes: Lanes, numbers: Numbers, room: Scratch,
    out: Written,
) -> None:  # fmt: skip
    """Write one row for each of the stretches first … last - 1 and each band that has rows of it."""
    has_table = rows.ranks.shape[0] == 0
    for s in range(first, last):
        start, stop = rows.starts[s], rows.starts[s + 1]
        held = cut_stretch(start, stop, rows.segment, room)
        if has_table:
            fold_ints(start, stop, room.held, held, ops.ints, rows.ints, room.ints)
            fold_floats(start, stop, room.held, held, ops.floats, rows.floats, room.floats)
        for band in range(bands.number.size):
            if has_table:
                take_band(band, start, rows, ops, bands, lanes, numbers, room, out)
            else:
                take_rows(band, start, rows, ops, bands, lanes, numbers, room, out)


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


@numba.njit(cache=True, nogil=True)
def take_band(
    band: int, start: int, rows: Stretches, ops: Ops, bands: Bands, lanes: Lanes, numbers: Numbers, room: Scratch,
    out: Written,
) -> None:  # fmt: skip
    """Out of the table of a stretch."""
    at = -1
    for i in range(bands.at[band], bands.at[band + 1]):
        low, high = room.before[bands.first[i]], room.before[bands.last[i] + 1] - 1
        if low > high:
            continue
        is_first = at < 0
        if is_first:
            at = begin_row(band, start, rows, bands, lanes, numbers, out)
        level = 0 if low == high else split_level(low, high)
        take_ints(bands.lane[band], low, high, level, is_first, at, ops, lanes, room, out)
        take_floats(bands.lane[band], low, high, level, is_first, at, ops, lanes, room, out)


@numba.njit(cache=True, nogil=True)
def take_rows(
    band: int, start: int, rows: Stretches, ops: Ops, bands: Bands, lanes: Lanes, numbers: Numbers, room: Scratch,
    out: Written,
) -> None:  # fmt: skip
    """Out of the rows of a stretch whose other cells lie in the band too."""
    found = 0
    for i in range(bands.at[band], bands.at[band + 1]):
        low, high = room.before[bands.first[i]], room.before[bands.last[i] + 1]
        if low < high:
            found = find_within(band, room.row[low], room.row[high], found, rows, bands, room)
    if not found:
        return
    at, lane = begin_row(band, start, rows, bands, lanes, numbers, out), bands.lane[band]
    for i in range(lanes.int_at[lane], lanes.int_at[lane + 1]):
        c = lanes.int_columns[i]
        line = rows.ints[c]
        x = line[room.within[0]]
        for n in range(1, found):
            x = join(ops.ints[c], x, line[room.within[n]])
        out.ints[int_place(lane, i, at, lanes)] = x
    for i in range(lanes.float_at[lane], lanes.float_at[lane + 1]):
        c = lanes.float_columns[i]
        if ops.floats[c] == MOMENTS_N:
            own = rows.floats
            row = room.within[0]
            count, mean, m2 = own[c, row], own[c + 1, row], own[c + 2, row]
            for n in range(1, found):
                row = room.within[n]
                count, mean, m2 = join_moments(count, mean, m2, own[c, row], own[c + 1, row], own[c + 2, row])
            write_moments(lane, i, at, count, mean, m2, lanes, out)
        elif ops.floats[c] < MOMENTS_N:
            reals = rows.floats[c]
            y = reals[room.within[0]]
            for n in range(1, found):
                y = join(ops.floats[c], y, reals[room.within[n]])
            out.floats[float_place(lane, i, at, lanes)] = y


@numba.njit(cache=True, nogil=True)
def find_within(band: int, start: int, stop: int, found: int, rows: Stretches, bands: Bands, room: Scratch) -> int:
    """Add the rows start … stop - 1 whose other cells lie in the band to the `found` ones; how many there are now."""
    cells = rows.ranks.shape[0]
    begin = found
    for c in range(cells):
        at, end = bands.others_at[band * cells + c], bands.others_at[band * cells + c + 1]
        ranks, kept = rows.ranks[c], begin
        for n in range(start if c == 0 else begin, stop if c == 0 else found):
            row = n if c == 0 else room.within[n]
            rank, inside = ranks[row], 0
            for i in range(at, end):
                inside |= (bands.others_first[i] <= rank) & (rank <= bands.others_last[i])
            room.within[kept] = row
            kept += inside
        found = kept
    return found


@numba.njit(cache=True, nogil=True)
def begin_row(
    band: int, start: int, rows: Stretches, bands: Bands, lanes: Lanes, numbers: Numbers, out: Written
) -> int:
    """A row of a band: its pane and spot; where among those of its lane it is."""
    lane = bands.lane[band]
    at: int = out.rows[lane]
    out.rows[lane] += 1
    out.pane[lanes.base[lane] + at] = rows.pane[start]
    out.spot[lanes.base[lane] + at] = spot_of(lane, bands.number[band], rows.group[start], numbers)
    return at


@numba.njit(cache=True, nogil=True)
def spot_of(lane: int, band: int, group: int, numbers: Numbers) -> int:
    page = numbers.page[group, band // PAGE]
    if page < 0:
        page = numbers.used[0]
        numbers.used[0] += 1
        numbers.page[group, band // PAGE] = page
        numbers.pool[page] = -1
    spot: int = numbers.pool[page, band % PAGE]
    if spot < 0:
        spot = numbers.next[lane]
        numbers.next[lane] += 1
        numbers.pool[page, band % PAGE] = spot
        at = numbers.used[1]
        numbers.used[1] += 1
        numbers.fresh[0, at], numbers.fresh[1, at], numbers.fresh[2, at] = lane, band, group
    return spot


@numba.njit(cache=True, nogil=True)
def int_place(lane: int, i: int, at: int, lanes: Lanes) -> int:
    """Of the i-th column of all lanes."""
    place: int = lanes.int_base[lane] + (i - lanes.int_at[lane]) * lanes.room[lane] + at
    return place


@numba.njit(cache=True, nogil=True)
def float_place(lane: int, i: int, at: int, lanes: Lanes) -> int:
    place: int = lanes.float_base[lane] + (i - lanes.float_at[lane]) * lanes.room[lane] + at
    return place


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
def fold_ints(start: int, stop: int, place: Ints, held: int, ops: Ints, source: Ints, table: Ints) -> None:
    """Fold rows into segments, and those into the table."""
    for c in range(ops.size):
        fold_column(start, stop, place, held, ops[c], source[c], table[:, c])


@numba.njit(cache=True, nogil=True)
def fold_floats(start: int, stop: int, place: Ints, held: int, ops: Ints, source: Floats, table: Floats) -> None:
    for c in range(ops.size):
        if ops[c] == MOMENTS_N:
            fold_moments(start, stop, place, held, c, source, table)
        elif ops[c] < MOMENTS_N:
            fold_column(start, stop, place, held, ops[c], source[c], table[:, c])


@numba.njit(cache=True, nogil=True)
def fold_column(start: int, stop: int, place: Ints, held: int, op: int, source: Values, table: Values) -> None:
    """One column of either kind."""
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
def fold_moments(start: int, stop: int, place: Ints, held: int, c: int, source: Floats, table: Floats) -> None:
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


@numba.njit(cache=True, nogil=True)
def take_ints(
    lane: int, low: int, high: int, level: int, is_first: bool, at: int, ops: Ops, lanes: Lanes, room: Scratch,
    out: Written,
) -> None:  # fmt: skip
    """Segments low … high, joined to what is there unless they are the first."""
    for i in range(lanes.int_at[lane], lanes.int_at[lane + 1]):
        c = lanes.int_columns[i]
        line = room.ints[level, c]
        x = line[low] if low == high else join(ops.ints[c], line[low], line[high])
        to = int_place(lane, i, at, lanes)
        out.ints[to] = x if is_first else join(ops.ints[c], out.ints[to], x)


@numba.njit(cache=True, nogil=True)
def take_floats(
    lane: int, low: int, high: int, level: int, is_first: bool, at: int, ops: Ops, lanes: Lanes, room: Scratch,
    out: Written,
) -> None:  # fmt: skip
    line = room.floats[level]
    for i in range(lanes.float_at[lane], lanes.float_at[lane + 1]):
        c = lanes.float_columns[i]
        to = float_place(lane, i, at, lanes)
        if ops.floats[c] == MOMENTS_N:
            n, mean, m2 = line[c, low], line[c + 1, low], line[c + 2, low]
            if low != high:
                n, mean, m2 = join_moments(n, mean, m2, line[c, high], line[c + 1, high], line[c + 2, high])
            if not is_first:
                own, step = out.floats, lanes.room[lane]
                n, mean, m2 = join_moments(own[to], own[to + step], own[to + 2 * step], n, mean, m2)
            write_moments(lane, i, at, n, mean, m2, lanes, out)
        elif ops.floats[c] < MOMENTS_N:
            x = line[c, low] if low == high else join(ops.floats[c], line[c, low], line[c, high])
            out.floats[to] = x if is_first else join(ops.floats[c], out.floats[to], x)


@numba.njit(cache=True, nogil=True)
def write_moments(
    lane: int, i: int, at: int, n: float, mean: float, m2: float, lanes: Lanes, out: Written
) -> None:
    to, step = float_place(lane, i, at, lanes), lanes.room[lane]
    out.floats[to], out.floats[to + step], out.floats[to + 2 * step] = n, mean, m2


# -- answers ----------------------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def count_answers(spot: Ints32, end: Ints, band_of: Ints32, at: Ints, shapes: Ints, first_end: Ints,
                  counts: Ints) -> None:  # fmt: skip
    """How many answers of spots each shape has: those of its band, from its first end on.

    The shapes of a band are `shapes[at[band]]` …; a band below zero is nobody's any more."""
    for i in range(spot.size):
        band = band_of[spot[i]]
        if band >= 0:
            for k in range(at[band], at[band + 1]):
                counts[shapes[k]] += end[i] >= first_end[shapes[k]]


@numba.njit(cache=True, nogil=True)
def place_answers(
    end: Ints, source: Columns, band_of: Ints32, group_of: Ints32, at: Ints, shapes: Ints, first_end: Ints,
    cursor: Ints, ends: Ints, out: Columns,
) -> None:  # fmt: skip
    """Write the answers of spots by shape; within one they stay as they come, by end."""
    for i in range(end.size):
        spot = source.group[i]
        band = band_of[spot]
        if band < 0:
            continue
        for k in range(at[band], at[band + 1]):
            shape = shapes[k]
            if end[i] >= first_end[shape]:
                to = cursor[shape]
                cursor[shape] += 1
                ends[to], out.group[to] = end[i], group_of[spot]
                for c in range(out.ints.shape[0]):
                    out.ints[c, to] = source.ints[c, i]
                for c in range(out.floats.shape[0]):
                    out.floats[c, to] = source.floats[c, i]
