"""Rolling up, compiled: the rows of one slot out of the rows of a cut, and those of a ring out of a slot's.

A cut's rows are grouped by more than a slot asks for: its other predicates, keys of other queries.
One pass over them, in order of panes, leaves one row per pane and group of the slot; a ring with wider panes
absorbs these into its open ones.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.ring_kernels import (
    ADD, MAX, MIN, MOMENTS_N, Columns, Ops, join_moments, max_nan_last, merge, min_nan_last,
)  # fmt: skip

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]


@numba.njit(cache=True)
def roll_up(
    order: Ints, panes: Ints, groups: Ints32, word: Ints, bit: int, columns: Ints, ops: Ints, floats: Ints, float_ops: Ints,
    source: Ints, source_floats: Floats, seen: Flags, cells: Ints, cell_floats: Floats,
    out_panes: Ints, out_groups: Ints32, out: Ints, out_floats: Floats,
) -> int:  # fmt: skip
    """Rows in `order` (by pane) whose `word` has `bit` (all of them if bit < 0), joined by pane and group.

    `columns` and `floats` say which columns of the source to take; `seen`, `cells`, `cell_floats` are scratch, one
    entry a group, empty before and after.  Returns the number of rows written, sorted by pane, then group.
    """
    written = 0
    start = 0
    while start < order.size:
        pane = panes[order[start]]
        stop = start
        found = False
        while stop < order.size and panes[order[stop]] == pane:
            p = order[stop]
            if bit < 0 or (word[p] >> bit) & 1:
                g = groups[p]
                if seen[g]:
                    join_row(columns, ops, floats, float_ops, source[p], source_floats[p], cells[g], cell_floats[g])
                else:
                    seen[g] = 1
                    found = True
                    for c in range(columns.size):
                        cells[g, c] = source[p, columns[c]]
                    for c in range(floats.size):
                        cell_floats[g, c] = source_floats[p, floats[c]]
            stop += 1
        if found:
            for g in range(seen.size):
                if seen[g]:
                    seen[g] = 0
                    out_panes[written] = pane
                    out_groups[written] = g
                    for c in range(columns.size):
                        out[c, written] = cells[g, c]
                    for c in range(floats.size):
                        out_floats[c, written] = cell_floats[g, c]
                    written += 1
        start = stop
    return written


@numba.njit(cache=True)
def join_row(
    columns: Ints, ops: Ints, floats: Ints, float_ops: Ints, row: Ints, row_floats: Floats, cell: Ints, cell_floats: Floats
) -> None:
    """cell = cell ⊕ row."""
    for c in range(columns.size):
        x = row[columns[c]]
        if ops[c] == ADD:
            cell[c] += x
        elif ops[c] == MIN:
            cell[c] = min(cell[c], x)
        else:
            cell[c] = max(cell[c], x)
    for c in range(floats.size):
        y = row_floats[floats[c]]
        if float_ops[c] == ADD:
            cell_floats[c] += y
        elif float_ops[c] == MIN:
            cell_floats[c] = min_nan_last(cell_floats[c], y)
        elif float_ops[c] == MAX:
            cell_floats[c] = max_nan_last(cell_floats[c], y)
        elif float_ops[c] == MOMENTS_N:
            cell_floats[c], cell_floats[c + 1], cell_floats[c + 2] = join_moments(
                cell_floats[c], cell_floats[c + 1], cell_floats[c + 2],
                y, row_floats[floats[c + 1]], row_floats[floats[c + 2]],
            )  # fmt: skip


@numba.njit(cache=True)
def absorb(ops: Ops, old: Columns, kept: int, new: Columns, seen: Flags, ints: Ints, floats: Floats, out: Columns) -> int:
    """Merge `new` rows, by pane, into the first `kept` rows of `old`, which are by pane and group, one each.

    `seen`, `ints`, `floats` are scratch, `seen` all zero before and after.  Returns how many rows `out` has: by pane
    and group, one each.  A left fold: absorbing some rows now and some later gives the same bits as all at once.
    """
    written = 0
    at = 0
    start = 0
    while start < new.pane.size:
        pane = new.pane[start]
        while at < kept and old.pane[at] < pane:
            copy_row(old, at, out, written)
            written += 1
            at += 1
        while at < kept and old.pane[at] == pane:
            load_row(old, at, seen, ints, floats)
            at += 1
        while start < new.pane.size and new.pane[start] == pane:
            if seen[new.group[start]]:
                merge(ops, ints, floats, new.group[start], new, start)
            else:
                load_row(new, start, seen, ints, floats)
            start += 1
        for g in range(seen.size):
            if seen[g]:
                seen[g] = 0
                out.pane[written] = pane
                out.group[written] = g
                for c in range(ints.shape[0]):
                    out.ints[c, written] = ints[c, g]
                for c in range(floats.shape[0]):
                    out.floats[c, written] = floats[c, g]
                written += 1
    while at < kept:
        copy_row(old, at, out, written)
        written += 1
        at += 1
    return written


@numba.njit(cache=True)
def copy_row(source: Columns, at: int, out: Columns, to: int) -> None:
    out.pane[to] = source.pane[at]
    out.group[to] = source.group[at]
    for c in range(source.ints.shape[0]):
        out.ints[c, to] = source.ints[c, at]
    for c in range(source.floats.shape[0]):
        out.floats[c, to] = source.floats[c, at]


@numba.njit(cache=True)
def load_row(source: Columns, at: int, seen: Flags, ints: Ints, floats: Floats) -> None:
    g = source.group[at]
    seen[g] = 1
    for c in range(source.ints.shape[0]):
        ints[c, g] = source.ints[c, at]
    for c in range(source.floats.shape[0]):
        floats[c, g] = source.floats[c, at]
