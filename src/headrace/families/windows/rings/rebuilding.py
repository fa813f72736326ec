"""Rings that are missing are made out of the pane log: what it holds up to the round before is fed to
them again, as if they had stood then.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from headrace.families.windows.bands.waiting import CellPick
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.pane_log.panes import PaneLog
from headrace.families.windows.plan import Slot
from headrace.families.windows.rings.feeding import Fed, Feeding
from headrace.families.windows.rings.ring import Ring, Windows
from headrace.families.windows.rings.ring_members import StandingRing
from headrace.families.windows.rings.standing_rings import StandingRings
from headrace.families.windows.rollup.feed import PaneRows, SlotRows
from headrace.families.windows.rollup.groups import Evaluate
from headrace.families.windows.rollup.key_space import KeySpace
from headrace.families.windows.rollup.order import RollupStep
from headrace.runtime.family import Round
from headrace.values import ALWAYS_US, watermark

Rolled = tuple[RollupStep, SlotRows | CellPick]


class Rebuilding:
    """Makes rings out of the log."""

    def __init__(
        self, standing_rings: StandingRings, feeding: Feeding, keys: KeySpace, log: PaneLog
    ) -> None:
        self._standing = standing_rings
        self._feeding = feeding
        self._keys = keys
        self._log = log

    def rebuild(
        self, cuts: Cuts, round: Round, rolled: Sequence[Rolled], evaluate: Evaluate
    ) -> None:
        """Make the rings that are missing, with what the log holds up to the round before."""
        found = [
            standing
            for slot in self._standing.by_slot.values()
            for standing in slot
            if standing.ring is None and not standing.is_barred
        ]
        if not found:
            return
        # before anything is allocated: a ring is as wide as the slot has groups
        self._standing.bar(
            {id(standing): (standing, standing.nbytes(self._width(standing))) for standing in found}
        )
        missing = [standing for standing in found if not standing.is_barred]
        oldest_us = {step.slot: int(rows.pane_us[0]) for step, rows in rolled if rows.pane_us.size}
        before, after = round.watermark_before_us, round.watermark_us
        for standing in missing:
            first = standing.first_pane(before, after, oldest_us.get(standing.plan.slot))
            standing.ring = Ring(standing.arrangement.layout, standing.plan.length, first)
        if before is not None:
            self._replay(missing, before, round.late_us, cuts.pane_us, evaluate)

    def _width(self, standing: StandingRing) -> int:
        """Groups a ring is for, as far as they are known."""
        shared_ring = self._standing.shared_ring_of(standing)
        return (
            len(self._keys.of_slot(standing.plan.slot))
            if shared_ring is None
            else shared_ring.band.size
        )

    def _replay(
        self,
        missing: Sequence[StandingRing],
        before_us: int,
        late_us: int,
        pane_us: int,
        evaluate: Evaluate,
    ) -> None:
        """Feed the log to these rings, and close what was closed before the round.

        Rows of a crowd wait for their panes as they did when they came, where all its rings are
        made anew: so each band is folded of the same rows, and those of open panes wait on."""
        new = {id(standing) for standing in missing}
        slots = {standing.plan.slot for standing in missing}
        crowds = self._crowds_all_in(slots, new)
        for standing in missing:
            if standing.plan.shared_ring is not None:
                self._standing.crowds[standing.plan.slot].band_groups.begin_anew(
                    standing.plan.shared_ring, ALWAYS_US
                )
        first_us = min(
            (s.ring.next_pane * s.plan.grain_us for s in missing if s.ring is not None), default=0
        )
        for entry, table in self._log.replay(first_us):
            assert entry.newest_us is not None, "a round with panes has rows"
            # panes that the watermark of then had passed
            closed_us = watermark(entry.newest_us, late_us + pane_us)
            rollups = [
                b
                for b in self._feeding.rollups_of(entry.cuts)
                if any(t.slot in slots for t in b.steps)
            ]
            for step, rows in PaneRows(entry.cuts, table, self._keys, evaluate).roll(rollups):
                waits = step.slot in crowds and entry.cuts.pane_us == pane_us
                _add_to(new, self._feeding.feed(step, rows, closed_us, waits))
        for slot in crowds:
            _add_to(new, self._feeding.release(slot, before_us - pane_us))
        for standing in missing:
            if standing.ring is not None:
                standing.ring.close(before_us // standing.plan.grain_us - 1, Windows.none())

    def _crowds_all_in(self, slots: Iterable[Slot], new: Container[int]) -> set[Slot]:
        """The crowds among these slots of which all rings are new."""
        return {
            slot
            for slot in slots
            if slot.cells and all(id(standing) in new for standing in self._standing.by_slot[slot])
        }


def _add_to(new: Container[int], fed: Iterable[Fed]) -> None:
    """Old rows, to these rings.

    Panes wider than the ring's go in where they begin: whoever has edges inside of them does not
    count this round (`since`), and for all others that is the same window."""
    for standing_rings, given, rows in fed:
        for standing in standing_rings:
            if id(standing) in new and standing.ring is not None:
                standing.add(rows, given, standing.ring.next_pane)
