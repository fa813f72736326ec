"""A round of the joins family: one Spark job, whose tasks keep the rows and find whom they affect (`probing.py`).

What comes back to the driver are the names of the files they wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from headrace.catalog.catalog import Registered
from headrace.errors import HomeError
from headrace.families.joins.probes import Written
from headrace.families.joins.probing import Look, Report, Task, look_all, take_batch
from headrace.families.joins.rounds import KIND as FOLDER
from headrace.families.joins.rounds import JoinRound, Seen, round_folder, round_path
from headrace.families.joins.rowfiles import KIND, RowFile
from headrace.families.joins.state import Joints
from headrace.families.joins.store import Store
from headrace.runtime.family import BAD, OK, Batch, Outcome, Place, Reading, Round
from headrace.runtime.ledger import FileMark, mark_of
from headrace.runtime.statistics import Stopwatch
from headrace.runtime.tables import latest_rows

BATCHES_MAX = 1 << 16  # of a task
REPORT = "report STRING"


class JoinsFamily:
    name = "joins"

    def __init__(self, joints: Joints) -> None:
        self._joints = joints

    def open(self, place: Place) -> JoinsWork:
        return JoinsWork(place, self._joints)


class JoinsWork:
    """The joins of one relation."""

    def __init__(self, place: Place, joints: Joints) -> None:
        self._place = place
        self._joints = joints
        self._name = place.relation.name
        self._has_turn = False
        joints.forget(self._name)
        self._tidy()

    @property
    def reads_rows(self) -> bool:
        return bool(self._joints.queries(self._name))

    def replan(self, queries: Sequence[Registered]) -> None:
        self._joints.replan(self._name, queries)

    def rest(self) -> None:
        self.done()

    def done(self) -> None:
        """The round is committed, or it is not to be: the next relation's may begin."""
        if self._has_turn:
            self._has_turn = False
            self._joints.turn.release()

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        if not self.reads_rows:
            return Reading(partial(_nothing, self._place))
        with watch.stage("turn"):
            if not self._has_turn:
                self._joints.turn.acquire()
                self._has_turn = True
        with watch.stage("joins"):
            looks, held = self._joints.looks(self._name, self._place.folder, self._committed())
            reports = self._take(batch, round, looks) if round.census.rows else []
        over = self._over_limit(reports)
        return Reading(partial(self._answer, looks, held, reports), faults=over)

    # -- a round ------------------------------------------------------------------------------------

    def _take(self, batch: Batch, round: Round, looks: Sequence[Look]) -> list[Report]:
        """Keep the rows and look them up; rows of a relation joined with itself when all of the round are kept."""
        disk, folder = self._place.disk, round_folder(self._place.folder, round.id)
        disk.make_folder(folder)
        self._clear(folder)
        own = tuple(self._joints.rows(self._name).files)
        cross = tuple(look for look in looks if look.other != self._name)
        task = Task(str(disk.root.absolute()), folder, round.id, batch.relation, own, cross)
        reports = _run(_rows(batch), _taking(task))
        mine = tuple(look for look in looks if look.other == self._name)
        if mine:
            files = [r.file for r in reports if r.file is not None]
            seen = tuple(_with(look, files) if look.side == 1 else look for look in mine)
            again = Task(task.root, folder, round.id, batch.relation, own, seen)
            numbers = batch.frame.sparkSession.range(0, len(files), 1, max(1, len(files)))
            reports += [replace(r, file=None) for r in _run(numbers, _looking(again, files))]
        return reports

    def _clear(self, folder: str) -> None:
        """What an attempt at the round has left; the folder stays, for tasks of it may still be writing."""
        for path in (self._place.disk.root / folder).iterdir():
            self._place.disk.remove(f"{folder}/{path.name}")

    def _over_limit(self, reports: Sequence[Report]) -> dict[int, str]:
        limit = self._place.config.join_rows_max
        size = self._joints.rows(self._name).size + sum(r.file.growth for r in reports if r.file is not None)
        if size <= limit:
            return {}
        reason = f"it needs {size:,} rows of {self._name} kept, the limit join_rows_max is {limit:,}; " \
                 "bound the event times (s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts), or raise the limit"
        return dict.fromkeys(self._joints.unbounded(self._name), reason)

    def _answer(self, looks: Sequence[Look], held: Sequence[FileMark], reports: Sequence[Report], round: Round,
                watch: Stopwatch) -> Outcome:  # fmt: skip
        outcome = Outcome(held=tuple(held))
        with watch.stage("joins"):
            files = tuple(r.file for r in reports if r.file is not None)
            if files:
                outcome.files += self._write(looks, reports, files, round)
            rounds = self._joints.rows(self._name).rounds.rounds
            first = rounds[0].round_id if rounds else round.id
            outcome.keep[FOLDER] = first if self._needs_all() else max(first, self._oldest(round))
        return outcome

    def _needs_all(self) -> bool:
        return self._place.relation.is_table

    def _oldest(self, round: Round) -> int:
        """What may still be joined, and what the answers that are kept are made of."""
        kept = self._place.config.manifests_kept
        rounds = [file.round_id for file in self._joints.rows(self._name).files]
        return min([round.id + 1 - kept, *rounds, *self._joints.needed(self._name, kept)])

    def _write(
        self, looks: Sequence[Look], reports: Sequence[Report], files: tuple[RowFile, ...], round: Round
    ) -> list[FileMark]:
        disk, place = self._place.disk, self._place
        written = tuple(w for r in reports for w in r.written)
        seen = tuple(Seen(look.joint.kind, look.side, look.levels) for look in looks)
        self._joints.note({looks[w.look].levels[w.level]: w.rates for w in written if w.rates is not None})
        rates = self._joints.rates([path for look in looks for path in look.levels])
        odd = sum(r.odd for r in reports)
        after = self._joints.newest({look.other for look in looks if look.other != self._name})
        since = self._joints.oldest(looks)
        done = JoinRound(self._joints.tick + 1, round.id, 0, files, seen, written, odd, rates, after, since)
        marks = [FileMark(f.path, f.size, f.crc) for f in files]
        marks += [FileMark(w.path, w.size, w.crc) for w in written]
        for mark in marks:
            disk.sync(mark.path)
        path, data = round_path(place.folder, round.id), done.pack()
        disk.put(path, data)
        marks.append(mark_of(path, data))
        if odd:
            marks.append(self._bury(reports, odd, round))
        return marks

    def _bury(self, reports: Sequence[Report], odd: int, round: Round) -> FileMark:
        """Odd rows, at most `dead_letter_rows_max` of them."""
        reason = "NaN, infinite or too large in what a join compares"
        rows = [row for r in reports for row in r.odd_rows][: self._place.config.dead_letter_rows_max]
        lines = [json.dumps({"round": round.id, "reason": reason, "row": row}, default=str) for row in rows]
        if odd > len(rows):
            lines.append(json.dumps({"round": round.id, "reason": "more of these", "left_out": odd - len(rows)}))
        path = f"{self._place.folder}/dead/{round.id:012d}.joins.jsonl"
        data = ("\n".join(lines) + "\n").encode()
        self._place.disk.put(path, data)
        return mark_of(path, data)

    def _tidy(self) -> None:
        """Levels that were written for a round that was not committed."""
        kept = {mark.path for mark in self._committed()}
        folder = f"{self._place.folder}/levels"
        for path in (self._place.disk.root / folder).iterdir():
            if f"{folder}/{path.name}" not in kept:
                self._place.disk.remove(f"{folder}/{path.name}")

    def _committed(self) -> tuple[FileMark, ...]:
        """Levels, among other files, that the newest round needs."""
        newest = self._place.ledger.newest
        return () if newest is None else newest.held


