"""Before a round: whether its sources are there, and what can be made ready while Spark starts.

Starting Spark takes seconds in which Python has nothing to do.  Families rehearse then what their
rounds run on the driver, and so compile and load their kernels.  Whatever goes wrong in a rehearsal
is left to the round itself, which says it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.families.contract import Family
from headrace.values import Relation


def missing_sources(relations: Iterable[Relation]) -> list[HeadraceError]:
    """What is not there."""
    from headrace.runtime.sources import check_there

    found: list[HeadraceError] = []
    for relation in relations:
        try:
            check_there(relation)
        except HeadraceError as error:
            found.append(error)
    return found


class Rehearsal:
    """Of the queries that are there when it begins, once, in a thread of its own."""

    def __init__(
        self, catalog: Catalog, config: Config, family_of: Callable[[Registered], Family]
    ) -> None:
        self._catalog = catalog
        self._config = config
        self._family_of = family_of
        self._thread: threading.Thread | None = None

    def needs_workers(self) -> bool:
        """Whether Python workers of Spark have a part in rounds of these queries."""
        return any(self._family_of(registered).uses_workers for registered in self._live())

    def _live(self) -> list[Registered]:
        return [r for r in list(self._catalog.queries.values()) if r.quarantine is None]

    def begin(self) -> None:
        if self._thread is None:
            live = self._live()
            self._thread = threading.Thread(
                target=self._run, args=(live,), name="headrace-rehearsal"
            )  # no daemon: a process that ends under a compiler ends by a signal
            self._thread.start()

    def _run(self, live: Sequence[Registered]) -> None:
        parts: dict[tuple[Family, str], list[Registered]] = {}
        for registered in live:
            with suppress(Exception):
                key = self._family_of(registered), registered.query.source
                parts.setdefault(key, []).append(registered)
        for (family, source), queries in parts.items():
            if not threading.main_thread().is_alive():
                return
            with suppress(Exception):
                family.rehearse(queries, self._catalog.relation(source), self._config)
