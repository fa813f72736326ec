"""Stabbing partitions: groups of intervals that have a point in common.

`canonical` makes the fewest groups.  `Partition` keeps at most (1 + ε) times as many while
intervals come and go: a new one joins a group whose common intersection it overlaps, or is a group
of its own; a group ends with its last member. All is made anew when |P| > (1 + ε)(τ₀ - m), with τ₀
groups at the last rebuild.  The m of the thesis counts all that left since; here it is only
*witnesses* that left, which is at most that: the first to end of each canonical group.  Those that are left do
not overlap each other, so every partition has τ₀ - m groups or more, and the bound holds.

Two choices make an update cheap where there are few groups and many members, and a rebuild is due
often:
- The common intersection does not grow when a member leaves, so common intersections never overlap
  each other.  What is kept is part of what all members share; a rebuild makes it as large as can
  be.
- A rebuild does not write to members (`stabbing/kernels.py`); it takes O(n / 512 + 512·τ) steps,
  and at most O(n).

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, sections 4.2.1 and 4.2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.families.joins.stabbing.interval_slots import ROOM, IntervalSlots, widened
from headrace.families.joins.stabbing.kernels import (
    BASE,
    BUILDS,
    LARGEST,
    LIVE,
    LOST,
    MADE,
    Groups,
    Joined,
    begin,
    dissolve,
    group_at,
    join,
    join_many,
    leave,
    merged,
    regroup,
    sift,
    sweep,
)
from headrace.families.joins.stabbing.sorted_blocks import (
    BLOCK,
    USED,
    loaded,
    new_sorted_blocks,
    with_room,
)
from headrace.relations.arrays import Ints, Ints32, Numbers

BULK_SHARE = 32
"""Where more than one in so many is new, making all anew takes less time than one join after the
other."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """The group of every interval, and of every group what its members share; groups are by place
    on the line."""

    group: Ints32
    lo: Numbers
    hi: Numbers


class Ranges(NamedTuple):
    """Groups of a partition: number, common intersection, members."""

    number: Ints
    lo: Numbers
    hi: Numbers
    size: Ints


def canonical(lo: Numbers, hi: Numbers) -> Canonical:
    """As few groups as can be: by left end, cut where the running intersection would be empty."""
    group = np.empty(lo.size, np.int32)
    common_lo, common_hi = np.empty_like(lo), np.empty_like(hi)
    made = sweep(lo, hi, np.argsort(lo), group, common_lo, common_hi)
    return Canonical(group, common_lo[:made].copy(), common_hi[:made].copy())


class Partition:
    """A partition of some intervals, named by slot.  A number is of one group, ever; a
    rebuild numbers anew.

    An interval has its slot before it is added, and until it is removed here."""

    def __init__(self, interval_slots: IntervalSlots, epsilon: float, block: int = BLOCK) -> None:
        assert epsilon > 0, f"epsilon of {epsilon}"
        self.epsilon = epsilon
        self._interval_slots = interval_slots
        self._size = 0
        self._first_number = 0
        self._rows, self._ranges = (
            new_sorted_blocks(interval_slots.kind, 1, block),
            new_sorted_blocks(interval_slots.kind, 1, block),
        )
        self._groups = _no_groups(interval_slots.kind, ROOM)
        self._joined = Joined(np.zeros(0, np.int32), np.zeros(0, np.int64))
        begin(self._groups, 0)

    def __len__(self) -> int:
        """How many groups."""
        return int(self._groups.counts[LIVE])

    @property
    def size(self) -> int:
        """How many intervals."""
        return self._size

    @property
    def rebuilds(self) -> int:
        return int(self._groups.counts[BUILDS]) - 1

    # -- coming and going --------------------------------------------------------------------------

    def add(self, slot: int) -> None:
        self._make_room(1)
        self._make_sorted_blocks(1)
        lo, hi = self._interval_slots.lo[slot], self._interval_slots.hi[slot]
        join(self._rows, self._ranges, self._groups, self._joined, slot, lo, hi)
        self._size += 1
        self._rebuild_if_due()

    def remove(self, slot: int) -> None:
        leave(
            self._rows,
            self._ranges,
            self._groups,
            self._joined,
            slot,
            self._interval_slots.lo[slot],
        )
        self._size -= 1
        self._rebuild_if_due()

    def add_many(self, slots: Ints) -> None:
        """A few one by one; of many a new partition is made, with all there were."""
        if not slots.size:
            return
        self._make_room(slots.size)
        lo, hi = self._interval_slots.lo, self._interval_slots.hi
        self._size += slots.size
        if slots.size * BULK_SHARE < self._size:
            self._make_sorted_blocks(slots.size)
            join_many(self._rows, self._ranges, self._groups, self._joined, slots, lo, hi)
            self._rebuild_if_due()
            return
        held = merged(self.slots(), slots[np.lexsort((slots, lo[slots]))], lo)
        self._rows = loaded(self._rows, lo[held], hi[held], held.astype(np.int32))
        self._rebuild()

    def take(self, numbers: list[int]) -> list[Ints]:
        """Remove these groups; the slots of each one's members."""
        wanted = np.array(numbers, np.int64) - self._first_number
        taken = int(self._groups.size[wanted].sum())
        slots, group = np.empty(taken, np.int64), np.empty(taken, np.int64)
        is_taken = np.zeros(int(self._groups.counts[MADE]), np.bool_)
        is_taken[wanted] = True
        sift(self._rows, self._groups, self._joined, is_taken, slots, group)
        dissolve(self._ranges, self._groups, wanted)
        self._size -= taken
        self._groups.counts[LARGEST] = self._sizes().max(initial=0)
        self._rebuild_if_due()
        order = np.argsort(group, kind="stable")
        starts, stops = (np.searchsorted(group[order], wanted, side) for side in ("left", "right"))
        return [slots[order[start:stop]] for start, stop in zip(starts, stops, strict=True)]

    # -- looking -----------------------------------------------------------------------------------

    def group_of(self, slot: int) -> int:
        return self._first_number + int(
            group_at(self._groups, self._joined, slot, self._interval_slots.lo[slot])
        )

    def slots(self) -> Ints:
        """All members by left end."""
        rows = self._rows
        parts = [rows.item[block, : rows.size[block]] for block in rows.order[: rows.counts[USED]]]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def ranges(self) -> Ranges:
        live = np.flatnonzero(self._sizes())
        groups = self._groups
        return Ranges(
            live + self._first_number, groups.lo[live], groups.hi[live], groups.size[live]
        )

    def with_at_least(self, members: float) -> list[int]:
        """Groups of at least so many members."""
        if not self._size or self._groups.counts[LARGEST] < members:
            return []
        sizes = self._sizes()
        self._groups.counts[LARGEST] = sizes.max(initial=0)
        return (np.flatnonzero(sizes >= members) + self._first_number).tolist()

    # -- rebuilding --------------------------------------------------------------------------------

    def _rebuild_if_due(self) -> None:
        counts = self._groups.counts.tolist()
        if counts[LIVE] > (1 + self.epsilon) * (counts[BASE] - counts[LOST]):
            self._rebuild()

    def _rebuild(self) -> None:
        self._first_number += int(self._groups.counts[MADE])
        made = regroup(self._rows, self._groups)
        groups = self._groups
        self._ranges = loaded(
            self._ranges, groups.lo[:made], groups.hi[:made], np.arange(made, dtype=np.int32)
        )

    def _make_room(self, members: int) -> None:
        if self._joined.group.size < self._interval_slots.room:
            self._joined = Joined(
                *(widened(column, self._interval_slots.room) for column in self._joined)
            )
        counts, room = self._groups.counts, self._groups.size.size
        if counts[MADE] + members > room and 2 * counts[LIVE] < counts[MADE]:
            self._rebuild()  # numbers of groups that ended are not used again
        if counts[MADE] + members > room:
            room = max(2 * room, int(counts[MADE]) + members)
            self._groups = _wider(self._groups, room)

    def _make_sorted_blocks(self, members: int) -> None:
        self._rows, self._ranges = with_room(self._rows, members), with_room(self._ranges, members)

    def _sizes(self) -> Ints:
        return self._groups.size[: self._groups.counts[MADE]]


def _no_groups(kind: np.dtype[np.generic], room: int) -> Groups:
    ends = [np.empty(room, kind) for _ in range(3)]
    return Groups(
        ends[0],
        ends[1],
        np.zeros(room, np.int64),
        ends[2],
        np.empty(room, np.int32),
        np.zeros(6, np.int64),
    )


def _wider(groups: Groups, room: int) -> Groups:
    lo, hi, size, first, witness = (widened(column, room) for column in groups[:-1])
    return Groups(lo, hi, size, first, witness, groups.counts)
