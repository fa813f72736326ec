"""Histograms of stab counts that know nothing of groups: of equal width, and the best there is.

`EqualWidth` is what the thesis routes by (4.6.7); our router counts exactly, so it is a rival only.
`Optimal` is the dynamic program that it compares with (4.6.6): over all breakpoints, or over
few cells of them, which is as good to within a cell.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

import numpy as np

from headrace.families.joins.intervals.stab_counts import Counts, Density, Steps
from headrace.families.joins.intervals.step_fitting import (
    cells_of,
    fit_cells,
    jumps_of,
    levels_of,
    trace,
)
from headrace.relations.arrays import Floats, Ints, Numbers


class EqualWidth:
    """Buckets of one width over [first, last]; a value outside is answered by the nearest.

    An interval adds to each bucket the part that it covers of it.  `unit` is 1 for whole numbers,
    of which [lo, hi] covers hi - lo + 1, else 0: then an interval of one point covers nothing."""

    def __init__(self, first: float, last: float, buckets: int, unit: int = 0) -> None:
        assert buckets > 0 and last + unit > first, "buckets of a width"
        self.first, self.last, self.unit = float(first), float(last) + unit, unit
        self.levels: Floats = np.zeros(buckets)

    @property
    def buckets(self) -> int:
        return int(self.levels.size)

    def add(self, lo: Numbers | float, hi: Numbers | float) -> None:
        """One interval, or arrays of them: O(intervals + buckets)."""
        self.levels += self._covered(lo, hi)

    def estimate(self, values: Numbers) -> Floats:
        bucket, _ = self._place(np.asarray(values, np.float64))
        return np.maximum(self.levels[bucket], 0.0)

    def _covered(self, lo: Numbers | float, hi: Numbers | float) -> Floats:
        return self._above(np.atleast_1d(lo), 0) - self._above(np.atleast_1d(hi), self.unit)

    def _above(self, ends: Numbers, unit: int) -> Floats:
        """For each bucket the part of it above an end, summed over all ends."""
        bucket, part = self._place(ends.astype(np.float64) + unit)
        own: Floats = np.bincount(bucket, 1.0 - part, self.buckets).astype(np.float64)
        own[1:] += np.cumsum(np.bincount(bucket, minlength=self.buckets))[:-1]
        return own

    def _place(self, values: Floats) -> tuple[Ints, Floats]:
        """The bucket of each value, and how far into it: from 0 to 1."""
        scaled = (np.clip(values, self.first, self.last) - self.first) * (
            self.buckets / (self.last - self.first)
        )
        bucket = np.minimum(scaled.astype(np.int64), self.buckets - 1)
        return bucket, np.minimum(scaled - bucket, 1.0)


class Optimal:
    """The histograms of least mean squared relative error with 1 … `most` buckets; `costs` are
    these errors.

    Without `cells`, buckets may end at every breakpoint: the time grows with the square of the
    intervals.  Otherwise they end at the ends of so many cells (at least two for each bucket), in
    next to no time."""

    def __init__(
        self,
        lo: Numbers,
        hi: Numbers,
        most: int,
        density: Density | None = None,
        cells: int | None = None,
    ) -> None:
        self._counts = Counts(lo, hi, density)
        pieces = self._counts.heights.size
        self._starts = cells_of(self._counts, max(cells, 2 * most)) if cells else np.arange(pieces)
        costs, self._back = fit_cells(self._counts, self._counts.heights, self._starts, most)
        base, jumps = jumps_of(self._counts, self._counts.heights, self._starts)
        self.costs: Floats = costs + self._counts.error(levels_of(base, jumps))

    def steps(self, buckets: int) -> Steps:
        cuts = self._starts[trace(self._back, buckets)]
        return Steps.of_jumps(
            self._counts, *jumps_of(self._counts, self._counts.heights, cuts), buckets
        )
