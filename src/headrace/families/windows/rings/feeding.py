"""Rows on their way to the rings: rolled up for their slots, and in a crowd of constants folded into
the bands of each shared ring, at once or when their pane has closed.

Rows of a new round and rows of the log go the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.families.windows.bands.waiting import CellPick, CellRows, Due, Ordering
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import Arrangement
from headrace.families.windows.plan import Slot
from headrace.families.windows.rings.idle import Idle
from headrace.families.windows.rings.ring_members import StandingRing
from headrace.families.windows.rings.standing_rings import StandingRings
from headrace.families.windows.rollup.feed import SlotRows
from headrace.families.windows.rollup.order import PredicateRollup, RollupStep, plan_rollups

Fed = tuple[Sequence[StandingRing], Arrangement, SlotRows]
"""Rows for some rings, and which columns they have."""
FED_MAX = 1 << 20  # rows of shared rings between two looks at the memory


class Feeding:
    """Makes out of rows of slots what each ring takes."""

    def __init__(self, standing_rings: StandingRings, idle: Idle) -> None:
        self._standing = standing_rings
        self._idle = idle
        self._rollups: dict[int, tuple[Cuts, list[PredicateRollup]]] = {}

    def replanned(self) -> None:
        """Other rings stand, or want other columns."""
        self._rollups.clear()

    def rollups_of(self, cuts: Cuts) -> list[PredicateRollup]:
        """How rows of these cuts are rolled up for the rings there are; planned once for each."""
        if id(cuts) not in self._rollups:
            wanted = {
                slot: tuple(dict.fromkeys(m for s in standing_rings for m in s.arrangement.ints))
                for slot, standing_rings in self._standing.by_slot.items()
            }
            self._rollups[id(cuts)] = (cuts, plan_rollups(cuts, wanted))
        return self._rollups[id(cuts)][1]

    def feed(
        self, step: RollupStep, rows: SlotRows | CellPick, closed_us: int | None, waits: bool = True
    ) -> Iterator[Fed]:
        """Rows of a slot for its rings; those of a crowd when their pane has closed, or at once."""
        self._idle.note(step.slot, rows)
        if isinstance(rows, SlotRows):
            yield self._standing.by_slot[step.slot], step.arrangement, rows
        elif waits:
            waiting = self._standing.crowds[step.slot].waiting
            yield from self._fold_due(step.slot, waiting.add(rows, step.arrangement, closed_us))
        else:
            yield from self._fold(step.slot, Ordering().in_order([rows]), step.arrangement)

    def release(self, slot: Slot, closed_us: int) -> Iterator[Fed]:
        """Rows of this crowd that wait for panes which have closed."""
        yield from self._fold_due(slot, self._standing.crowds[slot].waiting.release(closed_us))

    def settle(self, slot: Slot) -> None:
        """Rows of this slot wait no longer: who sits on its rings, or the numbers of its groups,
        will change."""
        if slot in self._standing.crowds:
            for fed in self._fold_due(slot, self._standing.crowds[slot].waiting.flush()):
                add(*fed)

    def _fold_due(self, slot: Slot, due: Iterable[Due]) -> Iterator[Fed]:
        for rows, given in due:
            yield from self._fold(slot, rows, given)

    def _fold(self, slot: Slot, rows: CellRows, given: Arrangement) -> Iterator[Fed]:
        """What each shared ring of the slot takes of these rows."""
        by_shared_ring = {s.plan.shared_ring: s for s in self._standing.by_slot[slot]}
        fed = 0
        for shared_ring, own, folded in self._standing.crowds[slot].fold(rows, given):
            yield [by_shared_ring[shared_ring]], own, folded
            fed += folded.groups.size
            if fed > FED_MAX:  # few rows may be many band groups
                self._standing.weigh()
                fed = 0


def add(standing_rings: Sequence[StandingRing], given: Arrangement, rows: SlotRows) -> None:
    for standing in standing_rings:
        if standing.ring is not None:
            standing.add(rows, given)
