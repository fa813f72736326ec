"""Which rings there are, who sits on each, and what they may take of the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.families.windows.bands.band_groups import BandGroups, RingBandGroups
from headrace.families.windows.bands.banding import Banding
from headrace.families.windows.measures import arrange
from headrace.families.windows.plan import RingKey, RingPlan, Share, Slot
from headrace.families.windows.rings.ring_members import StandingRing
from headrace.values import ALWAYS_US


class StandingRings:
    """The rings of a stream, by what they were planned for.

    Queries that a ring is taken from for want of memory are put into `barred`, with the reason."""

    def __init__(self, bytes_max: int, barred: dict[int, str]) -> None:
        self.by_key: dict[RingKey, StandingRing] = {}
        self.crowds: dict[Slot, Banding] = {}
        self._by_slot: dict[Slot, list[StandingRing]] = {}
        self._bytes_max = bytes_max
        self._barred = barred

    @property
    def by_slot(self) -> Mapping[Slot, Sequence[StandingRing]]:
        if not self._by_slot:
            for standing in self.by_key.values():
                self._by_slot.setdefault(standing.plan.slot, []).append(standing)
        return self._by_slot

    def place(self, plan: RingPlan, asked: Share, since_us: int, newest_us: int | None) -> None:
        """Make sure the ring can hold a new member; one that cannot is rebuilt from the log, whose
        newest row is of `newest_us`."""
        self._by_slot.clear()
        standing = self.by_key.get(plan.key)
        begins_us = ALWAYS_US
        if plan.shared_ring is not None:
            band_groups = self.crowds.setdefault(plan.slot, Banding(BandGroups())).band_groups
            if standing is None or standing.ring is None or newest_us is None:
                from_us = ALWAYS_US  # all rows are still to come, or to be fed again
            else:
                from_us = newest_us + 1
            begins_us = band_groups.join(plan.shared_ring, asked.bands, from_us)
        if standing is None:
            self.by_key[plan.key] = StandingRing(plan, arrange(tuple(plan.measures)))
            return
        standing.members = None
        short = (
            standing.ring is not None
            and asked.window.range_us // plan.grain_us > standing.ring.length
        )
        if (
            short
            or since_us < begins_us
            or any(m not in standing.arrangement.ints for m in asked.measures)
        ):
            standing.ring = None
            standing.arrangement = arrange(tuple(plan.measures))

    def leave(self, plan: RingPlan, gone: Share) -> bool:
        """One who sat on the ring of this plan has gone.  Whether that was the last of its slot,
        so that nothing of the slot is left."""
        self._by_slot.clear()
        if plan.shared_ring is not None:
            self.crowds[plan.slot].band_groups.leave(plan.shared_ring, gone.bands)
        if plan.members:
            self.by_key[plan.key].members = None
            return False
        del self.by_key[plan.key]
        if any(s.plan.slot == plan.slot for s in self.by_key.values()):
            return False
        self.crowds.pop(plan.slot, None)
        return True

    def shared_ring_of(self, standing: StandingRing) -> RingBandGroups | None:
        plan = standing.plan
        return (
            None
            if plan.shared_ring is None
            else self.crowds[plan.slot].band_groups.shared_rings.get(plan.shared_ring)
        )

    @property
    def waiting_nbytes(self) -> int:
        """Of rows that wait for their panes, and the numbers of band groups."""
        return sum(
            crowd.band_groups.nbytes + crowd.waiting.nbytes for crowd in self.crowds.values()
        )

    def weigh(self) -> int:
        """Bytes of all rings; past the limit, the dearest are taken away."""
        return self.bar(
            {id(s): (s, s.ring.nbytes) for s in self.by_key.values() if s.ring is not None}
        )

    def bar(self, weighed: Mapping[int, tuple[StandingRing, int]]) -> int:
        """Take the dearest of these rings (with their bytes, by id) away, until all rings fit the
        memory they are allowed; the bytes of all.

        Only marked here: who sits where is for the next plan to change, which may be being read
        already."""
        held = sum(
            s.ring.nbytes
            for s in self.by_key.values()
            if s.ring is not None and id(s) not in weighed
        )
        used = held + sum(nbytes for _, nbytes in weighed.values())
        for standing, nbytes in sorted(weighed.values(), key=lambda item: -item[1]):
            if used <= self._bytes_max:
                break
            used -= nbytes
            self._take_away(standing, nbytes)
        return used

    def _take_away(self, standing: StandingRing, nbytes: int) -> None:
        standing.is_barred, standing.ring = True, None
        plan = standing.plan
        if plan.shared_ring is not None:
            self.crowds[plan.slot].band_groups.drop(plan.shared_ring)
        reason = (
            f"RING_BYTES: its ring takes {nbytes:,} bytes ({plan.length:,} panes), and with all others "
            f"more than ring_bytes_max = {self._bytes_max:,}; use fewer groups, a shorter range, or raise the limit"
        )
        self._barred.update(dict.fromkeys(plan.members, reason))
