"""Rolling up, compiled: the rows of one slot out of the rows of a cut, and those of a ring out of a
slot's.

A cut's rows are grouped by more than a slot asks for: its other predicates, keys of other queries.
One pass over them, in order of panes, leaves one row per pane and group of the slot; a ring with
wider panes absorbs these into its open ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.rings.arrays import (
    ADD,
    INT_MAX,
    INT_MIN,
    MAX,
    MIN,
    MOMENTS_N,
    Columns,
    Ops,
)
from headrace.families.windows.rings.join_kernels import join_moments, max_nan_last, min_nan_last
from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def roll_up(
    panes: Ints,
    groups: Ints32,
    word: Ints,
    bit: int,
    stamp: Ints,
    place: Ints,
    rows: Ints,
    target: Ints,
    out_panes: Ints,
    out_groups: Ints32,
) -> tuple[int, int]:
    """Which row of the slot each selected row falls in; (selected rows, rows of the slot).

    `panes` are in order; selected are rows whose `word` has `bit` (all of them if bit < 0).
    `stamp` and `place` are scratch, one entry a group; `rows` and `target` take the pairs, and
    `out_panes`, `out_groups` the rows of the slot, by pane.
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


@numba.njit(cache=True, nogil=True)
def choose_by_bit(word: Ints, bit: int, chosen: Ints) -> int:
    """The rows whose `word` has `bit`; how many they are."""
    count = 0
    for p in range(word.size):
        chosen[count] = p
        count += (word[p] >> bit) & 1
    return count


@numba.njit(cache=True, nogil=True)
def choose_within(ranks: Ints32, intervals: Ints, count: int, chosen: Ints) -> int:
    """Keep of the first `count` chosen rows (of all, if negative) those whose rank lies in one of
    the intervals, given by their first and last rank; how many they are."""
    kept = 0
    if intervals.shape[0] == 1:
        first, last = intervals[0, 0], intervals[0, 1]
        for i in range(ranks.size if count < 0 else count):
            p = i if count < 0 else chosen[i]
            chosen[kept] = p
            kept += (first <= ranks[p]) & (ranks[p] <= last)
        return kept
    for i in range(ranks.size if count < 0 else count):
        p, found = i if count < 0 else chosen[i], 0
        for k in range(intervals.shape[0]):
            found |= (intervals[k, 0] <= ranks[p]) & (ranks[p] <= intervals[k, 1])
        chosen[kept] = p
        kept += found
    return kept


@numba.njit(cache=True, nogil=True)
def join_columns(
    rows: Ints,
    target: Ints,
    columns: Ints,
    ops: Ints,
    source: Ints,
    out: Ints,
    float_columns: Ints,
    float_ops: Ints,
    float_source: Floats,
    out_floats: Floats,
) -> None:
    """out[c, target[i]] ⊕= source[columns[c], rows[i]], column by column, in the order of the
    rows."""
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def absorb(
    ops: Ops,
    old: Columns,
    kept: int,
    new: Columns,
    places: Ops,
    turn: Ints,
    stamp: Ints,
    place: Ints,
    out: Columns,
) -> int:
    """Merge `new` rows, by pane, into the first `kept` rows of `old`, which are by pane, one for
    each pane and group.

    Our columns are at `places` among those of `new`.  `stamp` and `place` have an entry for each
    group; `stamp` says in which turn, one for each pane of each call, the group was last seen.
    Returns how many rows `out` has: by pane, one for each pane and group.  A left fold: absorbing
    some rows now and some later gives the same bits as all at once.
    """
    written = 0
    at = 0
    start = 0
    kept_to, new_to = np.empty(kept, np.int64), np.empty(new.pane.size, np.int64)
    while start < new.pane.size or at < kept:
        pane = new.pane[start] if start < new.pane.size else old.pane[kept - 1]
        turn[0] += 1
        while at < kept and old.pane[at] <= pane:
            if old.pane[at] == pane:
                stamp[old.group[at]], place[old.group[at]] = turn[0], written
            out.pane[written], out.group[written] = old.pane[at], old.group[at]
            kept_to[at] = written
            written += 1
            at += 1
        while start < new.pane.size and new.pane[start] == pane:
            g = new.group[start]
            if stamp[g] == turn[0]:
                new_to[start] = place[g]
            else:
                stamp[g], place[g] = turn[0], written
                out.pane[written], out.group[written] = pane, g
                new_to[start] = -written - 1  # the first of its pane and group: taken as it is
                written += 1
            start += 1
    for c in range(ops.ints.size):
        absorb_ints(
            ops.ints[c], old.ints[c], kept_to, new.ints[places.ints[c]], new_to, out.ints[c]
        )
    for c in range(ops.floats.size):
        absorb_floats(c, ops, old, kept_to, new, new_to, places.floats, out)
    return written


@numba.njit(cache=True, nogil=True)
def absorb_ints(op: int, old: Ints, kept_to: Ints, new: Ints, new_to: Ints, out: Ints) -> None:
    for i in range(kept_to.size):
        out[kept_to[i]] = old[i]
    for i in range(new_to.size):
        t = new_to[i]
        if t < 0:
            out[-t - 1] = new[i]
        elif op == ADD:
            out[t] += new[i]
        elif op == MIN:
            out[t] = min(out[t], new[i])
        else:
            out[t] = max(out[t], new[i])


@numba.njit(cache=True, nogil=True)
def absorb_floats(
    c: int,
    ops: Ops,
    old: Columns,
    kept_to: Ints,
    new: Columns,
    new_to: Ints,
    places: Ints,
    out: Columns,
) -> None:
    """One float column, or the three of moments when c is their first."""
    op, line, taken = ops.floats[c], out.floats[c], new.floats[places[c]]
    if op > MOMENTS_N:
        return
    for i in range(kept_to.size):
        line[kept_to[i]] = old.floats[c, i]
    if op == MOMENTS_N:
        means, squares = new.floats[places[c + 1]], new.floats[places[c + 2]]
        for i in range(kept_to.size):
            out.floats[c + 1, kept_to[i]] = old.floats[c + 1, i]
            out.floats[c + 2, kept_to[i]] = old.floats[c + 2, i]
        for i in range(new_to.size):
            t = new_to[i]
            if t < 0:
                line[-t - 1], out.floats[c + 1, -t - 1], out.floats[c + 2, -t - 1] = (
                    taken[i],
                    means[i],
                    squares[i],
                )
            else:
                line[t], out.floats[c + 1, t], out.floats[c + 2, t] = join_moments(
                    line[t],
                    out.floats[c + 1, t],
                    out.floats[c + 2, t],
                    taken[i],
                    means[i],
                    squares[i],
                )
    else:
        for i in range(new_to.size):
            t = new_to[i]
            if t < 0:
                line[-t - 1] = taken[i]
            elif op == ADD:
                line[t] += taken[i]
            elif op == MIN:
                line[t] = min_nan_last(line[t], taken[i])
            else:
                line[t] = max_nan_last(line[t], taken[i])
