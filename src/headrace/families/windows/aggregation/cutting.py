"""One grouping by all keys, or several: which cuts Spark is asked for, decided by what rounds left.
Pure.

What has been decided is committed with every round (`state`): after a restart the next round is cut
as it would have been, so its sums of doubles are added in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.families.windows.cuts import Cuts, plan_cuts
from headrace.families.windows.plan import RingAssignment, in_order

# a group that Spark shuffles and sends costs about as much as reading and adding so many rows
CELL_ROWS = 8
FORBIDDEN = 1e300


@dataclass(frozen=True, slots=True)
class ChoiceState:
    """What one grouping has cost, and what several have; None if not tried."""

    united: bool = True
    united_cost: float | None = None
    apart_cost: float | None = None


UNTRIED = ChoiceState()


class Choice:
    """United or apart: tried when it may pay, decided by what the aggregates of whole rounds
    left."""

    ROWS_MIN = 10_000  # smaller rounds tell nothing

    def __init__(self, state: ChoiceState = UNTRIED) -> None:
        self.united = state.united
        known = {True: state.united_cost, False: state.apart_cost}
        self._cost = {united: cost for united, cost in known.items() if cost is not None}

    @property
    def state(self) -> ChoiceState:
        return ChoiceState(self.united, self._cost.get(True), self._cost.get(False))

    def forbid_united(self) -> None:
        self.united, self._cost[True] = False, FORBIDDEN

    def note(self, rows: int, cells: int, cuts: int, cuts_apart: int) -> bool:
        """A round of so many rows left so many cells; whether the next is to be cut the other
        way."""
        if rows < self.ROWS_MIN or cuts_apart == 1:
            return False
        self._cost[self.united] = cuts + CELL_ROWS * cells / rows
        other = self._cost.get(not self.united)
        # apart costs at least its passes; untried, it is worth a try only if those alone are
        # cheaper
        limit = cuts_apart if other is None and self.united else other
        if limit is not None and limit < self._cost[self.united]:
            self.united = not self.united
            return True
        return False


class Cutting:
    """The cuts for the rings there are."""

    def __init__(
        self, assignment: RingAssignment, state: ChoiceState = UNTRIED, has_facts: bool = True
    ) -> None:
        self._assignment = assignment
        self._has_facts = has_facts
        self._choice = Choice(state)
        self._cuts: Cuts | None = None
        self._apart: int | None = None

    @property
    def state(self) -> ChoiceState:
        return self._choice.state

    def replanned(self) -> None:
        """Plan the cuts anew when they are asked for: there are other rings now."""
        self._cuts = self._apart = None

    def cuts(self) -> Cuts:
        """What Spark is to aggregate in the next round."""
        if self._cuts is None:
            self._cuts = self._planned(self._choice.united)
        return self._cuts

    def note(self, rows: int, cells: int) -> None:
        """What Spark made of a round: are one grouping by all keys or several cheaper for these
        queries and rows?"""
        if self._choice.note(rows, cells, len(self.cuts().cuts), self._count_apart()):
            self._cuts = None

    def cut_apart(self) -> bool:
        """One grouping by all keys leaves too many cells: group by each on its own, if that is not
        done already."""
        if not self._choice.united or self._count_apart() == 1:
            return False
        self._choice.forbid_united()
        self._cuts = None
        return True

    def _count_apart(self) -> int:
        if self._apart is None:
            self._apart = len(self._planned(united=False).cuts)
        return self._apart

    def _planned(self, united: bool) -> Cuts:
        return plan_cuts(in_order(self._assignment), united, self._has_facts)
