"""Rounds without a JVM: the real home, catalog, ledger and `Pipeline`, driven by a Spark of a page.

`SumWork` is a family with durable state: it answers each input file with the sum of all values so
far, so that a lost, repeated or half-restored round shows in every later answer, however files are
cut into rounds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.pane_log.panes import PaneLog, PaneRound
from headrace.runtime.answers import AnswerLog, Block, file_mark
from headrace.runtime.background import Background
from headrace.runtime.family import Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger
from headrace.runtime.rounds import Pipeline
from headrace.runtime.statistics import Census, Stopwatch
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.values import BIGINT, TIMESTAMP, Field, Relation
from tests.runtime.fakespark import FakeSpark
from tests.runtime.recording import Promise
from tests.streams import FIRST_FILE_S

SQL = "SELECT sum(v) AS total FROM s GROUP BY window(ts, '1 second')"
CUTS = Cuts(1_000_000, (Cut((), ()),), ())
KEPT_ROUNDS = 2


def value_of(index: int) -> int:
    """What the file says: powers of three, so that no wrong sum looks right."""
    return int(3**index)


class SumJob:
    name = "sums"
    folders = ("panes", "folded", "rows")

    def open(self, place: Place) -> SumWork:
        return SumWork(place)


class SumWork:
    """State: what each round added to the sum, in the pane log, whose old rounds are folded into
    one; and rows that Spark would have written."""

    reads_rows = counts_rows = True
    wants_replan = False

    def __init__(self, place: Place) -> None:
        self._place = place
        self._log = PaneLog(place.disk, place.ledger)
        self._sum = self._total(self._log.rounds)
        self._queries: Sequence[Registered] = ()

    def replan(self, change: Change) -> None:
        self._queries = list(change.queries.values())

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        pass

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        files = cast(list[int], batch.frame)
        census = Census(rows=len(files), newest_us=max(files, default=None))
        return Reading(lambda round, watch: self._answer(files, round), census)

    def _answer(self, files: list[int], round: Round) -> Outcome:
        totals = self._sum + np.cumsum([value_of(i) for i in files], dtype=np.int64)
        added = int(totals[-1]) - self._sum if len(files) else 0
        self._sum += added
        outcome = Outcome()
        outcome.blocks = [
            Block(np.array([r.id]), np.array([len(files)]), np.array(files), (pa.array(totals),))
            for r in self._queries
        ]
        mark = self._log.append(round.id, None, None, CUTS, pa.table({"sum": pa.array([added])}))
        self._fold(round.id)
        outcome.keep = {"panes": self._log.keep_from(None), "rows": round.id}
        outcome.held = self._log.held
        outcome.files = [mark, *self._spark_writes(round.id, files)]
        return outcome

    def _total(self, entries: Sequence[PaneRound]) -> int:
        return sum(int(self._log.read(entry).column("sum")[0].as_py()) for entry in entries)

    def _fold(self, round_id: int) -> None:
        """All but the newest rounds become one."""
        old = self._log.rounds[:-KEPT_ROUNDS]
        if len(old) > 1:
            path = f"{self._place.folder}/folded/{round_id:012d}-0.arrow"
            table = pa.table({"sum": pa.array([self._total(old)])})
            self._log.rounds[:-KEPT_ROUNDS] = [
                self._log.write(path, old[-1].round_id, None, None, CUTS, table)
            ]

    def _spark_writes(self, round_id: int, files: list[int]) -> list[Any]:
        disk, folder = self._place.disk, f"{self._place.folder}/rows/{round_id:012d}"
        disk.clear(folder)
        disk.mkdir(folder)
        disk.write(f"{folder}/part-0", json.dumps(files).encode())
        return [file_mark(disk, path) for path in disk.adopt(folder)]


class AtOnce(Background):
    """Rounds are committed before Spark goes on."""

    def begin(self, work: Callable[[], None]) -> None:
        work()


class AtLast(Background):
    """Rounds are committed when somebody waits for them: Spark has gone on as far as it can."""

    _work: Callable[[], None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        assert self._work is None
        self._work = work

    def wait(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()


# -- the steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A catalog change (one record), or with `files` so many source files to answer."""

    add: tuple[str, ...] = ()
    drop: str = ""
    files: int = 0


