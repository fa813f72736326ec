"""Panes close one after the other: the tails reach up to the pane, its own row is filled, the heads
take it in, and the windows that end with it are answered.

Why tails and heads are enough is told in `ring.py`.
"""

from __future__ import annotations

from headrace.families.windows.rings.answer_kernels import answer_due, schedule
from headrace.families.windows.rings.arrays import (
    ENTERED,
    LAST,
    NEXT,
    SHAPE,
    USED,
    Columns,
    Ints,
    Ops,
    Rows,
)
from headrace.families.windows.rings.join_kernels import (
    clear,
    clear_rows,
    join_floats,
    join_ints,
    merge,
)
from headrace.kernel_cache import numba


@numba.njit(cache=True, nogil=True)
def lowest_bit(b: int, levels: int) -> int:
    """Trailing zeros of b, at most `levels`."""
    k = 0
    while k < levels and (b >> k) & 1 == 0:
        k += 1
    return k


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
