"""Standing band joins, arranged by stabbing group for the kernels; immutable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.families.joins.bands import kernels
from headrace.families.joins.bands.kernels import BandGroups, Runs
from headrace.relations.arrays import Ints, Ints32, Numbers, falling


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Who is affected by a batch of events: of each group and event, how many ranges by left and by
    right end."""

    lefts: Ints32
    rights: Ints32


@dataclass(frozen=True, slots=True)
class BandIndex:
    """Band joins by stabbing group; `ids` are the queries, in the order of `groups.left`."""

    groups: BandGroups
    ids: Ints

    @staticmethod
    def build(ids: Ints, lo: Numbers, hi: Numbers, group: Ints32) -> BandIndex:
        """Ranges, and the stabbing group of each; groups are numbered from 0."""
        by_left = np.lexsort((lo, group))
        by_right = np.lexsort((falling(hi), group))
        sizes = np.bincount(group)
        at = np.append(0, np.cumsum(sizes))
        place = np.empty(group.size, np.int64)
        place[by_left] = np.arange(group.size)
        first = np.repeat(at[:-1], sizes)
        left, right = lo[by_left], hi[by_right]
        point = left[at[1:] - 1]  # the greatest left end is common to all
        groups = BandGroups(at, point, left, right, (place[by_right] - first).astype(np.int32))
        return BandIndex(groups, ids[by_left])

    def probe(self, rows: Numbers, events: Numbers) -> Prefixes:
        """How many queries of each group each event affects; `rows` and `events` are in order."""
        shape = (self.groups.point.size, events.size)
        found = Prefixes(np.empty(shape, np.int32), np.empty(shape, np.int32))
        kernels.count_prefixes(self.groups, rows, events, found.lefts, found.rights, False)
        return found

    def probe_more(self, rows: Numbers, events: Numbers, found: Prefixes) -> None:
        """Of the same events with these rows too."""
        kernels.count_prefixes(self.groups, rows, events, found.lefts, found.rights, True)

    def first(self, count: int) -> BandIndex:
        """The same index with only so many of its groups, which are in order of size."""
        own = self.groups
        return BandIndex(own._replace(at=own.at[: count + 1], point=own.point[:count]), self.ids)

    def count(self, found: Prefixes) -> Ints:
        """How many queries each event affects."""
        counted: Ints = kernels.count_affected(self.groups, found.lefts, found.rights)
        return counted

    def runs(self, rows: Numbers, events: Numbers, found: Prefixes) -> Runs:
        """The answers: an event, a query, and the first and last row; those of one event
        together."""
        counts = self.count(found)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if ends.size else 0
        out = Runs(*(np.empty(total, np.int64) for _ in range(4)))
        kernels.write_runs(
            self.groups, self.ids, rows, events, found.lefts, found.rights, ends - counts, out
        )
        return out
