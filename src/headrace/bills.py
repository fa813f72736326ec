"""`headrace list --cost`: the measured seconds of the newest rounds, split among the queries they ran for.

Rounds with the catalog of the newest one are taken together, for a window ends only in some of them.  Queries are
those of that catalog: one that was dropped since is still billed, one that came since is not yet.  Reads committed
rounds only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.catalog.catalog import Catalog, Registered
from headrace.costing import load_of
from headrace.explaining import family_of
from headrace.families.windows.attribution import Users, split
from headrace.families.windows.cost import FINISH, measured_stages
from headrace.families.windows.explain import seating_of
from headrace.families.windows.plan import Seating, plan_cuts
from headrace.families.windows.workload import Floats, Flow, Quantities, Workload, quantities_of
from headrace.planning import JOINS, PLAIN, WINDOWS
from headrace.runtime.answers import AnswerLog
from headrace.runtime.ledger import Ledger, Manifest
from headrace.values import Relation

SHARED_ONLY, KEPT_ONLY = ("spark", "roll", "answer"), ("turn", "joins")
ROUNDS_MAX = 10


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What one query costs a round, in seconds; `is_live`: it is still there; `answers`: None where they are made when
    they are read."""

    name: str
    family: str
    seconds: float
    answers: int | None
    is_live: bool
    sql: str


@dataclass(frozen=True, slots=True)
class StreamCost:
    """What a round of a stream takes, measured, and by query, dearest first.  `queries` add up to `measured_s`."""

    stream: str
    first_round: int
    rounds: int
    measured_s: float
    queries: tuple[QueryCost, ...]


def stream_cost(relation: Relation, catalog: Catalog, ledger: Ledger, answers: AnswerLog) -> StreamCost | None:
    """None before the first round."""
    manifests = _alike(ledger)
    if not manifests:
        return None
    ran = _queries(catalog, relation, manifests[-1])
    seating = seating_of([(r.id, r.query) for r in ran], relation)
    counts = answers.counts([m.round_id for m in manifests])
    stages = _summed([measured_stages(m.stats["seconds"]) for m in manifests])
    shared = [r for r in ran if r.id in seating.shares]
    others = [(r, family_of(r, catalog)) for r in ran if r.id not in seating.shares]
    joins = [r for r, family in others if family == JOINS]
    plain = [r for r, family in others if family == PLAIN]
    seconds = _bills(seating, [r.id for r in joins], [r.id for r in plain], manifests, stages, counts)
    live = {r.id for r in catalog.queries.values() if r.quarantine is None}
    rounds = len(manifests)
    found = [
        QueryCost(r.name, family, seconds[r.id] / rounds, None if family == JOINS else counts.get(r.id, 0),
                  r.id in live, r.query.sql)
        for family, queries in ((WINDOWS, shared), (JOINS, joins), (PLAIN, plain)) for r in queries
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
    ran = [r for r in catalog.queries.values()
           if relation.name in r.query.relations and r.quarantine is None and r.version <= version]
    if len(ran) == newest.stats["queries"]:
        return ran
    past = catalog.at(version).values()  # some have gone since
    return [r for r in past if relation.name in r.query.relations and r.quarantine is None]


def _bills(
    seating: Seating, joins: Sequence[int], plain: Sequence[int], manifests: Sequence[Manifest],
    stages: Mapping[str, float], counts: Mapping[int, int],
) -> dict[int, float]:
    """Seconds by query id: stages by who makes them necessary."""
    shared = len(seating.shares)
    size = shared + len(joins) + len(plain)
    even = np.full(size, 1.0 / max(size, 1))
    parts = _shared_parts(seating, manifests, counts)
    bills: dict[str, Floats] = {}
    for stage, seconds in stages.items():
        part = even
        if stage == "plain" and plain:
            part = np.append(np.zeros(shared + len(joins)), _plain_parts(plain, manifests, seconds))
        elif stage in KEPT_ONLY and joins:  # a round looks for all of them at once
            part = np.concatenate((np.zeros(shared), np.full(len(joins), 1 / len(joins)), np.zeros(len(plain))))
        elif stage in parts and stage in SHARED_ONLY:
            part = np.append(parts[stage], np.zeros(size - shared))
        elif stage in parts:
            part = np.append(parts[stage] * (shared / size), even[shared:])
        bills[stage] = seconds * part
    finish: Floats = sum((bills[s] for s in FINISH if s in bills), np.zeros(size))
    if "wait" in bills and finish.sum() > 0:  # a round waits for the end of the one before
        bills["wait"] = stages["wait"] * finish / finish.sum()
    total: Floats = sum(bills.values(), np.zeros(size))
    return dict(zip([*seating.shares, *joins, *plain], total.tolist(), strict=True))


def _shared_parts(seating: Seating, manifests: Sequence[Manifest], counts: Mapping[int, int]) -> dict[str, Floats]:
    if not seating.shares:
        return {}
    users = Users(seating, plan_cuts(seating.rings.values(), manifests[-1].stats.get("groupings", 1) <= 1))
    return split(users, _quantities(users.work, manifests), counts)


def _quantities(work: Workload, manifests: Sequence[Manifest]) -> Quantities:
    """What the rounds did, all together."""
    total: Quantities = {}
    for manifest in manifests:
        stats, load = manifest.stats, load_of(manifest.stats)
        after = stats["watermark_us"] or 0
        before = after if load.before_us is None else load.before_us
        flow = Flow(stats["rows"], before, after, load.cells, load.pane_us, load.predicates, load.keys, load.groups)
        for name, quantity in quantities_of(work, flow).items():
            total[name] = total[name] + quantity if name in total else quantity
    return total


def _plain_parts(ids: Sequence[int], manifests: Sequence[Manifest], stage_s: float) -> Floats:
    """Each plain query by its own time; what they share, the rows kept for them, equally."""
    own = np.zeros(len(ids))
    for manifest in manifests:
        seconds = load_of(manifest.stats).plain_s
        own += [seconds.get(str(i), 0.0) for i in ids]
    rest = max(stage_s - own.sum(), 0.0) / len(ids)
    total = own + rest
    return total / total.sum() if total.sum() > 0 else np.full(len(ids), 1.0 / len(ids))


def _summed(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for seconds in rounds:
        for stage, value in seconds.items():
            total[stage] = total.get(stage, 0.0) + value
    return total
