"""HyperLogLog registers, compiled: read what Spark's `hll_sketch_agg` writes, merge, estimate.

Spark writes Apache DataSketches' format.  Byte 3 is log2 of the registers, byte 5 has the flag of an empty sketch,
byte 7 the mode: a short list or a set of *coupons* (26 bits of address, the rest the value), or one register a byte.
The estimate is Ertl's improved one (O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017,
algorithm 6): no tables, no thresholds, and unbiased from the first value on.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Bytes = NDArray[np.uint8]

EMPTY_FLAG = 4
LIST, SET, REGISTERS = 0, 1, 2
LIST_START, SET_START, REGISTERS_START = 8, 12, 40
VALUE_SHIFT = 26
VALUE_MAX = 63  # six bits
UNREADABLE = -1


@numba.njit(cache=True, nogil=True)
def fold_blobs(data: Bytes, offsets: Ints, lines: Ints, precision: int, out: Bytes) -> int:
    """out[lines[i]] takes in blob i; the number of the first blob that is not such a sketch, else `UNREADABLE`."""
    size = 1 << precision
    for i in range(lines.size):
        start, stop = offsets[i], offsets[i + 1]
        if stop - start == 0:
            continue
        if stop - start < 8 or data[start + 3] != precision:
            return i
        if data[start + 5] & EMPTY_FLAG:
            continue
        mode, line = data[start + 7] & 3, out[lines[i]]
        if mode == REGISTERS:
            if data[start + 7] >> 2 & 3 != 2 or stop - start < REGISTERS_START + size:
                return i
            for slot in range(size):
                line[slot] = max(line[slot], data[start + REGISTERS_START + slot])
            continue
        for at in range(start + (LIST_START if mode == LIST else SET_START), stop - 3, 4):
            coupon = np.uint32(data[at]) | np.uint32(data[at + 1]) << 8
            coupon |= np.uint32(data[at + 2]) << 16 | np.uint32(data[at + 3]) << 24
            if coupon != 0:
                address = coupon & np.uint32(size - 1)
                line[address] = max(line[address], np.uint8(coupon >> VALUE_SHIFT))
    return UNREADABLE


@numba.njit(cache=True, nogil=True)
def fold_registers(registers: Bytes, lines: Ints, out: Bytes) -> None:
    """out[lines[i]] takes in line i."""
    for i in range(lines.size):
        source, target = registers[i], out[lines[i]]
        for slot in range(source.size):
            target[slot] = max(target[slot], source[slot])


@numba.njit(cache=True, nogil=True)
def estimates(registers: Bytes) -> Ints:
    """How many different values each line has seen."""
    found = np.empty(registers.shape[0], np.int64)
    count = np.empty(VALUE_MAX + 1, np.int64)
    size = registers.shape[1]
    for i in range(registers.shape[0]):
        count[:] = 0
        for slot in range(size):
            count[registers[i, slot]] += 1
        z = size * tau(1.0 - count[VALUE_MAX] / size)
        for value in range(VALUE_MAX - 1, 0, -1):
            z = 0.5 * (z + count[value])
        z += size * sigma(count[0] / size)
        found[i] = np.int64(np.rint(size / (2.0 * np.log(2.0)) * size / z))
    return found


@numba.njit(cache=True, nogil=True)
def sigma(x: float) -> float:
    """x + Σ x^(2^k) · 2^(k-1)."""
    if x == 1.0:
        return np.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z += x * y
        y += y
    return z


@numba.njit(cache=True, nogil=True)
def tau(x: float) -> float:
    """(1 - x - Σ (1 - x^(2^-k))² · 2^-k) / 3."""
    if x in (0.0, 1.0):
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x, before = np.sqrt(x), z
        y *= 0.5
        z -= (1.0 - x) ** 2 * y
    return z / 3.0
