"""Rounds: one pipeline for each stream, however many queries.

Structured Streaming calls `_round` with each micro-batch (round id = Spark's batch id).  There its rows are read.
Answering and committing, which need no rows, go on after it has returned, while Spark reads the next round; that one
waits for the commit before it is answered itself.  So Spark may have noted one round as done that is not: after a
crash it is told to do that round again (`sparklogs.py`).  Answers are published after the commit, as ever.
A round that Spark repeats is recognised by its input, not by its id alone.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import HeadraceError, RoundError
from headrace.runtime.commit import Commits, Stat, Taken
from headrace.runtime.dead import bury
from headrace.runtime.family import Batch, Change, Family, Outcome, Place, Reading, Round, Work
from headrace.runtime.faults import UNREADABLE, explain_failure
from headrace.runtime.home import Home
from headrace.runtime.later import Later
from headrace.runtime.ledger import FileMark, Ledger, Manifest, check_catalog
from headrace.runtime.session import settle_session
from headrace.runtime.sources import FILES, open_source, parse_source, read_again
from headrace.runtime.sparklogs import Input, SparkLogs, stat_inputs
from headrace.runtime.statistics import NO_LOAD, RoundStats, Stopwatch
from headrace.values import Relation

RECENT_ROUNDS = 1_000
MANY_QUERIES = 1_000


class Pipeline:
    """One stream or table at work.  `families` in order; the first counts the rows of each round."""

    def __init__(
        self,
        home: Home,
        relation: Relation,
        catalog: Catalog,
        families: Sequence[Family],
        config: Config,
        assign: Callable[[Registered], str],
        later: Later | None = None,
    ) -> None:
        self._home = home
        self.relation = relation
        self._catalog = catalog
        self._families = families
        self._config = config
        self._assign = assign
        self.ledger = Ledger(home.disk, home.stream_folder(relation.name))
        self._logs = SparkLogs(home.disk, self.ledger.folder)
        self._commits = Commits(home, relation.name, self.ledger, self._logs, catalog, config)
        self._works: dict[str, Work] = {}
        self._live: dict[int, str] = {}  # the family of each query
        self._by_family: dict[str, dict[int, Registered]] = {family.name: {} for family in families}
        self._planned_version, self._is_planned = 0, False
        self._version = 0
        self._next_id = 0
        self._last: Input | None = None
        self._newest_us: int | None = None
        self._later = later or Later()
        self._found: dict[int, str] = {}
        self._returned_s: float | None = None
        self._committed_s: float | None = None
        self._working = threading.Lock()
        self._stopped = False
        self._is_foreign = self._is_given = False
        self._query: StreamingQuery | None = None
        self.error: HeadraceError | None = None
        self.recent: deque[RoundStats] = deque(maxlen=RECENT_ROUNDS)
        self.published = threading.Condition()

    # -- life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Check that home and Spark's logs agree, and restore every family from the newest manifest."""
        self.ledger.refresh()
        self._home.disk.sync(f"{self.ledger.folder}/rounds")  # the last commit may have been killed before its own
        self._logs.mend(self.ledger.newest)
        self._logs.verify(self.ledger.newest)
        check_catalog(self.ledger, self._catalog)
        self.ledger.check_sizes()
        self._rest()
        place = Place(self._home.disk, self.ledger, self.relation, self._config)
        self._works = {family.name: family.open(place) for family in self._families}
        newest = self.ledger.newest
        self._next_id = 0 if newest is None else newest.round_id + 1
        self._last = None if newest is None else Input.of(newest)
        self._newest_us = None if newest is None else newest.newest_us
        self._live, self._by_family = {}, {family.name: {} for family in self._families}
        self._planned_version, self._is_planned = 0, False
        self._found = {}
        self.error = None
        self._stopped = False

    def start(self, spark: SparkSession, frame: DataFrame | None, drain: bool) -> None:
        """Begin reading: to the end of what is there (`drain`), or until `stop`."""
        source = frame if frame is not None else open_source(spark, self.relation)
        writer = source.writeStream.foreachBatch(self._round).option("checkpointLocation", self._logs.location)
        writer = writer.queryName(f"headrace_{self.relation.name}_{id(self)}")
        if drain:
            writer = writer.trigger(availableNow=True)
        elif self._config.trigger_ms:
            writer = writer.trigger(processingTime=f"{self._config.trigger_ms} milliseconds")
        self._returned_s = self._committed_s = None
        self._is_foreign = self._is_given = frame is not None
        try:
            self._query = writer.start()
        except PySparkException as error:
            raise explain_failure(error, self.relation) from error

    def stop(self) -> None:
        """Let the round under way finish, then stop: after this returns nothing of ours writes to the home."""
        with self._working:
            self._stopped = True
        # not inside the lock: Spark waits for a round that has just been called, and that one for the lock
        if self._query is not None:
            self._query.stop()
            self._query = None
            with suppress(HeadraceError):  # it is in `error`
                self._later.wait()
            self._give_back()
        self._later.close()
        self._rest()
        gc.unfreeze()
        with self.published:
            self.published.notify_all()

    @property
    def is_running(self) -> bool:
        return self._query is not None and self._query.isActive

    def join(self) -> None:
        """Wait until a draining pipeline is done; its error is ours."""
        assert self._query is not None
        try:
            self._query.awaitTermination()
            self._later.wait()
        except Exception as error:
            with suppress(HeadraceError):
                self._later.wait()
            self._query = None
            self._give_back()
            raise self.error or explain_failure(error, self.relation) from error
        finally:
            gc.unfreeze()
            self._rest()
        self._query = None

    def _rest(self) -> None:
        for work in self._works.values():
            work.rest()

    def _give_back(self) -> None:
        """A file that could not be read may be mended or taken away: only the open round knows of it."""
        of_files = parse_source(self.relation.source).kind in FILES
        if of_files and self.error is not None and self.error.code == UNREADABLE:
            self._logs.forget(self.ledger.newest)

    def failure(self) -> HeadraceError | None:
        """Why a pipeline that should be running is not, or will not go on."""
        if self._query is None:
            return None
        if self._query.isActive:
            return self.error
        error = self._query.exception()
        return None if error is None else self.error or explain_failure(error, self.relation)

    # -- a round ----------------------------------------------------------------------------------

    def _round(self, frame: DataFrame, round_id: int) -> None:
        with self._working:
            if self._stopped:
                raise RoundError("the engine is stopping", round_id=round_id, code="STOPPING")
            try:
                with self._noting_errors(round_id):
                    self._run_round(frame, round_id)
            finally:
                for work in self._works.values():
                    work.done()

    @contextmanager
    def _noting_errors(self, round_id: int) -> Iterator[None]:
        """What goes wrong in a round is said in our words, and remembered: Spark would only tell its own."""
        try:
            yield
        except HeadraceError as error:
            self.error = self.error or error
            raise
        except Exception as error:
            told = explain_failure(error, self.relation, round_id)
            self.error = self.error or told
            raise told from error

    def _run_round(self, frame: DataFrame, round_id: int) -> None:
        """Read the round's rows; answer and commit them here, or while Spark goes on to the next round."""
        watch = Stopwatch()
        if self._returned_s is not None:
            watch.seconds["trigger"] = perf_counter() - self._returned_s
        if not self._is_next(round_id):
            return
        self._home.check_held()
        source = self._logs.input_of(round_id, self._last)
        if self._last is not None and source.checkpoint_id != self._last.checkpoint_id:
            raise RoundError("Spark's checkpoint is another one", round_id=round_id, code="CHECKPOINT_MISMATCH")
        if self._is_foreign:  # the stream's own copy of the session of whoever made the DataFrame
            settle_session(frame.sparkSession, self._config)
            self._is_foreign = False
        inputs = stat_inputs(source.files)
        taken, readings = self._read(self._frame_of(frame, source), round_id, source, inputs, watch)
        self._next_id, self._last, self._newest_us = round_id + 1, source, taken.round.newest_us
        # a given DataFrame's source may let go of rows once Spark has noted their round as done
        if self._is_given or self._reads_rows_elsewhere():
            self._finish(taken, readings, watch)
            self._found = {}  # the next round is planned after this
        else:
            self._later.begin(lambda: self._finish(taken, readings, watch))
        self._returned_s = perf_counter()

    def _is_next(self, round_id: int) -> bool:
        """Whether this round is to be done: it is the next, or Spark repeats one that is done."""
        newest = self.ledger.newest
        if newest is not None and round_id <= newest.round_id:
            self._check_repeat(round_id, newest)
            return False
        if round_id != self._next_id:
            raise RoundError("Spark has skipped rounds", round_id=round_id, code="CHECKPOINT_MISMATCH",
                             value=f"newest committed round: {newest.round_id if newest else 'none'}")
        return True

    def _frame_of(self, frame: DataFrame, source: Input) -> DataFrame:
        local = [str(file.local) for file in source.files if file.local is not None]
        return read_again(frame, self.relation, local) if len(local) == len(source.files) else frame

    def _read(
        self, frame: DataFrame, round_id: int, source: Input, inputs: tuple[Stat, ...], watch: Stopwatch
    ) -> tuple[Taken, list[Reading]]:
        """Take from the rows what each family needs; again, as long as that finds queries that fail on a row.

        When this returns the round before is committed."""
        known = bool(inputs) and all(size >= 0 for _, size, _ in inputs)
        is_small = known and sum(size for _, size, _ in inputs) <= self._config.one_task_bytes_max
        while True:
            queries = self._replan(watch)
            taken, readings, faults = self._read_once(frame, round_id, is_small, source, inputs, queries, watch)
            with watch.stage("wait"):
                before = self._settle()
            if stat_inputs(source.files) != inputs:
                raise RoundError(
                    "source files changed while the round read them", round_id=round_id, code="SOURCE_CHANGED"
                )
            if not faults and not before:
                return taken, readings
            self._catalog.quarantine(faults)

    def _read_once(
        self, frame: DataFrame, round_id: int, is_small: bool, source: Input, inputs: tuple[Stat, ...], queries: int,
        watch: Stopwatch,
    ) -> tuple[Taken, list[Reading], dict[int, str]]:
        round = Round(round_id, self._newest_us, self.relation.late_us)
        marks_bad = parse_source(self.relation.source).marks_bad_rows
        batch = Batch(frame, self.relation, round.watermark_before_us, marks_bad, is_small)
        keep_rows = marks_bad or self._reads_rows_elsewhere()
        if keep_rows:
            batch = replace(batch, frame=frame.persist())
        readings: list[Reading] = []
        faults: dict[int, str] = {}
        files: list[FileMark] = []
        try:
            for work in self._works.values():
                reading = work.read(batch, round, watch)
                readings.append(reading)
                if reading.faults:
                    faults.update(reading.faults)
                    break
                if reading.census is not None:
                    round = replace(round, census=reading.census)
            if round.census.bad and not faults:
                files = bury(self._home.disk, self.ledger.folder, batch, round, self._config)
        finally:
            if keep_rows:
                batch.frame.unpersist()
        return Taken(round, source, self._last, inputs, tuple(files), self._version, queries), readings, faults

    def _replan(self, watch: Stopwatch) -> int:
        """Take in catalog changes; the number of live queries here."""
        changed = self._changed(watch)
        if changed is not None:
            with watch.stage("wait"):
                found = self._settle()
            if found:
                changed = self._changed(watch)
            with watch.stage("plan"):
                self._plan(*(changed or ([], [])))
        return len(self._live)

    def _changed(self, watch: Stopwatch) -> tuple[list[Registered], list[int]] | None:
        """Queries that come and go, since those that are planned for; None if none does."""
        with watch.stage("plan"):
            self._catalog.refresh()
            self._version, touched = self._catalog.touched(self._planned_version)
            live = {i: own for i, own in touched.items() if own is not None and own.quarantine is None
                    and self.relation.name in own.query.relations}  # fmt: skip
            comes = [own for i, own in live.items() if i not in self._live]
            goes = [i for i in touched if i in self._live and i not in live]
            if comes or goes or not self._is_planned:
                return comes, goes
            self._planned_version = self._version
            return None

    def _plan(self, comes: Sequence[Registered], goes: Sequence[int]) -> None:
        changes = {name: Change([], [], self._by_family[name]) for name in self._works}
        for registered in comes:
            name = self._assign(registered)
            self._live[registered.id] = name
            self._by_family[name][registered.id] = registered
            changes[name].comes.append(registered)
        for i in goes:
            name = self._live.pop(i)
            del self._by_family[name][i]
            changes[name].goes.append(i)
        for name, work in self._works.items():
            if changes[name].comes or changes[name].goes or not self._is_planned:
                work.replan(changes[name])
        if len(comes) >= MANY_QUERIES:
            _set_aside()
        self._planned_version, self._is_planned = self._version, True

    def _reads_rows_elsewhere(self) -> bool:
        """Whether another family than the lead reads the rows of this round too."""
        return any(getattr(work, "reads_rows", False) for work in list(self._works.values())[1:])

    def _settle(self) -> dict[int, str]:
        """Wait until the round before is committed; the queries that failed in it."""
        self._later.wait()
        found, self._found = self._found, {}
        return found

    def _finish(self, taken: Taken, readings: list[Reading], watch: Stopwatch) -> None:
        """Answer a round that has been read, and commit it."""
        with self._noting_errors(taken.round.id):
            total = Outcome()
            for reading in readings:
                _merge(total, reading.answer(taken.round, watch))
            if total.faults:
                self._catalog.quarantine(total.faults)
                self._found = total.faults
            stats = self._commits.commit(taken, total, watch)
        now_s = perf_counter()
        seconds = watch.total()
        seconds["cycle"] = now_s - self._committed_s if self._committed_s is not None else seconds["total"]
        self._committed_s = now_s
        self.recent.append(replace(stats, seconds=seconds))
        with self.published:
            self.published.notify_all()

    def _check_repeat(self, round_id: int, newest: Manifest) -> None:
        """Spark repeats a committed round when it was killed before noting the commit: same input, nothing to do."""
        before = Input.of(self.ledger.read(round_id - 1)) if round_id - 1 in self.ledger.rounds else None
        if round_id != newest.round_id:
            raise RoundError("Spark repeats an old round", round_id=round_id, code="CHECKPOINT_MISMATCH",
                             value=f"newest committed round: {newest.round_id}")
        source = self._logs.input_of(round_id, before)
        if (source.checkpoint_id, source.offsets) != (newest.checkpoint_id, newest.offsets) or (
            before is not None and source.chain != newest.chain
        ):
            raise RoundError(
                "Spark repeats the round with another input than was committed", round_id=round_id,
                code="CHECKPOINT_MISMATCH", hint="`headrace doctor` explains the ways out",
            )


def _set_aside() -> None:
    """Queries live long and are many objects: Python's collector need not look at them again every few rounds."""
    gc.collect()
    gc.freeze()


def _merge(total: Outcome, part: Outcome) -> None:
    total.blocks += part.blocks
    total.files += part.files
    total.keep.update(part.keep)
    total.faults.update(part.faults)
    total.answers += part.answers
    total.unshared_s += part.unshared_s
    total.selectivity.update(part.selectivity)
    total.groupings = max(total.groupings, part.groupings)
    total.ring_bytes += part.ring_bytes
    total.log_bytes += part.log_bytes
    total.log_files += part.log_files
    total.held += part.held
    total.load = part.load if total.load is NO_LOAD else total.load.and_of(part.load)
