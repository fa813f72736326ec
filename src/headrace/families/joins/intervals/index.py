"""An index of standing intervals: which of them a value stabs.

It serves plain range filters and the scattered rest of standing joins, for which the thesis
(section 4.1.2) falls back on "a traditional processing method".  Built once and never changed:
changes are levels beside it (`levels/standing.py`). Made of arrays alone, thirty to forty-five
bytes an interval and never over sixty; sent to worker processes as is.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.families.joins.intervals.kernels import (
    Located,
    Windows,
    cover_windows,
    cut_windows,
    fill,
    locate,
)
from headrace.relations.arrays import Ints, Ints32, Numbers


@dataclass(frozen=True, slots=True)
class IntervalIndex:
    """Closed intervals of one dtype, float64 or int64, with ids that may repeat."""

    windows: Windows

    @classmethod
    def build(cls, ids: Ints32, lo: Numbers, hi: Numbers) -> IntervalIndex:
        """O(n log n).  Numbers are neither NaN nor crossed: `lo ≤ hi`."""
        assert lo.dtype == hi.dtype and lo.size == hi.size == ids.size
        by_lo, by_hi = np.argsort(lo), np.argsort(hi)
        lo, hi, ranks = lo[by_lo], hi[by_hi], np.arange(lo.size, dtype=np.int32)
        place, last = np.empty_like(ranks), np.empty_like(ranks)
        last[by_hi] = ranks
        last = last[by_lo]
        place[last] = ranks
        edges, begun, ended = cut_windows(lo, hi)
        cover_at, covers = cover_windows(lo, hi, last, edges)
        numbers = ids[by_lo].astype(np.int32, casting="safe")
        return cls(Windows(lo, hi, numbers, last, place, edges, begun, ended, cover_at, covers))

    def __len__(self) -> int:
        return int(self.windows.ids.size)

    def locate(self, values: Numbers) -> Located:
        assert values.dtype == self.windows.lo.dtype
        found = Located(*(np.empty(values.size, np.int32) for _ in range(4)))
        locate(values, self.windows, found)
        return found

    def count(self, values: Numbers) -> Ints32:
        """How many intervals each value stabs: O(log n) a value, however many they are."""
        found = self.locate(values)
        return found.begun - found.ended

    def stab(self, values: Numbers) -> tuple[Ints, Ints32]:
        """Offsets and ids: value i stabs `ids[offsets[i]:offsets[i + 1]]`, in no order.  O(log n +
        k) a value."""
        found = self.locate(values)
        offsets = offsets_of(found.begun - found.ended)
        ids = np.empty(offsets[-1], np.int32)
        fill(self.windows, found, offsets[:-1].copy(), ids)
        return offsets, ids


def offsets_of(counts: Ints32 | Ints) -> Ints:
    """Where the answer of each value begins, and where the last one ends."""
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
