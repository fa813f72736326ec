"""An index of intervals with changes upon it, as it stood at one moment.

The base and what was added since are indexes, each with one bit a place for what is gone: that is counted by the index
and skipped when ids are written.  What the base has lost is an index too, to be taken from the count; the latest
changes are a short tail that every value scans.  `interval_delta.py` says how they come to be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from headrace.families.joins.arrays import Ints, Ints32, Numbers
from headrace.families.joins.interval_kernels import Bits, Located, fill
from headrace.families.joins.intervals import IntervalIndex, offsets_of


@dataclass(frozen=True, slots=True)
class Layer:
    """An index and the bits of its places that are gone."""

    index: IntervalIndex
    gone: Bits

    @classmethod
    def whole(cls, index: IntervalIndex) -> Layer:
        return cls(index, np.zeros((len(index) + 7) // 8, np.uint8))

    def has(self, place: int) -> bool:
        return not self.gone[place >> 3] >> (place & 7) & 1

    def drop(self, place: int) -> None:
        self.gone[place >> 3] |= np.uint8(1 << (place & 7))

    def places(self, *, gone: bool) -> Ints:
        """Those that are gone, or those that stand."""
        return np.flatnonzero(np.unpackbits(self.gone, count=len(self.index), bitorder="little") == gone)


@dataclass(frozen=True, slots=True)
class Tail:
    """Intervals with a sign: 1 was added, -1 was removed from a layer."""

    ids: Ints32
    lo: Numbers
    hi: Numbers
    signs: Ints32


@dataclass(frozen=True, slots=True)
class Patched:
    """What stood at one moment: immutable, and sent to worker processes as it is."""

    base: Layer
    added: Layer
    lost: IntervalIndex  # of the base, as of the last fold
    tail: Tail

    def __len__(self) -> int:
        return len(self.base.index) + len(self.added.index) - len(self.lost) + int(self.tail.signs.sum())

    def count(self, values: Numbers) -> Ints32:
        """How many intervals each value stabs."""
        return self._counts(values, [layer.index.locate(values) for layer in (self.base, self.added)])

    def stab(self, values: Numbers) -> tuple[Ints, Ints32]:
        """Offsets and ids, as of `IntervalIndex.stab`."""
        layers = (self.base, self.added)
        located = [layer.index.locate(values) for layer in layers]
        offsets = offsets_of(self._counts(values, located))
        cursor, ids = offsets[:-1].copy(), np.empty(offsets[-1], np.int32)
        for layer, found in zip(layers, located, strict=True):
            fill(layer.index.windows, found, layer.gone, cursor, ids)
        fill_tail(values, self.tail.lo, self.tail.hi, self.tail.ids, self.tail.signs, cursor, ids)
        return offsets, ids

    def _counts(self, values: Numbers, located: list[Located]) -> Ints32:
        counts = -self.lost.count(values)
        for found in located:
            counts += found.begun - found.ended
        count_tail(values, self.tail.lo, self.tail.hi, self.tail.signs, counts)
        return counts

    def intervals(self) -> tuple[Ints32, Numbers, Numbers]:
        """Ids, lo, hi of those that stand, in no order."""
        return joined(standing(self.base), standing(self.added), latest(self.tail))

    def merged(self) -> IntervalIndex:
        """A new base of what stands.  It reads nothing that changes: it may run in another thread or process."""
        return IntervalIndex.build(*self.intervals())


Standing = tuple[Ints32, Numbers, Numbers]


def standing(layer: Layer) -> Standing:
    return layer.index.intervals(layer.places(gone=False))


def latest(tail: Tail) -> Standing:
    stands = tail.signs > 0
    return tail.ids[stands], tail.lo[stands], tail.hi[stands]


def joined(*parts: Standing) -> Standing:
    ids, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ids, lo, hi


@numba.njit(cache=True, nogil=True)
def count_tail(values: Numbers, lo: Numbers, hi: Numbers, signs: Ints32, counts: Ints32) -> None:
    for i in range(values.size):
        value, total = values[i], 0
        for k in range(lo.size):
            total += signs[k] if lo[k] <= value <= hi[k] else 0
        counts[i] += total


@numba.njit(cache=True, nogil=True)
def fill_tail(
    values: Numbers, lo: Numbers, hi: Numbers, ids: Ints32, signs: Ints32, cursor: Ints, out: Ints32
) -> None:  # fmt: skip
    """Write those that were added at the cursor of each value they hold."""
    for i in range(values.size):
        value, to, held = values[i], cursor[i], False
        for k in range(lo.size):  # most values hold none, which is soon seen many at a time
            held |= (lo[k] <= value) & (value <= hi[k])
        for k in range(lo.size if held else 0):
            if signs[k] > 0 and lo[k] <= value <= hi[k]:
                out[to] = ids[k]
                to += 1
        cursor[i] = to