STEPS = (
    Step(add=("a",)),
    Step(files=1),
    Step(add=("b", "c")),
    Step(drop="a"),
    Step(files=3),
    Step(add=("a",)),
    Step(files=4),
)
IDS = 4
LIVE = (2, 3, 4)


class Scenario:
    """All steps the home does not have yet.  `acked` is called when something has been promised."""

    def __init__(
        self,
        disk: Disk,
        source: Path,
        acked: Callable[[Promise], None] = lambda promise: None,
        manifests_kept: int = 100,
        later: type[Background] | None = None,
    ) -> None:
        self._disk = disk
        self._source = source
        self._acked = acked
        self._background = later or AtOnce
        self._config = Config.of(manifests_kept=manifests_kept)
        self.home = Home(disk.root, disk)
        self.catalog = Catalog(disk, self._config)
        self._rounds = -1

    def run(self) -> None:
        self.home.hold()
        try:
            self._promise()
            relation = relation_of(self._source)
            self.catalog.create(relation)
            self._promise()
            for step in self._to_do():
                self._do(step, relation)
        finally:
            self.home.release()

    def _do(self, step: Step, relation: Relation) -> None:
        if step.add:
            self.catalog.add([bound(relation, n) for n in step.add])
        elif step.drop:
            self.catalog.drop([step.drop])
        else:
            reveal(self._source, max(step.files, len(list(self._source.iterdir()))))
            self._promise()
            pipeline = Pipeline(
                self.home,
                relation,
                self.catalog,
                [SumJob()],
                self._config,
                lambda r: "sums",
                self._background(),
            )
            pipeline.open()
            FakeSpark(self._disk, pipeline.ledger.folder).drain(
                self._source, self._round_of(pipeline)
            )
            pipeline._settle()
            self._note(pipeline)
        self._promise()

    def _round_of(self, pipeline: Pipeline) -> Callable[[list[int], int], None]:
        def run(files: list[int], number: int) -> None:
            pipeline._round(cast(Any, files), number)
            self._note(pipeline)

        return run

    def _note(self, pipeline: Pipeline) -> None:
        if pipeline.ledger.newest is not None:
            self._rounds = pipeline.ledger.newest.round_id
            self._promise()

    def _promise(self) -> None:
        self._acked(
            Promise(
                self.catalog.version,
                self._rounds,
                self.home.epoch,
                len(list(self._source.iterdir())),
            )
        )

    def _to_do(self) -> list[Step]:
        changes, steps = self.catalog.version - 1, list(STEPS)
        while changes > 0:
            changes -= not steps.pop(0).files
        return steps


def relation_of(source: Path) -> Relation:
    fields = (Field("v", BIGINT), Field("ts", TIMESTAMP))
    # rounds take the rows as given
    return Relation("s", f"parquet:{source}?recursiveFileLookup=true", fields, "ts")


@cache
def bound(relation: Relation, name: str) -> Query:
    """Hundreds of runs ask the same."""
    return bind(SQL, {"s": relation}, name=name, config=Config())


def reveal(source: Path, files: int) -> None:
    """So many source files, no more."""
    for path in source.iterdir():
        if int(path.stem) >= files:
            path.unlink()
    for index in range(files):
        path = source / f"{index}.txt"
        if not path.exists():
            path.write_text(str(value_of(index)))
            os.utime(path, (FIRST_FILE_S + index, FIRST_FILE_S + index))


def answers(disk: Disk, source: Path) -> dict[int, list[tuple[int, int]]]:
    """By query id: (file, sum so far) as committed; every file of every kept round is checked on
    the way."""
    ledger = Ledger(disk, "streams/s")
    ledger.check_sizes()
    for mark in ledger.kept_files():
        ledger.check(mark)
    log, query = AnswerLog(disk, ledger), bound(relation_of(source), "any")
    found: dict[int, list[tuple[int, int]]] = {}
    for query_id in range(1, IDS + 1):
        tables = [table for _, table in log.read_all(query_id, query)]
        found[query_id] = [
            (_micros(row["window_end"]), row["total"]) for t in tables for row in t.to_pylist()
        ]
    return found


def _micros(moment: Any) -> int:
    micros: int = round(moment.timestamp() * 1e6)
    return micros
