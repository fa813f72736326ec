"""Windows that end with a pane are answered: one tail joined with one head, group by group.

Answers come in blocks, one of each window: at first as the windows end, then sorted by shape.
"""

from __future__ import annotations

import numpy as np

from headrace.families.windows.rings.arrays import (
    BLOCKS,
    NEXT,
    SHAPE,
    WRITTEN,
    Columns,
    Ints,
    Ints32,
    Ops,
    Rows,
)
from headrace.families.windows.rings.join_kernels import join_floats, join_ints
from headrace.kernel_cache import numba


@numba.njit(cache=True, nogil=True)
def schedule(at: int, spans: Ints, due: Ints) -> None:
    """due[i] = the first end ≥ at + 1 of a window of shape i that does not start before its first
    start."""
    for i in range(due.size):
        span, slide, offset, first = spans[0, i], spans[1, i], spans[2, i], spans[3, i]
        end = max(at + 1, first + span)
        due[i] = end + (offset + span - end) % slide


@numba.njit(cache=True, nogil=True)
def highest_split(a: int, b: int, levels: int) -> int:
    """The highest bit in which a < b differ, at most `levels`."""
    level = 0
    while level < levels and (a >> (level + 1)) != (b >> (level + 1)):
        level += 1
    return level


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
