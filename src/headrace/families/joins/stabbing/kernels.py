"""Stabbing partitions, compiled: the canonical sweep, and joining and leaving groups.

Members are on sorted blocks by left end (`rows`), common intersections on another (`ranges`): they
never overlap each other, so the one that a new interval overlaps is found by halving.  A rebuild
writes groups, not members: the canonical groups are runs of the members by left end, and whoever
has not joined since belongs to the run that its left end is in.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, sections 4.2.1 and 4.2.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.families.joins.stabbing.sorted_blocks import (
    FREE,
    USED,
    SortedBlocks,
    append_part,
    drop,
    fill_of,
    last_from,
    note_least,
    put,
)
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers

BASE, MADE, LIVE, LOST, LARGEST, BUILDS = range(6)
"""Groups of the last rebuild, those and later ones, those with members; witnesses lost; no group
has more members; rebuilds so far."""


class Groups(NamedTuple):
    """By number: common intersection, members, and of those of the last rebuild the first left end
    and a witness.

    The witness of a canonical group is its member that ends first.  Witnesses never overlap each
    other, so no partition has fewer groups than there are witnesses; -1 once it has left."""

    lo: Numbers
    hi: Numbers
    size: Ints
    first: Numbers
    witness: Ints32
    counts: Ints


class Joined(NamedTuple):
    """By slot: the group that it joined, if that was since rebuild number `since`."""

    group: Ints32
    since: Ints


@numba.njit(cache=True, nogil=True)
def sweep(
    lo: Numbers, hi: Numbers, order: Ints, group: Ints32, common_lo: Numbers, common_hi: Numbers
) -> int:
    """Canonical groups of the intervals in `order` of their left ends; how many."""
    last = -1
    for i in order:
        if last < 0 or lo[i] > common_hi[last]:
            last += 1
            common_hi[last] = hi[i]
        common_lo[last] = lo[i]
        common_hi[last] = min(common_hi[last], hi[i])
        group[i] = last
    return last + 1


@numba.njit(cache=True, nogil=True)
def regroup(rows: SortedBlocks, groups: Groups) -> int:
    """The canonical groups of what is in the sorted blocks; how many.

    A block without a cut is passed in one step: its last left end is at most the least right end so
    far, its own included.  So this takes time for the blocks and for the members of blocks with
    cuts."""
    last, source = -1, -1
    for rank in range(rows.counts[USED]):
        block = rows.order[rank]
        size, least = rows.size[block], rows.least[block]
        end = rows.lo[block, size - 1]
        if last >= 0 and end <= min(groups.hi[last], least):
            groups.lo[last] = end
            groups.size[last] += size
            if least < groups.hi[last]:
                groups.hi[last], source = least, block
            continue
        for i in range(size):
            lo, hi = rows.lo[block, i], rows.hi[block, i]
            if last < 0 or lo > groups.hi[last]:
                if source >= 0:
                    groups.witness[last] = ending_at(rows, source, groups.hi[last])
                last, source = last + 1, -1
                groups.first[last], groups.hi[last], groups.size[last] = lo, hi, 0
                groups.witness[last] = rows.item[block, i]
            elif hi < groups.hi[last]:
                groups.hi[last], source = hi, -1
                groups.witness[last] = rows.item[block, i]
            groups.lo[last] = lo
            groups.size[last] += 1
    if source >= 0:
        groups.witness[last] = ending_at(rows, source, groups.hi[last])
    begin(groups, last + 1)
    return last + 1


@numba.njit(cache=True, nogil=True)
def ending_at(rows: SortedBlocks, block: int, hi: Any) -> int:
    at = 0
    while rows.hi[block, at] != hi:
        at += 1
    slot: int = rows.item[block, at]
    return slot


@numba.njit(cache=True, nogil=True)
def begin(groups: Groups, made: int) -> None:
    counts = groups.counts
    counts[BASE] = counts[MADE] = counts[LIVE] = made
    counts[LOST] = counts[LARGEST] = 0
    counts[BUILDS] += 1
    for g in range(made):
        counts[LARGEST] = max(counts[LARGEST], groups.size[g])


@numba.njit(cache=True, nogil=True)
def group_at(groups: Groups, joined: Joined, slot: int, lo: Any) -> int:
    """The group of a member."""
    if joined.since[slot] == groups.counts[BUILDS]:
        own: int = joined.group[slot]
        return own
    low, high = 0, groups.counts[BASE]
    while high - low > 1:
        middle = (low + high) >> 1
        if groups.first[middle] <= lo:
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def join(
    rows: SortedBlocks,
    ranges: SortedBlocks,
    groups: Groups,
    joined: Joined,
    slot: int,
    lo: Any,
    hi: Any,
) -> None:
    """One more member: of the last group whose common intersection it overlaps, or of one of its
    own."""
    put(rows, lo, hi, slot)
    counts = groups.counts
    block, at = last_from(ranges, hi)
    if block >= 0 and ranges.hi[block, at] >= lo:
        group = ranges.item[block, at]
        groups.lo[group] = ranges.lo[block, at] = max(groups.lo[group], lo)
        groups.hi[group] = min(groups.hi[group], hi)
        ranges.hi[block, at] = groups.hi[group]
        ranges.least[block] = min(ranges.least[block], groups.hi[group])
        groups.size[group] += 1
    else:
        group = counts[MADE]
        counts[MADE] += 1
        counts[LIVE] += 1
        groups.lo[group], groups.hi[group], groups.size[group] = lo, hi, 1
        put(ranges, lo, hi, group)
    counts[LARGEST] = max(counts[LARGEST], groups.size[group])
    joined.group[slot], joined.since[slot] = group, counts[BUILDS]


@numba.njit(cache=True, nogil=True)
def leave(
    rows: SortedBlocks, ranges: SortedBlocks, groups: Groups, joined: Joined, slot: int, lo: Any
) -> None:
    """One member less.  The common intersection of the others may be larger now; what is kept is
    still common."""
    drop(rows, lo, slot)
    counts = groups.counts
    group = group_at(groups, joined, slot, lo)
    groups.size[group] -= 1
    if groups.size[group] == 0:
        counts[LIVE] -= 1
        drop(ranges, groups.lo[group], group)
    if group < counts[BASE] and groups.witness[group] == slot:
        groups.witness[group] = -1
        counts[LOST] += 1


@numba.njit(cache=True, nogil=True)
def join_many(
    rows: SortedBlocks,
    ranges: SortedBlocks,
    groups: Groups,
    joined: Joined,
    slots: Ints,
    lo: Numbers,
    hi: Numbers,
) -> None:
    """One after the other; `lo` and `hi` are by slot."""
    for slot in slots:
        join(rows, ranges, groups, joined, slot, lo[slot], hi[slot])


@numba.njit(cache=True, nogil=True)
def merged(old: Ints, new: Ints, lo: Numbers) -> Ints:
    """Two lists of slots, each by left end and slot, as one."""
    whole = np.empty(old.size + new.size, np.int64)
    i, j = 0, 0
    for n in range(whole.size):
        is_old = j == new.size
        if i < old.size and j < new.size:
            x, y = lo[old[i]], lo[new[j]]
            is_old = x < y or (x == y and old[i] < new[j])
        if is_old:
            whole[n] = old[i]
            i += 1
        else:
            whole[n] = new[j]
            j += 1
    return whole


@numba.njit(cache=True, nogil=True)
def sift(
    rows: SortedBlocks,
    groups: Groups,
    joined: Joined,
    is_taken: NDArray[np.bool_],
    slots: Ints,
    group: Ints,
) -> None:
    """Take the members of some groups out of the sorted blocks, and tell who was where; blocks are
    kept full enough."""
    kept, base, n = 0, 0, 0
    for rank in range(rows.counts[USED]):
        block = rows.order[rank]
        left = 0
        for i in range(rows.size[block]):
            slot = rows.item[block, i]
            while base + 1 < groups.counts[BASE] and groups.first[base + 1] <= rows.lo[block, i]:
                base += 1
            own = joined.group[slot] if joined.since[slot] == groups.counts[BUILDS] else base
            if is_taken[own]:
                slots[n], group[n] = slot, own
                n += 1
            else:
                rows.lo[block, left], rows.hi[block, left] = rows.lo[block, i], rows.hi[block, i]
                rows.item[block, left] = slot
                left += 1
        is_less = left < rows.size[block]
        rows.size[block] = left
        if left and (kept == 0 or rows.size[rows.order[kept - 1]] + left > fill_of(rows)):
            if is_less:
                note_least(rows, block)
            rows.order[kept] = block
            kept += 1
            continue
        if left:
            append_part(rows, block, 0, rows.order[kept - 1])
        rows.free[rows.counts[FREE]] = block
        rows.counts[FREE] += 1
    rows.counts[USED] = kept


@numba.njit(cache=True, nogil=True)
def dissolve(ranges: SortedBlocks, groups: Groups, gone: Ints) -> None:
    """Groups whose members have all been taken."""
    counts = groups.counts
    for group in gone:
        drop(ranges, groups.lo[group], group)
        groups.size[group] = 0
        if group < counts[BASE] and groups.witness[group] >= 0:
            groups.witness[group] = -1
            counts[LOST] += 1
    counts[LIVE] -= gone.size
