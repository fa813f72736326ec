"""`eng.describe`: everything about one query, from committed rounds, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headrace.catalog.catalog import Registered
from headrace.families.contract import Reader
from headrace.planning import Plans
from headrace.reading import newest_seq
from headrace.showing import cell, html_table

FINAL, CHANGING = "final", "changing"


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """One query.  `reason`: why it is quarantined, or why nobody shares it.  `kind`: *final*
    answers are never taken back; *changing* ones have the column `change`.  `seconds`: its share of a
    round, once one has been measured."""

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
        return html_table(
            [{"": f.name, "query": _shown(getattr(self, f.name))} for f in fields(self)]
        )


def describe(
    registered: Registered, plans: Plans, reader: Reader, seconds: float | None
) -> QueryDescription:
    query = registered.query
    with plans.lock:
        run = plans.run_of(registered)
    return QueryDescription(
        query.name,
        query.sql,
        query.relations,
        run.family.name,
        "quarantined" if registered.quarantine else "live",
        registered.quarantine or run.reason,
        tuple(reader.columns(registered)),
        CHANGING if reader.is_changing(registered) else FINAL,
        seconds,
        newest_seq(registered, reader.log(registered)),
    )


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(" ".join(part) if isinstance(part, tuple) else str(part) for part in value)
    return " ".join(value.split()) if isinstance(value, str) else cell(value)
