"""Rounds of a stream and a table that are joined, without a JVM: the real pipelines, shapes and
workers' code.

A worker is a call in this process, and what it writes goes through the scenario's disk, which may
record it.  Rounds come in the same order in every run, so an answer has the same `seq` in every
run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.joins import job
from headrace.families.joins.coordinator import JoinCoordinator
from headrace.families.joins.job import JoinsJob
from headrace.families.joins.reading.join_log import JoinReader
from headrace.reading import watch_answers
from headrace.relations.row_files import KIND
from headrace.relations.rows import Relations
from headrace.relations.store import _workers
from headrace.runtime.cluster import Work
from headrace.runtime.family import Batch, Job, Outcome, Place, Reading, Round
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger
from headrace.runtime.rounds import Pipeline
from headrace.runtime.statistics import Census, Stopwatch
from headrace.runtime.waking import CommitSignal
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.values import BIGINT, BOOLEAN, TIMESTAMP, Field, Relation
from tests.runtime.fakespark import FakeRows, FakeSpark
from tests.runtime.recording import Promise
from tests.runtime.scenario import AtOnce, Step, reveal

NAMES = ("r", "t")
FIELDS = (Field("k", BIGINT), Field("v", BIGINT), Field("gone", BOOLEAN), Field("ts", TIMESTAMP))
TYPES = {"k": pa.int64(), "v": pa.int64(), "gone": pa.bool_(), "ts": pa.timestamp("us", "UTC")}
QUERIES = {
    "band": "SELECT r.v AS rv, t.v AS tv FROM r JOIN t ON t.v - r.v BETWEEN -3 AND 4",
    "select": "SELECT r.v AS rv, t.v AS tv FROM r JOIN t ON r.k = t.k WHERE r.v > 2 AND t.v < 17",
    "self": "SELECT x.v AS xv, y.v AS yv FROM t x JOIN t y ON x.k = y.k",
    "timed": "SELECT x.v AS xv, y.v AS yv FROM r x JOIN r y ON x.k = y.k AND y.ts BETWEEN x.ts - INTERVAL '2' SECONDS "
    "AND x.ts",
    "any": "SELECT x.v AS xv, y.v AS yv FROM r x JOIN r y ON x.k = y.k",
    "wide": "SELECT r.k AS rk, t.k AS tk FROM r JOIN t ON abs(t.v - r.v) <= 12",
}
STEPS = (
    Step(add=("band", "select")),
    Step(files=1),
    Step(files=2),
    Step(drop="band"),
    Step(add=("wide", "band", "self")),
    Step(files=3),
)
ROWS = 6
Row = dict[str, Any]
Seen = dict[str, list[tuple[int, Row]]]
"""By query: the place of each answer, and the answer."""


@cache
def rows_of(relation: str, index: int) -> tuple[Row, ...]:
    """File `index` of a relation; keys of a file are different, those of files are not."""
    r = Random(f"{relation}{index}")
    keys = r.sample(range(8), ROWS)
    return tuple(
        {"k": k, "v": r.randrange(20), "gone": r.random() < 0.3, "ts": index * 1_000_000}
        for k in keys
    )


class Files(FakeRows):
    """What Spark hands to a round."""

    def persist(self) -> Files:
        return self

    def unpersist(self) -> None:
        pass

    @property
    def sparkSession(self) -> Any:
        return SimpleNamespace(
            range=lambda first, last, *_: pa.table({"id": pa.array(range(first, last))})
        )


class CountJob:
    name = "count"
    folders = ()

    def open(self, place: Place) -> CountWork:
        return CountWork(place.relation.name)


class CountWork:
    """Counts the rows of a round, as windows do by the way."""

    reads_rows = counts_rows = True
    wants_replan = False

    def __init__(self, relation: str) -> None:
        self._relation = relation

    def replan(self, change: object) -> None:
        pass

    def done(self) -> None:
        pass

    def rest(self) -> None:
        pass

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        rows = [
            row for index in cast(list[int], batch.frame) for row in rows_of(self._relation, index)
        ]
        census = Census(rows=len(rows), newest_us=max((row["ts"] for row in rows), default=None))
        return Reading(lambda round, watch: Outcome(), census)


# -- workers, in process ---------------------------------------------------------------------------


@contextmanager
def workers(disk: Disk) -> Iterator[None]:
    """New workers, whose files go through `disk`; each file of a round is a batch."""

    def write(path: Path, table: pa.Table, compression: str | None = None) -> tuple[int, int]:
        inside = path.relative_to(disk.root.absolute()).as_posix()
        aside = path.with_name(f"{path.name}.worker")
        size_crc = real(aside, table, compression)
        data = aside.read_bytes()
        aside.unlink()
        disk.write(f"{inside}.0", data)
        disk.rename(f"{inside}.0", inside)
        return size_crc

    from headrace.relations.row_files import write_table as real

    _workers.clear()
    context = SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: 0))
    with (
        patch.multiple(job, _rows=_rows, _collected=_collected, TaskContext=context),
        patch("headrace.relations.keeping.write_table", write),
        patch("headrace.families.joins.levels.probes.write_table", write),
    ):
        yield


def _rows(batch: Batch) -> pa.Table:
    files = cast(list[int], batch.frame)
    parts = [list(rows_of(batch.relation.name, index)) for index in files]
    if batch.relation.is_table:
        parts = [list({row["k"]: row for part in parts for row in part}.values())]
    return pa.concat_tables([_arrow(part) for part in parts])


def _arrow(rows: list[Row]) -> pa.Table:
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    )
    return table.append_column(KIND, pa.array(np.zeros(len(rows), np.int8)))


def _collected(rows: pa.Table, work: Work, home: Path) -> list[str]:
    return [found.column(0)[0].as_py() for found in work(iter(rows.to_batches()))]


# -- the steps -------------------------------------------------------------------------------------


class JoinScenario:
    """All steps the home does not have yet.  `acked` is called when something has been promised;
    `restarts`: before files are read all that is remembered is forgotten, as by another process."""

    def __init__(
        self,
        disk: Disk,
        source: Path,
        acked: Callable[[Promise], None] = lambda promise: None,
        restarts: bool = False,
        manifests_kept: int = 100,
    ) -> None:
        self._disk = disk
        self._source = source
        self._sources = {name: source / name for name in NAMES}
        self._acked = acked
        self._restarts = restarts
        self._config = Config.of(manifests_kept=manifests_kept)
        self.home = Home(disk.root, disk)
        self.catalog = Catalog(disk, self._config)
        self.pipelines: dict[str, Pipeline] = {}

    def run(self) -> None:
        with self.held():
            for step in self._to_do():
                self.do(step)

    @contextmanager
    def held(self) -> Iterator[JoinScenario]:
        """With the home, its relations and workers, for steps to be done."""
        self.home.hold()
        try:
            self._promise()
            for relation in relations_of(self._source).values():
                self.catalog.create(relation)
                self._promise()
            self.begin()
            with workers(self._disk):
                yield self
        finally:
            self.home.release()

    def begin(self) -> None:
        """Pipelines that know nothing yet."""
        relations = Relations(self.catalog.relation, self._ledger)
        self.shapes = JoinCoordinator(self._disk, self._config, self.catalog.relation, relations)
        jobs: list[Job] = [CountJob(), JoinsJob(self.shapes)]
        for name, relation in relations_of(self._source).items():
            place = Place(self._disk, self._ledger(name), relation, self._config)
            place.make_folders(JoinsJob.folders)
            self.pipelines[name] = Pipeline(
                self.home,
                relation,
                self.catalog,
                jobs,
                self._config,
                lambda registered: "joins",
                AtOnce(),
            )

    def do(self, step: Step) -> None:
        if step.add:
            self.catalog.add([bound(self._source, name) for name in step.add])
        elif step.drop:
            self.catalog.drop([step.drop])
        else:
            if self._restarts:
                self.begin()
            for name, source in self._sources.items():
                reveal(source, max(step.files, len(list(source.iterdir()))))
                self._promise()
                self.drain(name)
        self._promise()

    def drain(self, name: str) -> None:
        """All that is there of one relation."""
        pipeline = self.pipelines[name]
        pipeline.open()

        def run(files: list[int], number: int) -> None:
            pipeline._round(cast(Any, Files(files)), number)
            self._promise()

        FakeSpark(self._disk, pipeline.ledger.folder).drain(self._sources[name], run)

    def _ledger(self, name: str) -> Ledger:
        return Ledger(self._disk, self.home.stream_folder(name))

    def _promise(self) -> None:
        """`round_id` is how many rounds of any relation there are; `files` those of both."""
        newest = [p.ledger.newest for p in self.pipelines.values()]
        rounds = sum(m.round_id + 1 for m in newest if m is not None)
        self._acked(Promise(self.catalog.version, rounds, self.home.epoch, files_in(self._source)))

    def _to_do(self) -> list[Step]:
        changes, steps = self.catalog.version - len(NAMES), list(STEPS)
        while changes > 0:
            changes -= not steps.pop(0).files
        return steps


@cache
def relations_of(source: Path) -> dict[str, Relation]:
    options = "?recursiveFileLookup=true"  # rounds take the rows as given
    stream = Relation("r", f"parquet:{source / 'r'}{options}", FIELDS, "ts")
    table = Relation("t", f"parquet:{source / 't'}{options}", FIELDS, key=("k",), deleted="gone")
    return {"r": stream, "t": table}


@cache
def bound(source: Path, name: str) -> Query:
    return bind(QUERIES[name], relations_of(source), name=name, config=Config())


def files_in(source: Path) -> int:
    return sum(len(list((source / name).iterdir())) for name in NAMES)


def reveal_both(source: Path, files: int) -> None:
    """So many source files, as a run reveals them: one relation after the other."""
    counts = [0, 0]
    for step in (step for step in STEPS if step.files):
        for side in (0, 1):
            counts[side] = max(counts[side], min(step.files, counts[side] + files - sum(counts)))
    for name, count in zip(NAMES, counts, strict=True):
        reveal(source / name, count)


# -- what is there ---------------------------------------------------------------------------------


def seen_by_watcher(disk: Disk, checks: bool = True) -> Seen:
    """All committed answers of the live queries, by place; with `checks` every kept file is looked
    at."""
    catalog, home = Catalog(disk, Config()), Home(disk.root, disk)
    ledgers = {name: Ledger(disk, home.stream_folder(name)) for name in catalog.relations}
    for ledger in ledgers.values() if checks else ():
        ledger.check_sizes()
        for mark in ledger.kept_files():
            ledger.check(mark)
    reader = reader_of(disk)
    return {name: watched(reader, registered) for name, registered in catalog.queries.items()}


def reader_of(disk: Disk) -> JoinReader:
    home = Home(disk.root, disk)
    relation_of = Catalog(disk, Config()).relation
    return JoinReader(disk.root, relation_of, lambda name: Ledger(disk, home.stream_folder(name)))


def watched(
    reader: JoinReader, registered: Registered, since: int | None = None
) -> list[tuple[int, Row]]:
    answers = watch_answers(
        registered, lambda: reader.log(registered), since, lambda: False, CommitSignal()
    )
    return [(a.seq, dict(a)) for a in answers]


def net(answers: list[tuple[int, Row]]) -> Counter[tuple[Any, ...]]:
    """What is left when all is taken back that is."""
    total: Counter[tuple[Any, ...]] = Counter()
    for _, row in answers:
        total[tuple(v for name, v in row.items() if name != "change")] += row.get("change", 1)
    assert all(count >= 0 for count in total.values())
    return +total


def joined_by_hand(files: int) -> Counter[tuple[Any, ...]]:
    """What `select` gives over so many files of each relation."""
    r = [row for index in range(files) for row in rows_of("r", index)]
    t: dict[int, Row] = {}
    for index in range(files):
        for row in rows_of("t", index):
            t.pop(row["k"], None)
            if not row["gone"]:
                t[row["k"]] = row
    return Counter(
        (x["v"], y["v"])
        for x in r
        for y in t.values()
        if x["k"] == y["k"] and x["v"] > 2 and y["v"] < 17
    )
