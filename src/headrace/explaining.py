"""Which family runs a query, and EXPLAIN: one query or the whole plan, with reasons and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.catalog.catalog import Catalog, Registered
from headrace.costing import Stats, estimate_line, forecast_of, load_of
from headrace.families.joins.explain import event_s, explain_join_query, explain_joins
from headrace.families.joins.plan import Share as JoinShare
from headrace.families.joins.residue import asked_of_spark
from headrace.families.plain.plan import explain_plain, how
from headrace.families.windows.explain import explain_window_query, explain_windows, span
from headrace.planning import JOINS, PLAIN, WINDOWS, Plans, run_of
from headrace.reading import QueryInfo
from headrace.runtime.statistics import Load
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.families.joins.state import Joints as Standing
    from headrace.runtime.family import Family

Histories = Mapping[str, Sequence[Stats]]
"""By stream: what its newest committed rounds measured, oldest first."""
_AGAIN = "to try again, drop it, mend it and add it"


def families(joints: Standing) -> tuple[Family, ...]:
    """In the order they are asked; the first counts the rows of a round.  Imports Spark."""
    from headrace.families.joins.job import JoinsFamily
    from headrace.families.plain.job import PlainFamily
    from headrace.families.windows.job import WindowsFamily

    return (WindowsFamily(), JoinsFamily(joints), PlainFamily())


def family_of(registered: Registered, catalog: Catalog) -> str:
    """The family that runs the query."""
    return JOINS if registered.query.joined is not None else run_of(registered.query, catalog).family


def infos(catalog: Catalog, plans: Plans, counts: Mapping[str, Mapping[int, int]]) -> list[QueryInfo]:
    """Every query; `counts`: answers by stream and query."""
    found = []
    with plans.lock:
        for r in catalog.queries.values():
            run, state = plans.run_of(r), "quarantined" if r.quarantine else "live"
            answers = None if run.family == JOINS else counts.get(r.query.source, {}).get(r.id, 0)
            over, why = ", ".join(r.query.relations), r.quarantine or run.reason
            found.append(QueryInfo(r.name, over, run.family, state, why, r.query.sql, answers))
    return found


def explain_one(registered: Registered, catalog: Catalog, rounds: Histories, plans: Plans | None = None) -> str:
    query, plans = registered.query, plans or Plans(catalog)
    relation = catalog.relation(query.source)
    lines = [f"query {query.name}", f"  sql:      {' '.join(query.sql.split())}"]
    lines += [f"  over:     {_relation(catalog.relation(name))}" for name in query.relations]
    if registered.quarantine:
        lines.append(f"  state:    quarantined: {registered.quarantine}")
        lines.append(f"  next:     {_AGAIN}")
    with plans.lock:
        plans.refresh()
        with plans.including(registered):
            lines += _how_it_runs(registered, relation, plans, rounds)
        lines += _estimated(relation, plans, rounds)
    return "\n".join([*lines, *_measured(rounds.get(relation.name, ()))])


def _how_it_runs(registered: Registered, relation: Relation, plans: Plans, rounds: Histories) -> list[str]:
    query, run, history = registered.query, plans.run_of(registered), rounds.get(relation.name, ())
    runs = "ran:" if registered.quarantine else "runs:"
    if run.family == WINDOWS:
        windows = plans.windows(relation)
        cuts, _ = windows.made(_is_united(history))
        return [f"  {runs:<9} shared windows", *explain_window_query(registered.id, windows.seating, cuts)]
    if isinstance(run.asked, JoinShare):
        foreign = asked_of_spark(query, run.asked.residue)
        return [
            f"  {runs:<9} standing {'filters' if query.joined is None else 'joins'}",
            *explain_join_query(relation.name, run.asked, plans.joints, _kept(rounds), _load(history), foreign),
        ]
    return [
        f"  {runs:<9} plain Spark, because {run.reason}",
        f"  how:      {how(query, relation)}",
        "  cost:     a Spark job of its own each round, over rows that are read once for all queries",
        "  unshared: the same, and the source read once more",
    ]


def explain_all(catalog: Catalog, rounds: Histories, plans: Plans | None = None) -> str:
    plans = plans or Plans(catalog)
    total = len(catalog.queries)
    relations = _many(len(catalog.relations), "stream or table", "streams and tables")
    lines = [f"catalog version {catalog.version}: {relations}, {_many(total, 'query', 'queries')}"]
    with plans.lock:
        plans.refresh()
        for relation in catalog.relations.values():
            lines += ["", *_explain_relation(relation, catalog, plans, rounds)]
    return "\n".join(lines)


def _explain_relation(relation: Relation, catalog: Catalog, plans: Plans, rounds: Histories) -> list[str]:
    history = rounds.get(relation.name, ())
    over = [r for r in catalog.queries.values() if relation.name in r.query.relations]
    runs = [(r, plans.run_of(r)) for r in over if r.quarantine is None]
    windows, lines = plans.windows(relation), [_relation(relation)]
    cuts, _ = windows.made(_is_united(history))
    lines += [f"  {line}" for line in explain_windows(windows.seating, cuts)]
    joins = explain_joins(relation.name, plans.joints, _kept(rounds), _load(history))
    lines += [f"  {line}" for line in joins]
    plain = [(r.query, run.reason) for r, run in runs if run.family == PLAIN]
    lines += [f"  {line}" for line in explain_plain(plain, relation)]
    out = [r for r in over if r.quarantine]
    if out:
        lines.append(f"  quarantined: {_many(len(out), 'query', 'queries')}; {_AGAIN}")
        lines += [f"    {r.name}: {r.quarantine}" for r in out]
    if not runs:
        lines.append("  no live query: it is not read")
    return [*lines, *_estimated(relation, plans, rounds), *_measured(history)]


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


def _estimated(relation: Relation, plans: Plans, rounds: Histories) -> list[str]:
    """What the next round will take, with the queries there are now."""
    if not plans.live[relation.name]:
        return []
    windows, joints, history = plans.windows(relation), plans.joints, rounds.get(relation.name, ())
    joins = sum(asked.queries for joint, asked in joints.items() if relation.name in joint.relations)
    plain = plans.live[relation.name] - len(windows.seating.shares) - joins
    looked_s = event_s(relation.name, joints, _kept(rounds), _load(history))
    _, work = windows.made(_is_united(history))
    return [estimate_line(forecast_of(work, plain, looked_s, relation, history), len(history))]


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
