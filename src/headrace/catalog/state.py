"""What stands in a catalog at one version, as records of a compacted log, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headrace.quoting import quote_name
from headrace.records import check_path, decode
from headrace.sql import codec
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import Field, Relation, Type

QUERIES_A_LINE = 1_000


@dataclass(frozen=True, slots=True)
class Registered:
    """A live query: its id, the catalog version that brought it, and why it is quarantined and
    since when, if it is."""

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


@dataclass(frozen=True, slots=True)
class State:
    """All that stands: ids from `next_id` on have never been used."""

    next_id: int
    relations: tuple[Relation, ...]
    queries: tuple[Registered, ...]

    def parts(self) -> list[dict[str, Any]]:
        """In the order in which queries were registered: so they are listed."""
        first = {
            "next_id": self.next_id,
            "relations": [relation_out(r) for r in self.relations],
            "queries": [],
        }
        rest = range(0, len(self.queries), QUERIES_A_LINE)
        return [
            first,
            *({"queries": [_out(r) for r in self.queries[i : i + QUERIES_A_LINE]]} for i in rest),
        ]

    @staticmethod
    def of(parts: Sequence[dict[str, Any]]) -> State:
        relations = tuple([relation_in(data) for data in parts[0]["relations"]])
        return State(
            int(parts[0]["next_id"]), relations, tuple(_in(part["queries"] for part in parts))
        )


def _out(own: Registered) -> dict[str, Any]:
    quarantine = (
        {} if own.quarantine is None else {"quarantine": own.quarantine, "until": own.until}
    )
    return {"id": own.id, "version": own.version, "query": codec.encode(own.query), **quarantine}


@dataclass(frozen=True, slots=True)
class _Held:
    """A query as a compacted log has it."""

    id: int
    version: int
    query: dict[str, Any]
    quarantine: str | None = None
    until: int | None = None


def _in(parts: Iterable[Iterable[object]]) -> Iterator[Registered]:
    for data in (data for part in parts for data in part):
        held = decode(_Held, data)
        yield Registered(
            held.id, codec.decode(held.query), held.version, held.quarantine, held.until
        )


def relation_out(relation: Relation) -> dict[str, Any]:
    return {
        "name": relation.name,
        "source": relation.source,
        "time": relation.time,
        "late_us": relation.late_us,
        "key": list(relation.key),
        "deleted": relation.deleted,
        "fields": [[f.name, f.type.name, f.type.precision, f.type.scale] for f in relation.fields],
    }


@dataclass(frozen=True, slots=True)
class _Stored:
    """A relation as the log has it."""

    name: str
    source: str
    time: str | None
    late_us: int
    key: tuple[str, ...]
    fields: tuple[tuple[str, str, int, int], ...]
    deleted: str | None = None


def relation_in(data: dict[str, Any]) -> Relation:
    found = decode(_Stored, data)
    check_path(quote(found.name, safe=""))  # it has a folder
    fields = tuple(
        Field(name, Type(kind, precision, scale)) for name, kind, precision, scale in found.fields
    )
    names = {f.name for f in fields}
    if not names.issuperset(n for n in (*found.key, found.time, found.deleted) if n is not None):
        raise ValueError(f"{found.name}: its time, key or deletions are no column of it")
    if parse_schema(", ".join(f"{quote_name(f.name)} {f.type}" for f in fields)) != fields:
        raise ValueError(f"{found.name}: its columns are not those of a schema")
    return Relation(
        found.name, found.source, fields, found.time, found.late_us, found.key, found.deleted
    )
