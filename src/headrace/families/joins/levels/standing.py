"""The standing queries of a shape, as they come and go: a few levels, each an index that never
changes.

Queries that come together are a level; a level at least a quarter as large as the one above is
merged into it.  So a query is indexed anew a few times in its life, there are few levels, and
workers load only what is new.  A query that goes is forgotten when its level is next merged: until
then its places are counted, and nobody reads them.

Events are looked up for the groups of every level, which are more than one index would have; how
many more is tracked (`stabbing/tracking.py`).  Once that has cost what one index does, all levels
are merged: so it never costs more than twice what it might.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from headrace.families.joins.cost import build_s, groups_s
from headrace.families.joins.levels.level import Level, grouping, level_of, merged
from headrace.families.joins.plan import Box, JoinShape
from headrace.families.joins.stabbing.tracking import Tracked

RATIO = 4
GONE_MAX = 0.5


class Standing:
    """The levels of a shape, largest first."""

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape
        self.levels: list[Level] = []
        self._here: dict[
            int, int
        ] = {}  # how many ranges each has; of those that are gone, in the levels still
        self._gone: dict[int, int] = {}
        self._ranges = self._ranges_gone = 0
        self._tracked = Tracked(shape)
        self._rent_s = 0.0

    def __len__(self) -> int:
        return len(self._here)

    def update(self, comes: Mapping[int, Sequence[Box]], goes: Collection[int]) -> None:
        """Queries come and go."""
        for i in goes:
            self._gone[i] = ranges = self._here.pop(i)
            self._ranges, self._ranges_gone = self._ranges - ranges, self._ranges_gone + ranges
            self._tracked.remove(i, ranges)
        self._here.update({i: len(boxes) for i, boxes in comes.items()})
        self._ranges += sum(len(boxes) for boxes in comes.values())
        if comes:
            self.levels.append(level_of(self.shape, comes))
            self._tracked.add(self.levels[-1])
        self._merge()

    def expect(self, side: int, events: int) -> None:
        """So many events of a side are looked up next."""
        which = grouping(self.shape, side)
        more = sum(level.groups(which) for level in self.levels) - self._tracked.groups(which)
        self._rent_s += events * groups_s(self.shape.kind, max(0, more))
        if len(self.levels) > 1 and self._rent_s > build_s(self.shape.kind, self._size):
            self._merge_from(0)
            self._rent_s = 0.0

    def tally(self, side: int) -> dict[str, float]:
        """As rows of a side find them: levels, their groups, those one index would have; ranges,
        and how many of them are in hotspots."""
        which, here = grouping(self.shape, side), self._ranges
        return {
            "levels": len(self.levels),
            "groups": sum(level.groups(which) for level in self.levels),
            "fewest": self._tracked.groups(which),
            "ranges": here,
            "hot": here * self._tracked.coverage(which),
        }

    @property
    def _size(self) -> int:
        return sum(len(level) for level in self.levels)

    def _merge(self) -> None:
        if self._ranges_gone > GONE_MAX * self._size:
            self._merge_from(0)
        while len(self.levels) > 1 and len(self.levels[-1]) * RATIO >= len(self.levels[-2]):
            self._merge_from(len(self.levels) - 2)

    def _merge_from(self, first: int) -> None:
        ids = np.concatenate([level.ids for level in self.levels[first:]])
        kept = ~np.isin(ids, np.fromiter(self._gone, np.int64, len(self._gone)))
        level = merged(self.shape, self.levels[first:], kept)
        for i in set(ids[~kept].tolist()):
            self._ranges_gone -= self._gone.pop(i)
        self.levels[first:] = [level] if len(level) else []
