"""Figure 4.12: the error of histograms of intervals, by their number of buckets.

The thesis draws 100,000 intervals in [0, 10000], midpoints Normal(5000, 1500), lengths Normal(1000,
2000), which "happen to form 18 stabbing groups".  It does not say what becomes of negative lengths
and of intervals that leave the domain, nor whether the second number is a deviation or a variance;
a `Reading` does.  Each error is the mean of |estimate - true| / max(true, 1) over uniform values.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.6.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from headrace.bench.joins.histogram_rivals import EqualWidth, Optimal
from headrace.families.joins.intervals.histogram import Shares, stabbing
from headrace.families.joins.intervals.stab_counts import Density, Steps
from headrace.relations.arrays import Floats

INTERVALS, SAMPLE, PROBES = 100_000, 10_000, 5_000
FIRST, LAST = 0.0, 10_000.0
BUCKETS = (20, 30, 40, 50, 60, 70)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the paper's numbers may mean.  Negative lengths are taken without their sign."""

    middle_deviation: float = 1_500.0
    length_deviation: float = 2_000.0
    clips: bool = True
    """What leaves the domain is cut off; otherwise such intervals are left out."""


READINGS = {
    "deviations, clipped": Reading(),
    "deviations, inside only": Reading(clips=False),
    "variance of lengths, clipped": Reading(length_deviation=sqrt(2_000)),
    "variance of lengths, inside only": Reading(length_deviation=sqrt(2_000), clips=False),
    "variance of middles": Reading(middle_deviation=sqrt(1_500)),
    "variances": Reading(middle_deviation=sqrt(1_500), length_deviation=sqrt(2_000)),
}
LITERAL = READINGS["deviations, clipped"]


@dataclass(frozen=True, slots=True)
class Row:
    """Mean relative errors with so many buckets.

    `by_size` is ours with the paper's rule for sharing out buckets; `optimal` is built and measured
    on a sample."""

    buckets: int
    ours: float
    by_size: float
    equal_width: float
    optimal: float


def intervals(
    seed: int, count: int = INTERVALS, reading: Reading = LITERAL
) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    middle = rng.normal(5_000, reading.middle_deviation, count)
    half = np.abs(rng.normal(1_000, reading.length_deviation, count)) / 2
    lo, hi = middle - half, middle + half
    kept = (hi >= FIRST) & (lo <= LAST) if reading.clips else (lo >= FIRST) & (hi <= LAST)
    return np.clip(lo[kept], FIRST, LAST), np.clip(hi[kept], FIRST, LAST)


def error(histogram: Steps | EqualWidth, lo: Floats, hi: Floats, probes: Floats) -> float:
    true = np.searchsorted(np.sort(lo), probes, "right") - np.searchsorted(
        np.sort(hi), probes, "left"
    )
    return float(np.mean(np.abs(histogram.estimate(probes) - true) / np.maximum(true, 1)))


def equal_width(lo: Floats, hi: Floats, buckets: int) -> EqualWidth:
    made = EqualWidth(FIRST, LAST, buckets)
    made.add(lo, hi)
    return made


def figure(seed: int, reading: Reading = LITERAL, buckets: Sequence[int] = BUCKETS) -> list[Row]:
    """One row for each number of buckets."""
    density = Density.uniform(FIRST, LAST)
    lo, hi = intervals(seed, reading=reading)
    some_lo, some_hi = intervals(seed, SAMPLE, reading)
    probes = np.random.default_rng([seed, 1]).uniform(FIRST, LAST, PROBES)
    optimal = Optimal(some_lo, some_hi, max(buckets), density)
    return [
        Row(
            count,
            error(stabbing(lo, hi, count, density), lo, hi, probes),
            error(stabbing(lo, hi, count, density, Shares.SIZE), lo, hi, probes),
            error(equal_width(lo, hi, count), lo, hi, probes),
            error(optimal.steps(count), some_lo, some_hi, probes),
        )
        for count in buckets
    ]
