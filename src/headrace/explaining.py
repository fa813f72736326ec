"""Which family runs a query, and EXPLAIN: one query or the whole plan, with reasons and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.catalog.catalog import Catalog, Registered
from headrace.costing import Stats, estimate_line, forecast_of, load_of, workload
from headrace.families.joins.explain import Joints, event_s, explain_join_query, explain_joins, joints_of
from headrace.families.joins.plan import Share as JoinShare
from headrace.families.joins.plan import filter_share
from headrace.families.joins.plan import share as join_share
from headrace.families.joins.residue import asked_of_spark
from headrace.families.plain.plan import explain_plain, how
from headrace.families.windows.explain import explain_window_query, explain_windows, seating_of, span
from headrace.families.windows.plan import Refusal, Seating, share
from headrace.runtime.statistics import Load
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.families.joins.state import Joints as Standing
    from headrace.runtime.family import Family

WINDOWS, JOINS, PLAIN = "windows", "joins", "plain"
Histories = Mapping[str, Sequence[Stats]]
"""By stream: what its newest committed rounds measured, oldest first."""
_AGAIN = "to try again, drop it, mend it and add it"


def families(joints: Standing) -> tuple[Family, ...]:
    """In the order they are asked; the first counts the rows of a round.  Imports Spark."""
    from headrace.families.joins.job import JoinsFamily
    from headrace.families.plain.job import PlainFamily
    from headrace.families.windows.job import WindowsFamily

    return (WindowsFamily(), JoinsFamily(joints), PlainFamily())


def family_of(registered: Registered, relation: Relation) -> tuple[str, str]:
    """The family that runs the query, and why no other shares it ('' when it is shared)."""
    query = registered.query
    if query.joined is not None:
        return JOINS, ""
    if not query.grouped and not relation.is_table:
        filtered = filter_share(query, relation)
        return (PLAIN, filtered) if isinstance(filtered, str) else (JOINS, "")
    asked = share(query, relation)
    return (PLAIN, asked.reason) if isinstance(asked, Refusal) else (WINDOWS, "")


def explain_one(registered: Registered, catalog: Catalog, rounds: Histories) -> str:
    query = registered.query
    relation = catalog.relation(query.source)
    history = rounds.get(relation.name, ())
    family, reason = family_of(registered, relation)
    over = [catalog.relation(name) for name in query.relations]
    lines = [f"query {query.name}", f"  sql:      {' '.join(query.sql.split())}"]
    lines += [f"  over:     {_relation(r)}" for r in over]
    if registered.quarantine:
        lines.append(f"  state:    quarantined: {registered.quarantine}")
        lines.append(f"  next:     {_AGAIN}")
    runs = "ran:" if registered.quarantine else "runs:"
    if family == WINDOWS:
        lines.append(f"  {runs:<9} shared windows")
        seating = seating_of(_of(_live(catalog, relation, registered)), relation)
        lines += explain_window_query(registered.id, seating, _is_united(history))
    elif family == JOINS:
        lines.append(f"  {runs:<9} standing {'filters' if query.joined is None else 'joins'}")
        joints = joints_of(_shares(_live(catalog, relation, registered), catalog))
        ((_, own),) = _shares([registered], catalog)
        lines += explain_join_query(
            relation.name, own, joints, _kept(rounds), _load(history), asked_of_spark(query, own.residue)
        )
    else:
        lines.append(f"  {runs:<9} plain Spark, because {reason}")
        lines.append(f"  how:      {how(query, relation)}")
        lines.append("  cost:     a Spark job of its own each round, over rows that are read once for all queries")
        lines.append("  unshared: the same, and the source read once more")
    live = _live(catalog, relation)
    joints = joints_of(_shares(live, catalog))
    return "\n".join([*lines, *_estimated(live, relation, joints, rounds), *_measured(history)])


def explain_all(catalog: Catalog, rounds: Histories) -> str:
    total = len(catalog.queries)
    relations = _many(len(catalog.relations), "stream or table", "streams and tables")
    lines = [f"catalog version {catalog.version}: {relations}, {_many(total, 'query', 'queries')}"]
    joints = joints_of(_shares([r for r in catalog.queries.values() if r.quarantine is None], catalog))
    for relation in catalog.relations.values():
        lines += ["", *_explain_relation(relation, catalog, joints, rounds)]
    return "\n".join(lines)


def _explain_relation(relation: Relation, catalog: Catalog, joints: Joints, rounds: Histories) -> list[str]:
    live, history = _live(catalog, relation), rounds.get(relation.name, ())
    runs = [(r, *family_of(r, relation)) for r in live]
    shared = [r for r, family, _ in runs if family == WINDOWS]
    plain = [(r.query, reason) for r, family, reason in runs if family == PLAIN]
    lines = [_relation(relation)]
    lines += [f"  {line}" for line in explain_windows(seating_of(_of(shared), relation), _is_united(history))]
    joins = explain_joins(relation.name, joints, _kept(rounds), _load(history))
    lines += [f"  {line}" for line in joins]
    lines += [f"  {line}" for line in explain_plain(plain, relation)]
    out = [r for r in catalog.queries.values() if relation.name in r.query.relations and r.quarantine]
    if out:
        lines.append(f"  quarantined: {_many(len(out), 'query', 'queries')}; {_AGAIN}")
        lines += [f"    {r.name}: {r.quarantine}" for r in out]
    if not live:
        lines.append("  no live query: it is not read")
    return [*lines, *_estimated(live, relation, joints, rounds), *_measured(history)]


def _live(catalog: Catalog, relation: Relation, also: Registered | None = None) -> list[Registered]:
    rows = [r for r in catalog.queries.values() if relation.name in r.query.relations and r.quarantine is None]
    return [*rows, also] if also is not None and also.quarantine else rows


def _of(registered: Sequence[Registered]) -> list[tuple[int, Any]]:
    return [(r.id, r.query) for r in registered]


def _shares(live: Iterable[Registered], catalog: Catalog) -> Iterator[tuple[int, JoinShare]]:
    """The joins and filters among these queries."""
    for r in live:
        relation = catalog.relation(r.query.source)
        if r.query.joined is not None:
            yield r.id, join_share(r.query, relation, catalog.relation(r.query.joined))
        elif not r.query.grouped and isinstance(own := filter_share(r.query, relation), JoinShare):
            yield r.id, own


def _kept(rounds: Histories) -> dict[str, int]:
    """Rows of each relation that may still be joined."""
    return {name: load_of(history[-1]).kept_rows for name, history in rounds.items() if history}


def _load(history: Sequence[Stats]) -> Load | None:
    """Of the newest round."""
    return load_of(history[-1]) if history else None


def _is_united(history: Sequence[Stats]) -> bool:
    """Whether the last round had all keys in one grouping, which it is by default."""
    return not history or history[-1].get("groupings", 1) <= 1


def _relation(relation: Relation) -> str:
    if relation.is_table:
        gone = "" if relation.deleted is None else f", deleted by {relation.deleted}"
        return f"table {relation.name} (key {', '.join(relation.key)}{gone})"
    return f"stream {relation.name} (event time {relation.time}, late {span(relation.late_us)})"


def _estimated(
    live: Sequence[Registered], relation: Relation, joints: Joints, rounds: Histories
) -> list[str]:
    """What the next round will take, with the queries there are now."""
    if not live:
        return []
    seating: Seating = seating_of(_of(live), relation)
    joins = sum(asked.queries for joint, asked in joints.items() if relation.name in joint.relations)
    plain = len(live) - len(seating.shares) - joins
    history = rounds.get(relation.name, ())
    looked_s = event_s(relation.name, joints, _kept(rounds), _load(history))
    made = forecast_of(workload(seating, _is_united(history)), plain, looked_s, relation, history)
    return [estimate_line(made, len(history))]


def _measured(history: Sequence[Stats]) -> list[str]:
    if not history:
        return ["  measured: no round yet"]
    stats = history[-1]
    seconds = stats["seconds"]
    stages = ", ".join(f"{k} {v:.3f}" for k, v in seconds.items() if k != "total")
    return [
        f"  measured: round {stats['round_id']}: {stats['rows']:,} rows, {stats['answers']:,} answers in "
        f"{seconds['total']:.3f} s ({stages}); unshared, at least {stats['unshared_s']:.1f} s; "
        f"rings of {stats.get('ring_bytes', 0) / 1e6:,.1f} MB, pane log of {stats.get('log_bytes', 0) / 1e6:,.1f} MB "
        f"in {_many(stats.get('log_files', 0), 'file', 'files')}; "
        f"this process took {stats.get('process_bytes', 0) / 1e6:,.1f} MB at most"
    ]


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
