"""Declaring: streams, tables and queries come and go."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.arguments import (
    check_names,
    check_optional,
    check_queries,
    check_texts,
)
from headrace.errors import CatalogError, HeadraceWarning
from headrace.families.registry import run_of
from headrace.pausing import look_through_now
from headrace.quoting import quote_name
from headrace.sql.bind import bind
from headrace.sql.duration import parse_duration_us
from headrace.sql.query import Query
from headrace.sql.schema import deleted_column, parse_schema
from headrace.values import TIMESTAMP, Field, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


from headrace.engine.state import EngineState

PLANNED_AT_ONCE = 1_000
"""So many queries that come together are planned then, for milliseconds each of EXPLAIN later."""


class Declaring(EngineState):
    """The part of an engine that declares."""

    def create_stream(
        self,
        name: str,
        source: str | DataFrame,
        *,
        schema: str | None = None,
        time: str,
        late: str = "0 seconds",
    ) -> None:
        """Append-only rows with an event time; rows more than `late` behind the newest are left out
        and counted."""
        check_texts(name=name, time=time, late=late)
        check_optional(schema=schema)
        fields = self._fields(schema, source)
        moment = next((f for f in fields if f.name.lower() == time.lower()), None)
        if moment is None or moment.type != TIMESTAMP:
            raise CatalogError(
                "the event time must be a TIMESTAMP column",
                value=time if moment is None else f"{time} {moment.type}",
                choices=[f.name for f in fields if f.type == TIMESTAMP],
                hint="name it with time='…'",
            )
        relation = Relation(
            name, self._source(name, source), fields, moment.name, parse_duration_us(late)
        )
        if relation.late_us < 0:
            raise CatalogError(
                "lateness must not be negative", value=late, hint="e.g. late='10 seconds'"
            )
        self._create(relation, source)

    def create_table(
        self,
        name: str,
        source: str | DataFrame,
        *,
        schema: str | None = None,
        key: str,
        deleted: str | None = None,
    ) -> None:
        """An upsert stream: the latest row of each key counts, and where its BOOLEAN column
        `deleted` is true there is no row of that key."""
        check_texts(name=name, key=key)
        check_optional(schema=schema, deleted=deleted)
        fields = self._fields(schema, source)
        by_name = {f.name.lower(): f.name for f in fields}
        keys = [k.strip() for k in key.split(",")]
        for k in keys:
            if k.lower() not in by_name:
                raise CatalogError(
                    "the key is not a column", value=k, choices=[f.name for f in fields]
                )
        if deleted is not None:
            deleted = deleted_column(deleted, fields, keys)
        relation = Relation(
            name,
            self._source(name, source),
            fields,
            key=tuple(by_name[k.lower()] for k in keys),
            deleted=deleted,
        )
        self._create(relation, source)

    def add(self, sql: str, name: str | None = None) -> str:
        """Register a standing query; it takes effect at the next round.  Its name, which is its
        handle."""
        check_texts(sql=sql)
        check_optional(name=name)
        self._refresh()
        name = name if name is not None else self.catalog.free_name()
        self.catalog.add([self._bind(sql, name)])
        return name

    def add_many(self, queries: Mapping[str, str]) -> list[str]:
        """Register queries (name → SQL), all or none, with one durable write."""
        check_queries(queries)
        self._refresh()
        self.catalog.add(list(map(self._bind, queries.values(), queries)))
        if len(queries) >= PLANNED_AT_ONCE:
            self._plans.catch_up()
            look_through_now()
        return list(queries)

    def drop(self, query: str) -> None:
        """Take a query out, from the next round on."""
        check_texts(query=query)
        self._refresh()
        self.catalog.drop([query])

    def drop_many(self, queries: Iterable[str]) -> None:
        """Take queries out, all or none, with one durable write."""
        names = check_names(queries)
        self._refresh()
        self.catalog.drop(names)

    def _bind(self, sql: str, name: str) -> Query:
        """The query the text means, if a family can run it."""
        query = bind(sql, self.catalog.relations, name=name, config=self.config)
        run = run_of(query, self.catalog.relation)
        warning = run.family.check(query, run.claim, self.config)
        if warning:
            warnings.warn(warning, HeadraceWarning, stacklevel=3)
        return query

    def _create(self, relation: Relation, source: object) -> None:
        from headrace.runtime.sources import check_relation, parse_source

        check_relation(relation, parse_source(relation.source))
        self._refresh()
        self.catalog.create(relation)
        if not isinstance(source, str):
            self._frames[relation.name] = source  # type: ignore[assignment]

    def _source(self, name: str, source: str | DataFrame) -> str:
        from headrace.runtime.sources import DATAFRAME, absolute, parse_source

        return (
            absolute(parse_source(source), source) if isinstance(source, str) else DATAFRAME + name
        )

    def _fields(self, schema: str | None, source: str | DataFrame) -> tuple[Field, ...]:
        if schema is None:
            if isinstance(source, str):
                raise CatalogError(
                    "a schema is needed",
                    value=source,
                    hint="schema='symbol STRING, price DOUBLE, …'",
                )
            schema = ", ".join(
                f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in source.schema.fields
            )
        return parse_schema(schema)
