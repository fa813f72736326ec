"""Groups come all the time; those that no open window has any more leave.

They are not taken out one by one: where a good part is idle, the others are numbered anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.bands.banding import Banding
from headrace.families.windows.bands.waiting import CellPick
from headrace.families.windows.plan import Slot
from headrace.families.windows.rings.ring_members import StandingRing
from headrace.families.windows.rollup.feed import SlotRows
from headrace.families.windows.rollup.key_space import KeySpace
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
        standing_rings: Mapping[Slot, Sequence[StandingRing]],
        watermark_us: int,
        settle: Callable[[Slot], None],
    ) -> list[Slot]:
        """Number groups and band groups anew where it pays; the slots whose groups have other
        numbers now.

        Before that, all rows of a slot must be on its rings (`settle`)."""
        for own in standing_rings.values():
            self._retire_band_groups(own)
        renumbered: list[Slot] = []
        for slot, seen in list(self._seen.items()):
            # a group is seen by where its pane begins: the row may be as much newer as the widest
            # pane is wide
            reach = max(s.plan.grain_us * (s.plan.length + 1) for s in standing_rings[slot])
            groups = len(self._keys.of_slot(slot))
            kept = np.flatnonzero(seen[:groups] >= watermark_us - reach)
            if slot.keys and groups > SHARE * kept.size + GROUPS_MIN:
                settle(slot)
                self._renumber(slot, standing_rings[slot], kept)
                renumbered.append(slot)
        return renumbered

    def _renumber(self, slot: Slot, standing_rings: Sequence[StandingRing], kept: Ints) -> None:
        if slot.cells:
            self._retire_band_groups(standing_rings, kept)
        order = self._keys.keep(slot, kept)
        self._seen[slot] = self._seen[slot][order]
        if slot.cells:
            self._crowds[slot].band_groups.regroup(order)
            return
        for standing in standing_rings:
            if standing.ring is not None:
                standing.ring.keep(order)

    def _retire_band_groups(
        self, standing_rings: Sequence[StandingRing], groups: Ints | None = None
    ) -> None:
        """Where a good part of a shared ring's band groups is in no pane any more, number the
        others anew; of other groups than these, if some are given, none is left."""
        for standing in standing_rings:
            key, ring = standing.plan.shared_ring, standing.ring
            shared_ring = (
                None
                if key is None
                else self._crowds[standing.plan.slot].band_groups.shared_rings.get(key)
            )
            if shared_ring is None or key is None:
                continue
            held = (
                np.ones(shared_ring.band.size, np.bool_)
                if ring is None
                else ring.held(shared_ring.band.size)
            )
            if groups is not None:
                held &= np.isin(shared_ring.group, groups)
            kept = np.flatnonzero(held)
            if groups is not None or shared_ring.band.size > SHARE * kept.size + GROUPS_MIN:
                self._crowds[standing.plan.slot].band_groups.keep(key, kept)
                if ring is not None:
                    ring.keep(kept)
