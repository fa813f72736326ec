"""What a family is: the one plug between the engine and a way of sharing work.  Pure.

A family is asked in this order.  `claims`: does it run this query?  `check`, once when the query is
added: can it? `plan`: what do its queries share, and what will a round cost?  `shares`: whose cost
was it? `job`, when an engine runs: the family at work on its streams (`runtime/family.py`).
`reader`, when somebody asks for answers, in this process or another: how those that are committed
are read.  `registry.py` lists the families; nothing else outside a family's folder names it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.relations.rows import Relations
from headrace.runtime.statistics import Histories, Stats
from headrace.sql.query import Query
from headrace.values import Relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.answers import AnswerLog
    from headrace.runtime.family import Job
    from headrace.runtime.ledger import Ledger

Floats = NDArray[np.float64]
RelationOf = Callable[[str], Relation]
"""A relation of the catalog, by its name."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A family runs the query; `asked` is what the query asks of it, which only that family looks
    into."""

    asked: object = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A family does not run the query, and why, as EXPLAIN says it.  Without a reason: it is no
    query of its kind."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What the jobs of one engine have in common.  `relations`: the rows that are kept; `rests`:
    whether a relation has queries of this family in quarantine, whose answers are still read;
    `quarantined`: which."""

    disk: Disk
    config: Config
    relation_of: RelationOf
    ledger_of: Callable[[str], Ledger]
    relations: Relations
    rests: Callable[[str], bool]
    quarantined: Callable[[str], Collection[int]]


@dataclass(frozen=True, slots=True)
class Archive:
    """Where committed answers are read.  `session`: a Spark, started if there is none, for what
    only Spark computes."""

    disk: Disk
    config: Config
    relation_of: RelationOf
    ledger_of: Callable[[str], Ledger]
    answers_of: Callable[[str], AnswerLog]
    session: Callable[[], SparkSession]


@dataclass(frozen=True, slots=True)
class Planned:
    """A query and its claim; `reason`: why nobody shares it, if nobody does."""

    registered: Registered
    claim: Claim
    reason: str


class Plan(Protocol):
    """What a family shares among its queries of all relations, for EXPLAIN.  Queries come and go;
    what is then planned does not depend on their order.  `rounds` are what committed rounds have
    told."""

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        """Costs what it changes: thousands of other queries are not planned again."""

    def catch_up(self) -> None:
        """Plan now what would be planned when it is asked for."""

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        """All queries of the family over a relation; nothing if there is none."""

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        """What the query runs as, then what it shares with whom, a line each."""

    def price(self, relation: Relation, rounds: Histories) -> Mapping[str, float]:
        """Seconds of the next round of a relation by stage, by default rates; a home learns how
        much slower it is."""

    def reads_rows(self, relation: Relation) -> bool:
        """Whether it reads the rows of a round of the relation."""

    def counts_rows(self, relation: Relation) -> bool:
        """Whether it counts them by the way: then its price is that of the whole round."""

    def measured(self, stats: Stats) -> list[str]:
        """What it noted of a round, in words, beside the seconds by stage."""


class Log(Protocol):
    """Committed answers of a query by round, or by another number that grows with each commit."""

    def rounds(self, after: int = -1) -> list[int]: ...

    def has_lost(self, after: int) -> bool:
        """Whether answers of a later round are no longer kept."""

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None: ...


class Reader(Protocol):
    """Reads the committed answers of a family's queries."""

    def log(self, registered: Registered) -> Log:
        """As far as is committed now."""

    def results(self, registered: Registered) -> pa.Table:
        """The log as one table: all answers, and those that were taken back."""

    def present(self, registered: Registered) -> pa.Table:
        """All final answers, or what is left of changing ones; without the column `change`.  A
        ServingError where some that it needs are no longer kept."""

    def columns(self, registered: Registered) -> list[tuple[str, str]]:
        """Names and SQL types of the columns of the log."""

    def empty(self, registered: Registered) -> pa.Table:
        """These columns, without rows."""

    def is_changing(self, registered: Registered) -> bool:
        """Whether answers may be taken back: then the log has a column `change`, of +1 and −1."""


class Family(Protocol):
    """One way of sharing work.  It holds no state: that is in its jobs and readers."""

    @property
    def name(self) -> str: ...

    @property
    def figures(self) -> type[object]:
        """The dataclass of what it notes of each round it has a part in (`RoundStats.figures`);
        all of its fields have defaults."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Stages of a round that are there for this family's queries only."""

    @property
    def counts_answers(self) -> bool:
        """False where answers are made when they are read, and so are not counted before."""

    @property
    def uses_workers(self) -> bool:
        """Whether Python workers of Spark have a part in its rounds."""

    def claims(self, query: Query, relation_of: RelationOf) -> Claim | Refusal:
        """Pure and quick: it is asked for every query when queries are listed.  Raises a PlanError
        for a query that nobody can run."""

    def check(self, query: Query, claim: Claim, config: Config) -> str:
        """Raises a PlanError for a query it claims and cannot run within its limits; else what to
        warn of, or ''."""

    def plan(self) -> Plan:
        """An empty plan, which queries come to and leave (`Plan.update`)."""

    def shares(
        self,
        queries: Mapping[int, Planned],
        relation: Relation,
        rounds: Sequence[Stats],
        counts: Mapping[int, int],
    ) -> Mapping[str, Floats]:
        """By stage: which part of its cost, in these rounds of a relation, is whose; in the order
        of `queries`, and adding up to 1.  A stage that is not there is shared equally.  `counts`:
        answers in these rounds by query."""

    def rehearse(self, queries: Sequence[Registered], relation: Relation, config: Config) -> None:
        """While Spark starts, in another thread: compile and load what rounds of these queries run
        on the driver, leaving nothing else.  May raise: rounds do not depend on it."""

    def job(self, workplace: Workplace) -> Job:
        """The family at work in one engine.  Imports Spark."""

    def reader(self, archive: Archive) -> Reader:
        """For one engine, whether or not it runs."""
