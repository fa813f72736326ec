"""A histogram of intervals built on their stabbing partition: how many of them does a value stab?

All intervals of a group hold one point, so the group's count rises up to it and falls behind it.
Each of these two *sides* is sorted by height, which makes its best buckets a weighted k-means in
one dimension; that has an exact solution (`cluster`).  The histogram is the sum of those of its
groups.  Every level of every side counts as a bucket; next to a plain histogram of as many buckets,
a group stores one number more, its far end.

Groups that are too small for buckets of their own are taken together: the *rest* is a plain
histogram, fitted to what the sides leave over, over cells of pieces.  `SIZE` is the rule of the
thesis: a group's buckets follow its size, weights its own heights.  `ERROR` weighs with the height
of the whole function, which is what errors are relative to, gives every bucket to whom it helps most, and
tries how many groups, none to all large ones, are worth sides of their own.  A sum of step
functions is one, too, so a rest alone is hard to beat: sides win where few groups hold most
intervals and cells are too coarse for them.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.4.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from headrace.families.joins.intervals.histogram_kernels import Cuts, cluster
from headrace.families.joins.intervals.stab_counts import Counts, Density, Steps
from headrace.families.joins.intervals.step_fitting import (
    CELLS,
    cells_of,
    fit_cells,
    jumps_of,
    levels_of,
    trace,
)
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Floats, Ints, Numbers

BUCKETS_MAX = 256
WEIGHT_LEAST = 1e-300


class Shares(Enum):
    """Who gets how many buckets."""

    SIZE = "size"
    ERROR = "error"


def stabbing(
    lo: Numbers,
    hi: Numbers,
    buckets: int,
    density: Density | None = None,
    shares: Shares = Shares.ERROR,
) -> Steps:
    """The histogram of the intervals [lo, hi] with at most so many buckets, all sides and the rest
    together."""
    assert 0 < buckets <= BUCKETS_MAX, f"1 to {BUCKETS_MAX} buckets"
    order = np.argsort(lo, kind="stable")
    lo, hi = lo[order], hi[order]
    counts = Counts(lo, hi, density)
    build = _Build(counts, canonical(lo, hi).group.astype(np.int64), buckets, shares)
    if shares is Shares.SIZE:
        base, jumps = build.histogram(build.large)
    else:
        most = len(build.large)
        tried = sorted({0, most, *(1 << i for i in range(most.bit_length()))})
        found = [build.histogram(build.large[:own]) for own in tried]
        base, jumps = min(found, key=lambda one: counts.error(levels_of(*one)))
    return Steps.of_jumps(counts, base, jumps, buckets)


@dataclass(frozen=True, slots=True)
class Side:
    """Left or right part of a group's count: `heights[t]` from `events[t]` to `events[t + 1]`;
    never empty.

    `costs` and `back` are those of `cluster`, over heights in falling order."""

    events: Ints
    heights: Floats
    weights: Floats
    costs: Floats
    back: Cuts

    def starts(self, buckets: int) -> Ints:
        """The first step of each bucket."""
        steps = self.heights.size
        if buckets >= steps:
            return np.arange(steps)
        found = trace(self.back, buckets)
        if self.heights[0] < self.heights[-1]:
            return np.concatenate(([0], np.sort(steps - found[1:])))
        return found

    def put(self, buckets: int, jumps: Floats) -> None:
        """Add the histogram of this side, in so many buckets, to the jumps of the whole one."""
        starts = self.starts(buckets)
        weight = np.add.reduceat(self.weights, starts)
        levels = np.add.reduceat(self.weights * self.heights, starts) / weight
        jumps[self.events[starts]] += np.diff(levels, prepend=0.0)
        jumps[self.events[-1]] -= levels[-1]


class _Build:
    """What the histograms of one set of intervals, in order of `lo`, have in common.

    `large` are the groups whose share by size is a bucket for each of their sides, the largest
    first."""

    def __init__(self, counts: Counts, group: Ints, buckets: int, shares: Shares) -> None:
        self._counts, self._buckets, self._shares = counts, buckets, shares
        self._first = np.searchsorted(group, np.arange(group.max(initial=-1) + 2))
        self._sizes = np.diff(self._first)
        self._mass = np.concatenate(([0.0], np.cumsum(counts.mass)))
        self._weight = np.concatenate(([0.0], np.cumsum(counts.weight)))
        self._cells = cells_of(counts, max(CELLS, 2 * buckets))
        share = buckets * self._sizes / max(group.size, 1)
        wide = np.flatnonzero(share >= 1)
        self._sides = {
            g: self._sides_of(g) for g in wide[np.argsort(-share[wide], kind="stable")].tolist()
        }
        self.large = [g for g, sides in self._sides.items() if share[g] >= len(sides)]

    def _sides_of(self, group: int) -> list[Side]:
        """The left side, up to the group's last common point and with it, and the right one, unless
        it is empty."""
        members = slice(self._first[group], self._first[group + 1])
        rises, risen = np.unique(self._counts.lo_events[members], return_counts=True)
        falls, fallen = np.unique(self._counts.hi_events[members], return_counts=True)
        left = self._side(np.append(rises, falls[0]), np.cumsum(risen))
        if falls.size == 1:
            return [left]
        return [left, self._side(falls, self._sizes[group] - np.cumsum(fallen)[:-1])]

    def _side(self, events: Ints, counted: Ints) -> Side:
        heights = counted.astype(np.float64)
        if self._shares is Shares.SIZE:
            weights = np.diff(self._mass[events + 1]) / heights**2
        else:
            weights = np.diff(self._weight[events + 1])
        weights = np.maximum(weights, WEIGHT_LEAST)
        turn = -1 if heights[0] < heights[-1] else 1
        return Side(
            events, heights, weights, *cluster(heights[::turn], weights[::turn], self._buckets)
        )

    def histogram(self, own: Sequence[int]) -> tuple[float, Floats]:
        """The level before the first event and the change at each, if these groups have sides of
        their own."""
        sides = [side for group in own for side in self._sides[group]]
        with_rest = len(own) < self._sizes.size or not own
        gains = [
            self._gains(side.costs, self._sizes[group] / len(self._sides[group]))
            for group in own
            for side in self._sides[group]
        ]
        if with_rest:
            rest = self._counts.heights - levels_of(0.0, self._exact(own))
            costs, _ = fit_cells(self._counts, rest, self._cells, self._buckets)
            gains.append(self._gains(costs, self._sizes.sum() - self._sizes[own].sum()))
        given = allot(self._buckets, gains)
        jumps = np.zeros(self._counts.events)
        for side, buckets in zip(sides, given, strict=False):
            side.put(buckets, jumps)
        if not with_rest:
            return 0.0, jumps
        left = self._counts.heights - levels_of(0.0, jumps)
        _, back = fit_cells(self._counts, left, self._cells, given[-1])
        base, more = jumps_of(self._counts, left, self._cells[trace(back, given[-1])])
        return base, jumps + more

    def _exact(self, own: Sequence[int]) -> Floats:
        """What the counts of these groups change at each event."""
        jumps = np.zeros(self._counts.events)
        for group in own:
            for side in self._sides[group]:
                side.put(side.heights.size, jumps)
        return jumps

    def _gains(self, costs: Floats, size: float) -> Floats:
        """What the second bucket, the third … is worth to one who has `size` intervals."""
        if self._shares is Shares.SIZE:
            return size / np.arange(2.0, costs.size + 1)
        return costs[:-1] - costs[1:]


def allot(buckets: int, gains: Sequence[Floats]) -> list[int]:
    """One bucket for each, then one at a time to whom the next is worth most."""
    given = [1] * len(gains)
    best = [(-float(gain[0]), i) for i, gain in enumerate(gains) if gain.size]
    heapq.heapify(best)
    for _ in range(buckets - len(gains)):
        if not best:
            break
        _, i = heapq.heappop(best)
        given[i] += 1
        if given[i] <= gains[i].size:
            heapq.heappush(best, (-float(gains[i][given[i] - 1]), i))
    return given
