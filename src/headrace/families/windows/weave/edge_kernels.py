"""The compiled half of `edge_points.py` and `edge_union.py`: which times lie in which residue
classes.

Classes come by modulus and residue: those of modulus `moduli[d]` have the residues from `starts[d]`
to `starts[d + 1]`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]

_ONE = np.uint64(1)


@numba.njit(cache=True, nogil=True, inline="always")
def find(residues: Ints, low: int, high: int, rest: int) -> int:
    """Where `rest` is between low and high, or -1."""
    while low < high:
        middle = (low + high) >> 1
        if residues[middle] < rest:
            low = middle + 1
        elif residues[middle] > rest:
            high = middle
        else:
            return middle
    return -1


@numba.njit(cache=True, nogil=True)
def count_met(times: Ints, moduli: Ints, starts: Ints, residues: Ints) -> Ints:
    """In how many classes each time is."""
    met = np.zeros(times.size, np.int64)
    for d in range(moduli.size):
        for n in range(times.size):
            met[n] += find(residues, starts[d], starts[d + 1], times[n] % moduli[d]) >= 0
    return met


@numba.njit(cache=True, nogil=True)
def meet(times: Ints, moduli: Ints, starts: Ints, residues: Ints) -> tuple[Ints, Ints]:
    """All pairs of a time and a class it is in, by time and then by modulus."""
    found, size = 0, 4 * times.size + 64
    which, classes = np.empty(size, np.int64), np.empty(size, np.int64)
    for n in range(times.size):
        if found + moduli.size > size:
            size = 2 * size + moduli.size
            more_which, more_classes = np.empty(size, np.int64), np.empty(size, np.int64)
            more_which[:found], more_classes[:found] = which[:found], classes[:found]
            which, classes = more_which, more_classes
        for d in range(moduli.size):
            at = find(residues, starts[d], starts[d + 1], times[n] % moduli[d])
            if at >= 0:
                which[found], classes[found] = n, at
                found += 1
    return which[:found], classes[:found]


@numba.njit(cache=True, nogil=True)
def sign_times(residues: Ints, moduli: Ints, signs: Words, period: int) -> Words:
    """For each time of the period the sum of the signs of its classes; 0 for a time in none."""
    found = np.zeros(period, np.uint64)
    for c in range(residues.size):
        for x in range(residues[c], period, moduli[c]):
            found[x] += signs[c]
    return found


@numba.njit(cache=True, nogil=True)
def mark_period(place: Ints32, residues: Ints, moduli: Ints, owners: Ints, bits: Words) -> None:
    """Set the bits of classes, each in the column of its owner; `place` is the bit of each time, or
    -1."""
    for c in range(residues.size):
        for x in range(residues[c], place.size, moduli[c]):
            at = place[x]
            if at >= 0:
                bits[at >> 6, owners[c]] |= _ONE << np.uint64(at & 63)


@numba.njit(cache=True, nogil=True)
def mark_points(points: Ints, owner: int, bits: Words) -> None:
    """Set these bits in one column."""
    for n in range(points.size):
        bits[points[n] >> 6, owner] |= _ONE << np.uint64(points[n] & 63)
