"""How many of a set of intervals a value stabs, as a step function.

The function changes at *events*: it rises at a left end, for that value on, and falls behind a
right end, for what is above it.  Events with the same value and direction are one.  What lies
between two events is a *piece*; piece t comes before event t, so there is one more of them than
events.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.relations.arrays import Floats, Ints, Numbers

Flags = NDArray[np.bool_]

MASS_LEAST = 1e-12
"""Pieces that no value is expected in keep this much, so that they are cut with sense, too."""


@dataclass(frozen=True, slots=True)
class Density:
    """Where values are expected: `below[i]` of them under `edges[i]`, evenly between two edges."""

    edges: Floats
    below: Floats

    @classmethod
    def uniform(cls, first: float, last: float) -> Self:
        return cls(
            np.array([first, max(last, np.nextafter(first, np.inf))], np.float64),
            np.array([0.0, 1.0]),
        )

    @classmethod
    def of_histogram(cls, counts: ArrayLike, edges: ArrayLike) -> Self:
        """As `numpy.histogram` gives them."""
        below = np.concatenate(([0.0], np.cumsum(np.asarray(counts, np.float64))))
        assert below[-1] > 0, "a histogram of no values"
        return cls(np.asarray(edges, np.float64), below / below[-1])

    def mass_below(self, places: Floats) -> Floats:
        return np.interp(places, self.edges, self.below)


def domain_of(lo: Numbers, hi: Numbers) -> tuple[float, float]:
    """From the least to the greatest end that is one: a one-sided interval has an end that is
    none."""
    ends = np.concatenate((lo, hi))
    if ends.dtype.kind == "f":
        ends = ends[np.isfinite(ends)]
    else:
        bounds = np.iinfo(ends.dtype)
        ends = ends[(ends > bounds.min) & (ends < bounds.max)]
    return (float(ends.min()), float(ends.max())) if ends.size else (0.0, 0.0)


def unit_of(values: Numbers) -> int:
    """How far behind a right end the function falls: whole numbers at the next one, others at
    once."""
    return 0 if values.dtype.kind == "f" else 1


class Counts:
    """The step function of a set of intervals, exactly, and what each of its pieces weighs.

    `weight` is mass / height², so a weighted sum of squared errors is the mean squared relative
    error E² of the paper; heights below 1 count as 1."""

    def __init__(self, lo: Numbers, hi: Numbers, density: Density | None = None) -> None:
        assert lo.dtype == hi.dtype and lo.shape == hi.shape, "two arrays of one type and length"
        self.rises, self._lo_event, risen = np.unique(lo, return_inverse=True, return_counts=True)
        self.falls, self._hi_event, fallen = np.unique(hi, return_inverse=True, return_counts=True)
        self.rise_events = np.arange(self.rises.size) + np.searchsorted(
            self.falls, self.rises, "left"
        )
        self.fall_events = np.arange(self.falls.size) + np.searchsorted(
            self.rises, self.falls, "right"
        )
        self.events = self.rises.size + self.falls.size
        self.heights = np.cumsum(self._spread(0.0, risen, -fallen))
        self.mass = self._masses(density or self._evenly(lo, hi))
        self.weight = self.mass / np.maximum(self.heights, 1.0) ** 2

    @cached_property
    def lo_events(self) -> Ints:
        """The event of each interval's left end."""
        return self.rise_events[self._lo_event]

    @cached_property
    def hi_events(self) -> Ints:
        return self.fall_events[self._hi_event]

    def error(self, levels: Floats) -> float:
        """The mean squared relative error of these answers, one for each piece."""
        return float(self.weight @ (levels - self.heights) ** 2)

    def _evenly(self, lo: Numbers, hi: Numbers) -> Density:
        first, last = domain_of(lo, hi)
        return Density.uniform(first, last + unit_of(lo))

    def _masses(self, density: Density) -> Floats:
        places = self._spread(0.0, self.rises, self.falls.astype(np.float64) + unit_of(self.falls))[
            1:
        ]
        below = np.concatenate(([0.0], density.mass_below(places), [1.0]))
        return np.maximum(np.diff(below), MASS_LEAST)

    def _spread(self, base: float, at_rises: Numbers, at_falls: Numbers) -> Floats:
        """By event, behind something for piece 0."""
        found = np.empty(self.events + 1)
        found[0] = base
        found[self.rise_events + 1], found[self.fall_events + 1] = at_rises, at_falls
        return found


@dataclass(frozen=True, slots=True)
class Steps:
    """A histogram: a step function with few steps.  `buckets` is how many levels were chosen for
    it.

    `risen[i]` is by how much it has changed at the first i of `rise_at`, which count for values
    from there on, and `fallen` the same at `fall_at`, for values behind."""

    base: float
    rise_at: Numbers
    risen: Floats
    fall_at: Numbers
    fallen: Floats
    buckets: int

    @classmethod
    def of_jumps(cls, counts: Counts, base: float, jumps: Floats, buckets: int) -> Self:
        """Out of the change at each event."""
        up, down = jumps[counts.rise_events], jumps[counts.fall_events]
        rise, fall = np.flatnonzero(up), np.flatnonzero(down)
        risen, fallen = (np.concatenate(([0.0], np.cumsum(x))) for x in (up[rise], down[fall]))
        return cls(base, counts.rises[rise], risen, counts.falls[fall], fallen, buckets)

    def estimate(self, values: Numbers) -> Floats:
        risen = self.risen[np.searchsorted(self.rise_at, values, "right")]
        fallen = self.fallen[np.searchsorted(self.fall_at, values, "left")]
        return np.maximum(self.base + risen + fallen, 0.0)