def _nothing(place: Place, round: Round, watch: Stopwatch) -> Outcome:
    newest = place.ledger.newest
    return Outcome(keep={FOLDER: round.id + 1}) if newest is not None and FOLDER in newest.keep else Outcome()


# -- on executors -----------------------------------------------------------------------------------


def _rows(batch: Batch) -> DataFrame:
    """The relation's columns, and the kind of each row; of a table, the last row of each key."""
    if batch.is_small:
        batch = replace(batch, frame=batch.frame.coalesce(1))
    fields = [f"`{f.name}`" for f in batch.relation.fields]
    if batch.relation.is_table:
        return latest_rows(batch).selectExpr(*fields, f"CAST({OK} AS TINYINT) AS {KIND}")
    kinds = batch.frame.selectExpr(*fields, f"CAST({batch.kind()} AS TINYINT) AS {KIND}")
    return kinds.where(f"{KIND} <> {BAD}")


Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _run(frame: DataFrame, work: Work) -> list[Report]:
    reports = [_unpack(text) for text in _collected(frame, work)]
    for report in reports:
        if report.damage is not None:
            raise HomeError(**report.damage)
    return reports


def _collected(frame: DataFrame, work: Work) -> list[str]:
    found: list[str] = frame.mapInArrow(work, REPORT).toArrow().column(0).to_pylist()
    return found


@cache
def _store(root: str) -> Store:
    """A worker's own, for as long as it lives."""
    return Store(Path(root))


def _taking(task: Task) -> Work:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        own = _stamped(task)
        for number, batch in enumerate(batches):
            part = context.partitionId() * BATCHES_MAX + number
            if batch.num_rows:
                rows = pa.Table.from_batches([batch])
                yield _told(partial(take_batch, rows, own, part, _store(task.root)))

    return take


def _looking(task: Task, files: Sequence[RowFile]) -> Work:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = _stamped(task)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _told(partial(look_all, files[number], own, _store(task.root)))

    return look


def _stamped(task: Task) -> Task:
    """As one attempt at it: Spark may try a task twice, and lets others run when one has failed."""
    return replace(task, stamp=f".{uuid4().hex[:16]}")


def _told(work: Callable[[], Report]) -> pa.RecordBatch:
    """What a worker finds damaged is reported: an error would reach the driver as a text of Spark's."""
    try:
        report = work()
    except HomeError as error:
        damage = {"what": error.what, "value": str(error.value), "hint": error.hint, "code": error.code}
        report = Report(None, damage=damage)
    return pa.record_batch([pa.array([json.dumps(asdict(report), default=str)])], names=["report"])


def _unpack(text: str) -> Report:
    found: dict[str, Any] = json.loads(text)
    file = None if found["file"] is None else RowFile(**found["file"])
    written = [Written(**w) for w in found["written"]]
    return Report(file, written, found["odd"], found["odd_rows"], found["damage"])


def _with(look: Look, files: Sequence[RowFile]) -> Look:
    return Look(look.number, look.joint, look.side, (*look.files, *files), look.levels, look.rates)
