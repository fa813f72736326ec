"""The catalog: the log replayed.  Names are unique; a change takes effect at the next round.

A query's id never comes back: dropping and adding a name again makes another query with
answers of its own.
"""

from __future__ import annotations

import re
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from headrace.catalog.log import BASE, CatalogLog
from headrace.catalog.state import Registered, State, relation_in, relation_out
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import CatalogError, near
from headrace.pausing import collector_paused
from headrace.records import FILE_NAME_MAX, decoder_of
from headrace.sql import codec
from headrace.sql.query import Query
from headrace.values import Relation

__all__ = ["Catalog", "Registered"]

_NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*", re.UNICODE)


class Catalog:
    """Relations and live queries at `version`.  `refresh` takes in what others appended.

    A change costs what it changes, however many queries there are: `touched` tells it, and only who
    asks for all `queries` has them copied.  With `until` it is read once, up to that version: the
    past."""

    def __init__(self, disk: Disk, config: Config, until: int | None = None) -> None:
        self._disk = disk
        self._until = until
        self._log = CatalogLog(disk)
        self._config = config
        self.relations: dict[str, Relation] = {}
        self._queries: dict[str, Registered] = {}
        self._names: dict[int, str] = {}
        self._copy: dict[str, Registered] | None = None
        self._quarantined: set[int] = set()
        # versions, and the ids of the queries they came with or changed
        self._touched = (
            array("q"),
            array("q"),
        )
        self._next_id = 1
        self._recorded = 0  # queries that the log's file adds, drops and quarantines
        self._damage: CatalogError | None = None
        self._mutex = threading.RLock()
        self.refresh()

    @property
    def queries(self) -> Mapping[str, Registered]:
        """As they are now: what comes later does not change it."""
        with self._mutex:
            if self._copy is None:
                self._copy = dict(self._queries)
            return self._copy

    @property
    def quarantined(self) -> list[Registered]:
        """Queries that are not answered any more, and not dropped."""
        with self._mutex:
            return [self._queries[self._names[i]] for i in self._quarantined]

    def touched(self, since: int) -> tuple[int, dict[int, Registered | None]]:
        """The version, and the queries that have changed after an earlier one, as they are now;
        None: it is gone."""
        with self._mutex:
            versions, ids = self._touched
            changed = dict.fromkeys(ids[bisect_right(versions, since) :])
            return self.version, {i: self._queries.get(self._names.get(i, "")) for i in changed}

    @property
    def version(self) -> int:
        return self._log.version

    def mark(self, version: int) -> int | None:
        """Tells one catalog's past from another's; see `CatalogLog.mark`."""
        return self._log.mark(version)

    def secure(self) -> None:
        """Make everything up to `version` durable, before a round that relies on it is."""
        self._log.secure()

    def refresh(self) -> bool:
        """Whether anything was new."""
        with self._mutex, collector_paused():
            if self._damage is not None:
                raise self._damage
            records = self._log.read()
            try:
                for version, record in records:
                    if self._until is not None and version > self._until and record["do"] != BASE:
                        break
                    with self._log.door(version):
                        self._apply(record, version)
            except CatalogError as error:
                self._damage = error  # what has been read will not be read again
                raise
            return bool(records)

    # -- changes -----------------------------------------------------------------------------------

    def create(self, relation: Relation) -> None:
        """Register a stream or table; the same definition again changes nothing."""

        def record() -> dict[str, Any] | None:
            self._check_name(relation.name)
            _check_folder_name(relation.name)
            known = self.relation_or_none(relation.name)
            if known == relation:
                return None
            if known is not None:
                raise CatalogError(
                    f"{'table' if known.is_table else 'stream'} {known.name!r} exists with another definition",
                    value=_definition(relation),
                    choices=(_definition(known),),
                    hint="choose another name, or use the definition it has",
                )
            return {"do": "create", "relation": relation_out(relation)}

        self._change(record)

    def add(self, queries: Sequence[Query]) -> None:
        """Register queries, all or none; one that is there already, of the same name and meaning,
        stays as it is."""

        def record() -> dict[str, Any] | None:
            new: dict[str, Query] = {}
            for query in queries:
                self._check_name(query.name)
                known = self._queries.get(query.name)
                before = new.get(query.name) if known is None else known.query
                if before is None:
                    new[query.name] = query
                elif replace(query, sql=before.sql) != before:
                    raise CatalogError(
                        "a query of this name exists with another text",
                        value=f"{query.name}: {query.sql}",
                        choices=(before.sql,),
                        code="NAME_TAKEN",
                        hint=f"choose another name, or drop it first: eng.drop({query.name!r})",
                    )
            if (count := len(self._queries) + len(new)) > self._config.queries_max:
                limit = f"queries_max = {self._config.queries_max}"
                raise CatalogError("too many queries", value=count, choices=(limit,))
            return (
                {"do": "add", "queries": [codec.encode(q) for q in new.values()]} if new else None
            )

        self._change(record)

    def drop(self, names: Sequence[str]) -> None:
        """Take queries out, all or none."""

        def record() -> dict[str, Any] | None:
            found = list(dict.fromkeys(self.query(name).name for name in names))
            if len(found) == 1:
                return {"do": "drop", "query": found[0]}
            return {"do": "drop", "queries": found} if found else None

        self._change(record)

    def quarantine(self, ids: Mapping[int, str]) -> None:
        """Take queries (id → reason) out of service until they are dropped; unknown ids are gone
        already."""

        def record() -> dict[str, Any] | None:
            live = {i: self._queries.get(self._names.get(i, "")) for i in ids}
            found = {
                str(i): ids[i]
                for i, own in live.items()
                if own is not None and own.quarantine is None
            }
            return {"do": "quarantine", "queries": found} if found else None

        self._change(record)

    # -- look-ups -------------------------------------------------------------------------------

    def query(self, name: str) -> Registered:
        found = self._queries.get(name)
        if found is None:
            raise CatalogError(
                "no query of this name",
                value=name,
                choices=near(name, self.queries),
                hint="`headrace list` shows all",
                code="UNKNOWN_QUERY",
            )
        return found

    def at(self, version: int) -> Mapping[str, Registered]:
        """The queries there were at an earlier version; without those that were gone before the log
        was compacted."""
        past = Catalog(self._disk, self._config, version).queries
        return {
            name: own
            if own.until is None or own.until <= version
            else replace(own, quarantine=None, until=None)
            for name, own in past.items()
            if own.version <= version
        }

    def relation_or_none(self, name: str) -> Relation | None:
        return self.relations.get(name) or next(
            (r for n, r in self.relations.items() if n.lower() == name.lower()), None
        )

    def relation(self, name: str) -> Relation:
        found = self.relation_or_none(name)
        if found is None:
            raise CatalogError(
                "no stream or table of this name",
                value=name,
                choices=near(name, self.relations),
                hint="create it with eng.create_stream or eng.create_table",
                code="UNKNOWN_RELATION",
            )
        return found

    def free_name(self) -> str:
        """A name for a query that was given none."""
        n = self._next_id
        while f"q{n}" in self._queries:
            n += 1
        return f"q{n}"

    # -- the log -----------------------------------------------------------------------------------

    def _change(self, record: Callable[[], dict[str, Any] | None]) -> None:
        with self._mutex, self._log.exclusive():
            self.refresh()
            made = record()
            if made is not None:
                self._log.append(made)
                self.refresh()
                self._compact()

    def _compact(self) -> None:
        """Once most of the log speaks of what is gone, it is written anew: each change pays for its
        own part of it."""
        garbage = self._recorded - len(self._queries)
        if self._log.size >= self._config.catalog_compact_bytes and 2 * garbage > self._recorded:
            own = sorted(self._queries.values(), key=lambda r: r.id)
            state = State(self._next_id, tuple(self.relations.values()), tuple(own))
            if self._log.compact(state.parts()):
                self._recorded = len(own)

    def _begin(self, state: State, version: int) -> None:
        """All that stood at a version: of what was known before, only what has changed is
        touched."""
        known = {i: self._queries[name].quarantine for i, name in self._names.items()}
        queries = {r.name: r for r in state.queries}
        names = {r.id: r.name for r in state.queries}
        quarantined = {r.id for r in state.queries if r.quarantine is not None}
        changed = [r for r in state.queries if r.id not in known or known[r.id] != r.quarantine]
        for own in sorted(changed, key=lambda r: max(r.version, r.until or 0)):
            self._touch(own.id, version if known else max(own.version, own.until or 0))
        for i in known.keys() - names.keys():
            self._touch(i, version)
        self.relations = {r.name: r for r in state.relations}
        self._queries, self._names, self._quarantined = queries, names, quarantined
        self._next_id, self._recorded = state.next_id, len(queries)

    def _apply(self, record: dict[str, Any], version: int) -> None:
        self._copy = None
        match record["do"]:
            case "base":
                self._begin(State.of(record["parts"]), version)
            case "create":
                relation = relation_in(record["relation"])
                self.relations = {
                    **self.relations,
                    relation.name: relation,
                }  # others may be looping over them
            case "add":
                for data in record["queries"]:
                    query = codec.decode(data)
                    self._put(Registered(self._next_id, query, version), version)
                    self._next_id += 1
                    self._recorded += 1
            case "drop":
                for name in record.get("queries") or (record["query"],):
                    gone = self._queries.pop(name)
                    del self._names[gone.id]
                    self._quarantined.discard(gone.id)
                    self._touch(gone.id, version)
                    self._recorded += 1
            case "quarantine":
                for i, reason in decoder_of(dict[str, str])(record["queries"]).items():
                    self._recorded += 1
                    if int(i) in self._names:
                        own = self._queries[self._names[int(i)]]
                        self._put(replace(own, quarantine=reason, until=version), version)
                        self._quarantined.add(own.id)
            case other:
                hint = "use the version that wrote it"
                raise CatalogError("a catalog record of another version", value=other, hint=hint)

    def _put(self, registered: Registered, version: int) -> None:
        self._queries[registered.name] = registered
        self._names[registered.id] = registered.name
        self._touch(registered.id, version)

    def _touch(self, query_id: int, version: int) -> None:
        self._touched[0].append(version)
        self._touched[1].append(query_id)

    def _check_name(self, name: str) -> None:
        if len(name) > self._config.name_length_max:
            limit = f"name_length_max = {self._config.name_length_max}"
            raise CatalogError("the name is too long", value=name, choices=(limit,))
        if not _NAME.fullmatch(name):
            raise CatalogError(
                "not a name",
                value=name,
                choices=("letters, digits and _, parts joined by - or .",),
                hint="start with a letter or _",
            )


def _check_folder_name(name: str) -> None:
    """A stream or table has a folder of its name."""
    if len(quote(name, safe="")) > FILE_NAME_MAX:
        raise CatalogError(
            "the name is too long for a folder",
            value=name,
            hint="use fewer or plainer letters",
            choices=(f"{FILE_NAME_MAX} bytes, of which a letter beyond ASCII takes 6 and more",),
        )


def _definition(relation: Relation) -> str:
    """All that two definitions may differ in; the schema last, since long texts are cut."""
    if relation.is_table:
        rest = f"key {', '.join(relation.key)}" + (
            f", deleted {relation.deleted}" if relation.deleted else ""
        )
    else:
        rest = f"time {relation.time}, late {relation.late_us} microseconds"
    return f"{relation.source}, {rest} ({relation.ddl()})"
