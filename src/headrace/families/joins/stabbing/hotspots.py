"""Hotspots: the groups of a stabbing partition that hold a good share of all intervals.

A new interval joins a hot group if it overlaps what that group's members share; else it is
*scattered*, and those are kept in a partition of their own.  A scattered group of α·n members or
more becomes hot, a hot group of fewer than (α/2)·n is scattered again, with n intervals in all.  So
at any time
  (I1) every group of at least α·n is hot, and hot groups have at least (α/2)·n: there are at
       most 2/α of them;
  (I2) there are at most (1 + ε)·τ + 2/α groups in all, τ being the fewest that are possible;
  (I3) intervals that became or ceased to be scattered are at most 5 for each that was added or
       removed.

What members of a hot group share is kept while members leave (it is still common to the rest), and
looked for again once as many have left as are there.  Hot groups are looked at one by one for a new
interval, so α should not be less than about 1/1000.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.2.2; and P. K. Agarwal, J. Xie, J. Yang, H. Yu, "Scalable
Continuous Query Processing by Tracking Hotspots", VLDB 2006.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.families.joins.stabbing.hot_members import HotMembers
from headrace.families.joins.stabbing.interval_slots import ROOM, IntervalSlots, widened
from headrace.families.joins.stabbing.partition import Partition
from headrace.relations.arrays import Ints, Numbers

SCATTERED = -1


@dataclass(frozen=True, slots=True)
class HotGroup:
    """Its number is never another group's.  All members contain [common_lo, common_hi]."""

    number: int
    common_lo: Any
    common_hi: Any
    ids: Ints
    lo: Numbers
    hi: Numbers


@dataclass(frozen=True, slots=True)
class Scattered:
    """Intervals that are in no hot group, sorted by left end."""

    ids: Ints
    lo: Numbers
    hi: Numbers


@dataclass(slots=True)
class Moves:
    """How often an interval was added or removed, became hot, became scattered again."""

    updates: int = 0
    promoted: int = 0
    demoted: int = 0


class Hotspots:
    """Intervals of queries, told apart into hot groups and scattered ones as they come and go."""

    def __init__(self, alpha: float, epsilon: float, kind: Any = np.float64) -> None:
        assert 0 < alpha <= 1, f"alpha of {alpha}"
        self.alpha = alpha
        self.moves = Moves()
        self._interval_slots = IntervalSlots(kind)
        self._partition = Partition(self._interval_slots, epsilon)
        self._hot = HotMembers(self._interval_slots)
        self._place: Ints = np.full(ROOM, SCATTERED)

    def __len__(self) -> int:
        return len(self._interval_slots)

    def __contains__(self, query_id: int) -> bool:
        return query_id in self._interval_slots

    @property
    def coverage(self) -> float:
        """The share of intervals that are in hot groups."""
        return 1 - self._partition.size / len(self) if len(self) else 0.0

    @property
    def groups(self) -> int:
        """How many groups, hot and scattered."""
        return len(self._hot) + len(self._partition)

    # -- coming and going --------------------------------------------------------------------------

    def add(self, query_id: int, lo: float, hi: float) -> None:
        slot = self._interval_slots.add(query_id, lo, hi)
        self._make_room()
        self._place[slot] = self._hot.admit(slot)
        if self._place[slot] == SCATTERED:
            self._partition.add(slot)
        self.moves.updates += 1
        self._settle()

    def add_many(self, ids: Ints, lo: Numbers, hi: Numbers) -> None:
        """As if all came at once: groups become hot or scattered when all are there."""
        slots = self._interval_slots.add_many(ids, lo, hi)
        self._make_room()
        self._place[slots] = self._hot.admit_many(slots)
        self._partition.add_many(slots[self._place[slots] == SCATTERED])
        self.moves.updates += slots.size
        self._settle()

    def remove(self, query_id: int) -> None:
        slot = self._interval_slots.slot_of(query_id)
        place = int(self._place[slot])
        if place == SCATTERED:
            self._partition.remove(slot)
        else:
            self._hot.dismiss(place, slot)
        self._interval_slots.remove(query_id)
        self.moves.updates += 1
        self._settle()

    # -- looking -----------------------------------------------------------------------------------

    def group_of(self, query_id: int) -> int:
        """The number of its hot group; below zero for a scattered one, whose number may change."""
        slot = self._interval_slots.slot_of(query_id)
        place = int(self._place[slot])
        return place if place != SCATTERED else -1 - self._partition.group_of(slot)

    def hot_groups(self) -> Iterator[HotGroup]:
        return map(self.hot_group, self._hot.numbers())

    def hot_group(self, number: int) -> HotGroup:
        slots = self._hot.members(number)
        common_lo, common_hi = self._hot.common(number)
        return HotGroup(number, common_lo, common_hi, *self._intervals(slots))

    def scattered(self) -> Scattered:
        return Scattered(*self._intervals(self._partition.slots()))

    # -- hot and scattered -------------------------------------------------------------------------

    def _settle(self) -> None:
        """Hot groups that are too small first: their members may make scattered groups large
        enough."""
        n = len(self)
        for number in self._hot.smaller_than(self.alpha / 2 * n):
            self._demote(number)
        # those that are left may be grouped anew
        while large := self._partition.with_at_least(self.alpha * n):
            for slots in self._partition.take(large):
                self._promote(slots)

    def _demote(self, number: int) -> None:
        slots = self._hot.members(number)
        self._hot.close(number)
        self._place[slots] = SCATTERED
        self._partition.add_many(slots)
        self.moves.demoted += slots.size

    def _promote(self, slots: Ints) -> None:
        self._place[slots] = self._hot.open(slots)
        self.moves.promoted += slots.size

    def _intervals(self, slots: Ints) -> tuple[Ints, Numbers, Numbers]:
        return (
            self._interval_slots.ids[slots],
            self._interval_slots.lo[slots],
            self._interval_slots.hi[slots],
        )

    def _make_room(self) -> None:
        if self._place.size < self._interval_slots.room:
            self._place = widened(self._place, self._interval_slots.room, SCATTERED)
