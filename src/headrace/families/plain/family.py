"""Plain Spark, as the engine sees it: it takes every query, and shares nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.families.contract import (
    Archive,
    Claim,
    Floats,
    Planned,
    Reader,
    RelationOf,
    Workplace,
)
from headrace.families.plain.figures import NAME, PlainFigures, figures_of
from headrace.families.plain.plan import Way, explain_plain, how, plain_price_s, way_of
from headrace.families.plain.present import read_present
from headrace.families.stored import StoredReader, empty_answer
from headrace.families.window_limit import check_panes
from headrace.runtime.answers import column_names
from headrace.runtime.statistics import Histories, Stats
from headrace.sql.query import Query
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.families.plain.job import PlainJob


class Plain:
    name = NAME
    figures = PlainFigures
    stages = ("plain",)
    counts_answers = True
    uses_workers = False

    def claims(self, query: Query, relation_of: RelationOf) -> Claim:
        return Claim(relation_of(query.source))

    def check(self, query: Query, claim: Claim, config: Config) -> str:
        check_panes(query, config)
        return ""

    def plan(self) -> PlainPlan:
        return PlainPlan()

    def shares(
        self,
        queries: Mapping[int, Planned],
        relation: Relation,
        rounds: Sequence[Stats],
        counts: Mapping[int, int],
    ) -> Mapping[str, Floats]:
        """Each by its own time; what they share, the rows kept for them, equally."""
        own_s, stage_s = np.zeros(len(queries)), 0.0
        for stats in rounds:
            seconds = figures_of(stats).seconds
            own_s += [seconds.get(str(i), 0.0) for i in queries]
            stage_s += stats["seconds"].get("plain", 0.0)
        total_s = own_s + max(stage_s - own_s.sum(), 0.0) / len(queries)
        return {"plain": total_s / total_s.sum()} if total_s.sum() > 0 else {}

    def rehearse(self, queries: Sequence[Registered], relation: Relation, config: Config) -> None:
        """It has no kernels."""

    def job(self, workplace: Workplace) -> PlainJob:
        from headrace.families.plain.job import PlainJob

        return PlainJob(workplace.relations, workplace.quarantined)

    def reader(self, archive: Archive) -> Reader:
        return PlainReader(archive)


class PlainPlan:
    """The queries that nobody shares."""

    def __init__(self) -> None:
        self._queries: dict[int, Planned] = {}

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        for query_id in gone:
            del self._queries[query_id]
        self._queries.update(come)

    def catch_up(self) -> None:
        """Nothing is left for later."""

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        own = sorted(self._over(relation), key=lambda planned: planned.registered.id)
        return explain_plain(
            [(planned.registered.query, planned.reason) for planned in own], relation
        )

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        own = self._queries[query_id]
        return [
            f"plain Spark, because {own.reason}",
            f"  how:      {how(own.registered.query, _relation(own))}",
            "  cost:     a Spark job of its own each round, over rows that are read once for all queries",
            "  unshared: the same, and the source read once more",
        ]

    def price(self, relation: Relation, rounds: Histories) -> dict[str, float]:
        queries = len(self._over(relation))
        return {"plain": plain_price_s(queries)} if queries else {}

    def reads_rows(self, relation: Relation) -> bool:
        return bool(self._over(relation))

    def counts_rows(self, relation: Relation) -> bool:
        return False

    def measured(self, stats: Stats) -> list[str]:
        """EXPLAIN has nothing to add to the seconds of the stage."""
        return []

    def _over(self, relation: Relation) -> list[Planned]:
        return [
            own for own in self._queries.values() if relation.name in own.registered.query.relations
        ]


def _relation(planned: Planned) -> Relation:
    assert isinstance(planned.claim.asked, Relation)
    return planned.claim.asked


class PlainReader(StoredReader):
    """What is answered anew each round has a log of changes, and the newest answer kept whole."""

    def present(self, registered: Registered) -> pa.Table:
        if not self.is_changing(registered):
            return super().present(registered)
        found = read_present(self.log(registered).ledger, registered.id)
        query = registered.query
        return empty_answer(query) if found is None else found.rename_columns(column_names(query))

    def is_changing(self, registered: Registered) -> bool:
        query = registered.query
        return way_of(query, self._archive.relation_of(query.source)) is Way.CURRENT
