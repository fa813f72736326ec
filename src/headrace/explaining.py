"""EXPLAIN: one query or the whole plan, with reasons and costs; and the list of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.catalog.catalog import Catalog, Registered
from headrace.forecast import estimate_line, forecast
from headrace.pausing import collector_paused
from headrace.planning import Plans
from headrace.reading import QueryInfo
from headrace.runtime.prices import round_price
from headrace.runtime.statistics import Histories, Stats, rows_expected
from headrace.sql.duration import span
from headrace.values import Relation

GIVEN = "dataframe:"  # rounds of a given DataFrame do not overlap
_AGAIN = "to try again, drop it, mend it and add it"


def infos(
    catalog: Catalog, plans: Plans, counts: Mapping[str, Mapping[int, int]]
) -> list[QueryInfo]:
    """Every query; `counts`: answers by stream and query."""
    found = []
    with plans.lock:
        for r in catalog.queries.values():
            run, state = plans.run_of(r), "quarantined" if r.quarantine else "live"
            answers = (
                counts.get(r.query.source, {}).get(r.id, 0) if run.family.counts_answers else None
            )
            over, why = ", ".join(r.query.relations), r.quarantine or run.reason
            found.append(QueryInfo(r.name, over, run.family.name, state, why, r.query.sql, answers))
    return found


def explain_one(
    registered: Registered, catalog: Catalog, rounds: Histories, plans: Plans | None = None
) -> str:
    query, plans = registered.query, plans or Plans(catalog)
    relation = catalog.relation(query.source)
    lines = [f"query {query.name}", f"  sql:      {' '.join(query.sql.split())}"]
    lines += [f"  over:     {_relation(catalog.relation(name))}" for name in query.relations]
    if registered.quarantine:
        lines.append(f"  state:    quarantined: {registered.quarantine}")
        lines.append(f"  next:     {_AGAIN}")
    with plans.lock, collector_paused():
        plans.refresh()
        with plans.including(registered):
            title, *how = plans.by_family[plans.run_of(registered).family.name].explain_query(
                registered.id, rounds
            )
        lines += [f"  {'ran:' if registered.quarantine else 'runs:':<9} {title}", *how]
        lines += _estimated(relation, plans, rounds)
    return "\n".join([*lines, *_measured(rounds.get(relation.name, ()), plans)])


def explain_all(catalog: Catalog, rounds: Histories, plans: Plans | None = None) -> str:
    plans = plans or Plans(catalog)
    total = len(catalog.queries)
    relations = _many(len(catalog.relations), "stream or table", "streams and tables")
    lines = [f"catalog version {catalog.version}: {relations}, {_many(total, 'query', 'queries')}"]
    with plans.lock, collector_paused():
        plans.refresh()
        for relation in catalog.relations.values():
            lines += ["", *_explain_relation(relation, catalog, plans, rounds)]
    return "\n".join(lines)


def _explain_relation(
    relation: Relation, catalog: Catalog, plans: Plans, rounds: Histories
) -> list[str]:
    history = rounds.get(relation.name, ())
    over = [r for r in catalog.queries.values() if relation.name in r.query.relations]
    lines = [_relation(relation)]
    for plan in plans.by_family.values():
        lines += [f"  {line}" for line in plan.explain(relation, rounds)]
    out = [r for r in over if r.quarantine]
    if out:
        lines.append(f"  quarantined: {_many(len(out), 'query', 'queries')}; {_AGAIN}")
        lines += [f"    {r.name}: {r.quarantine}" for r in out]
    if len(out) == len(over):
        lines.append("  no live query: it is not read")
    return [*lines, *_estimated(relation, plans, rounds), *_measured(history, plans)]


def _relation(relation: Relation) -> str:
    if relation.is_table:
        gone = "" if relation.deleted is None else f", deleted by {relation.deleted}"
        return f"table {relation.name} (key {', '.join(relation.key)}{gone})"
    return f"stream {relation.name} (event time {relation.time}, late {span(relation.late_us)})"


def _estimated(relation: Relation, plans: Plans, rounds: Histories) -> list[str]:
    """What the next round will take, with the queries there are now."""
    if not plans.live[relation.name]:
        return []
    history = rounds.get(relation.name, ())
    own, rows = plans.by_family.values(), rows_expected(history)
    counts_itself = not any(plan.counts_rows(relation) for plan in own)
    prices = round_price(rows) if counts_itself else {}
    for plan in own:
        prices.update(plan.price(relation, rounds))
    overlaps = sum(plan.reads_rows(relation) for plan in own) + counts_itself <= 1
    made = forecast(
        rows,
        prices,
        history,
        overlaps and not relation.source.startswith(GIVEN),
    )
    return [estimate_line(made, len(history))]


def _measured(history: Sequence[Stats], plans: Plans) -> list[str]:
    if not history:
        return ["  measured: no round yet"]
    stats = history[-1]
    seconds = stats["seconds"]
    stages = ", ".join(f"{k} {v:.3f}" for k, v in seconds.items() if k != "total")
    found = [
        f"round {stats['round_id']}: {stats['rows']:,} rows, {stats['answers']:,} answers in "
        f"{seconds['total']:.3f} s ({stages})",
        *(text for plan in plans.by_family.values() for text in plan.measured(stats)),
        f"this process took {stats.get('process_bytes', 0) / 1e6:,.1f} MB at most",
    ]
    return [f"  measured: {'; '.join(found)}"]


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
