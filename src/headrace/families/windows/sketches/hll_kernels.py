"""Spark's own HyperLogLog++, compiled: registers out of what Spark sends, merged, and read as Spark
would read them.

Spark's `approx_count_distinct` keeps 2^p registers.  The first p bits of a value's xxhash64 say
which register takes it, the zeros that follow how much; a register keeps the most.  Spark sends the
*coupons* of a cell: register and number of zeros + 1 as one number, each once; of a small round
numbers or hashes, as they come.  The estimate does what `HyperLogLogPlusPlusHelper.query` does, in
its order, so it is the same to the last bit.  The tables are Spark's and come from Spark
(`bias.py`).

S. Heule, M. Nunkesser, A. Hall, "HyperLogLog in Practice: Algorithmic Engineering of a State of the
Art Cardinality Estimation Algorithm", EDBT 2013.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

# of xxhash64 (Yann Collet), and the seed that Spark hashes with
PRIME_1, PRIME_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3, PRIME_4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
PRIME_5, SEED = np.uint64(0x27D4EB2F165667C5), np.uint64(42)
NEAREST = 6  # entries of the table that a bias is the mean of
EXACT_BITS = 52  # sums of fractions 2^-r are exact while p + r stays within this


@numba.njit(cache=True, nogil=True)
def fold_coupons(coupons: Ints32, offsets: Ints, lines: Ints, precision: int, out: Bytes) -> None:
    """out[lines[i]] takes in coupons offsets[i] … offsets[i + 1] - 1; the register is in the low
    `precision` bits."""
    mask = (1 << precision) - 1
    for i in range(lines.size):
        line = out[lines[i]]
        for at in range(offsets[i], offsets[i + 1]):
            register, rank = coupons[at] & mask, np.uint8(coupons[at] >> precision)
            line[register] = max(line[register], rank)


@numba.njit(cache=True, nogil=True)
def coupons_of(hashes: Ints, offsets: Ints, precision: int) -> tuple[Ints32, Ints32]:
    """(coupons, offsets): of the hashes of each cell the highest coupon of every register they fall
    in."""
    found, ends = np.empty(hashes.size, np.int32), np.zeros(offsets.size, np.int32)
    ranks, at = np.zeros(1 << precision, np.int32), np.empty(1 << precision, np.int32)
    written = 0
    for i in range(offsets.size - 1):
        first = written
        for k in range(offsets[i], offsets[i + 1]):
            bits = np.uint64(hashes[k])
            register = np.int64(bits >> np.uint64(64 - precision))
            rest = bits << np.uint64(precision) | np.uint64(1) << np.uint64(precision - 1)
            rank = 1
            while rest < np.uint64(1) << np.uint64(63):
                rest <<= np.uint64(1)
                rank += 1
            if ranks[register] == 0:
                at[register] = written
                written += 1
            if rank > ranks[register]:
                ranks[register] = rank
                found[at[register]] = (rank << precision) + register
        for k in range(first, written):
            ranks[found[k] & ((1 << precision) - 1)] = 0
        ends[i + 1] = written
    return found[:written].copy(), ends


@numba.njit(cache=True, nogil=True)
def hash_longs(values: Ints) -> Ints:
    """Spark's xxhash64 of BIGINTs."""
    found = np.empty(values.size, np.int64)
    for i in range(values.size):
        mixed = SEED + PRIME_5 + np.uint64(8)
        mixed ^= turned(np.uint64(values[i]) * PRIME_2, 31) * PRIME_1
        found[i] = np.int64(stirred(turned(mixed, 27) * PRIME_1 + PRIME_4))
    return found


@numba.njit(cache=True, nogil=True)
def hash_ints(values: Ints32) -> Ints:
    """Spark's xxhash64 of INTs, SMALLINTs and TINYINTs."""
    found = np.empty(values.size, np.int64)
    for i in range(values.size):
        mixed = SEED + PRIME_5 + np.uint64(4)
        mixed ^= np.uint64(np.uint32(values[i])) * PRIME_1
        found[i] = np.int64(stirred(turned(mixed, 23) * PRIME_2 + PRIME_3))
    return found


@numba.njit(cache=True, nogil=True)
def turned(value: np.uint64, bits: int) -> np.uint64:
    return np.uint64(value << np.uint64(bits) | value >> np.uint64(64 - bits))


