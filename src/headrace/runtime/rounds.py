"""Rounds: one pipeline for each stream, however many queries.

Structured Streaming calls `_round` with each micro-batch (round id = Spark's batch id).  There its
rows are read. Answering and committing, which need no rows, go on after it has returned, while
Spark reads the next round; that one waits for the commit before it is answered itself.  So Spark
may have noted one round as done that is not: after a crash it is told to do that round again
(`sparklogs.py`).  Answers are published after the commit, as ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter
from time import time as wall_clock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import HeadraceError, RoundError, SourceError
from headrace.pausing import take_back
from headrace.runtime.background import Background
from headrace.runtime.cluster import Cluster, cluster_of
from headrace.runtime.commit import Commits, Stat, Taken
from headrace.runtime.event_times import TimeLimits
from headrace.runtime.family import Job, Outcome, Place, Reading, Round, Work
from headrace.runtime.faults import explain_failure
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger, check_catalog
from headrace.runtime.live_queries import LiveQueries
from headrace.runtime.repeats import check_repeat
from headrace.runtime.round_rows import RoundRows, is_read_by_several
from headrace.runtime.session import settle_session
from headrace.runtime.sources import FILES, check_whole, open_source, parse_source, read_again
from headrace.runtime.sparklogs import Input, SparkLogs, stat_inputs
from headrace.runtime.sparkuse import WORKER_GONE, Gateway, spark_gone
from headrace.runtime.statistics import RoundStats, Stopwatch
from headrace.runtime.waking import CommitSignal
from headrace.values import Relation

RECENT_ROUNDS = 1_000
_AS_IT_WAS = ("CHECKPOINT_MISMATCH", "STOPPING", WORKER_GONE)


class Pipeline:
    """One stream or table at work.  `jobs`: of all families."""

    def __init__(
        self,
        home: Home,
        relation: Relation,
        catalog: Catalog,
        jobs: Sequence[Job],
        config: Config,
        assign: Callable[[Registered], str],
        later: Background | None = None,
        clock: Callable[[], float] = wall_clock,
        signal: CommitSignal | None = None,
    ) -> None:
        self._home = home
        self.relation = relation
        self._catalog = catalog
        self._jobs = jobs
        self._config = config
        self._assign = assign
        self._clock = clock
        self.ledger = Ledger(home.disk, home.stream_folder(relation.name))
        self._logs = SparkLogs(home.disk, self.ledger.folder)
        self._commits = Commits(home, relation.name, self.ledger, self._logs, catalog, config)
        self._works: dict[str, Work] = {}
        self._queries = self._no_queries()
        self._next_id = 0
        self._last: Input | None = None
        self._newest_us: int | None = None
        self._background = later or Background()
        self._found: dict[int, str] = {}
        self._returned_s: float | None = None
        self._committed_s: float | None = None
        self._working = threading.Lock()
        self._stopped = False
        self._is_foreign = self._is_given = False
        self._query: StreamingQuery | None = None
        self._gateway: Gateway | None = None
        self._cluster: Cluster | None = None
        self.error: HeadraceError | None = None
        self.recent: deque[RoundStats] = deque(maxlen=RECENT_ROUNDS)
        self._signal = signal or CommitSignal()

    # -- life --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Check that home and Spark's logs agree, and restore every family from the newest
        manifest."""
        self.ledger.refresh()
        # the last commit may have been killed before its own
        self._home.disk.sync(f"{self.ledger.folder}/rounds")
        self._logs.mend(self.ledger.newest)
        self._logs.verify(self.ledger.newest)
        check_catalog(self.ledger, self._catalog)
        self.ledger.check_sizes()
        self._rest()
        place = Place(self._home.disk, self.ledger, self.relation, self._config)
        for job in self._jobs:
            place.make_folders(job.folders)
        self._works = {job.name: job.open(place) for job in self._jobs}
        newest = self.ledger.newest
        self._next_id = 0 if newest is None else newest.round_id + 1
        self._last = None if newest is None else Input.of(newest)
        self._newest_us = None if newest is None else newest.newest_us
        self._queries = self._no_queries()
        self._found = {}
        self.error = None
        self._stopped = False

    def start(self, spark: SparkSession, frame: DataFrame | None, drain: bool) -> None:
        """Begin reading: to the end of what is there (`drain`), or until `stop`."""
        self._gateway = Gateway(spark)
        self._returned_s = self._committed_s = None
        self._is_foreign = self._is_given = frame is not None
        try:
            self._cluster = cluster_of(spark, self._home.disk.root)
            if self._cluster is not None:
                self._cluster.begin()
            source = (
                frame
                if frame is not None
                else open_source(spark, self.relation, self._config.secrets_file)
            )
            writer = source.writeStream.foreachBatch(self._round).option(
                "checkpointLocation", self._logs.location
            )
            writer = writer.queryName(f"headrace_{self.relation.name}_{id(self)}")
            if drain:
                writer = writer.trigger(availableNow=True)
            elif self._config.trigger_ms:
                writer = writer.trigger(processingTime=f"{self._config.trigger_ms} milliseconds")
            self._query = writer.start()
        except Exception as error:
            raise self._explain(error) from error

    def stop(self) -> None:
        """Let the round under way finish, then stop: after this returns nothing of ours writes to
        the home.  What Spark says to it is kept in `error`: it may be dead."""
        with self._working:
            self._stopped = True
        # not inside the lock: Spark waits for a round that has just been called, and that one for
        # the lock
        failure: HeadraceError | None = None
        query = self._query
        try:
            failure = self.failure()
            if query is not None:
                query.stop()
        except Exception as error:  # noqa: BLE001 - told by whoever asks for `error`
            self.error = self.error or self._explain(error)
        finally:
            self._query = None
            self._come_to_rest(failure, was_reading=query is not None)

    def _come_to_rest(self, failure: HeadraceError | None, was_reading: bool) -> None:
        with suppress(Exception):  # it is in `error`
            self._background.wait()
        if was_reading:
            self._give_back(self.error or failure)
        self._background.close()
        self._rest()
        take_back()
        self._signal.give()

    @property
    def is_running(self) -> bool:
        return self._query is not None and self._query.isActive

    def _explain(self, error: BaseException, round_id: int | None = None) -> HeadraceError:
        """In our words; a Spark that has died under us says all kinds of things."""
        if isinstance(error, HeadraceError):
            return error
        if self._gateway is not None and self._gateway.has_ended(error):
            return spark_gone()
        return explain_failure(error, self.relation, round_id)

    def join(self) -> None:
        """Wait until a draining pipeline is done; its error is ours."""
        assert self._query is not None
        try:
            self._query.awaitTermination()
            self._background.wait()
        except Exception as error:
            with suppress(Exception):
                self._background.wait()
            self._query = None
            failure = self.error or self._explain(error)
            self._give_back(failure)
            raise failure from error
        finally:
            take_back()
            self._rest()
        self._query = None

    def _rest(self) -> None:
        for work in self._works.values():
            work.rest()

    def _give_back(self, failure: HeadraceError | None) -> None:
        """A file may be mended or taken away: only the open round knows of it.  What is not the
        round's own failure (a Spark that died, a home that is another's) is repeated as it was."""
        of_files = parse_source(self.relation.source).kind in FILES
        if (
            of_files
            and isinstance(failure, SourceError | RoundError)
            and failure.code not in _AS_IT_WAS
        ):
            self._logs.forget(self.ledger.newest)

    def failure(self) -> HeadraceError | None:
        """Why a pipeline that should be running is not, or will not go on."""
        if self._query is None:
            return None
        if self._query.isActive:
            return self.error
        error = self._query.exception()
        return None if error is None else self.error or self._explain(error)

    # -- a round -----------------------------------------------------------------------------------

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
        """What goes wrong in a round is said in our words, and remembered: Spark would only tell
        its own."""
        try:
            yield
        except HeadraceError as error:
            self.error = self.error or error
            raise
        except Exception as error:
            told = self._explain(error, round_id)
            self.error = self.error or told
            raise told from error

    def _run_round(self, frame: DataFrame, round_id: int) -> None:
        """Read the round's rows; answer and commit them here, or while Spark goes on to the next
        round."""
        watch = Stopwatch()
        if self._returned_s is not None:
            watch.seconds["trigger"] = perf_counter() - self._returned_s
        if not self._is_next(round_id):
            return
        self._home.check_held()
        if self._cluster is not None:
            self._cluster.check()
        source = self._logs.input_of(round_id, self._last)
        if self._last is not None and source.checkpoint_id != self._last.checkpoint_id:
            raise RoundError(
                "Spark's checkpoint is another one", round_id=round_id, code="CHECKPOINT_MISMATCH"
            )
        if self._is_foreign:  # the stream's own copy of the session of whoever made the DataFrame
            settle_session(frame.sparkSession, self._config)
            self._is_foreign = False
        inputs = stat_inputs(source.files)
        check_whole(self.relation, inputs)
        taken, readings = self._read(self._frame_of(frame, source), round_id, source, inputs, watch)
        self._next_id, self._last, self._newest_us = round_id + 1, source, taken.round.newest_us
        # a given DataFrame's source may let go of rows once Spark has noted their round as done
        if self._is_given or is_read_by_several(self._works.values()):
            self._finish(taken, readings, watch)
            self._found = {}  # the next round is planned after this
        else:
            self._background.begin(lambda: self._finish(taken, readings, watch))
        self._returned_s = perf_counter()

    def _is_next(self, round_id: int) -> bool:
        """Whether this round is to be done: it is the next, or Spark repeats one that is done."""
        newest = self.ledger.newest
        if newest is not None and round_id <= newest.round_id:
            check_repeat(round_id, newest, self.ledger, self._logs)
            return False
        if round_id != self._next_id:
            raise RoundError(
                "Spark has skipped rounds",
                round_id=round_id,
                code="CHECKPOINT_MISMATCH",
                value=f"newest committed round: {newest.round_id if newest else 'none'}",
            )
        return True

    def _frame_of(self, frame: DataFrame, source: Input) -> DataFrame:
        local = [str(file.local) for file in source.files if file.local is not None]
        return read_again(frame, self.relation, local) if len(local) == len(source.files) else frame

    def _read(
        self,
        frame: DataFrame,
        round_id: int,
        source: Input,
        inputs: tuple[Stat, ...],
        watch: Stopwatch,
    ) -> tuple[Taken, Sequence[Reading]]:
        """Take from the rows what each family needs; again, as long as that finds queries that fail
        on a row.

        When this returns the round before is committed."""
        rows = self._rows_of(frame, source, inputs)
        while True:
            queries = self._replan(watch)
            round = Round(round_id, self._newest_us, self.relation.late_us)
            read = rows.read(self._works.values(), round, watch)
            with watch.stage("wait"):
                before = self._settle()
            if stat_inputs(source.files) != inputs:
                raise RoundError(
                    "source files changed while the round read them",
                    round_id=round_id,
                    code="SOURCE_CHANGED",
                )
            if not read.faults and not before:
                known = (source, self._last, inputs, read.files, self._queries.version, queries)
                return Taken(read.round, *known, read.priced), read.readings
            self._catalog.quarantine(read.faults)

    def _rows_of(self, frame: DataFrame, source: Input, inputs: tuple[Stat, ...]) -> RoundRows:
        known = bool(inputs) and all(size >= 0 for _, size, _ in inputs)
        is_small = known and sum(size for _, size, _ in inputs) <= self._config.one_task_bytes_max
        return RoundRows(
            frame,
            self.relation,
            source.files,
            is_small,
            TimeLimits.of(self._config, int(self._clock() * 1e6)),
            self._config,
            self._home.disk,
            self.ledger.folder,
        )

    def _no_queries(self) -> LiveQueries:
        names = [job.name for job in self._jobs]
        return LiveQueries(self._catalog, self.relation.name, names, self._assign)

    def _replan(self, watch: Stopwatch) -> int:
        """Take in catalog changes; the number of live queries here."""
        with watch.stage("plan"):
            changed = self._queries.changed()
        if changed is not None or any(work.wants_replan for work in self._works.values()):
            with watch.stage("wait"):
                found = self._settle()
            with watch.stage("plan"):
                if found:
                    changed = self._queries.changed()
                self._queries.plan(self._works, *(changed or ([], [])))
        return len(self._queries)

    def _settle(self) -> dict[int, str]:
        """Wait until the round before is committed; the queries that failed in it."""
        self._background.wait()
        found, self._found = self._found, {}
        return found

    def _finish(self, taken: Taken, readings: Sequence[Reading], watch: Stopwatch) -> None:
        """Answer a round that has been read, and commit it."""
        with self._noting_errors(taken.round.id):
            total = Outcome()
            for reading in readings:
                total.add(reading.answer(taken.round, watch))
            if total.faults:
                self._catalog.quarantine(total.faults)
                self._found = total.faults
            if self._cluster is not None:  # executors come and go
                self._cluster.check_new()
            stats = self._commits.commit(taken, total, watch)
        now_s = perf_counter()
        seconds = watch.total()
        seconds["cycle"] = (
            now_s - self._committed_s if self._committed_s is not None else seconds["total"]
        )
        self._committed_s = now_s
        self.recent.append(replace(stats, seconds=seconds))
        self._signal.give()
