"""Standing joins and filters, as the engine sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.families.contract import (
    Archive,
    Claim,
    Floats,
    Planned,
    Reader,
    Refusal,
    RelationOf,
    Workplace,
)
from headrace.families.joins.figures import NAME, JoinsFigures
from headrace.families.joins.plan import Share, filter_share, share
from headrace.families.stored import answers_gone
from headrace.runtime.answers import change_name
from headrace.runtime.statistics import Stats
from headrace.sql.query import Query
from headrace.sql.tree import Expr
from headrace.values import Relation

if TYPE_CHECKING:
    from headrace.families.joins.job import JoinsJob
    from headrace.families.joins.reading.filter_log import FilterLog
    from headrace.families.joins.reading.join_log import JoinLog
    from headrace.families.joins.sharing import JoinsPlan


class Joins:
    name = NAME
    figures = JoinsFigures
    stages = ("turn", "joins")
    counts_answers = False
    uses_workers = True

    def claims(self, query: Query, relation_of: RelationOf) -> Claim | Refusal:
        if query.joined is not None:
            return Claim(share(query, relation_of(query.source), relation_of(query.joined)))
        asked = filter_share(query, relation_of(query.source))
        return asked if isinstance(asked, Refusal) else Claim(asked)

    def check(self, query: Query, claim: Claim, config: Config) -> str:
        """A join that has to look at every pair of rows is warned of."""
        assert isinstance(claim.asked, Share)
        if query.joined is None or not claim.asked.is_cross:
            return ""
        return (
            f"every row of {query.source} meets every row of {query.joined} in {query.name!r}: there may "
            "be as many answers as pairs"
        )

    def plan(self) -> JoinsPlan:
        from headrace.families.joins.sharing import JoinsPlan  # compiled kernels

        return JoinsPlan()

    def shares(
        self,
        queries: Mapping[int, Planned],
        relation: Relation,
        rounds: Sequence[Stats],
        counts: Mapping[int, int],
    ) -> Mapping[str, Floats]:
        """A round looks for all of them at once: each pays the same."""
        return {}

    def rehearse(self, queries: Sequence[Registered], relation: Relation, config: Config) -> None:
        """Its kernels run on executors."""

    def job(self, workplace: Workplace) -> JoinsJob:
        from headrace.families.joins.coordinator import JoinCoordinator
        from headrace.families.joins.job import JoinsJob

        return JoinsJob(
            JoinCoordinator(
                workplace.disk,
                workplace.config,
                workplace.relation_of,
                workplace.relations,
                workplace.rests,
            )
        )

    def reader(self, archive: Archive) -> Reader:
        return JoinedReader(archive)


class JoinedReader:
    """Answers are made when they are read, from rows that are kept."""

    def __init__(self, archive: Archive) -> None:
        from headrace.families.joins.reading.join_log import JoinReader  # compiled kernels

        self._archive = archive
        self._reader = JoinReader(
            archive.disk.root,
            archive.relation_of,
            archive.ledger_of,
            archive.config.join_pairs_max,
            partial(_evaluate, archive),
        )

    def log(self, registered: Registered) -> JoinLog | FilterLog:
        return self._reader.log(registered)

    def results(self, registered: Registered) -> pa.Table:
        return self.log(registered).read_all()

    def present(self, registered: Registered) -> pa.Table:
        log = self.log(registered)
        if log.has_lost_some:
            raise answers_gone(registered.query)
        return log.present()

    def columns(self, registered: Registered) -> list[tuple[str, str]]:
        found = [(o.name, str(o.expr.type)) for o in registered.query.outputs]
        return (
            [*found, (change_name(registered.query), "tinyint")]
            if self.is_changing(registered)
            else found
        )

    def empty(self, registered: Registered) -> pa.Table:
        from headrace.families.joins.reading.remaining_conditions import empty_answer

        return empty_answer(registered.query, self.is_changing(registered))

    def is_changing(self, registered: Registered) -> bool:
        return any(self._archive.relation_of(name).is_table for name in registered.query.relations)


def _evaluate(archive: Archive, exprs: Sequence[Expr], rows: Sequence[pa.Table]) -> list[pa.Array]:
    from headrace.runtime.spark_eval import evaluate

    return evaluate(archive.session, exprs, rows)
