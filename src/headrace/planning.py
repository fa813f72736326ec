"""Which family runs each query, and what the live ones share: kept up to date, so that EXPLAIN of one query does not
plan all the others again.

`Plans` follows the catalog by `Catalog.touched`.  A query that comes or goes costs what it changes: its share, the
seats of its slot, the ranges of its joint.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.catalog.catalog import Catalog, Registered
from headrace.families.joins.plan import Box, Joint, filter_share
from headrace.families.joins.plan import Share as JoinShare
from headrace.families.joins.plan import share as join_share
from headrace.families.windows.crowd import Crowd
from headrace.families.windows.plan import Cuts, Refusal, Seating, Share, plan_cuts, share
from headrace.families.windows.workload import RingWorks, Workload, workload_of
from headrace.pausing import collector_paused
from headrace.sql.query import Query
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.families.joins.explain import Asked

WINDOWS, JOINS, PLAIN = "windows", "joins", "plain"


@dataclass(frozen=True, slots=True)
class Run:
    """Who runs a query, with what it asks of that family; `reason`: why nobody shares it."""

    family: str
    reason: str = ""
    asked: Share | JoinShare | None = None


def run_of(query: Query, catalog: Catalog) -> Run:
    relation = catalog.relation(query.source)
    if query.joined is not None:
        return Run(JOINS, "", join_share(query, relation, catalog.relation(query.joined)))
    if not query.grouped and not relation.is_table:
        filtered = filter_share(query, relation)
        return Run(PLAIN, filtered) if isinstance(filtered, str) else Run(JOINS, "", filtered)
    asked = share(query, relation)
    return Run(PLAIN, asked.reason) if isinstance(asked, Refusal) else Run(WINDOWS, "", asked)


@dataclass(slots=True)
class Windows:
    """The shared windows of one relation."""

    seating: Seating = field(default_factory=Seating)
    _crowd: Crowd = field(default_factory=Crowd)
    _asked: dict[int, Share] = field(default_factory=dict)
    _works: RingWorks = field(default_factory=RingWorks)
    _made: dict[bool, tuple[Cuts, Workload]] = field(default_factory=dict)

    def update(self, come: Mapping[int, Share], gone: Sequence[int]) -> None:
        """Queries come and go: slots that have changed are seated anew, so that the plan does not depend on the order
        in which its queries came; all of them, where other predicates than before are a crowd."""
        self._made.clear()
        before = self._crowd.ranking()
        slots = {self.seating.shares[i].slot for i in gone}
        for query_id in gone:
            self._crowd.remove(self._asked.pop(query_id).slot.where)
            self.seating.remove(query_id)
        for asked in come.values():
            self._crowd.add(asked.slot.where)
        self._asked.update(come)
        if self._crowd.ranking() != before:
            self.seating, forms = Seating(), {i: self._crowd.preferred(asked) for i, asked in self._asked.items()}
        else:
            forms = {i: self._crowd.preferred(asked) for i, asked in come.items()}
            slots.update(form.slot for form in forms.values())
            for ring in (ring for slot in slots for ring in self.seating.rings_of(slot)):
                forms |= ring.members
        self._seat(forms)

    def _seat(self, forms: Mapping[int, Share]) -> None:
        for query_id in forms.keys() & self.seating.shares.keys():
            self.seating.remove(query_id)
        for query_id, form in sorted(forms.items(), key=lambda item: (item[1].window.grain_us, item[0])):
            self.seating.add(query_id, form)
        rings = sorted(self.seating.rings.items(), key=lambda item: (item[1].grain_us, next(iter(item[1].members))))
        self.seating.rings = dict(rings)  # in the order of who sat down first, as if all had come at once

    def made(self, united: bool) -> tuple[Cuts, Workload]:
        """What Spark aggregates, and all the plan makes the engine do in a round."""
        if united not in self._made:
            rings = self.seating.rings.values()
            cuts = plan_cuts(rings, united)
            self._made[united] = cuts, workload_of(self._works.of(rings), cuts)
        return self._made[united]


class Plans:
    """The plans of all relations of a catalog.  Hold `lock` from `refresh` until the plans are read."""

    def __init__(self, catalog: Catalog) -> None:
        self.lock = threading.Lock()
        self.live: Counter[str] = Counter()  # how many queries read each relation
        self._catalog = catalog
        self._version = 0
        self._runs: dict[int, Run] = {}
        self._planned: dict[int, Registered] = {}
        self._windows: dict[str, Windows] = {}
        self._boxes: dict[Joint, dict[int, Sequence[Box]]] = {}
        self._asked: dict[Joint, Asked] = {}

    def refresh(self) -> None:
        """Take in what has changed."""
        self._version, touched = self._catalog.touched(self._version)
        with collector_paused():
            self._plan([r for r in touched.values() if r is not None and r.quarantine is None], touched)
        for query_id in (i for i, own in touched.items() if own is None):
            self._runs.pop(query_id, None)

    def catch_up(self) -> None:
        """Plan what many queries that came at once share, so that whoever asks for EXPLAIN next need not wait."""
        with self.lock, collector_paused():
            self.refresh()
            _ = self.joints
            for windows in self._windows.values():
                windows.made(united=True)

    @contextmanager
    def including(self, registered: Registered) -> Iterator[None]:
        """With this query planned too, if it is out of service."""
        is_out = registered.id not in self._planned
        self._plan([registered] if is_out else [], ())
        try:
            yield
        finally:
            self._plan([], [registered.id] if is_out else ())

    def run_of(self, registered: Registered) -> Run:
        known = self._runs.get(registered.id)
        if known is None:
            known = self._runs[registered.id] = run_of(registered.query, self._catalog)
        return known

    def windows(self, relation: Relation) -> Windows:
        return self._windows.setdefault(relation.name, Windows())

    @property
    def joints(self) -> Mapping[Joint, Asked]:
        """All joints, and the ranges of their queries."""
        from headrace.families.joins.explain import asked_of  # compiled kernels: not for who only opens an engine

        for joint, boxes in self._boxes.items():
            if joint not in self._asked:
                self._asked[joint] = asked_of(joint, boxes)
        return self._asked

    def _plan(self, come: Iterable[Registered], gone: Iterable[int]) -> None:
        taken: dict[str, list[int]] = {}
        added: dict[str, dict[int, Share]] = {}
        for registered in [self._planned.pop(i) for i in gone if i in self._planned]:
            run = self._runs[registered.id]
            self.live.subtract(registered.query.relations)
            if isinstance(run.asked, Share):
                taken.setdefault(registered.query.source, []).append(registered.id)
            elif run.asked is not None:
                self._forget_boxes(registered.id, run.asked.joint)
        for registered in come:
            run = self.run_of(registered)
            self._planned[registered.id] = registered
            self.live.update(registered.query.relations)
            if isinstance(run.asked, Share):
                added.setdefault(registered.query.source, {})[registered.id] = run.asked
            elif run.asked is not None:
                self._boxes.setdefault(run.asked.joint, {})[registered.id] = run.asked.boxes
                self._asked.pop(run.asked.joint, None)
        for name in dict.fromkeys((*taken, *added)):
            self._windows.setdefault(name, Windows()).update(added.get(name, {}), taken.get(name, ()))

    def _forget_boxes(self, query_id: int, joint: Joint) -> None:
        del self._boxes[joint][query_id]
        self._asked.pop(joint, None)
        if not self._boxes[joint]:
            del self._boxes[joint]
