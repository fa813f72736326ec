"""A round of the joins family: one Spark job, whose tasks keep the rows and find whom they affect
(`round_runner.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from headrace.errors import HomeError
from headrace.families.joins.coordinator import JoinCoordinator
from headrace.families.joins.levels.level_store import LevelStore
from headrace.families.joins.levels.probing import Report, Task, look_all, take_batch
from headrace.families.joins.round_runner import PendingRound, RoundRunner, nothing
from headrace.families.joins.suspects import take_or_blame
from headrace.quoting import quote_name
from headrace.relations.keeping import COMPACTED, CompactTask, KeepTask, compact_files, grouped
from headrace.relations.rounds import FOLDER
from headrace.relations.row_files import KIND, RowFile
from headrace.relations.store import worker_store
from headrace.relations.tables import latest_rows
from headrace.runtime.cluster import Work, on_workers
from headrace.runtime.family import BAD, OK, Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.faults import is_worker_gone
from headrace.runtime.statistics import Stopwatch

BATCHES_MAX = 1 << 16  # of a task
# of a stream: more are looked up on all cores, however few bytes they are
ONE_TASK_ROWS_MAX = 50_000
REPORT = "report STRING"
T = TypeVar("T", bound=KeepTask)


class JoinsJob:
    name = "joins"
    folders = (FOLDER, "levels")

    def __init__(self, shapes: JoinCoordinator) -> None:
        self._coordinator = shapes

    def open(self, place: Place) -> JoinsWork:
        return JoinsWork(place, self._coordinator)


class JoinsWork:
    """The joins of one relation."""

    def __init__(self, place: Place, shapes: JoinCoordinator) -> None:
        self._place = place
        self._coordinator = shapes
        self._name = place.relation.name
        self._runner = RoundRunner(place, shapes)
        self._has_lock = False

    @property
    def reads_rows(self) -> bool:
        """Joined too: the other relation may have planned for a query that this one has not seen
        yet, and finds the rows that are kept here."""
        return (
            self._coordinator.is_asked(self._name)
            or self._coordinator.needs_rows(self._name)
            or self._place.relation.is_table
            or self._coordinator.rests(self._name)
        )

    @property
    def counts_rows(self) -> bool:
        return False

    @property
    def wants_replan(self) -> bool:
        return False

    def replan(self, change: Change) -> None:
        if change.is_first:
            self._coordinator.replan(self._name, change.comes)
        else:
            self._coordinator.change(self._name, change.comes, change.goes)

    def rest(self) -> None:
        self.done()

    def done(self) -> None:
        """The round is committed, or it is not to be: the next relation's may begin."""
        self._coordinator.relations.settle(self._name)
        if self._has_lock:
            self._has_lock = False
            self._coordinator.relations.commit_lock.release()

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        if not self.reads_rows:
            return Reading(lambda round, watch: nothing(self._place, round))
        with watch.stage("turn"):
            if not self._has_lock:
                self._coordinator.relations.commit_lock.acquire()
                self._has_lock = True
        with watch.stage("joins"):
            if faults := self._runner.too_large():
                return Reading(lambda round, watch: Outcome(), faults=faults)
            tasks, queries = (
                SparkTasks(batch, round.census.rows, self._place),
                self._coordinator.by_shape(self._name),
            )
            tries_max = self._place.config.quarantine_probes_max
            pending, faults = take_or_blame(self._runner, tasks, round, queries, tries_max)
        if pending is None:
            assert faults, "a round without its rows is not committed"
            return Reading(lambda round, watch: Outcome(), faults=faults)
        return Reading(
            lambda round, watch: self._answer(pending, round, watch),
            faults=self._runner.over_limit(pending),
        )

    def _answer(self, pending: PendingRound, round: Round, watch: Stopwatch) -> Outcome:
        with watch.stage("joins"):
            return self._runner.outcome(pending, round)


