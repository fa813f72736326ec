"""Intervals in order of their left end, some coming and some going, compiled.

A *shelf* keeps them in blocks, each with the least right end in it, and the blocks in order.  One
more or one less moves half a block; a sweep over all of them passes a block in one step where its
least right end is all that matters.  Equal left ends are in order of their item, so that every
entry has one place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from headrace.families.joins.arrays import Ints, Ints32, Numbers

BLOCK = 512
"""Entries of a block at the most, where nothing else is asked for."""
USED, FREE = 0, 1
ITEM_MAX = np.iinfo(np.int32).max


class Shelf(NamedTuple):
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


def new_shelf(kind: np.dtype[Any], blocks: int, block: int = BLOCK) -> Shelf:
    """An empty one."""
    return Shelf(
        np.empty((blocks, block), kind),
        np.empty((blocks, block), kind),
        np.empty((blocks, block), np.int32),
        np.zeros(blocks, np.int64),
        np.empty(blocks, kind),
        np.empty(blocks, np.int32),
        np.arange(blocks, dtype=np.int32)[::-1].copy(),
        np.array([0, blocks]),
    )


def with_room(shelf: Shelf, entries: int) -> Shelf:
    """The shelf, or a larger copy: so many entries can be put, wherever they belong."""
    used, spare = shelf.counts.tolist()
    held, block = shelf.lo.shape
    needed = min(entries, used + entries // (block // 2) + 2)  # each may split a full block
    if spare >= needed:
        return shelf
    wider = new_shelf(shelf.lo.dtype, max(2 * held, held + needed), block)
    wider.lo[:held], wider.hi[:held], wider.item[:held] = shelf.lo, shelf.hi, shelf.item
    wider.size[:held], wider.least[:held] = shelf.size, shelf.least
    wider.order[:used] = shelf.order[:used]
    added = wider.size.size - held
    wider.free[:spare] = shelf.free[:spare]
    wider.free[spare : spare + added] = np.arange(held, held + added)
    wider.counts[:] = used, spare + added
    return wider


def loaded(shelf: Shelf, lo: Numbers, hi: Numbers, item: Ints32) -> Shelf:
    """These entries, by left end and item, instead of all there were."""
    held, block = shelf.lo.shape
    blocks = -(-lo.size // fill_of(shelf)) + 1
    if held < blocks:
        shelf = new_shelf(shelf.lo.dtype, blocks + blocks // 4, block)
    load(shelf, lo, hi, item)
    return shelf


@numba.njit(cache=True, nogil=True)
def fill_of(shelf: Shelf) -> int:
    """Entries of a block that others are still to come to."""
    block: int = shelf.lo.shape[1]
    return block * 3 // 4


@numba.njit(cache=True, nogil=True)
def load(shelf: Shelf, lo: Numbers, hi: Numbers, item: Ints32) -> None:
    """Fill an emptied shelf; blocks are left with room for a few more."""
    blocks = shelf.size.size
    used, fill = 0, fill_of(shelf)
    for start in range(0, lo.size, fill):
        stop = min(start + fill, lo.size)
        for i in range(start, stop):
            shelf.lo[used, i - start], shelf.hi[used, i - start], shelf.item[used, i - start] = (
                lo[i],
                hi[i],
                item[i],
            )
        shelf.size[used] = stop - start
        shelf.order[used] = used
        note_least(shelf, used)
        used += 1
    for spare in range(blocks - used):
        shelf.free[spare] = blocks - 1 - spare
    shelf.counts[USED], shelf.counts[FREE] = used, blocks - used


@numba.njit(cache=True, nogil=True)
def note_least(shelf: Shelf, block: int) -> None:
    least = shelf.hi[block, 0]
    for i in range(1, shelf.size[block]):
        least = min(least, shelf.hi[block, i])
    shelf.least[block] = least


@numba.njit(cache=True, nogil=True)
def place_of(shelf: Shelf, lo: Any, item: int) -> tuple[int, int]:
    """The rank of a block, and the first place in it that is not before (lo, item); of a shelf that
    is not empty."""
    low, high = 0, shelf.counts[USED]
    while high - low > 1:
        middle = (low + high) >> 1
        block = shelf.order[middle]
        first = shelf.lo[block, 0]
        if first < lo or (first == lo and shelf.item[block, 0] <= item):
            low = middle
        else:
            high = middle
    block = shelf.order[low]
    start, stop = 0, shelf.size[block]
    while start < stop:
        middle = (start + stop) >> 1
        here = shelf.lo[block, middle]
        if here < lo or (here == lo and shelf.item[block, middle] < item):
            start = middle + 1
        else:
            stop = middle
    return low, start


@numba.njit(cache=True, nogil=True)
def last_from(shelf: Shelf, lo: Any) -> tuple[int, int]:
    """Block and place of the last entry whose left end is at most `lo`; -1 if there is none."""
    if shelf.counts[USED] == 0:
        return -1, -1
    rank, at = place_of(shelf, lo, ITEM_MAX)
    return (shelf.order[rank], at - 1) if at else (-1, -1)


@numba.njit(cache=True, nogil=True)
def open_block(shelf: Shelf, rank: int) -> int:
    """An empty block at a rank."""
    counts, order = shelf.counts, shelf.order
    counts[FREE] -= 1
    block: int = shelf.free[counts[FREE]]
    for i in range(counts[USED], rank, -1):
        order[i] = order[i - 1]
    order[rank] = block
    counts[USED] += 1
    shelf.size[block] = 0
    return block


@numba.njit(cache=True, nogil=True)
def close_block(shelf: Shelf, rank: int) -> None:
    counts, order = shelf.counts, shelf.order
    shelf.free[counts[FREE]] = order[rank]
    counts[FREE] += 1
    counts[USED] -= 1
    for i in range(rank, counts[USED]):
        order[i] = order[i + 1]


@numba.njit(cache=True, nogil=True)
def append_part(shelf: Shelf, source: int, start: int, to: int) -> None:
    """Move entries of a block, from `start` on, to the end of another."""
    at = shelf.size[to]
    for i in range(start, shelf.size[source]):
        shelf.lo[to, at], shelf.hi[to, at] = shelf.lo[source, i], shelf.hi[source, i]
        shelf.item[to, at] = shelf.item[source, i]
        at += 1
    shelf.size[to], shelf.size[source] = at, start
    note_least(shelf, to)


@numba.njit(cache=True, nogil=True)
def put(shelf: Shelf, lo: Any, hi: Any, item: int) -> None:
    """One more entry; there is room (`with_room`)."""
    if shelf.counts[USED] == 0:
        shelf.least[open_block(shelf, 0)] = hi
    rank, at = place_of(shelf, lo, item)
    block = shelf.order[rank]
    if shelf.size[block] == shelf.lo.shape[1]:
        half = shelf.lo.shape[1] // 2
        upper = open_block(shelf, rank + 1)
        append_part(shelf, block, half, upper)
        note_least(shelf, block)
        if at > half:
            block, at = upper, at - half
    los, his, items = shelf.lo[block], shelf.hi[block], shelf.item[block]
    for i in range(shelf.size[block], at, -1):
        los[i], his[i], items[i] = los[i - 1], his[i - 1], items[i - 1]
    los[at], his[at], items[at] = lo, hi, item
    shelf.size[block] += 1
    shelf.least[block] = min(shelf.least[block], hi)


@numba.njit(cache=True, nogil=True)
def drop(shelf: Shelf, lo: Any, item: int) -> None:
    """One entry less; it must be there."""
    rank, at = place_of(shelf, lo, item)
    block = shelf.order[rank]
    los, his, items = shelf.lo[block], shelf.hi[block], shelf.item[block]
    assert at < shelf.size[block] and items[at] == item, "an entry that is not on the shelf"
    hi = his[at]
    left = shelf.size[block] - 1
    for i in range(at, left):
        los[i], his[i], items[i] = los[i + 1], his[i + 1], items[i + 1]
    shelf.size[block] = left
    if left == 0:
        close_block(shelf, rank)
        return
    if hi == shelf.least[block]:
        note_least(shelf, block)
    if left < shelf.lo.shape[1] // 4:
        merge(shelf, rank if rank + 1 < shelf.counts[USED] else rank - 1)


@numba.njit(cache=True, nogil=True)
def merge(shelf: Shelf, rank: int) -> None:
    """A block and the next become one if that is not too full."""
    if rank < 0 or rank + 1 >= shelf.counts[USED]:
        return
    block, following = shelf.order[rank], shelf.order[rank + 1]
    if shelf.size[block] + shelf.size[following] <= fill_of(shelf):
        append_part(shelf, following, 0, block)
        close_block(shelf, rank + 1)
