"""Rounds: one pipeline for each stream, however many queries.

Structured Streaming calls `_round` with each micro-batch (round id = Spark's batch id).  A round
answers, writes, and commits in the order of `ledger.py`; only then are its answers published.
A round that Spark repeats after a crash is recognised by its input, not by its id alone.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import PurePosixPath
from time import perf_counter

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import HeadraceError, RoundError
from headrace.runtime.answers import pack, shared_path
from headrace.runtime.dead import bury
from headrace.runtime.family import Batch, Family, Outcome, Place, Round, Work
from headrace.runtime.faults import UNREADABLE, explain_failure
from headrace.runtime.home import Home
from headrace.runtime.ledger import FileMark, Ledger, Manifest, check_catalog, mark_of
from headrace.runtime.session import settle_session
from headrace.runtime.sources import FILES, open_source, parse_source, read_again
from headrace.runtime.sparklogs import Input, SparkLogs, stat_inputs
from headrace.runtime.statistics import Census, RoundStats, Stopwatch
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
    ) -> None:
        self._home = home
        self.relation = relation
        self._catalog = catalog
        self._families = families
        self._config = config
        self._assign = assign
        self.ledger = Ledger(home.disk, home.stream_folder(relation.name))
        self._logs = SparkLogs(home.disk, self.ledger.folder)
        self._works: dict[str, Work] = {}
        self._planned: tuple[int, ...] | None = None
        self._ended_s: float | None = None
        self._working = threading.Lock()
        self._stopped = False
        self._version = 0
        self._secured = 0
        self._swept: dict[str, int] = {}
        self._is_foreign = False
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
        place = Place(self._home.disk, self.ledger, self.relation, self._config)
        self._works = {family.name: family.open(place) for family in self._families}
        self._planned = None
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
        self._ended_s = None
        self._is_foreign = frame is not None
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
            self._give_back()
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
        except Exception as error:
            self._give_back()
            raise self.error or explain_failure(error, self.relation) from error
        finally:
            self._query = None
            gc.unfreeze()

    def _give_back(self) -> None:
        """A file that could not be read may be mended or taken away: only the open round knows of it."""
        of_files = parse_source(self.relation.source).kind in FILES
        if of_files and self.error is not None and self.error.code == UNREADABLE:
            self._logs.forget(self.ledger.newest)

    def failure(self) -> HeadraceError | None:
        """Why a pipeline that should be running is not."""
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        return None if error is None else self.error or explain_failure(error, self.relation)

    # -- a round ----------------------------------------------------------------------------------

    def _round(self, frame: DataFrame, round_id: int) -> None:
        try:
            with self._working:
                if self._stopped:
                    raise RoundError("the engine is stopping", round_id=round_id, code="STOPPING")
                self._run_round(frame, round_id)
        except HeadraceError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = explain_failure(error, self.relation, round_id)
            raise self.error from error

    def _run_round(self, frame: DataFrame, round_id: int) -> None:
        watch = Stopwatch()
        if self._ended_s is not None:
            watch.seconds["trigger"] = perf_counter() - self._ended_s
        newest = self.ledger.newest
        if newest is not None and round_id <= newest.round_id:
            self._check_repeat(round_id, newest)
            return
        if round_id != (0 if newest is None else newest.round_id + 1):
            raise RoundError("Spark has skipped rounds", round_id=round_id, code="CHECKPOINT_MISMATCH",
                             value=f"newest committed round: {newest.round_id if newest else 'none'}")
        self._home.check_held()
        with watch.stage("plan"):
            queries = self._replan()
        source = self._logs.input_of(round_id, newest)
        if newest is not None and source.checkpoint_id != newest.checkpoint_id:
            raise RoundError("Spark's checkpoint is another one", round_id=round_id, code="CHECKPOINT_MISMATCH")
        inputs = stat_inputs(source.files)
        known = bool(inputs) and all(size >= 0 for _, size, _ in inputs)
        is_small = known and sum(size for _, size, _ in inputs) <= self._config.one_task_bytes_max
        if self._is_foreign:  # the stream's own copy of the session of whoever made the DataFrame
            settle_session(frame.sparkSession, self._config)
            self._is_foreign = False
        local = [str(file.local) for file in source.files if file.local is not None]
        if len(local) == len(source.files):
            frame = read_again(frame, self.relation, local)
        round, outcome = self._answer(frame, round_id, is_small, watch)
        if outcome.faults:
            self._catalog.quarantine(outcome.faults)
        if stat_inputs(source.files) != inputs:
            raise RoundError("source files changed while the round read them", round_id=round_id, code="SOURCE_CHANGED")
        self._commit(round, source, inputs, outcome, queries, watch)

    def _replan(self) -> int:
        """Take in catalog changes; the number of live queries here."""
        self._catalog.refresh()
        self._version = self._catalog.version
        live = [r for r in self._catalog.queries.values()
                if r.query.source == self.relation.name and r.quarantine is None]
        ids = tuple(r.id for r in live)
        if ids != self._planned:
            by_family: dict[str, list[Registered]] = {family.name: [] for family in self._families}
            for registered in live:
                by_family[self._assign(registered)].append(registered)
            for name, work in self._works.items():
                work.replan(by_family[name])
            if len(ids) - len(self._planned or ()) >= MANY_QUERIES:
                _set_aside()
            self._planned = ids
        return len(live)

    def _answer(
        self, frame: DataFrame, round_id: int, is_small: bool, watch: Stopwatch
    ) -> tuple[Round, Outcome]:
        newest = self.ledger.newest
        round = Round(round_id, newest.newest_us if newest else None, self.relation.late_us)
        marks_bad = parse_source(self.relation.source).marks_bad_rows
        batch = Batch(frame, self.relation, round.watermark_before_us, marks_bad, is_small)
        keep_rows = marks_bad or self._planned_elsewhere()
        if keep_rows:
            batch = replace(batch, frame=frame.persist())
        try:
            total = Outcome()
            for work in self._works.values():
                part = work.round(batch, round, watch)
                if part.census is not None:
                    total.census = part.census
                    round = replace(round, census=part.census)
                _merge(total, part)
            if round.census.bad:
                total.files += bury(self._home.disk, self.ledger.folder, batch, round, self._config)
        finally:
            if keep_rows:
                batch.frame.unpersist()
        return round, total

    def _planned_elsewhere(self) -> bool:
        """Whether another family than the lead reads the rows of this round too."""
        return any(getattr(work, "reads_rows", False) for work in list(self._works.values())[1:])

    def _commit(
        self, round: Round, source: Input, inputs: tuple[tuple[str, int, int], ...],
        outcome: Outcome, queries: int, watch: Stopwatch,
    ) -> None:
        disk, folder = self._home.disk, self.ledger.folder
        with watch.stage("write"):
            files = list(outcome.files)
            if outcome.blocks:
                files.append(self._write_answers(round.id, outcome))
            for part in sorted({str(p) for f in files for p in PurePosixPath(f.path).parents}, reverse=True):
                if part.startswith(f"{folder}/"):
                    disk.sync(part)
        with watch.stage("commit"):
            self._logs.sync(round.id, self.ledger.newest)
            if self._version != self._secured:
                self._catalog.secure()
                self._secured = self._version
            self._home.check_held()
            stats = self._stats(round, outcome, queries, watch)
            keep = {**(self.ledger.newest.keep if self.ledger.newest else {}), **outcome.keep}
            # what a family still needs it restores by its manifests, and by the one before: what came up to there
            first = max(0, min([round.id + 1 - self._config.manifests_kept, *(k - 1 for k in keep.values())]))
            catalog = (self._version, self._catalog.mark(self._version))
            self.ledger.commit(Manifest(
                round.id, source.checkpoint_id, self._home.epoch, *catalog, first, round.newest_us, source.offsets,
                source.chain, inputs, tuple(files), keep, asdict(stats),
            ))
        self._sweep(first)
        self.recent.append(replace(stats, seconds=watch.total()))
        self._ended_s = perf_counter()
        with self.published:
            self.published.notify_all()

    def _write_answers(self, round_id: int, outcome: Outcome) -> FileMark:
        data = pack(outcome.blocks)
        path = shared_path(self.ledger.folder, round_id)
        self._home.disk.put(path, data)
        return mark_of(path, data)

    def _stats(self, round: Round, outcome: Outcome, queries: int, watch: Stopwatch) -> RoundStats:
        census = round.census or Census()
        return RoundStats(
            self.relation.name, round.id, census.rows, census.late, census.no_time, census.bad, queries,
            outcome.answers, round.watermark_us, watch.total(), outcome.unshared_s, outcome.selectivity,
        )

    def _sweep(self, first_round: int) -> None:
        """Remove state that no query needs any more, and answers whose manifest has gone."""
        assert self.ledger.newest is not None
        limits = {"answers": first_round, "dead": first_round, **self.ledger.newest.keep}
        for kind, limit in limits.items():
            kept, swept = self.ledger.newest.round_id - limit, self._swept.get(kind, 0)
            if limit - swept <= kept // 100:  # looking through a long list every round would cost more than it frees
                continue
            self._swept[kind] = limit
            place = self._home.disk.root / self.ledger.folder / kind
            for path in place.iterdir():
                number = path.name.partition(".")[0]
                if number.isdigit() and int(number) < limit:
                    inside = f"{self.ledger.folder}/{kind}/{path.name}"
                    self._home.disk.clear(inside) if path.is_dir() else self._home.disk.remove(inside)

    def _check_repeat(self, round_id: int, newest: Manifest) -> None:
        """Spark repeats a committed round when it was killed before noting the commit: same input, nothing to do."""
        before = self.ledger.read(round_id - 1) if round_id - 1 in self.ledger.rounds else None
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
