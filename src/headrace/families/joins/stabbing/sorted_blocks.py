"""Intervals in order of their left end, some coming and some going, compiled.

A *sorted blocks* keeps them in blocks, each with the least right end in it, and the blocks in
order.  One more or one less moves half a block; a sweep over all of them passes a block in one step
where its least right end is all that matters.  Equal left ends are in order of their item, so that
every entry has one place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers

BLOCK = 512
"""Entries of a block at the most, where nothing else is asked for."""
USED, FREE = 0, 1
ITEM_MAX = np.iinfo(np.int32).max


class SortedBlocks(NamedTuple):
    """`order[:counts[USED]]` are the blocks in order, none of them empty; `free[:counts[FREE]]` the
    spare ones."""

    lo: Numbers
    hi: Numbers
    item: Ints32
    size: Ints
    least: Numbers
    order: Ints32
    free: Ints32
    counts: Ints


def new_sorted_blocks(kind: np.dtype[Any], blocks: int, block: int = BLOCK) -> SortedBlocks:
    """An empty one."""
    return SortedBlocks(
        np.empty((blocks, block), kind),
        np.empty((blocks, block), kind),
        np.empty((blocks, block), np.int32),
        np.zeros(blocks, np.int64),
        np.empty(blocks, kind),
        np.empty(blocks, np.int32),
        np.arange(blocks, dtype=np.int32)[::-1].copy(),
        np.array([0, blocks]),
    )


def with_room(sorted_blocks: SortedBlocks, entries: int) -> SortedBlocks:
    """The sorted blocks, or a larger copy: so many entries can be put, wherever they belong."""
    used, spare = sorted_blocks.counts.tolist()
    held, block = sorted_blocks.lo.shape
    needed = min(entries, used + entries // (block // 2) + 2)  # each may split a full block
    if spare >= needed:
        return sorted_blocks
    wider = new_sorted_blocks(sorted_blocks.lo.dtype, max(2 * held, held + needed), block)
    wider.lo[:held], wider.hi[:held], wider.item[:held] = (
        sorted_blocks.lo,
        sorted_blocks.hi,
        sorted_blocks.item,
    )
    wider.size[:held], wider.least[:held] = sorted_blocks.size, sorted_blocks.least
    wider.order[:used] = sorted_blocks.order[:used]
    added = wider.size.size - held
    wider.free[:spare] = sorted_blocks.free[:spare]
    wider.free[spare : spare + added] = np.arange(held, held + added)
    wider.counts[:] = used, spare + added
    return wider


def loaded(sorted_blocks: SortedBlocks, lo: Numbers, hi: Numbers, item: Ints32) -> SortedBlocks:
    """These entries, by left end and item, instead of all there were."""
    held, block = sorted_blocks.lo.shape
    blocks = -(-lo.size // fill_of(sorted_blocks)) + 1
    if held < blocks:
        sorted_blocks = new_sorted_blocks(sorted_blocks.lo.dtype, blocks + blocks // 4, block)
    load(sorted_blocks, lo, hi, item)
    return sorted_blocks


@numba.njit(cache=True, nogil=True)
def fill_of(sorted_blocks: SortedBlocks) -> int:
    """Entries of a block that others are still to come to."""
    block: int = sorted_blocks.lo.shape[1]
    return block * 3 // 4


@numba.njit(cache=True, nogil=True)
def load(sorted_blocks: SortedBlocks, lo: Numbers, hi: Numbers, item: Ints32) -> None:
    """Fill sorted blocks that were emptied; blocks are left with room for a few more."""
    blocks = sorted_blocks.size.size
    used, fill = 0, fill_of(sorted_blocks)
    for start in range(0, lo.size, fill):
        stop = min(start + fill, lo.size)
        for i in range(start, stop):
            (
                sorted_blocks.lo[used, i - start],
                sorted_blocks.hi[used, i - start],
                sorted_blocks.item[used, i - start],
            ) = (
                lo[i],
                hi[i],
                item[i],
            )
        sorted_blocks.size[used] = stop - start
        sorted_blocks.order[used] = used
        note_least(sorted_blocks, used)
        used += 1
    for spare in range(blocks - used):
        sorted_blocks.free[spare] = blocks - 1 - spare
    sorted_blocks.counts[USED], sorted_blocks.counts[FREE] = used, blocks - used


@numba.njit(cache=True, nogil=True)
def note_least(sorted_blocks: SortedBlocks, block: int) -> None:
    least = sorted_blocks.hi[block, 0]
    for i in range(1, sorted_blocks.size[block]):
        least = min(least, sorted_blocks.hi[block, i])
    sorted_blocks.least[block] = least


@numba.njit(cache=True, nogil=True)
def place_of(sorted_blocks: SortedBlocks, lo: Any, item: int) -> tuple[int, int]:
    """The rank of a block, and the first place in it that is not before (lo, item); of sorted
    blocks that is not empty."""
    low, high = 0, sorted_blocks.counts[USED]
    while high - low > 1:
        middle = (low + high) >> 1
        block = sorted_blocks.order[middle]
        first = sorted_blocks.lo[block, 0]
        if first < lo or (first == lo and sorted_blocks.item[block, 0] <= item):
            low = middle
        else:
            high = middle
    block = sorted_blocks.order[low]
    start, stop = 0, sorted_blocks.size[block]
    while start < stop:
        middle = (start + stop) >> 1
        here = sorted_blocks.lo[block, middle]
        if here < lo or (here == lo and sorted_blocks.item[block, middle] < item):
            start = middle + 1
        else:
            stop = middle
    return low, start


@numba.njit(cache=True, nogil=True)
def last_from(sorted_blocks: SortedBlocks, lo: Any) -> tuple[int, int]:
    """Block and place of the last entry whose left end is at most `lo`; -1 if there is none."""
    if sorted_blocks.counts[USED] == 0:
        return -1, -1
    rank, at = place_of(sorted_blocks, lo, ITEM_MAX)
    return (sorted_blocks.order[rank], at - 1) if at else (-1, -1)


@numba.njit(cache=True, nogil=True)
def open_block(sorted_blocks: SortedBlocks, rank: int) -> int:
    """An empty block at a rank."""
    counts, order = sorted_blocks.counts, sorted_blocks.order
    counts[FREE] -= 1
    block: int = sorted_blocks.free[counts[FREE]]
    for i in range(counts[USED], rank, -1):
        order[i] = order[i - 1]
    order[rank] = block
    counts[USED] += 1
    sorted_blocks.size[block] = 0
    return block


@numba.njit(cache=True, nogil=True)
def close_block(sorted_blocks: SortedBlocks, rank: int) -> None:
    counts, order = sorted_blocks.counts, sorted_blocks.order
    sorted_blocks.free[counts[FREE]] = order[rank]
    counts[FREE] += 1
    counts[USED] -= 1
    for i in range(rank, counts[USED]):
        order[i] = order[i + 1]


@numba.njit(cache=True, nogil=True)
def append_part(sorted_blocks: SortedBlocks, source: int, start: int, to: int) -> None:
    """Move entries of a block, from `start` on, to the end of another."""
    at = sorted_blocks.size[to]
    for i in range(start, sorted_blocks.size[source]):
        sorted_blocks.lo[to, at], sorted_blocks.hi[to, at] = (
            sorted_blocks.lo[source, i],
            sorted_blocks.hi[source, i],
        )
        sorted_blocks.item[to, at] = sorted_blocks.item[source, i]
        at += 1
    sorted_blocks.size[to], sorted_blocks.size[source] = at, start
    note_least(sorted_blocks, to)


@numba.njit(cache=True, nogil=True)
def put(sorted_blocks: SortedBlocks, lo: Any, hi: Any, item: int) -> None:
    """One more entry; there is room (`with_room`)."""
    if sorted_blocks.counts[USED] == 0:
        sorted_blocks.least[open_block(sorted_blocks, 0)] = hi
    rank, at = place_of(sorted_blocks, lo, item)
    block = sorted_blocks.order[rank]
    if sorted_blocks.size[block] == sorted_blocks.lo.shape[1]:
        half = sorted_blocks.lo.shape[1] // 2
        upper = open_block(sorted_blocks, rank + 1)
        append_part(sorted_blocks, block, half, upper)
        note_least(sorted_blocks, block)
        if at > half:
            block, at = upper, at - half
    los, his, items = sorted_blocks.lo[block], sorted_blocks.hi[block], sorted_blocks.item[block]
    for i in range(sorted_blocks.size[block], at, -1):
        los[i], his[i], items[i] = los[i - 1], his[i - 1], items[i - 1]
    los[at], his[at], items[at] = lo, hi, item
    sorted_blocks.size[block] += 1
    sorted_blocks.least[block] = min(sorted_blocks.least[block], hi)


@numba.njit(cache=True, nogil=True)
def drop(sorted_blocks: SortedBlocks, lo: Any, item: int) -> None:
    """One entry less; it must be there."""
    rank, at = place_of(sorted_blocks, lo, item)
    block = sorted_blocks.order[rank]
    los, his, items = sorted_blocks.lo[block], sorted_blocks.hi[block], sorted_blocks.item[block]
    assert at < sorted_blocks.size[block] and items[at] == item, "an entry that is not on the shelf"
    hi = his[at]
    left = sorted_blocks.size[block] - 1
    for i in range(at, left):
        los[i], his[i], items[i] = los[i + 1], his[i + 1], items[i + 1]
    sorted_blocks.size[block] = left
    if left == 0:
        close_block(sorted_blocks, rank)
        return
    if hi == sorted_blocks.least[block]:
        note_least(sorted_blocks, block)
    if left < sorted_blocks.lo.shape[1] // 4:
        merge(sorted_blocks, rank if rank + 1 < sorted_blocks.counts[USED] else rank - 1)


@numba.njit(cache=True, nogil=True)
def merge(sorted_blocks: SortedBlocks, rank: int) -> None:
    """A block and the next become one if that is not too full."""
    if rank < 0 or rank + 1 >= sorted_blocks.counts[USED]:
        return
    block, following = sorted_blocks.order[rank], sorted_blocks.order[rank + 1]
    if sorted_blocks.size[block] + sorted_blocks.size[following] <= fill_of(sorted_blocks):
        append_part(sorted_blocks, following, 0, block)
        close_block(sorted_blocks, rank + 1)
