"""Which family runs each query, and what the live ones share: kept up to date, so that EXPLAIN of
one query does not plan all the others again.

`Plans` follows the catalog by `Catalog.touched` and tells each family which of its queries come and
go.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property

from headrace.catalog.catalog import Catalog, Registered
from headrace.families import registry
from headrace.families.contract import Plan, Planned
from headrace.families.registry import Run
from headrace.pausing import collector_paused


class Plans:
    """The plans of all families for the queries of a catalog.  Hold `lock` from `refresh` until the
    plans are read."""

    def __init__(self, catalog: Catalog) -> None:
        self.lock = threading.Lock()
        self.live: Counter[str] = Counter()  # how many queries read each relation
        self._catalog = catalog
        self._version = 0
        self._runs: dict[int, Run] = {}
        self._planned: dict[int, Registered] = {}

    @cached_property
    def by_family(self) -> dict[str, Plan]:
        """In the order of the registry."""
        return {family.name: family.plan() for family in registry.FAMILIES}

    def refresh(self) -> None:
        """Take in what has changed."""
        self._version, touched = self._catalog.touched(self._version)
        with collector_paused():
            self._plan(
                [r for r in touched.values() if r is not None and r.quarantine is None], touched
            )
        for query_id in (i for i, own in touched.items() if own is None):
            self._runs.pop(query_id, None)

    def catch_up(self) -> None:
        """Plan what many queries that came at once share, so that whoever asks for EXPLAIN next
        need not wait."""
        with self.lock, collector_paused():
            self.refresh()
            for plan in self.by_family.values():
                plan.catch_up()

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
            known = self._runs[registered.id] = registry.run_of(
                registered.query, self._catalog.relation
            )
        return known

    def _plan(self, come: Iterable[Registered], gone: Iterable[int]) -> None:
        changes: dict[str, tuple[dict[int, Planned], list[int]]] = {}
        for registered in [self._planned.pop(i) for i in gone if i in self._planned]:
            self.live.subtract(registered.query.relations)
            changes.setdefault(self._runs[registered.id].family.name, ({}, []))[1].append(
                registered.id
            )
        for registered in come:
            run = self.run_of(registered)
            self._planned[registered.id] = registered
            self.live.update(registered.query.relations)
            planned = Planned(registered, run.claim, run.reason)
            changes.setdefault(run.family.name, ({}, []))[0][registered.id] = planned
        for name, (comes, goes) in changes.items():
            self.by_family[name].update(comes, goes)
