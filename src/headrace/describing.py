"""`eng.describe`: everything about one query, from committed rounds, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headrace.catalog.catalog import Catalog, Registered
from headrace.families.joins.residue import change_name
from headrace.families.plain.plan import Way, way_of
from headrace.planning import JOINS, PLAIN, Plans
from headrace.reading import Log, newest_seq
from headrace.runtime.answers import column_names
from headrace.showing import cell, html_table
from headrace.values import TIMESTAMP

FINAL, CHANGING = "final", "changing"


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """One query.  `reason`: why it is quarantined, or why nobody shares it.  `kind`: *final* answers are never taken
    back; of *changing* ones the newest count.  `seconds`: its share of a round, once one has been measured."""

    name: str
    sql: str
    relations: tuple[str, ...]
    family: str
    state: str
    reason: str
    columns: tuple[tuple[str, str], ...]
    kind: str
    seconds: float | None
    newest_seq: int | None

    def __repr__(self) -> str:
        names = [f.name for f in fields(self)]
        return "\n".join(f"{name + ':':<12}{_shown(getattr(self, name))}" for name in names)

    def _repr_html_(self) -> str:
        return html_table([{"": f.name, "query": _shown(getattr(self, f.name))} for f in fields(self)])


def describe(registered: Registered, catalog: Catalog, plans: Plans, log: Log,
             seconds: float | None) -> QueryDescription:  # fmt: skip
    query = registered.query
    with plans.lock:
        run = plans.run_of(registered)
    return QueryDescription(
        query.name, query.sql, query.relations, run.family, "quarantined" if registered.quarantine else "live",
        registered.quarantine or run.reason, _columns(registered, catalog, run.family),
        CHANGING if _is_changing(registered, catalog, run.family) else FINAL, seconds, newest_seq(registered, log),
    )


def _is_changing(registered: Registered, catalog: Catalog, family: str) -> bool:
    query = registered.query
    if family == JOINS:
        return any(catalog.relation(name).is_table for name in query.relations)
    return family == PLAIN and way_of(query, catalog.relation(query.source)) is Way.CURRENT


def _columns(registered: Registered, catalog: Catalog, family: str) -> tuple[tuple[str, str], ...]:
    query = registered.query
    types = {o.name: str(o.expr.type) for o in query.outputs}
    found = [(name, types.get(name, str(TIMESTAMP))) for name in column_names(query)]
    if family == JOINS and _is_changing(registered, catalog, family):
        found.append((change_name(query), "tinyint"))
    return tuple(found)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(" ".join(part) if isinstance(part, tuple) else str(part) for part in value)
    return " ".join(value.split()) if isinstance(value, str) else cell(value)