class SparkTasks:
    """Tasks of a round as Spark jobs; what comes back to the driver are reports."""

    def __init__(self, batch: Batch, rows: int, place: Place) -> None:
        self._place = place
        is_small = batch.is_small and (batch.relation.is_table or rows <= ONE_TASK_ROWS_MAX)
        self._batch = replace(batch, is_small=is_small)

    def take(self, task: Task) -> list[Report]:
        return self._run(_rows(self._batch), _taking(task))

    def look(self, task: Task, files: Sequence[RowFile]) -> list[Report]:
        numbers = self._batch.frame.sparkSession.range(0, len(files), 1, max(1, len(files)))
        return self._run(numbers, _looking(task, files))

    def compact(self, task: CompactTask) -> list[Report]:
        groups = grouped(task.files)
        numbers = self._batch.frame.sparkSession.range(0, len(groups), 1, len(groups))
        return self._run(numbers, _compacting(task, groups))

    def _run(self, frame: DataFrame, work: Work) -> list[Report]:
        reports = [Report.unpack(text) for text in self._tried(frame, work)]
        for report in reports:
            if report.damage is not None:
                raise HomeError(**report.damage)
            self._place.disk.check_written(report.left())
        return reports

    def _tried(self, frame: DataFrame, work: Work) -> list[str]:
        """Again when a worker was killed under it, which local Spark does not do: each attempt
        names its own files."""
        root = self._place.disk.root
        for _ in range(self._place.config.worker_tries - 1):
            try:
                return _collected(frame, work, root)
            except Exception as error:
                if not is_worker_gone(error):
                    raise
        return _collected(frame, work, root)


# -- on executors ----------------------------------------------------------------------------------


def _rows(batch: Batch) -> DataFrame:
    """The relation's columns, and the kind of each row; of a table, the last row of each key.
    Columns are numbered: `mapInArrow` does not take every name."""
    if batch.is_small:
        batch = replace(batch, frame=batch.frame.coalesce(1))
    fields = [f"{quote_name(f.name)} AS c{i}" for i, f in enumerate(batch.relation.fields)]
    if batch.relation.is_table:
        return latest_rows(batch).selectExpr(*fields, f"CAST({OK} AS TINYINT) AS {KIND}")
    kinds = batch.frame.selectExpr(*fields, f"CAST({batch.kind()} AS TINYINT) AS {KIND}")
    return kinds.where(f"{KIND} <> {BAD}")


def _collected(frame: DataFrame, work: Work, home: Path) -> list[str]:
    found: list[str] = on_workers(frame, work, REPORT, home).toArrow().column(0).to_pylist()
    return found


def _store(root: str) -> LevelStore:
    return worker_store(root, LevelStore)


def _taking(task: Task) -> Work:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        own, names = _stamped(task), [*(f.name for f in task.relation.fields), KIND]
        for number, batch in enumerate(batches):
            part = context.partitionId() * BATCHES_MAX + number
            if batch.num_rows:
                rows = pa.Table.from_batches([batch]).rename_columns(names)
                yield _told(partial(take_batch, rows, own, part, _store(task.root)))

    return take


def _looking(task: Task, files: Sequence[RowFile]) -> Work:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = _stamped(task)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _told(partial(look_all, files[number], own, _store(task.root)))

    return look


def _compacting(task: CompactTask, groups: Sequence[Sequence[RowFile]]) -> Work:
    def compact(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own, store = replace(task, keep=_stamped(task.keep)), _store(task.keep.root)

        def compacted(number: int) -> Report:
            return Report(compact_files(groups[number], own, COMPACTED + number, store))

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _told(partial(compacted, number))

    return compact


def _stamped(task: T) -> T:
    """As one attempt at it: Spark may try a task twice, and lets others run when one has failed."""
    return replace(task, stamp=f".{uuid4().hex[:16]}")


def _told(work: Callable[[], Report]) -> pa.RecordBatch:
    """What a worker finds damaged is reported: an error would reach the driver as a text of
    Spark's."""
    try:
        report = work()
    except HomeError as error:
        damage = {
            "what": error.what,
            "value": str(error.value),
            "hint": error.hint,
            "code": error.code,
        }
        report = Report(None, damage=damage)
    return pa.record_batch([pa.array([report.pack()])], names=["report"])
