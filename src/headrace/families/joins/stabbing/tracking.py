"""Hotspots of all queries of a shape (`stabbing/hotspots.py`), kept up to date while queries come
and go.

They tell, at any time and without building it, how many groups one index of all queries would have,
and which share of the ranges is in hot ones.
"""

from __future__ import annotations

import numpy as np

from headrace.families.joins.levels.level import Level, groupings, is_double
from headrace.families.joins.plan import JoinShape
from headrace.families.joins.stabbing.hotspots import Hotspots
from headrace.relations.arrays import Ints

ALPHA, EPSILON = 0.001, 0.5
MANY = 64  # ranges that are worth being added together
BOX_BITS = 8  # a query has at most 256 ranges


class Tracked:
    def __init__(self, shape: JoinShape) -> None:
        kind = np.float64 if is_double(shape) else np.int64
        self._spots = {which: Hotspots(ALPHA, EPSILON, kind) for which in groupings(shape)}

    def add(self, level: Level) -> None:
        """Track all ranges of a level that has come."""
        keys = _keys(level.ids)
        for which, spots in self._spots.items():
            lo, hi = level.lo[1 - which], level.hi[1 - which]
            if len(level) > MANY:
                spots.add_many(keys, lo, hi)
                continue
            for key, first, last in zip(keys.tolist(), lo.tolist(), hi.tolist(), strict=True):
                spots.add(key, first, last)

    def remove(self, query_id: int, ranges: int) -> None:
        for spots in self._spots.values():
            for number in range(ranges):
                spots.remove(query_id << BOX_BITS | number)

    def groups(self, which: int) -> int:
        return self._spots[which].groups

    def coverage(self, which: int) -> float:
        return self._spots[which].coverage


def _keys(ids: Ints) -> Ints:
    """Ranges of a query stand together: they are numbered."""
    at = np.arange(ids.size)
    is_first = np.ones(ids.size, np.bool_)
    is_first[1:] = ids[1:] != ids[:-1]
    first: Ints = np.maximum.accumulate(np.where(is_first, at, 0))
    return (ids << BOX_BITS) | (at - first)
