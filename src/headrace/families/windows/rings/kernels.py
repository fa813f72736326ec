"""The compiled half of `rings/ring.py`: what a pane, a join and an answer cost, in loops over
groups.

All functions live in one file because numba's cache is keyed by the file of the outer function
only. Each is compiled for one signature: int64 and float64 arrays, contiguous, `[row, column,
group]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]

ADD, MIN, MAX, MOMENTS_N, MOMENTS_MEAN, MOMENTS_M2 = range(6)

# Cells of a ring's clock: next pane to close, last closed pane that holds rows, whether the next
# pane is already in the ring and only its answers are missing, partials used, answers written,
# blocks written, and the shape whose answers come next.
NEXT, LAST, ENTERED, USED, WRITTEN, BLOCKS, SHAPE = range(7)

INT_MAX = np.iinfo(np.int64).max
INT_MIN = np.iinfo(np.int64).min


class Ops(NamedTuple):
    """The op code of each column."""

    ints: Ints
    floats: Ints


class Rows(NamedTuple):
    """`[row, column, group]`; a row that is not live is empty: all identities.

    There is room for more groups than there are.  It is never touched, so that it takes no
    memory."""

    ints: Ints
    floats: Floats
    live: Flags


class Columns(NamedTuple):
    """Partials or answers as columns `[column, item]`.  Answers leave `pane` empty."""

    pane: Ints
    group: Ints32
    ints: Ints
    floats: Floats


@numba.njit(cache=True, nogil=True)
def join_ints(ops: Ints, left: Ints, right: Ints, out: Ints, groups: int) -> None:
    """out = left ⊕ right, column by column; `out` may be `left` or `right`."""
    for c in range(ops.size):
        if ops[c] == ADD:
            for g in range(groups):
                out[c, g] = left[c, g] + right[c, g]
        elif ops[c] == MIN:
            for g in range(groups):
                out[c, g] = min(left[c, g], right[c, g])
        else:
            for g in range(groups):
                out[c, g] = max(left[c, g], right[c, g])


@numba.njit(cache=True, nogil=True)
def min_nan_last(x: float, y: float) -> float:
    """Spark's order: NaN is above every number.  NaN is also the identity."""
    if np.isnan(x):
        return y
    return y if y < x else x


@numba.njit(cache=True, nogil=True)
def max_nan_last(x: float, y: float) -> float:
    if np.isnan(x):
        return x
    return x if y <= x else y


@numba.njit(cache=True, nogil=True)
def join_moments(
    n1: float, mean1: float, m21: float, n2: float, mean2: float, m22: float
) -> tuple[float, float, float]:
    """Chan, Golub & LeVeque, in the order of operations of Spark's CentralMomentAgg; n = 0 is
    neutral to the bit."""
    if n2 == 0.0:
        return n1, mean1, m21
    if n1 == 0.0:
        return n2, mean2, m22
    n = n1 + n2
    delta = mean2 - mean1
    share = delta / n
    return n, mean1 + share * n2, m21 + m22 + delta * share * n1 * n2


@numba.njit(cache=True, nogil=True)
def join_floats(ops: Ints, left: Floats, right: Floats, out: Floats, groups: int) -> None:
    for c in range(ops.size):
        if ops[c] == ADD:
            for g in range(groups):
                out[c, g] = left[c, g] + right[c, g]
        elif ops[c] == MIN:
            for g in range(groups):
                out[c, g] = min_nan_last(left[c, g], right[c, g])
        elif ops[c] == MAX:
            for g in range(groups):
                out[c, g] = max_nan_last(left[c, g], right[c, g])
        elif ops[c] == MOMENTS_N:
            for g in range(groups):
                out[c, g], out[c + 1, g], out[c + 2, g] = join_moments(
                    left[c, g],
                    left[c + 1, g],
                    left[c + 2, g],
                    right[c, g],
                    right[c + 1, g],
                    right[c + 2, g],
                )


@numba.njit(cache=True, nogil=True)
def clear(ops: Ops, ints: Ints, floats: Floats, start: int, stop: int) -> None:
    """Make these groups of a row empty: every column its identity."""
    for c in range(ops.ints.size):
        ints[c, start:stop] = (
            0 if ops.ints[c] == ADD else (INT_MAX if ops.ints[c] == MIN else INT_MIN)
        )
    for c in range(ops.floats.size):
        floats[c, start:stop] = (
            np.nan if ops.floats[c] == MIN else (-np.inf if ops.floats[c] == MAX else 0.0)
        )


