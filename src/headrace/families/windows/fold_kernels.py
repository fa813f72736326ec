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
    ADD,
    INT_MAX,
    INT_MIN,
    MAX,
    MIN,
    MOMENTS_N,
    Columns,
    Ops,
    join_moments,
    max_nan_last,
    merge,
    min_nan_last,
)  # fmt: skip

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]


@numba.njit(cache=True)
def roll_up(
    panes: Ints, groups: Ints32, word: Ints, bit: int, stamp: Ints, place: Ints,
    rows: Ints, target: Ints, out_panes: Ints, out_groups: Ints32,
) -> tuple[int, int]:  # fmt: skip
    """Which row of the slot each selected row falls in; (selected rows, rows of the slot).

    `panes` are in order; selected are rows whose `word` has `bit` (all of them if bit < 0).  `stamp` and `place` are
    scratch, one entry a group; `rows` and `target` take the pairs, and `out_panes`, `out_groups` the rows of the slot,
    by pane.
    """
    found = 0
    written = 0
    turn = -1
    last = 0
    stamp[:] = -1
    for p in range(panes.size):
        if bit >= 0 and (word[p] >> bit) & 1 == 0:
            continue
        if turn < 0 or panes[p] != last:
            turn += 1
            last = panes[p]
        g = groups[p]
        if stamp[g] != turn:
            stamp[g] = turn
            place[g] = written
            out_panes[written] = last
            out_groups[written] = g
            written += 1
        rows[found] = p
        target[found] = place[g]
        found += 1
    return found, written


@numba.njit(cache=True)
def join_columns(
    rows: Ints, target: Ints, columns: Ints, ops: Ints, source: Ints, out: Ints,
    float_columns: Ints, float_ops: Ints, float_source: Floats, out_floats: Floats,
) -> None:  # fmt: skip
    """out[c, target[i]] ⊕= source[columns[c], rows[i]], column by column, in the order of the rows."""
    for c in range(columns.size):
        line, taken = out[c], source[columns[c]]
        if ops[c] == ADD:
            line[:] = 0
            for i in range(rows.size):
                line[target[i]] += taken[rows[i]]
        elif ops[c] == MIN:
            line[:] = INT_MAX
            for i in range(rows.size):
                line[target[i]] = min(line[target[i]], taken[rows[i]])
        else:
            line[:] = INT_MIN
            for i in range(rows.size):
                line[target[i]] = max(line[target[i]], taken[rows[i]])
    for c in range(float_columns.size):
        join_floats_of(c, rows, target, float_columns, float_ops[c], float_source, out_floats)


@numba.njit(cache=True)
def join_floats_of(
    c: int, rows: Ints, target: Ints, columns: Ints, op: int, source: Floats, out: Floats
) -> None:
    """One float column, or the three of moments."""
    line, taken = out[c], source[columns[c]]
    if op == ADD:
        line[:] = 0.0
        for i in range(rows.size):
            line[target[i]] += taken[rows[i]]
    elif op == MIN:
        line[:] = np.nan
        for i in range(rows.size):
            line[target[i]] = min_nan_last(line[target[i]], taken[rows[i]])
    elif op == MAX:
        line[:] = -np.inf
        for i in range(rows.size):
            line[target[i]] = max_nan_last(line[target[i]], taken[rows[i]])
    elif op == MOMENTS_N:
        out[c : c + 3] = 0.0
        means, squares = source[columns[c + 1]], source[columns[c + 2]]
        for i in range(rows.size):
            t, p = target[i], rows[i]
            out[c, t], out[c + 1, t], out[c + 2, t] = join_moments(
                out[c, t], out[c + 1, t], out[c + 2, t], taken[p], means[p], squares[p]
            )


@numba.njit(cache=True)
def absorb(
    ops: Ops, old: Columns, kept: int, new: Columns, places: Ops, seen: Flags, ints: Ints, floats: Floats, out: Columns
) -> int:
    """Merge `new` rows, by pane, into the first `kept` rows of `old`, which are by pane and group, one each.

    Our columns are at `places` among those of `new`.  `seen`, `ints`, `floats` are scratch, `seen` all zero before and
    after.  Returns how many rows `out` has: by pane and group, one each.  A left fold: absorbing some rows now and
    some later gives the same bits as all at once.
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
                merge(ops, ints, floats, new.group[start], new, start, places)
            else:
                pick_row(new, start, places, seen, ints, floats)
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


@numba.njit(cache=True)
def pick_row(source: Columns, at: int, places: Ops, seen: Flags, ints: Ints, floats: Floats) -> None:
    """As `load_row`, from other columns."""
    g = source.group[at]
    seen[g] = 1
    for c in range(ints.shape[0]):
        ints[c, g] = source.ints[places.ints[c], at]
    for c in range(floats.shape[0]):
        floats[c, g] = source.floats[places.floats[c], at]
