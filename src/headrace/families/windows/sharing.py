"""What the window queries of a home share, for EXPLAIN and forecasts: kept up to date as they come
and go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.families.contract import Floats, Planned
from headrace.families.windows.costs.attribution import Users, split
from headrace.families.windows.costs.cost import priced
from headrace.families.windows.costs.flow import (
    ASSUMED,
    flow_of,
    flow_of_round,
    is_united,
    is_united_next,
)
from headrace.families.windows.costs.workload import (
    Quantities,
    RingWorks,
    Workload,
    quantities_of,
    workload_of,
)
from headrace.families.windows.cuts import Cuts, plan_cuts
from headrace.families.windows.explain import (
    assignment_of_shares,
    explain_window_query,
    explain_windows,
)
from headrace.families.windows.figures import WindowsFigures, figures_of, measured_line
from headrace.families.windows.plan import RingAssignment, Share
from headrace.families.windows.predicate_forms import PredicateForms
from headrace.runtime.statistics import Histories, Stats
from headrace.values import Relation


@dataclass(slots=True)
class StreamWindows:
    """The shared windows of one relation."""

    assignment: RingAssignment = field(default_factory=RingAssignment)
    _crowd: PredicateForms = field(default_factory=PredicateForms)
    _asked: dict[int, Share] = field(default_factory=dict)
    _works: RingWorks = field(default_factory=RingWorks)
    _made: dict[bool, tuple[Cuts, Workload]] = field(default_factory=dict)

    def update(self, come: Mapping[int, Share], gone: Sequence[int]) -> None:
        """Queries come and go: slots that have changed get rings anew, so that the plan does not
        depend on the order in which its queries came; all of them, where other predicates than
        before are a crowd."""
        self._made.clear()
        before = self._crowd.ranking()
        slots = {self.assignment.shares[i].slot for i in gone}
        for query_id in gone:
            self._crowd.remove(self._asked.pop(query_id).slot.where)
            self.assignment.remove(query_id)
        for asked in come.values():
            self._crowd.add(asked.slot.where)
        self._asked.update(come)
        if self._crowd.ranking() != before:
            self.assignment, forms = (
                RingAssignment(),
                {i: self._crowd.preferred(asked) for i, asked in self._asked.items()},
            )
        else:
            forms = {i: self._crowd.preferred(asked) for i, asked in come.items()}
            slots.update(form.slot for form in forms.values())
            first = min(come, default=math.inf)
            for ring in (ring for slot in slots for ring in self.assignment.rings_of(slot)):
                # who comes last to a shared ring sits last
                if ring.shared_ring is None or first < next(reversed(ring.members)):
                    forms |= ring.members
        self._assign(forms)

    def _assign(self, forms: Mapping[int, Share]) -> None:
        for query_id in forms.keys() & self.assignment.shares.keys():
            self.assignment.remove(query_id)
        for query_id, form in sorted(
            forms.items(), key=lambda item: (item[1].window.grain_us, item[0])
        ):
            self.assignment.add(query_id, form)
        rings = sorted(
            self.assignment.rings.items(),
            key=lambda item: (item[1].grain_us, next(iter(item[1].members))),
        )
        # in the order of whose query came first, as if all had come at once
        self.assignment.rings = dict(rings)

    def made(self, united: bool) -> tuple[Cuts, Workload]:
        """What Spark aggregates, and all the plan makes the engine do in a round."""
        if united not in self._made:
            rings = self.assignment.rings.values()
            cuts = plan_cuts(rings, united)
            self._made[united] = cuts, workload_of(self._works.of(rings), cuts)
        return self._made[united]


class WindowsPlan:
    """The shared windows of all relations."""

    def __init__(self) -> None:
        self._streams: dict[str, StreamWindows] = {}
        self._stream_of: dict[int, str] = {}

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        taken: dict[str, list[int]] = {}
        added: dict[str, dict[int, Share]] = {}
        for query_id in gone:
            taken.setdefault(self._stream_of.pop(query_id), []).append(query_id)
        for query_id, own in come.items():
            assert isinstance(own.claim.asked, Share)
            source = self._stream_of[query_id] = own.registered.query.source
            added.setdefault(source, {})[query_id] = own.claim.asked
        for name in dict.fromkeys((*taken, *added)):
            self._of(name).update(added.get(name, {}), taken.get(name, ()))

    def catch_up(self) -> None:
        for windows in self._streams.values():
            windows.made(united=True)

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        windows = self._of(relation.name)
        cuts, _ = windows.made(is_united_next(rounds.get(relation.name, ())))
        return explain_windows(windows.assignment, cuts)

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        source = self._stream_of[query_id]
        windows = self._of(source)
        cuts, _ = windows.made(is_united_next(rounds.get(source, ())))
        return ["shared windows", *explain_window_query(query_id, windows.assignment, cuts)]

    def price(self, relation: Relation, rounds: Histories) -> dict[str, float]:
        """With windows the whole round: their aggregate counts the rows."""
        if not self.counts_rows(relation):
            return {}
        history = rounds.get(relation.name, ())
        _, work = self._of(relation.name).made(is_united_next(history))
        return price_of(work, history)

    def reads_rows(self, relation: Relation) -> bool:
        return bool(self._of(relation.name).assignment.shares)

    def counts_rows(self, relation: Relation) -> bool:
        return self.reads_rows(relation)

    def measured(self, stats: Stats) -> list[str]:
        own = figures_of(stats)
        return [] if own == WindowsFigures() else measured_line(own)

    def _of(self, relation: str) -> StreamWindows:
        return self._streams.setdefault(relation, StreamWindows())


def price_of(work: Workload, history: Sequence[Stats]) -> dict[str, float]:
    """Seconds of the next round by stage, by the rates alone."""
    return priced(quantities_of(work, flow_of(history) or ASSUMED))


def shares_of(
    queries: Mapping[int, Planned],
    relation: Relation,
    rounds: Sequence[Stats],
    counts: Mapping[int, int],
) -> dict[str, Floats]:
    """Parts of each stage, in the order of the queries."""
    asked = {i: own.claim.asked for i, own in queries.items()}
    assignment = assignment_of_shares({i: a for i, a in asked.items() if isinstance(a, Share)})
    users = Users(assignment, plan_cuts(assignment.rings.values(), is_united(rounds)))
    place = {query_id: at for at, query_id in enumerate(assignment.shares)}
    order = [place[query_id] for query_id in queries]
    return {
        stage: part[order]
        for stage, part in split(users, _quantities(users.work, rounds), counts).items()
    }


def _quantities(work: Workload, rounds: Sequence[Stats]) -> Quantities:
    """What the rounds did, all together."""
    total: Quantities = {}
    for stats in rounds:
        for name, quantity in quantities_of(work, flow_of_round(stats)).items():
            total[name] = total[name] + quantity if name in total else quantity
    return total