@numba.njit(cache=True, nogil=True)
def clear_groups(ops: Ops, rows: Rows, start: int, stop: int) -> None:
    """Make new groups empty in all rows."""
    for row in range(rows.live.size):
        clear(ops, rows.ints[row], rows.floats[row], start, stop)


@numba.njit(cache=True, nogil=True)
def clear_rows(ops: Ops, rows: Rows, groups: int) -> None:
    clear_groups(ops, rows, 0, groups)
    rows.live[:] = 0


@numba.njit(cache=True, nogil=True)
def keep_groups(rows: Rows, kept: Ints) -> None:
    """Group g becomes what `kept[g]` was."""
    for row in range(rows.live.size):
        for c in range(rows.ints.shape[1]):
            rows.ints[row, c, : kept.size] = rows.ints[row, c][kept]
        for c in range(rows.floats.shape[1]):
            rows.floats[row, c, : kept.size] = rows.floats[row, c][kept]


@numba.njit(cache=True, nogil=True)
def merge(
    ops: Ops, ints: Ints, floats: Floats, g: int, parts: Columns, p: int, places: Ops
) -> None:
    """Join partial p into group g of a row; column c of the row is at `places` among those of the
    partials."""
    for c in range(ops.ints.size):
        new = parts.ints[places.ints[c], p]
        if ops.ints[c] == ADD:
            ints[c, g] += new
        elif ops.ints[c] == MIN:
            ints[c, g] = min(ints[c, g], new)
        else:
            ints[c, g] = max(ints[c, g], new)
    for c in range(ops.floats.size):
        x = parts.floats[places.floats[c], p]
        if ops.floats[c] == ADD:
            floats[c, g] += x
        elif ops.floats[c] == MIN:
            floats[c, g] = min_nan_last(floats[c, g], x)
        elif ops.floats[c] == MAX:
            floats[c, g] = max_nan_last(floats[c, g], x)
        elif ops.floats[c] == MOMENTS_N:
            mean, m2 = parts.floats[places.floats[c + 1], p], parts.floats[places.floats[c + 2], p]
            floats[c, g], floats[c + 1, g], floats[c + 2, g] = join_moments(
                floats[c, g], floats[c + 1, g], floats[c + 2, g], x, mean, m2
            )


@numba.njit(cache=True, nogil=True)
def lowest_bit(b: int, levels: int) -> int:
    """Trailing zeros of b, at most `levels`."""
    k = 0
    while k < levels and (b >> k) & 1 == 0:
        k += 1
    return k


@numba.njit(cache=True, nogil=True)
def highest_split(a: int, b: int, levels: int) -> int:
    """The highest bit in which a < b differ, at most `levels`."""
    level = 0
    while level < levels and (a >> (level + 1)) != (b >> (level + 1)):
        level += 1
    return level


@numba.njit(cache=True, nogil=True)
def lengthen(b: int, k: int, ops: Ops, tail: Rows, groups: int) -> None:
    """Before pane b = …·2^k enters: the tails of the last 2^k panes now reach up to b."""
    length = tail.live.size
    for j in range(k):
        mid = (b - (1 << j)) % length
        if tail.live[mid] == 0:
            continue
        for a in range(max(b - (2 << j), b - length + 1), b - (1 << j)):
            t = a % length
            join_ints(ops.ints, tail.ints[t], tail.ints[mid], tail.ints[t], groups)
            join_floats(ops.floats, tail.floats[t], tail.floats[mid], tail.floats[t], groups)
            tail.live[t] = 1


@numba.njit(cache=True, nogil=True)
def extend(b: int, k: int, ops: Ops, tail: Rows, head: Rows, groups: int) -> None:
    """Pane b joins the heads: that of level k starts anew with it, those of higher set bits go
    on."""
    levels = head.live.size - 1
    t = b % tail.live.size
    head.ints[k, :, :groups] = tail.ints[t, :, :groups]
    head.floats[k, :, :groups] = tail.floats[t, :, :groups]
    head.live[k] = tail.live[t]
    if tail.live[t] == 0:
        return
    for j in range(k + 1, levels + 1):
        if j == levels or (b >> j) & 1:
            join_ints(ops.ints, head.ints[j], tail.ints[t], head.ints[j], groups)
            join_floats(ops.floats, head.floats[j], tail.floats[t], head.floats[j], groups)
            head.live[j] = 1


