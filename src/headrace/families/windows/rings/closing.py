"""The watermark has passed panes: their rings close them, and the windows that end there are
answered, with the sketches that belong to the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.families.windows.bands.banding import answers_of
from headrace.families.windows.rings.ring_members import Closed, Members, StandingRing, members_of
from headrace.families.windows.rings.standing_rings import StandingRings
from headrace.families.windows.sketches.sketch_stores import SketchStores

ANSWERS_MAX = 1 << 20  # of rings, held at once


class Closing:
    """Closes rings.  Windows of a query that start before its `since` lack rows, and are not
    answered; a query whose sketches fail is put into `barred`."""

    def __init__(
        self,
        standing_rings: StandingRings,
        sketch_stores: SketchStores,
        since: Mapping[int, int],
        barred: dict[int, str],
    ) -> None:
        self._standing = standing_rings
        self._sketch_stores = sketch_stores
        self._since = since
        self._barred = barred

    def close(self, watermark_us: int | None) -> Iterator[list[Closed]]:
        """Close what the watermark has passed; the rings that answered something, ANSWERS_MAX
        answers or little more at a time.  All must be taken: rings are closed as they are asked
        for."""
        closed: list[Closed] = []
        room = ANSWERS_MAX
        if watermark_us is not None:
            self._sketch_stores.close(watermark_us)
        for standing in self._standing.by_key.values() if watermark_us is not None else ():
            if standing.is_barred:
                continue
            assert standing.ring is not None and watermark_us is not None
            through = watermark_us // standing.plan.grain_us - 1
            while standing.ring.is_behind(through):
                found = self._close_ring(standing, through, room)
                if found is not None:
                    room -= found.answers.end.size
                    closed.append(found)
                if room <= 0:
                    yield closed
                    closed, room = [], ANSWERS_MAX
        self._sketch_stores.tidy()
        self._note_faults()
        yield closed

    def _close_ring(self, standing: StandingRing, through: int, room: int) -> Closed | None:
        """Close panes of this ring up to `through`, or until the room is full; what it answered,
        if it did."""
        assert standing.ring is not None
        members = self._members_of(standing)
        answers = standing.ring.close(through, members.ring_windows, room)
        if not answers.end.size:
            return None
        if members.shared_ring is not None:
            shared_ring = self._standing.shared_ring_of(standing)
            if shared_ring is not None:
                answers = answers_of(answers, shared_ring, members.shared_ring)
                if not answers.end.size:
                    return None
        plan = standing.plan
        sketches = self._sketch_stores.answer(plan.slot, plan.grain_us, members, answers)
        self._note_faults()
        return Closed(standing, members, answers, sketches)

    def _members_of(self, standing: StandingRing) -> Members:
        if standing.members is None:
            shared_ring = self._standing.shared_ring_of(standing)
            standing.members = members_of(standing.plan, self._since, shared_ring)
        return standing.members

    def _note_faults(self) -> None:
        self._barred.update(self._sketch_stores.faults)
        self._sketch_stores.faults.clear()
