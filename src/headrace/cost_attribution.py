"""`headrace list --cost`: the measured seconds of the newest rounds, split among the queries they
ran for.

Rounds with the catalog of the newest one are taken together, for a window ends only in some of
them.  Queries are those of that catalog: one that was dropped since is still billed, one that came
since is not yet.  Reads committed rounds only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.catalog.catalog import Catalog, Registered
from headrace.families import registry
from headrace.families.contract import Family, Floats, Planned
from headrace.families.registry import run_of
from headrace.forecast import FINISH, measured_stages
from headrace.runtime.answers import AnswerLog
from headrace.runtime.ledger import Ledger, Manifest
from headrace.runtime.statistics import Stats
from headrace.values import Relation

ROUNDS_MAX = 10


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What one query costs a round, in seconds; `is_live`: it is still there; `answers`: None where
    they are made when they are read."""

    name: str
    family: str
    seconds: float
    answers: int | None
    is_live: bool
    sql: str


@dataclass(frozen=True, slots=True)
class StreamCost:
    """What a round of a stream takes, measured, and by query, dearest first.  `queries` add up to
    `measured_s`."""

    stream: str
    first_round: int
    rounds: int
    measured_s: float
    queries: tuple[QueryCost, ...]


def stream_cost(
    relation: Relation, catalog: Catalog, ledger: Ledger, answers: AnswerLog
) -> StreamCost | None:
    """What a round of this stream costs, by query; None before the first round."""
    manifests = _alike(ledger)
    if not manifests:
        return None
    by_family = _by_family(_queries(catalog, relation, manifests[-1]), catalog)
    counts = answers.counts([m.round_id for m in manifests])
    seconds = _bills(by_family, relation, [m.stats for m in manifests], counts)
    live = {r.id for r in catalog.queries.values() if r.quarantine is None}
    rounds = len(manifests)
    found = [
        QueryCost(
            own.registered.name,
            family.name,
            seconds[i] / rounds,
            counts.get(i, 0) if family.counts_answers else None,
            i in live,
            own.registered.query.sql,
        )
        for family, queries in by_family
        for i, own in queries.items()
    ]
    found.sort(key=lambda q: (-q.seconds, q.name))
    measured_s = sum(m.stats["seconds"]["total"] for m in manifests) / rounds
    return StreamCost(relation.name, manifests[0].round_id, rounds, measured_s, tuple(found))


def _alike(ledger: Ledger) -> list[Manifest]:
    """The newest round and those before it that ran with the same catalog, oldest first."""
    newest = ledger.newest
    found = [] if newest is None else [newest]
    for round_id in ledger.rounds[-ROUNDS_MAX:-1][::-1]:
        manifest = ledger.read(round_id)
        if manifest.catalog_version != found[0].catalog_version:
            break
        found.insert(0, manifest)
    for manifest in found:
        ledger.stats(manifest)
    return found


def _queries(catalog: Catalog, relation: Relation, newest: Manifest) -> list[Registered]:
    """The queries the round ran for."""
    version = newest.catalog_version
    ran = [
        r
        for r in catalog.queries.values()
        if relation.name in r.query.relations and r.quarantine is None and r.version <= version
    ]
    if len(ran) == newest.stats["queries"]:
        return ran
    past = catalog.at(version).values()  # some have gone since
    return [r for r in past if relation.name in r.query.relations and r.quarantine is None]


_ByFamily = list[tuple[Family, dict[int, Planned]]]


def _by_family(ran: Sequence[Registered], catalog: Catalog) -> _ByFamily:
    """The queries of each family that has some, in the order of the registry."""
    found: dict[str, dict[int, Planned]] = {family.name: {} for family in registry.FAMILIES}
    for registered in ran:
        run = run_of(registered.query, catalog.relation)
        found[run.family.name][registered.id] = Planned(registered, run.claim, run.reason)
    return [(family, found[family.name]) for family in registry.FAMILIES if found[family.name]]


def _bills(
    by_family: _ByFamily, relation: Relation, rounds: Sequence[Stats], counts: Mapping[int, int]
) -> dict[int, float]:
    """Seconds by query id: stages by who makes them necessary."""
    stages = _summed([measured_stages(stats["seconds"]) for stats in rounds])
    shares = [family.shares(queries, relation, rounds, counts) for family, queries in by_family]
    bills = {stage: seconds * _parts(stage, by_family, shares) for stage, seconds in stages.items()}
    none = np.zeros(sum(len(queries) for _, queries in by_family))
    finish: Floats = sum((bills[s] for s in FINISH if s in bills), none)
    if "wait" in bills and finish.sum() > 0:  # a round waits for the end of the one before
        bills["wait"] = stages["wait"] * finish / finish.sum()
    total: Floats = sum(bills.values(), none)
    return dict(zip([i for _, queries in by_family for i in queries], total.tolist(), strict=True))


def _parts(stage: str, by_family: _ByFamily, shares: Sequence[Mapping[str, Floats]]) -> Floats:
    """Which part of a stage is whose, in the order of the families: all of it is of those it is
    there for; a stage that is there for everybody is shared by heads among the families, and by
    `shares` within each."""
    owns = [stage in family.stages for family, _ in by_family]
    pays = owns if any(owns) else [True] * len(owns)
    heads = sum(len(queries) for (_, queries), does in zip(by_family, pays, strict=True) if does)
    found = []
    for (_, queries), own, does in zip(by_family, shares, pays, strict=True):
        even = np.full(len(queries), 1.0 / len(queries))
        found.append(own.get(stage, even) * (len(queries) / heads if does else 0.0))
    return np.concatenate(found) if found else np.zeros(0)


def _summed(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for seconds in rounds:
        for stage, value in seconds.items():
            total[stage] = total.get(stage, 0.0) + value
    return total
