"""A level of band joins, for events of one side: hot groups by prefixes, the scattered rest one by
one.

Groups are by falling size, so hot ones are the first.  How many are hot is a matter of seconds: a
group is looked up for every event, a range is a step on the way along all scattered ones
(`bands/scattered.py`).  Some events of a batch tell how many steps and how many affected ranges
there are, for a few numbers of hot groups; the cheapest is taken.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.families.joins.bands.index import BandIndex
from headrace.families.joins.bands.scattered import Scattered
from headrace.families.joins.cost import (
    DENSE_MAX,
    FEW_GROUPS,
    ONE_BY_ONE,
    PROBE_S,
    RECORD_S,
    STEP_S,
)
from headrace.families.joins.levels import shapes
from headrace.families.joins.levels.level import Level
from headrace.families.joins.levels.shapes import Found, Rates
from headrace.families.joins.stabbing.hot_points import hot_first
from headrace.relations.arrays import Ints, Ints32, Numbers
from headrace.relations.image import Image

AT_ONCE, EVENTS_LEAST = 1 << 23, 16  # places of events and groups
ASKED = 4  # events
SAVED_MIN = 0.1  # of the time, or all groups are hot
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 32, 128, 1_024)  # of the least hot group


class Bands:
    def __init__(self, level: Level, side: int) -> None:
        lo, hi = level.lo[1], level.hi[1]
        lo, hi = (lo, hi) if side == 0 else (-hi, -lo)
        canonical = level.group[side]
        group = by_size(hot_first(lo, hi) if level.groups(side) > DENSE_MAX else canonical)
        self.index = BandIndex.build(level.ids, lo, hi, group)
        self._ids, self._sizes = level.ids, np.diff(self.index.groups.at)
        self._ends, self._group = (lo, hi), group
        self._chosen: dict[int, tuple[int, int]] = {}
        self._scattered: tuple[int, Scattered] | None = None

    def records(
        self, image: Image, event: Ints, b: Numbers, a: Numbers, rates: Rates | None
    ) -> Iterator[Found]:
        rows = [segment.b for segment in image.segments]
        if not rows:
            return
        hot = self._hot(rows, b[event])
        is_all = hot == self._sizes.size
        yield from self._by_groups(rows, event, b, hot, "groups" if is_all else "hotspots")
        if not is_all:
            yield from self._one_by_one(rows, event, b, hot)

    def _by_groups(
        self, rows: Sequence[Numbers], event: Ints, b: Numbers, hot: int, way: str
    ) -> Iterator[Found]:
        if not hot:
            return
        index, shape = self.index.first(hot), shapes.dense if hot <= DENSE_MAX else shapes.sparse
        at_once = max(EVENTS_LEAST, AT_ONCE // hot)
        for start in range(0, event.size, at_once):
            chosen = event[start : start + at_once]
            found = index.probe(rows[0], b[chosen])
            for more in rows[1:]:
                index.probe_more(more, b[chosen], found)
            yield Found(shape(chosen, (found.lefts, found.rights)), {way: chosen.size})

    def _one_by_one(
        self, rows: Sequence[Numbers], event: Ints, b: Numbers, hot: int
    ) -> Iterator[Found]:
        own = self._rest(hot)
        for number, segment in enumerate(rows):
            start = 0
            for stop, at, query, _ in own.affected(segment, b[event]):
                count = stop - start if number == hot == 0 else 0
                yield Found(shapes.pairs(event[at], query), {ONE_BY_ONE: count} if count else {})
                start = stop

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        """Event and query of each pair, in no order; a pair may be there twice."""
        if "q" in records.column_names:
            return records.column("e").to_numpy().astype(np.int64), self._ids[
                records.column("q").to_numpy()
            ]
        groups = self.index.groups
        parts = (
            shapes.of_dense(records) if "l0" in records.column_names else shapes.of_sparse(records)
        )
        return shapes.joined(
            [shapes.prefixes(groups.at[g], groups.by_right, self.index.ids, *p) for g, *p in parts]
        )

    # -- how many groups are hot -------------------------------------------------------------------

    def _hot(self, rows: Sequence[Numbers], b: Numbers) -> int:
        """Chosen once for rows of like number; once more if it was by fewer events than there may
        be asked."""
        if self._sizes.size <= FEW_GROUPS:
            return self._sizes.size
        key = sum(own.size for own in rows).bit_length()
        asked, hot = self._chosen.get(key, (0, 0))
        if asked < min(ASKED, b.size):
            some = b[np.unique(np.linspace(0, b.size - 1, ASKED).astype(np.int64))]
            hot = self._cheapest(rows, some)
            self._chosen[key] = min(ASKED, b.size), hot
        return hot

    def _cheapest(self, rows: Sequence[Numbers], b: Numbers) -> int:
        """All groups, those of at least some size, or none."""
        sizes = {0, *(int(np.sum(self._sizes >= size)) for size in SIZES)}
        seconds = {hot: self._seconds(hot, rows, b) for hot in sorted(sizes)}
        best, every = min(seconds, key=seconds.__getitem__), self._sizes.size
        return best if seconds[best] < (1 - SAVED_MIN) * seconds[every] else every

    def _seconds(self, hot: int, rows: Sequence[Numbers], b: Numbers) -> float:
        """What an event is estimated to take if so many groups are hot."""
        steps = listed = 0
        if hot < self._sizes.size:
            own = self._rest(hot)
            for _, _, query, took in (
                part for segment in rows for part in own.affected(segment, b)
            ):
                steps, listed = steps + took, listed + query.size
        return hot * (PROBE_S + RECORD_S) + (steps * STEP_S + listed * RECORD_S) / b.size

    def _rest(self, hot: int) -> Scattered:
        """Ranges of the other groups; the newest is kept."""
        if self._scattered is None or self._scattered[0] != hot:
            lo, hi = self._ends
            places = np.flatnonzero(self._group >= hot)
            places = places[np.argsort(lo[places], kind="stable")]
            self._scattered = hot, Scattered.of(lo[places], hi[places], places)
        return self._scattered[1]


def by_size(group: Ints32) -> Ints32:
    """Numbered again, the largest first."""
    sizes = np.bincount(group)
    rank = np.empty(sizes.size, np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(sizes.size)
    return rank[group]
