"""The members of hot groups, and what the members of each share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.families.joins.stabbing.interval_slots import ROOM, IntervalSlots, widened
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Numbers


class Commons(NamedTuple):
    """What members share and how many they are, and how many have left since that was looked for;
    by seat."""

    lo: Numbers
    hi: Numbers
    size: Ints
    left: Ints


@numba.njit(cache=True, nogil=True)
def seat_for(commons: Commons, groups: int, lo: Any, hi: Any) -> int:
    """Of the groups that an interval overlaps the one with the most members, made one larger; -1 if
    there is none."""
    seat, most = -1, 0
    for c in range(groups):
        if commons.lo[c] <= hi and commons.hi[c] >= lo and commons.size[c] > most:
            seat, most = c, commons.size[c]
    if seat >= 0:
        commons.lo[seat], commons.hi[seat] = max(commons.lo[seat], lo), min(commons.hi[seat], hi)
        commons.size[seat] += 1
    return seat


@numba.njit(cache=True, nogil=True)
def seats_for(commons: Commons, groups: int, slots: Ints, lo: Numbers, hi: Numbers) -> Ints:
    """One after the other; `lo` and `hi` are by slot."""
    seats = np.empty(slots.size, np.int64)
    for i in range(slots.size):
        seats[i] = seat_for(commons, groups, lo[slots[i]], hi[slots[i]])
    return seats


class HotMembers:
    """Hot groups by number; numbers rise.  A group sits on a seat, so that all are looked at in one
    loop."""

    def __init__(self, interval_slots: IntervalSlots) -> None:
        self._interval_slots = interval_slots
        self._next = 0
        self._numbers: list[int] = []
        self._seats: dict[int, int] = {}
        self._members: list[Ints] = []
        self._at: Ints = np.zeros(ROOM, np.int64)
        self._commons = Commons(
            *(
                np.zeros(ROOM, kind)
                for kind in (interval_slots.kind, interval_slots.kind, np.int64, np.int64)
            )
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self) -> list[int]:
        return sorted(self._numbers)

    def members(self, number: int) -> Ints:
        seat = self._seats[number]
        return self._members[seat][: self._commons.size[seat]].copy()

    def common(self, number: int) -> tuple[Any, Any]:
        seat = self._seats[number]
        return self._commons.lo[seat], self._commons.hi[seat]

    def smaller_than(self, members: float) -> list[int]:
        """Groups of fewer members, and those of none."""
        sizes = self._commons.size[: len(self)]
        return [
            self._numbers[seat]
            for seat in np.flatnonzero((sizes < members) | (sizes == 0)).tolist()
        ]

    # -- members -----------------------------------------------------------------------------------

    def admit(self, slot: int) -> int:
        """The number of the group it joined, or -1."""
        seat = int(
            seat_for(
                self._commons,
                len(self),
                self._interval_slots.lo[slot],
                self._interval_slots.hi[slot],
            )
        )
        if seat < 0:
            return -1
        self._place(seat, int(self._commons.size[seat]) - 1, slot)
        return self._numbers[seat]

    def admit_many(self, slots: Ints) -> Ints:
        """The numbers of the groups they joined, or -1."""
        sizes = self._commons.size[: len(self)].tolist()
        seats = seats_for(
            self._commons, len(self), slots, self._interval_slots.lo, self._interval_slots.hi
        )
        order = np.argsort(seats, kind="stable")
        starts = np.searchsorted(seats[order], np.arange(len(self) + 1))
        for seat, size in enumerate(sizes):
            self._place_many(seat, size, slots[order[starts[seat] : starts[seat + 1]]])
        return np.array([*self._numbers, -1])[seats]

    def dismiss(self, number: int, slot: int) -> None:
        """One member less, and its place is the last one's."""
        seat = self._seats[number]
        commons, members = self._commons, self._members[seat]
        commons.size[seat] -= 1
        commons.left[seat] += 1
        last = members[commons.size[seat]]
        members[self._at[slot]] = last
        self._at[last] = self._at[slot]
        if commons.left[seat] >= commons.size[seat] > 0:
            self._look_again(seat)

    # -- groups ------------------------------------------------------------------------------------

    def open(self, slots: Ints) -> int:
        """The number of a new group of these members, who have something in common."""
        number, seat = self._next, len(self)
        self._next += 1
        if seat == self._commons.size.size:
            self._commons = Commons(*(widened(column, 2 * seat) for column in self._commons))
        self._numbers.append(number)
        self._seats[number] = seat
        self._members.append(np.empty(0, np.int64))
        self._place_many(seat, 0, slots)
        self._commons.size[seat] = slots.size
        self._look_again(seat)
        return number

    def close(self, number: int) -> None:
        """The last seat's group takes the seat."""
        seat, last = self._seats.pop(number), len(self) - 1
        if seat != last:
            self._numbers[seat], self._members[seat] = self._numbers[last], self._members[last]
            self._seats[self._numbers[seat]] = seat
            for column in self._commons:
                column[seat] = column[last]
        self._numbers.pop()
        self._members.pop()

    def _place(self, seat: int, at: int, slot: int) -> None:
        if at == self._members[seat].size:
            self._members[seat] = widened(self._members[seat], 2 * at)
        if self._at.size < self._interval_slots.room:
            self._at = widened(self._at, self._interval_slots.room)
        self._members[seat][at], self._at[slot] = slot, at

    def _place_many(self, seat: int, at: int, slots: Ints) -> None:
        end = at + slots.size
        if end > self._members[seat].size:
            self._members[seat] = widened(self._members[seat], end)
        if self._at.size < self._interval_slots.room:
            self._at = widened(self._at, self._interval_slots.room)
        self._members[seat][at:end], self._at[slots] = slots, np.arange(at, end)

    def _look_again(self, seat: int) -> None:
        members = self._members[seat][: self._commons.size[seat]]
        self._commons.lo[seat], self._commons.hi[seat] = (
            self._interval_slots.lo[members].max(),
            self._interval_slots.hi[members].min(),
        )
        self._commons.left[seat] = 0
