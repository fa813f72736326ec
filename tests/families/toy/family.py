"""A family of the tests' own: it counts the rows whose text contains a word, once for each word,
whoever asks.

    SELECT count(*) AS n FROM s WHERE contains(k, 'word')

What it shares is one Spark job a round with one count for each word.  The counts so far are
committed with the round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from headrace.families.stored import StoredReader
from headrace.records import encode
from headrace.runtime.answers import CHANGE, Block
from headrace.runtime.family import OK, Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.statistics import Histories, Stats, Stopwatch, own_figures
from headrace.sql.emit import emit
from headrace.sql.query import Query
from headrace.sql.tree import Aggregate, Call
from headrace.values import Relation

WORD_S = 0.01


@dataclass(frozen=True, slots=True)
class ToyFigures:
    """So many words were looked for."""

    words: int = 0


class Toy:
    name = "toy"
    figures = ToyFigures
    stages = ("toy",)
    counts_answers = True
    uses_workers = False

    def claims(self, query: Query, relation_of: RelationOf) -> Claim | Refusal:
        outputs, where = [o.expr for o in query.outputs], query.where
        is_count = (
            len(outputs) == 1 and isinstance(outputs[0], Aggregate) and outputs[0].op == "count"
        )
        is_count = is_count and not query.aggregates[0].args
        if not is_count or query.keys or query.window is not None or query.having is not None:
            return Refusal()
        if (
            relation_of(query.source).is_table
            or not isinstance(where, Call)
            or where.op != "contains"
        ):
            return Refusal("it does not count the rows that contain a word")
        return Claim(emit(where))

    def check(self, query: Query, claim: Claim, config: Config) -> str:
        return ""

    def plan(self) -> ToyPlan:
        return ToyPlan()

    def shares(
        self,
        queries: Mapping[int, Planned],
        relation: Relation,
        rounds: Sequence[Stats],
        counts: Mapping[int, int],
    ) -> Mapping[str, Floats]:
        """A word is paid for by those who ask for it."""
        asked = [word_of(own) for own in queries.values()]
        often = Counter(asked)
        return {"toy": np.array([1 / (len(often) * often[word]) for word in asked])}

    def rehearse(self, queries: Sequence[Registered], relation: Relation, config: Config) -> None:
        """It has no kernels."""

    def job(self, workplace: Workplace) -> ToyJob:
        return ToyJob()

    def reader(self, archive: Archive) -> Reader:
        return ToyReader(archive)


class ToyReader(StoredReader):
    """A count that grows takes the one before back."""

    def present(self, registered: Registered) -> pa.Table:
        log = self.results(registered)
        newest = log.filter(pc.greater(log.column(CHANGE), 0)).drop_columns([CHANGE])
        return newest.slice(max(0, newest.num_rows - 1))

    def is_changing(self, registered: Registered) -> bool:
        return True


def word_of(planned: Planned) -> str:
    assert isinstance(planned.claim.asked, str)
    return planned.claim.asked


class ToyPlan:
    def __init__(self) -> None:
        self._queries: dict[int, Planned] = {}

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        for query_id in gone:
            del self._queries[query_id]
        self._queries.update(come)

    def catch_up(self) -> None:
        pass

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        words = self._words(relation)
        return [f"counted words: {', '.join(sorted(words))}"] if words else []

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        own = word_of(self._queries[query_id])
        others = sum(word_of(q) == own for q in self._queries.values()) - 1
        return ["counted words", f"  shares:   {own} with {others} others"]

    def price(self, relation: Relation, rounds: Histories) -> dict[str, float]:
        words = self._words(relation)
        return {"toy": WORD_S * len(words)} if words else {}

    def reads_rows(self, relation: Relation) -> bool:
        return bool(self._words(relation))

    def counts_rows(self, relation: Relation) -> bool:
        return False

    def measured(self, stats: Stats) -> list[str]:
        words = own_figures(stats, Toy.name, ToyFigures).words
        return [f"{words} words looked for"] if words else []

    def _words(self, relation: Relation) -> set[str]:
        return {
            word_of(q) for q in self._queries.values() if q.registered.query.source == relation.name
        }


@dataclass(frozen=True, slots=True)
class Counted:
    """By word: rows so far."""

    so_far: Mapping[str, int] = field(default_factory=dict)


class ToyJob:
    name = "toy"
    folders = ()

    def open(self, place: Place) -> ToyWork:
        return ToyWork(place)


class ToyWork:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._so_far = dict(place.ledger.chosen(Toy.name, Counted).so_far)
        self._asked: dict[int, str] = {}

    @property
    def reads_rows(self) -> bool:
        return bool(self._asked)

    @property
    def counts_rows(self) -> bool:
        return False

    @property
    def wants_replan(self) -> bool:
        return False

    def replan(self, change: Change) -> None:
        claims = {
            i: Toy().claims(own.query, lambda _: self._place.relation)
            for i, own in change.queries.items()
        }
        self._asked = {
            i: str(claim.asked) for i, claim in claims.items() if isinstance(claim, Claim)
        }

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        words = sorted(set(self._asked.values()))
        if not words:
            return Reading(lambda round, watch: Outcome())
        with watch.stage("toy"):
            counts = [f"count_if({batch.kind()} = {OK} AND {word})" for word in words]
            found = batch.frame.selectExpr(*counts).collect()[0]
        return Reading(lambda round, watch: self._answer(dict(zip(words, found, strict=True))))

    def _answer(self, found: Mapping[str, int]) -> Outcome:
        before = self._so_far
        self._so_far = {word: before.get(word, 0) + count for word, count in found.items()}
        asked = {i: word for i, word in self._asked.items() if found[word] or word not in before}
        changes = [
            (i, counts[word], sign)
            for i, word in asked.items()
            for counts, sign in ((before, -1), (self._so_far, 1))
            if word in counts
        ]
        ids, counts, signs = (np.array([c[at] for c in changes], np.int64) for at in range(3))
        own, often = np.unique(ids, return_counts=True)
        columns = pa.array(counts), pa.array(signs, pa.int8())
        return Outcome(
            blocks=[Block(own, often, np.zeros(ids.size, np.int64), columns)],
            answers=ids.size,
            choices={Toy.name: asdict(Counted(self._so_far))},
            priced={"toy": WORD_S * len(found)},
            figures={Toy.name: encode(ToyFigures(len(found)))},
        )

    def done(self) -> None:
        pass

    def rest(self) -> None:
        pass
