"""The catalog: the log replayed.  Names are unique; a change takes effect at the next round.

A query's id never comes back: dropping and adding a name again makes another query with
answers of its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.catalog.log import CatalogLog
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import CatalogError, near
from headrace.sql import codec
from headrace.sql.query import Query
from headrace.values import Field, Relation, Type

_NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Registered:
    """A live query: its id, the catalog version that brought it, and why it is quarantined and since when, if it is."""

    id: int
    query: Query
    version: int
    quarantine: str | None = None
    until: int | None = None

    def is_answered_with(self, version: int) -> bool:
        """Whether a round with this version of the catalog answers it."""
        return self.version <= version and (self.until is None or version < self.until)

    @property
    def name(self) -> str:
        return self.query.name


class Catalog:
    """Relations and live queries at `version`.  `refresh` takes in what others appended.

    With `until` it is read once, up to that version: the past."""

    def __init__(self, disk: Disk, config: Config, until: int | None = None) -> None:
        self._disk = disk
        self._until = until
        self._log = CatalogLog(disk)
        self._config = config
        self.relations: dict[str, Relation] = {}
        self.queries: dict[str, Registered] = {}
        self._next_id = 1
        self._mutex = threading.RLock()
        self.refresh()

    @property
    def version(self) -> int:
        return self._log.version

    def mark(self, version: int) -> int:
        """Tells one catalog's past from another's; see `CatalogLog.mark`."""
        return self._log.mark(version)

    def secure(self) -> None:
        """Make everything up to `version` durable, before a round that relies on it is."""
        self._log.secure()

    def refresh(self) -> bool:
        """Whether anything was new."""
        with self._mutex:
            before = self._log.version
            records = self._log.read()[: self._until]
            if records:
                # other threads may be looping over the dicts: change copies, then swap
                relations, queries = dict(self.relations), dict(self.queries)
                for version, record in enumerate(records, before + 1):
                    self._apply(record, version, relations, queries)
                self.relations, self.queries = relations, queries
            return bool(records)

    # -- changes ------------------------------------------------------------------------------

    def create(self, relation: Relation) -> None:
        """Register a stream or table; the same definition again changes nothing."""

        def record() -> dict[str, Any] | None:
            self._check_name(relation.name)
            known = self.relation_or_none(relation.name)
            if known == relation:
                return None
            if known is not None:
                raise CatalogError(
                    f"{'table' if known.is_table else 'stream'} {known.name!r} exists with another definition",
                    value=_definition(relation), choices=(_definition(known),),
                    hint="choose another name, or use the definition it has",
                )
            return {"do": "create", "relation": _relation_out(relation)}

        self._change(record)

    def add(self, queries: Sequence[Query]) -> None:
        """Register queries, all or none."""

        def record() -> dict[str, Any] | None:
            taken = set(self.queries)
            for query in queries:
                self._check_name(query.name)
                if query.name in taken:
                    raise CatalogError(
                        "a query of this name exists", value=query.name,
                        hint=f"choose another name, or drop it first: eng.drop({query.name!r})", code="NAME_TAKEN",
                    )
                taken.add(query.name)
            if len(taken) > self._config.queries_max:
                limit = f"queries_max = {self._config.queries_max}"
                raise CatalogError("too many queries", value=len(taken), choices=(limit,))
            return {"do": "add", "queries": [codec.encode(q) for q in queries]} if queries else None

        self._change(record)

    def drop(self, name: str) -> None:
        def record() -> dict[str, Any]:
            return {"do": "drop", "query": self.query(name).name}

        self._change(record)

    def quarantine(self, ids: Mapping[int, str]) -> None:
        """Take queries (id → reason) out of service until they are dropped; unknown ids are gone already."""

        def record() -> dict[str, Any] | None:
            live = {r.id for r in self.queries.values() if r.quarantine is None}
            found = {str(i): reason for i, reason in ids.items() if i in live}
            return {"do": "quarantine", "queries": found} if found else None

        self._change(record)

    # -- look-ups -------------------------------------------------------------------------------

    def query(self, name: str) -> Registered:
        found = self.queries.get(name)
        if found is None:
            raise CatalogError(
                "no query of this name", value=name, choices=near(name, self.queries),
                hint="`headrace list` shows all", code="UNKNOWN_QUERY",
            )
        return found

    def at(self, version: int) -> dict[str, Registered]:
        """The queries there were at an earlier version."""
        return Catalog(self._disk, self._config, version).queries

    def relation_or_none(self, name: str) -> Relation | None:
        return self.relations.get(name) or next(
            (r for n, r in self.relations.items() if n.lower() == name.lower()), None
        )

    def relation(self, name: str) -> Relation:
        found = self.relation_or_none(name)
        if found is None:
            raise CatalogError(
                "no stream or table of this name", value=name, choices=near(name, self.relations),
                hint="create it with eng.create_stream or eng.create_table", code="UNKNOWN_RELATION",
            )
        return found

    def free_name(self) -> str:
        """A name for a query that was given none."""
        n = self._next_id
        while f"q{n}" in self.queries:
            n += 1
        return f"q{n}"

    # -- the log ----------------------------------------------------------------------------------

    def _change(self, record: Callable[[], dict[str, Any] | None]) -> None:
        with self._mutex, self._log.exclusive():
            self.refresh()
            made = record()
            if made is not None:
                self._log.append(made)
                self.refresh()

    def _apply(
        self, record: dict[str, Any], version: int, relations: dict[str, Relation], queries: dict[str, Registered]
    ) -> None:
        match record["do"]:
            case "create":
                relation = _relation_in(record["relation"])
                relations[relation.name] = relation
            case "add":
                for data in record["queries"]:
                    query = codec.decode(data)
                    queries[query.name] = Registered(self._next_id, query, version)
                    self._next_id += 1
            case "drop":
                del queries[record["query"]]
            case "quarantine":
                for name, registered in list(queries.items()):
                    reason = record["queries"].get(str(registered.id))
                    if reason is not None:
                        queries[name] = replace(registered, quarantine=reason, until=version)
            case other:
                hint = "use the version that wrote it"
                raise CatalogError("a catalog record of another version", value=other, hint=hint)

    def _check_name(self, name: str) -> None:
        if len(name) > self._config.name_length_max:
            limit = f"name_length_max = {self._config.name_length_max}"
            raise CatalogError("the name is too long", value=name, choices=(limit,))
        if not _NAME.fullmatch(name):
            raise CatalogError(
                "not a name", value=name, choices=("letters, digits and _, parts joined by - or .",),
                hint="start with a letter or _",
            )


def _relation_out(relation: Relation) -> dict[str, Any]:
    return {
        "name": relation.name, "source": relation.source, "time": relation.time, "late_us": relation.late_us,
        "key": list(relation.key), "deleted": relation.deleted,
        "fields": [[f.name, f.type.name, f.type.precision, f.type.scale] for f in relation.fields],
    }


def _relation_in(data: dict[str, Any]) -> Relation:
    fields = tuple(Field(name, Type(kind, precision, scale)) for name, kind, precision, scale in data["fields"])
    key, deleted = tuple(data["key"]), data.get("deleted")  # older logs know of no deletions
    return Relation(data["name"], data["source"], fields, data["time"], data["late_us"], key, deleted)


def _definition(relation: Relation) -> str:
    """All that two definitions may differ in; the schema last, since long texts are cut."""
    if relation.is_table:
        rest = f"key {', '.join(relation.key)}" + (f", deleted {relation.deleted}" if relation.deleted else "")
    else:
        rest = f"time {relation.time}, late {relation.late_us} microseconds"
    return f"{relation.source}, {rest} ({relation.ddl()})"
