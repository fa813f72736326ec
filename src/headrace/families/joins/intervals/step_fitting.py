"""Fitting a step function with few steps to heights: over all breakpoints, or over few cells of them,
which is as good to within a cell.
"""

from __future__ import annotations

import numpy as np

from headrace.families.joins.intervals.histogram_kernels import Cuts, fit
from headrace.families.joins.intervals.stab_counts import Counts
from headrace.relations.arrays import Floats, Ints

CELLS = 2048


def cells_of(counts: Counts, most: int) -> Ints:
    """The first piece of each of at most so many cells, 0 among them.

    A cell has at most 2 / most of all values, and at most as much of the relative change of the
    height, unless it is a single piece: so a boundary that has to move to the end of its cell
    changes little."""
    pieces = counts.heights.size
    if pieces <= most:
        return np.arange(pieces)
    floor = np.maximum(counts.heights, 1.0)
    change = np.abs(np.diff(counts.heights, prepend=counts.heights[0])) / np.minimum(
        floor, np.roll(floor, 1)
    )
    share = np.cumsum(counts.mass) / counts.mass.sum() + np.cumsum(change) / max(change.sum(), 1.0)
    cell = np.floor(share * (most - 1) / 2)
    return np.concatenate(([0], np.flatnonzero(np.diff(cell)) + 1))


def fit_cells(counts: Counts, wanted: Floats, starts: Ints, most: int) -> tuple[Floats, Cuts]:
    """The dynamic program over cells, for any function of the pieces."""
    weight = np.add.reduceat(counts.weight, starts)
    return fit(np.add.reduceat(counts.weight * wanted, starts) / weight, weight, most)


def trace(back: Cuts, buckets: int) -> Ints:
    """Where each of at most so many buckets begins."""
    heights = end = int(back.shape[1]) - 1
    starts = []
    for k in range(min(buckets, back.shape[0]) - 1, -1, -1):
        end = int(back[k, end])
        starts.append(end)
    found: Ints = np.unique(np.array([start for start in starts if start < heights], np.int64))
    return found


def jumps_of(counts: Counts, wanted: Floats, starts: Ints) -> tuple[float, Floats]:
    """The level of the first bucket, and the change at each event, if buckets begin at these
    pieces."""
    weight = counts.weight
    levels = np.add.reduceat(weight * wanted, starts) / np.add.reduceat(weight, starts)
    jumps = np.zeros(counts.events)
    jumps[starts[1:] - 1] = np.diff(levels)
    return float(levels[0]), jumps


def levels_of(base: float, jumps: Floats) -> Floats:
    """The answer on each piece, out of that on the first and the change at each event."""
    return base + np.concatenate(([0.0], np.cumsum(jumps)))
