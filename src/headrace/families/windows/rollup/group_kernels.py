"""Keys → dense numbers, in order of appearance: open hash tables over arrays, compiled.

A table is two arrays as long as a power of two and at most half full: the key at each place, and
its number, or NOTHING where the place is free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

NOTHING = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(cache=True, nogil=True)
def place_of(key: int, mask: int) -> int:
    mixed = np.uint64(key) * _MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))  # type: ignore[return-value]


@numba.njit(cache=True, nogil=True)
def number_whole(
    wanted: Ints, keys: Ints, numbers: Ints32, size: int, found: Ints, firsts: Ints
) -> int:
    """Fills `found` with the number of each key, adding the new; their rows go to `firsts`.  The
    new size."""
    mask = keys.size - 1
    before = size
    for row in range(wanted.size):
        key = wanted[row]
        place = place_of(key, mask)
        while numbers[place] != NOTHING and keys[place] != key:
            place = (place + 1) & mask
        if numbers[place] == NOTHING:
            keys[place] = key
            numbers[place] = size
            firsts[size - before] = row
            size += 1
        found[row] = numbers[place]
    return size


@numba.njit(cache=True, nogil=True)
def number_text(
    starts: Ints,
    text: Bytes,
    keys: Ints,
    numbers: Ints32,
    size: int,
    found: Ints,
    known_starts: Ints,
    known_text: Bytes,
) -> int:
    """The same for pieces of text, told apart by their bytes; new ones are copied to the known,
    which have room."""
    mask = keys.size - 1
    for row in range(starts.size - 1):
        start, length = starts[row], starts[row + 1] - starts[row]
        key = hash_of(text, start, length)
        place = place_of(key, mask)
        while numbers[place] != NOTHING and not (
            keys[place] == key
            and is_same(text, start, length, known_starts, known_text, numbers[place])
        ):
            place = (place + 1) & mask
        if numbers[place] == NOTHING:
            keys[place] = key
            numbers[place] = size
            at = known_starts[size]
            known_text[at : at + length] = text[start : start + length]
            size += 1
            known_starts[size] = at + length
        found[row] = numbers[place]
    return size


@numba.njit(cache=True, nogil=True)
def hash_of(text: Bytes, start: int, length: int) -> int:
    """The 64-bit FNV-1a hash of a text."""
    found = np.uint64(0xCBF29CE484222325)
    for i in range(start, start + length):
        found = (found ^ np.uint64(text[i])) * np.uint64(0x100000001B3)
    return np.int64(found)  # type: ignore[return-value]


@numba.njit(cache=True, nogil=True)
def is_same(
    text: Bytes, start: int, length: int, known_starts: Ints, known_text: Bytes, number: int
) -> bool:
    at = known_starts[number]
    if known_starts[number + 1] - at != length:
        return False
    for i in range(length):  # noqa: SIM110 - compiled
        if text[start + i] != known_text[at + i]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def move(keys: Ints, numbers: Ints32, to_keys: Ints, to_numbers: Ints32) -> None:
    """Everything of a table into an empty, larger one."""
    mask = to_keys.size - 1
    for i in range(keys.size):
        if numbers[i] != NOTHING:
            place = place_of(keys[i], mask)
            while to_numbers[place] != NOTHING:
                place = (place + 1) & mask
            to_keys[place] = keys[i]
            to_numbers[place] = numbers[i]