@numba.njit(cache=True, nogil=True)
def stirred(value: np.uint64) -> np.uint64:
    value = (value ^ value >> np.uint64(33)) * PRIME_2
    value = (value ^ value >> np.uint64(29)) * PRIME_3
    return np.uint64(value ^ value >> np.uint64(32))


def bits_of(values: Floats) -> Ints:
    """A DOUBLE is hashed as the BIGINT of its bits; both zeros are one, and so are all NaN."""
    return (np.where(np.isnan(values), np.nan, values) + 0.0).view(np.int64)


@numba.njit(cache=True, nogil=True)
def fold_registers(registers: Bytes, lines: Ints, out: Bytes) -> None:
    """out[lines[i]] takes in line i."""
    for i in range(lines.size):
        source, target = registers[i], out[lines[i]]
        for slot in range(source.size):
            target[slot] = max(target[slot], source[slot])


@numba.njit(cache=True, nogil=True)
def estimates(registers: Bytes, threshold: float, raw: Floats, bias: Floats) -> Ints:
    """How many different values each line has seen, as Spark says it."""
    found = np.empty(registers.shape[0], np.int64)
    size = registers.shape[1]
    for i in range(registers.shape[0]):
        zeros, inverse = sum_inverses(registers[i])
        found[i] = round_half_up(estimate(size, zeros, inverse, threshold, raw, bias))
    return found


@numba.njit(cache=True, nogil=True)
def sum_inverses(line: Bytes) -> tuple[int, float]:
    """(how many registers are 0, Σ 2^-register): as whole numbers where that is exact, so that the
    order does not matter; else one by one, in Spark's order."""
    lift = EXACT_BITS - int(np.log2(line.size))
    one = np.int64(1) << lift
    total, zeros, lost = 0, 0, 0
    for slot in range(line.size):
        rank = np.int64(line[slot])
        total += int(one >> rank)
        zeros += int(rank == 0)
        lost += int(rank > lift)
    if lost == 0:
        return zeros, float(total / one)
    inverse = 0.0
    for slot in range(line.size):
        inverse += 1.0 / float(np.int64(1) << np.int64(line[slot]))
    return zeros, inverse


@numba.njit(cache=True, nogil=True)
def estimate(
    size: int, zeros: int, inverse: float, threshold: float, raw: Floats, bias: Floats
) -> float:
    """Linear counting while few registers are taken, then the harmonic mean less its bias."""
    found = alpha(size) * size * size / inverse
    if zeros > 0:
        linear = size * math.log(size / zeros)
        if linear <= threshold or found <= 2.5 * size:
            return linear
    if raw.size > 0 and found < 5.0 * size:
        return found - bias_at(found, raw, bias)
    return found


@numba.njit(cache=True, nogil=True)
def alpha(size: int) -> float:
    if size == 16:
        return 0.673
    if size == 32:
        return 0.697
    return 0.709 if size == 64 else 0.7213 / (1.0 + 1.079 / size)


@numba.njit(cache=True, nogil=True)
def bias_at(found: float, raw: Floats, bias: Floats) -> float:
    """The mean bias of the entries whose raw estimates are nearest."""
    low = max(place_in(raw, found) - NEAREST + 1, 0)
    high = min(low + NEAREST, raw.size)
    while high < raw.size and (found - raw[high]) ** 2 < (found - raw[low]) ** 2:
        low += 1
        high += 1
    total = 0.0
    for i in range(low, high):
        total += bias[i]
    return total / (high - low)


@numba.njit(cache=True, nogil=True)
def place_in(raw: Floats, found: float) -> int:
    """As Java's binary search goes: some entries are out of order, and another search would end
    elsewhere."""
    low, high = 0, raw.size - 1
    while low <= high:
        middle = (low + high) >> 1
        if raw[middle] < found:
            low = middle + 1
        elif raw[middle] > found:
            high = middle - 1
        else:
            return middle
    return low


@numba.njit(cache=True, nogil=True)
def round_half_up(value: float) -> int:
    """Java's Math.round of what is not negative."""
    whole = math.floor(value)
    return int(whole) + (value - whole >= 0.5)
