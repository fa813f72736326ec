"""The points that most ranges have in common, one after the other.

A partition into fewest groups (`stabbing/partition.py`) takes ranges by left end: ranges without a
right end are spread over all groups of narrow ones among them.  Here the point that most ranges
hold is taken first, with all of them, then that of the rest, while it is worth it.  So no value is
in many of the ranges that are left.
"""

from __future__ import annotations

import numpy as np

from headrace.families.joins.stabbing.partition import canonical
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers

HOT_SHARE, HOT_LEAST = 256, 16  # a hot group has one of so many ranges, and at least so many


def hot_groups(lo: Numbers, hi: Numbers) -> tuple[Ints32, Numbers]:
    """The group of each range, -1 of those in none, and the groups' points; groups are by falling
    size."""
    group = np.full(lo.size, -1, np.int32)
    least = max(HOT_LEAST, -(-lo.size // HOT_SHARE))
    points = take_points(
        lo, hi, np.argsort(lo), np.argsort(hi), least, group, np.empty(lo.size // least, lo.dtype)
    )
    return group, points


def hot_first(lo: Numbers, hi: Numbers) -> Ints32:
    """Every range in a group: the hot ones, then the fewest that the rest can be in."""
    group, points = hot_groups(lo, hi)
    rest = np.flatnonzero(group < 0)
    if rest.size:
        group[rest] = points.size + canonical(lo[rest], hi[rest]).group
    return group


@numba.njit(cache=True, nogil=True)
def take_points(
    lo: Numbers, hi: Numbers, by_lo: Ints, by_hi: Ints, least: int, group: Ints32, points: Numbers
) -> Numbers:
    """Most ranges are open at some left end: those of ranges in no group are gone through, until
    fewer than `least` are open at any."""
    found = 0
    while found < points.size:
        depth = most = ended = 0
        best = lo[by_lo[0]]
        for q in by_lo:
            while hi[by_hi[ended]] < lo[q]:
                depth -= 1
                ended += 1
            depth += 1
            if depth > most:
                most, best = depth, lo[q]
        if most < least:
            break
        for q in by_lo:
            if lo[q] <= best <= hi[q]:
                group[q] = found
        points[found] = best
        found += 1
        if most == by_lo.size:
            break
        by_lo, by_hi = by_lo[group[by_lo] < 0], by_hi[group[by_hi] < 0]
    return points[:found]
