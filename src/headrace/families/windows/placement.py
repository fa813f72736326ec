"""Which query sits on which ring, as bits or as cells: one rule for EXPLAIN and for the engine.
Pure.

The rule says where the queries of a stream would sit, had all come at once (`BestPlacement`): it
depends on the queries alone.  An engine at work does not move a query for a newcomer: its ring would have
to be made anew from the log, and what the log holds of it may tell its bits but not its cells.  So
some sit elsewhere.  Those *exceptions* are committed with every round: EXPLAIN shows them, and an
engine that starts again places them as they sat.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from headrace.families.windows.cells import cell
from headrace.families.windows.figures import Elsewhere, Placement
from headrace.families.windows.plan import SHARED_PANES_MAX, RingAssignment, RingPlan, Share
from headrace.families.windows.predicate_forms import CELLS_MAX, PredicateForms, celled, wants_bits
from headrace.sql.bands import split
from headrace.sql.tree import Expr


class BestPlacement:
    """Where queries sit as if all had come at once, kept up to date as they come and go."""

    def __init__(self) -> None:
        self.assignment = RingAssignment()
        self.crowd = PredicateForms()
        self.asked: dict[int, Share] = {}

    def update(self, come: Mapping[int, Share], gone: Sequence[int]) -> list[int]:
        """Slots that have changed get rings anew, so that nothing depends on the order in which
        queries came; all of them, where other predicates than before are a crowd.  Returns who was
        placed."""
        before = self.crowd.ranking()
        slots = {self.assignment.shares[i].slot for i in gone}
        for query_id in gone:
            self.crowd.remove(self.asked.pop(query_id).slot.where)
            self.assignment.remove(query_id)
        for asked in come.values():
            self.crowd.add(asked.slot.where)
        self.asked.update(come)
        if self.crowd.ranking() != before:
            self.assignment = RingAssignment()
            forms = {i: self.crowd.preferred(asked) for i, asked in self.asked.items()}
        else:
            forms = {i: self.crowd.preferred(asked) for i, asked in come.items()}
            slots.update(form.slot for form in forms.values())
            first = min(come, default=math.inf)
            for ring in (ring for slot in slots for ring in self.assignment.rings_of(slot)):
                # who comes last to a shared ring sits last
                if ring.shared_ring is None or first < next(reversed(ring.members)):
                    forms |= ring.members
        for query_id in forms.keys() & self.assignment.shares.keys():
            self.assignment.remove(query_id)
        # finer rings first: coarser windows may sit on them
        for query_id, form in sorted(forms.items(), key=_order):
            self.assignment.add(query_id, form)
        return list(forms)

    def but(self, exceptions: Sequence[Elsewhere]) -> RingAssignment:
        """Where all sit if these exceptions sit elsewhere than is best for them."""
        sat = PlacementsTold(exceptions)
        elsewhere = {
            i: (form, placement[0])
            for i, asked in (self.asked.items() if exceptions else ())
            if (placement := sat.of(i)) is not None
            and (form := form_at(asked, placement)) is not None
        }
        if not elsewhere:
            return self.assignment
        found = RingAssignment()
        for i, form in sorted(self.assignment.shares.items(), key=_order):
            own, grain_us = elsewhere.get(i, (form, self.assignment.ring_of[i].grain_us))
            found.add(i, own, grain_us)
        return found


class PlacementsTold:
    """Exceptions as they were committed, looked up by query."""

    def __init__(self, exceptions: Sequence[Elsewhere]) -> None:
        self._runs = sorted((*run, own.placement) for own in exceptions for run in own.runs)
        self._firsts = [first for first, _, _ in self._runs]

    def of(self, query_id: int) -> Placement | None:
        at = bisect_right(self._firsts, query_id) - 1
        if at < 0 or self._runs[at][1] < query_id:
            return None
        return self._runs[at][2]


class Placements:
    """Where the queries of an engine at work sit; `remembered`: where some sat when it last ran."""

    def __init__(self, remembered: Sequence[Elsewhere]) -> None:
        self.assignment = RingAssignment()
        self.best = BestPlacement()
        self.exceptions: tuple[Elsewhere, ...] = ()
        self._apart: dict[int, Placement] = {}
        self._remembered = PlacementsTold(remembered)
        self._moved: list[int] = []

    def expect(self, come: Mapping[int, Share], gone: Sequence[int]) -> None:
        """These come, to be added one by one; these have gone."""
        self._moved = self.best.update(come, gone)
        for query_id in gone:
            self._apart.pop(query_id, None)

    def add(
        self, query_id: int, asked: Share, covered_from: Callable[[Share], int]
    ) -> tuple[int, Share, RingPlan]:
        """From when on the query answers, what it asks for, and its ring: where it sat, if it ran
        before; else where the log has most for it, and of equal history where it sits best."""
        placement = self._remembered.of(query_id)
        kept = None if placement is None else form_at(asked, placement)
        if placement is not None and kept is not None:
            return covered_from(kept), kept, self.assignment.add(query_id, kept, placement[0])
        forms = [(covered_from(form), form) for form in self.best.crowd.forms(asked)]
        since, form = min(forms, key=lambda item: item[0])
        is_best = form == self.best.assignment.shares[query_id]
        grain_us = self.best.assignment.ring_of[query_id].grain_us if is_best else None
        return since, form, self.assignment.add(query_id, form, grain_us)

    def note_exceptions(self) -> None:
        """Of those whose best placement may be another now.  Ids never come back: a run may pass
        over queries that have gone."""
        for query_id in self._moved:
            asked = self.best.asked[query_id]
            own, best = (
                placement_of(asked, found.shares[query_id], found.ring_of[query_id])
                for found in (self.assignment, self.best.assignment)
            )
            self._apart.pop(query_id, None)
            if own != best:
                self._apart[query_id] = own
        self._remembered, self._moved = PlacementsTold(()), []
        runs: dict[Placement, list[tuple[int, int]]] = {}
        for placement, own_ids in groupby(
            sorted(self.best.asked if self._apart else ()), self._apart.get
        ):
            ids = list(own_ids)
            if placement is not None:
                runs.setdefault(placement, []).append((ids[0], ids[-1]))
        self.exceptions = tuple(Elsewhere(placement, tuple(own)) for placement, own in runs.items())


def _order(item: tuple[int, Share]) -> tuple[int, int]:
    return item[1].window.grain_us, item[0]


def placement_of(asked: Share, form: Share, ring: RingPlan) -> Placement:
    attributes: list[Expr] = [cell(a) for a, _ in split(asked.slot.where).bands]
    return (ring.grain_us, *(attributes.index(c) for c in form.slot.cells))


def form_at(asked: Share, placement: Placement) -> Share | None:
    """What a query asks for where it sits like this; None where no query can."""
    if not placement:
        return None
    attributes = [a for a, _ in split(asked.slot.where).bands]
    grain_us, *cells = placement
    are_cells = len(set(cells)) == len(cells) <= CELLS_MAX and not (cells and wants_bits(asked))
    if not are_cells or not all(0 <= i < len(attributes) for i in cells):
        return None
    window = asked.window
    fits = grain_us > 0 and window.grain_us % grain_us == 0
    is_fine = grain_us == window.grain_us or window.range_us // max(grain_us, 1) <= SHARED_PANES_MAX
    if not fits or not is_fine or (cells and grain_us != window.grain_us):
        return None
    return celled(asked, [attributes[i] for i in cells])