@numba.njit(cache=True, nogil=True)
def enter(
    b: int,
    clock: Ints,
    ops: Ops,
    places: Ops,
    tail: Rows,
    head: Rows,
    order: Ints,
    parts: Columns,
    groups: int,
) -> None:
    """Close pane b: lengthen the tails, fill its row from its partials, extend the heads."""
    k = lowest_bit(b, head.live.size - 1)
    lengthen(b, k, ops, tail, groups)
    t = b % tail.live.size
    if tail.live[t]:
        clear(ops, tail.ints[t], tail.floats[t], 0, groups)
        tail.live[t] = 0
    while clock[USED] < order.size and parts.pane[order[clock[USED]]] == b:
        p = order[clock[USED]]
        merge(ops, tail.ints[t], tail.floats[t], parts.group[p], parts, p, places)
        tail.live[t] = 1
        clock[LAST] = b
        clock[USED] += 1
    extend(b, k, ops, tail, head, groups)
    clock[ENTERED] = 1


@numba.njit(cache=True, nogil=True)
def schedule(at: int, spans: Ints, due: Ints) -> None:
    """due[i] = the first end ≥ at + 1 of a window of shape i that does not start before its first
    start."""
    for i in range(due.size):
        span, slide, offset, first = spans[0, i], spans[1, i], spans[2, i], spans[3, i]
        end = max(at + 1, first + span)
        due[i] = end + (offset + span - end) % slide


@numba.njit(cache=True, nogil=True)
def count_groups(a: int, b: int, tail: Rows, head: Rows, groups: int) -> int:
    """How many groups hold rows in panes [a, b]."""
    t = a % tail.live.size
    level = highest_split(a, b, head.live.size - 1)
    count = 0
    if a != b and head.live[level]:
        for g in range(groups):
            count += tail.ints[t, 0, g] + head.ints[level, 0, g] > 0
    elif tail.live[t]:
        for g in range(groups):
            count += tail.ints[t, 0, g] > 0
    return count


@numba.njit(cache=True, nogil=True)
def answer(
    a: int, b: int, at: int, ops: Ops, tail: Rows, head: Rows, groups: int, row: Rows, out: Columns
) -> int:
    """Write the answers of panes [a, b] from position `at` on; returns the position after them."""
    t = a % tail.live.size
    level = highest_split(a, b, head.live.size - 1)
    ints, floats = row.ints[0], row.floats[0]
    if a == b or head.live[level] == 0:
        ints, floats = tail.ints[t], tail.floats[t]
    elif tail.live[t] == 0:
        ints, floats = head.ints[level], head.floats[level]
    else:
        join_ints(ops.ints, tail.ints[t], head.ints[level], ints, groups)
        join_floats(ops.floats, tail.floats[t], head.floats[level], floats, groups)
    n = at
    for g in range(groups):
        if ints[0, g] > 0:
            out.group[n] = g
            n += 1
    for c in range(ops.ints.size):
        for i in range(at, n):
            out.ints[c, i] = ints[c, out.group[i]]
    for c in range(ops.floats.size):
        for i in range(at, n):
            out.floats[c, i] = floats[c, out.group[i]]
    return n


@numba.njit(cache=True, nogil=True)
def skip_emptiness(
    through: int,
    clock: Ints,
    ops: Ops,
    tail: Rows,
    head: Rows,
    order: Ints,
    parts: Columns,
    groups: int,
) -> bool:
    """If nothing in the ring can be part of an answer any more, go on at the next pane that holds
    rows."""
    if clock[NEXT] <= clock[LAST] + tail.live.size:
        return False
    # Every tail is empty; heads may hold panes up to LAST, but a window that used them would be
    # longer than the ring.
    clear_rows(ops, head, groups)
    ahead = through + 1
    if clock[USED] < order.size:
        ahead = min(ahead, parts.pane[order[clock[USED]]])
    behind = clock[NEXT]
    clock[NEXT] = ahead
    return bool(ahead > behind)


