"""The live queries of one relation, by family: what the catalog says has changed, told to those at
work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.catalog.catalog import Catalog, Registered
from headrace.pausing import set_aside
from headrace.runtime.family import Change, Work

MANY_QUERIES = 1_000


class LiveQueries:
    """As far as they are planned for.  `assign`: the family that runs a query."""

    def __init__(
        self,
        catalog: Catalog,
        relation: str,
        families: Iterable[str],
        assign: Callable[[Registered], str],
    ) -> None:
        self._catalog = catalog
        self._relation = relation
        self._assign = assign
        self._family_of: dict[int, str] = {}
        self._by_family: dict[str, dict[int, Registered]] = {name: {} for name in families}
        self._planned_version, self._is_planned = 0, False
        self.version = 0
        """Of the catalog, when it was last looked at."""

    def __len__(self) -> int:
        return len(self._family_of)

    def changed(self) -> tuple[list[Registered], list[int]] | None:
        """Queries that come and go, since those that are planned for; None if none does."""
        self._catalog.refresh()
        self.version, touched = self._catalog.touched(self._planned_version)
        live = {
            i: own
            for i, own in touched.items()
            if own is not None and own.quarantine is None and self._relation in own.query.relations
        }
        comes = [own for i, own in live.items() if i not in self._family_of]
        goes = [i for i in touched if i in self._family_of and i not in live]
        if comes or goes or not self._is_planned:
            return comes, goes
        self._planned_version = self.version
        return None

    def plan(
        self, works: Mapping[str, Work], comes: Sequence[Registered], goes: Sequence[int]
    ) -> None:
        """Each family plans for its own, if they have changed, or it has learnt to plan otherwise."""
        changes = {name: Change([], [], self._by_family[name]) for name in works}
        for registered in comes:
            name = self._assign(registered)
            self._family_of[registered.id] = name
            self._by_family[name][registered.id] = registered
            changes[name].comes.append(registered)
        for i in goes:
            name = self._family_of.pop(i)
            del self._by_family[name][i]
            changes[name].goes.append(i)
        for name, work in works.items():
            has_changed = changes[name].comes or changes[name].goes
            if has_changed or not self._is_planned or work.wants_replan:
                work.replan(changes[name])
        if len(comes) >= MANY_QUERIES:
            set_aside()
        self._planned_version, self._is_planned = self.version, True
