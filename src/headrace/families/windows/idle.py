"""Groups come all the time; those that no open window has any more leave.

They are not taken out one by one: where a good part is idle, the others are numbered anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.banding import Banding
from headrace.families.windows.feed import KeySpace, SlotRows
from headrace.families.windows.plan import Slot
from headrace.families.windows.seats import Seat
from headrace.families.windows.waiting import CellPick
from headrace.values import ALWAYS_US

Ints = NDArray[np.int64]
GROUPS_MIN = 1_000
SHARE = 1.25  # of the groups that stay: more, and it pays to number them anew


class Idle:
    """When each group of each slot was last seen."""

    def __init__(self, keys: KeySpace, crowds: Mapping[Slot, Banding]) -> None:
        self._keys = keys
        self._crowds = crowds
        self._seen: dict[Slot, Ints] = {}

    @property
    def nbytes(self) -> int:
        return sum(seen.nbytes for seen in self._seen.values())

    def note(self, slot: Slot, rows: SlotRows | CellPick) -> None:
        seen = self._seen.get(slot)
        size = len(self._keys.of_slot(slot))
        if seen is None or len(seen) < size:
            wider = np.full(2 * size, ALWAYS_US, np.int64)
            if seen is not None:
                wider[: len(seen)] = seen
            seen = self._seen[slot] = wider
        np.maximum.at(seen, rows.groups, rows.pane_us)

    def forget(self, slot: Slot) -> None:
        self._seen.pop(slot, None)

    def retire(
        self,
        seats: Mapping[Slot, Sequence[Seat]],
        watermark_us: int,
        settle: Callable[[Slot], None],
    ) -> list[Slot]:
        """Number groups and spots anew where it pays; the slots whose groups have other numbers
        now.

        Before that, all rows of a slot must be on its rings (`settle`)."""
        for own in seats.values():
            self._retire_spots(own)
        renumbered: list[Slot] = []
        for slot, seen in list(self._seen.items()):
            # a group is seen by where its pane begins: the row may be as much newer as the widest
            # pane is wide
            reach = max(s.plan.grain_us * (s.plan.length + 1) for s in seats[slot])
            groups = len(self._keys.of_slot(slot))
            kept = np.flatnonzero(seen[:groups] >= watermark_us - reach)
            if slot.keys and groups > SHARE * kept.size + GROUPS_MIN:
                settle(slot)
                self._renumber(slot, seats[slot], kept)
                renumbered.append(slot)
        return renumbered

    def _renumber(self, slot: Slot, seats: Sequence[Seat], kept: Ints) -> None:
        if slot.cells:
            self._retire_spots(seats, kept)
        order = self._keys.keep(slot, kept)
        self._seen[slot] = self._seen[slot][order]
        if slot.cells:
            self._crowds[slot].spots.regroup(order)
            return
        for seat in seats:
            if seat.ring is not None:
                seat.ring.keep(order)

    def _retire_spots(self, seats: Sequence[Seat], groups: Ints | None = None) -> None:
        """Where a good part of a lane's spots is in no pane any more, number the others anew; of
        other groups than these, if some are given, none is left."""
        for seat in seats:
            key, ring = seat.plan.lane, seat.ring
            lane = None if key is None else self._crowds[seat.plan.slot].spots.lanes.get(key)
            if lane is None or key is None:
                continue
            held = np.ones(lane.band.size, np.bool_) if ring is None else ring.held(lane.band.size)
            if groups is not None:
                held &= np.isin(lane.group, groups)
            kept = np.flatnonzero(held)
            if groups is not None or lane.band.size > SHARE * kept.size + GROUPS_MIN:
                self._crowds[seat.plan.slot].spots.keep(key, kept)
                if ring is not None:
                    ring.keep(kept)