@numba.njit(cache=True, nogil=True)
def answer_due(
    clock: Ints,
    ops: Ops,
    tail: Rows,
    head: Rows,
    row: Rows,
    groups: int,
    spans: Ints,
    due: Ints,
    blocks: Ints,
    out: Columns,
) -> int:
    """The windows that end with the next pane and hold rows, from shape SHAPE on, as blocks (shape,
    end, answers).

    Stops at a window whose answers do not fit any more, and returns how many those are; 0 when all
    are written."""
    b = clock[NEXT]
    for i in range(clock[SHAPE], due.size):
        if due[i] != b + 1:
            continue
        a = b + 1 - spans[0, i]
        count = count_groups(a, b, tail, head, groups)
        if not count:
            continue
        if blocks.shape[1] == clock[BLOCKS] or out.group.size - clock[WRITTEN] < count:
            clock[SHAPE] = i
            return count
        at = clock[BLOCKS]
        blocks[0, at], blocks[1, at], blocks[2, at] = i, b + 1, count
        clock[BLOCKS] += 1
        clock[WRITTEN] = answer(a, b, clock[WRITTEN], ops, tail, head, groups, row, out)
    return 0


@numba.njit(cache=True, nogil=True)
def advance(
    through: int,
    clock: Ints,
    ops: Ops,
    places: Ops,
    tail: Rows,
    head: Rows,
    row: Rows,
    groups: int,
    order: Ints,
    parts: Columns,
    spans: Ints,
    due: Ints,
    blocks: Ints,
    out: Columns,
) -> int:
    """Close panes up to `through`.  Stop early, with how many answers the next window has, when
    there is no room."""
    schedule(clock[NEXT], spans, due)
    while clock[NEXT] <= through:
        if not clock[ENTERED]:
            if skip_emptiness(through, clock, ops, tail, head, order, parts, groups):
                schedule(clock[NEXT], spans, due)
                continue
            enter(clock[NEXT], clock, ops, places, tail, head, order, parts, groups)
        wanting = answer_due(clock, ops, tail, head, row, groups, spans, due, blocks, out)
        if wanting:
            return wanting
        b = clock[NEXT]
        for i in range(due.size):
            if due[i] == b + 1:
                due[i] += spans[1, i]
        clock[NEXT] = b + 1
        clock[ENTERED] = clock[SHAPE] = 0
    return 0


@numba.njit(cache=True, nogil=True)
def sort_blocks(blocks: Ints, shapes: int) -> tuple[Ints, Ints, Ints32, Ints]:
    """By shape, and within a shape as they come: where the answers of each shape begin, where those
    of each block go, and shape and end of each answer."""
    offsets = np.zeros(shapes + 1, np.int64)
    for i in range(blocks.shape[1]):
        offsets[blocks[0, i] + 1] += blocks[2, i]
    for i in range(shapes):
        offsets[i + 1] += offsets[i]
    free = offsets.copy()
    to = np.empty(blocks.shape[1], np.int64)
    shape, end = np.empty(offsets[shapes], np.int32), np.empty(offsets[shapes], np.int64)
    for i in range(blocks.shape[1]):
        to[i] = free[blocks[0, i]]
        free[blocks[0, i]] += blocks[2, i]
        shape[to[i] : free[blocks[0, i]]] = blocks[0, i]
        end[to[i] : free[blocks[0, i]]] = blocks[1, i]
    return offsets, to, shape, end


@numba.njit(cache=True, nogil=True)
def place(to: Ints, sizes: Ints, answers: Columns, out: Columns) -> None:
    """Copy consecutive blocks of `sizes` answers to the positions `to`."""
    at = 0
    for i in range(sizes.size):
        stop, begin, end = at + sizes[i], to[i], to[i] + sizes[i]
        out.group[begin:end] = answers.group[at:stop]
        for c in range(out.ints.shape[0]):
            out.ints[c, begin:end] = answers.ints[c, at:stop]
        for c in range(out.floats.shape[0]):
            out.floats[c, begin:end] = answers.floats[c, at:stop]
        at = stop
