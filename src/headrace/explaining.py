"""Which family runs a query, and EXPLAIN: one query or the whole plan, with reasons and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.catalog.catalog import Catalog, Registered
from headrace.families.plain.plan import explain_plain, how
from headrace.families.windows.explain import explain_window_query, explain_windows, seating_of, span
from headrace.families.windows.plan import Refusal, share
from headrace.runtime.ledger import Manifest
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.runtime.family import Family

WINDOWS, PLAIN = "windows", "plain"
_AGAIN = "to try again, drop it, mend it and add it"


def families() -> tuple[Family, ...]:
    """In the order they are asked; the first counts the rows of a round.  Imports Spark."""
    from headrace.families.plain.job import PlainFamily
    from headrace.families.windows.job import WindowsFamily

    return (WindowsFamily(), PlainFamily())


def family_of(registered: Registered, relation: Relation) -> tuple[str, str]:
    """The family that runs the query, and why no other shares it ('' when it is shared)."""
    asked = share(registered.query, relation)
    return (PLAIN, asked.reason) if isinstance(asked, Refusal) else (WINDOWS, "")


def explain_one(registered: Registered, catalog: Catalog, rounds: Mapping[str, Manifest | None]) -> str:
    query = registered.query
    relation = catalog.relation(query.source)
    family, reason = family_of(registered, relation)
    lines = [f"query {query.name}", f"  sql:      {' '.join(query.sql.split())}", f"  over:     {_relation(relation)}"]
    if registered.quarantine:
        lines.append(f"  state:    quarantined: {registered.quarantine}")
        lines.append(f"  next:     {_AGAIN}")
    runs = "ran:" if registered.quarantine else "runs:"
    if family == WINDOWS:
        lines.append(f"  {runs:<9} shared windows")
        seating = seating_of(_of(_live(catalog, relation, registered)), relation)
        lines += explain_window_query(registered.id, seating, _is_united(rounds.get(relation.name)))
    else:
        lines.append(f"  {runs:<9} plain Spark, because {reason}")
        lines.append(f"  how:      {how(query, relation)}")
        lines.append("  cost:     a Spark job of its own each round, over rows that are read once for all queries")
        lines.append("  unshared: the same, and the source read once more")
    lines += _measured(rounds.get(relation.name))
    return "\n".join(lines)


def explain_all(catalog: Catalog, rounds: Mapping[str, Manifest | None]) -> str:
    total = len(catalog.queries)
    relations = _many(len(catalog.relations), "stream or table", "streams and tables")
    lines = [f"catalog version {catalog.version}: {relations}, {_many(total, 'query', 'queries')}"]
    for relation in catalog.relations.values():
        lines += ["", *_explain_relation(relation, catalog, rounds.get(relation.name))]
    return "\n".join(lines)


def _explain_relation(relation: Relation, catalog: Catalog, newest: Manifest | None) -> list[str]:
    live = _live(catalog, relation)
    runs = [(r, *family_of(r, relation)) for r in live]
    shared = [r for r, family, _ in runs if family == WINDOWS]
    plain = [(r.query, reason) for r, family, reason in runs if family == PLAIN]
    lines = [_relation(relation)]
    lines += [f"  {line}" for line in explain_windows(seating_of(_of(shared), relation), _is_united(newest))]
    lines += [f"  {line}" for line in explain_plain(plain, relation)]
    out = [r for r in catalog.queries.values() if r.query.source == relation.name and r.quarantine]
    if out:
        lines.append(f"  quarantined: {_many(len(out), 'query', 'queries')}; {_AGAIN}")
        lines += [f"    {r.name}: {r.quarantine}" for r in out]
    if not live:
        lines.append("  no live query: it is not read")
    return lines + _measured(newest)


def _live(catalog: Catalog, relation: Relation, also: Registered | None = None) -> list[Registered]:
    rows = [r for r in catalog.queries.values() if r.query.source == relation.name and r.quarantine is None]
    return [*rows, also] if also is not None and also.quarantine else rows


def _of(registered: Sequence[Registered]) -> list[tuple[int, Any]]:
    return [(r.id, r.query) for r in registered]


def _is_united(newest: Manifest | None) -> bool:
    """Whether the last round had all keys in one grouping, which it is by default."""
    return newest is None or newest.stats.get("groupings", 1) <= 1


def _relation(relation: Relation) -> str:
    if relation.is_table:
        return f"table {relation.name} (key {', '.join(relation.key)})"
    return f"stream {relation.name} (event time {relation.time}, late {span(relation.late_us)})"


def _measured(newest: Manifest | None) -> list[str]:
    if newest is None:
        return ["  measured: no round yet"]
    stats = newest.stats
    seconds = stats["seconds"]
    stages = ", ".join(f"{k} {v:.3f}" for k, v in seconds.items() if k != "total")
    return [
        f"  measured: round {newest.round_id}: {stats['rows']:,} rows, {stats['answers']:,} answers in "
        f"{seconds['total']:.3f} s ({stages}); unshared, at least {stats['unshared_s']:.1f} s; "
        f"rings of {stats.get('ring_bytes', 0) / 1e6:,.1f} MB, pane log of {stats.get('log_bytes', 0) / 1e6:,.1f} MB "
        f"in {_many(stats.get('log_files', 0), 'file', 'files')}"
    ]


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
