"""How many ranges a value has, before any value has come: by a histogram of the ranges
(`intervals/histogram.py`).

Values are expected evenly between the least and the greatest end of all ranges.
"""

from __future__ import annotations

import numpy as np

from headrace.families.joins.intervals.histogram import stabbing
from headrace.families.joins.intervals.stab_counts import Density, domain_of
from headrace.relations.arrays import Floats, Ints
from headrace.relations.attributes import double_keys
from headrace.sql.bands import double_of

BUCKETS = 20
RANGES_MAX = 20_000  # so many tell of all
VALUES = 1_000


def stabbed(lo: Ints, hi: Ints, is_double: bool) -> tuple[float, float]:
    """The mean and the most; ends are keys, of doubles or of whole numbers."""
    first, last = domain_of(lo, hi)
    if first >= last:
        return float(lo.size), float(lo.size)
    some = np.linspace(0, lo.size - 1, min(lo.size, RANGES_MAX)).astype(np.int64)
    values = _values(first, last, is_double)
    edges, counts = np.unique(values, return_counts=True)
    density = Density.of_histogram(counts[1:], edges)
    found: Floats = stabbing(lo[some], hi[some], BUCKETS, density).estimate(values) * (
        lo.size / some.size
    )
    return float(found.mean()), float(found.max())


def _values(first: float, last: float, is_double: bool) -> Ints:
    if is_double:
        return double_keys(np.linspace(double_of(int(first)), double_of(int(last)), VALUES))
    return np.linspace(first, last, VALUES).astype(np.int64)
