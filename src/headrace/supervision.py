"""The pipelines of one engine at work: begun, looked after, begun again when Spark dies under them,
and ended.

A thread looks after them while the engine runs: streams that get their first query are begun, those
that fail are noticed, and so is a Spark whose process has ended, also between rounds.  Whatever
happens there, who asks is told, and the home is let go.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import HeadraceError, HeadraceWarning
from headrace.families import registry
from headrace.families.contract import Family, Workplace
from headrace.families.registry import family_of
from headrace.preparing import Rehearsal, missing_sources
from headrace.relations.rows import Relations
from headrace.restarts import Restarts
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger, check_catalog
from headrace.runtime.sparkuse import GONE, NO_START, WORKER_GONE, SparkUse
from headrace.runtime.waking import CommitSignal
from headrace.values import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.runtime.family import Job
    from headrace.runtime.rounds import Pipeline

POLL_S = 0.2
CLOSED_PAUSE_S_MAX = 10.0
ENDS = (GONE, NO_START)  # nothing can go on without Spark
PASSING = (*ENDS, WORKER_GONE)  # what a new start may cure


class Pipelines:
    """`frames`: the DataFrames of relations that read one, by name; `ledger_of`: the ledger of a
    relation."""

    def __init__(
        self,
        home: Home,
        catalog: Catalog,
        config: Config,
        spark: SparkUse,
        frames: Mapping[str, DataFrame],
        ledger_of: Callable[[str], Ledger],
    ) -> None:
        self._home = home
        self._catalog = catalog
        self._config = config
        self._spark = spark
        self._frames = frames
        self._ledger_of = ledger_of
        self._busy: tuple[int, list[Relation]] = (-1, [])
        self._jobs: tuple[Job, ...] = ()
        self._relations = Relations(catalog.relation, ledger_of)
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failure: HeadraceError | None = None
        self._restarts = Restarts(config)
        self._rehearsal = Rehearsal(catalog, config, lambda r: family_of(r, catalog.relation))
        self._committed = -1
        self._not_started: HeadraceError | None = (
            None  # why Spark could not be started, until it is looked at
        )
        self._closed: dict[
            str, tuple[float, float]
        ] = {}  # cannot be opened: when to try, the next pause
        self.by_name: dict[str, Pipeline] = {}
        self.signal = CommitSignal()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._failure is None

    def prepare(self, *, whole: bool) -> list[HeadraceError]:
        """Which sources are missing: raised if all, or (`whole`) any are; else Spark is begun."""
        busy = self._busy_relations()
        missing = missing_sources(r for r in busy if r.name not in self._frames)
        if missing and (whole or len(missing) == len(busy)):
            raise missing[0]
        if busy:
            self._make_jobs()  # imports, before there are threads: two would see half a module
            if self._spark.begin(self._rehearsal.needs_workers):
                self._rehearsal.begin()
        return missing

    # -- to the end of what is there ---------------------------------------------------------------

    def drain(self) -> None:
        """Read what is there, answer it, return."""
        self._hold()
        try:
            self.prepare(whole=False)
            while (error := self._drain_once()) is not None:
                if not self._may_restart(error) or self._stopping.wait(
                    self._restarts.next_pause_s()
                ):
                    raise error
                self._abandon()
        finally:
            self._end()

    def _drain_once(self) -> HeadraceError | None:
        """The first error; the other streams are read all the same."""
        errors: list[HeadraceError] = []
        started: list[Pipeline] = []
        for relation in self._busy_relations():
            try:
                started.append(self._begin(relation, drain=True))
            except HeadraceError as error:
                errors.append(error)
        for pipeline in started:
            try:
                pipeline.join()
            except HeadraceError as error:
                errors.append(error)
        self._note_commits()
        return (
            None
            if not errors
            else self._told(next((e for e in errors if e.code == GONE), errors[0]))
        )

    # -- until it is stopped -----------------------------------------------------------------------

    def start(self) -> None:
        self._hold()
        try:
            self.prepare(whole=True)
            for relation in self._busy_relations():
                self._begin(relation, drain=False)
        except BaseException:
            self._end()
            raise
        self._thread = threading.Thread(
            target=self._supervise, name="headrace-supervisor", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop after the round under way; raises what made a stream fail meanwhile, if anything
        did."""
        self._stopping.set()
        try:
            if self._thread is not None:
                self._thread.join()
            self._end()
            # the last round may have failed just now
            if self._thread is not None and self._failure is None:
                failed = next((p.error for p in self.by_name.values() if p.error), None)
                self._failure = None if failed is None else self._told(failed)
        finally:
            self._thread = None  # only now: who watches has seen the last round
            self.signal.give()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _hold(self) -> None:
        if self._thread is not None:
            raise HeadraceError(
                "the engine is running already", hint="eng.stop() first", code="RUNNING"
            )
        self._home.hold()
        self._stopping.clear()
        self._failure = self._not_started = None
        self._restarts.end_row()
        try:
            self._check_catalog()
        except BaseException:
            self._home.release()
            raise

    def _check_catalog(self) -> None:
        """Every stream the home has rounds of was answered with this catalog, also those it no
        longer names."""
        self._catalog.refresh()
        for folder in self._home.stream_folders():
            check_catalog(Ledger(self._home.disk, folder), self._catalog)

    def _end(self) -> None:
        """Whatever Spark says: nothing of ours writes to the home any more, and it is free for
        others."""
        try:
            self._abandon()
        finally:
            self._home.release()

    def _abandon(self) -> None:
        errors: list[BaseException] = []
        for pipeline in list(self.by_name.values()):
            try:
                pipeline.stop()
            except BaseException as error:  # noqa: BLE001 - raised below, when none runs any more
                errors.append(error)
        if errors:
            raise errors[0]

    # -- one pipeline ------------------------------------------------------------------------------

    def _busy_relations(self) -> list[Relation]:
        """Relations with a query to answer."""
        version = self._catalog.version
        if version != self._busy[0]:
            names = {
                n
                for r in self._catalog.queries.values()
                if r.quarantine is None
                for n in r.query.relations
            }
            self._busy = (
                version,
                [own for name, own in self._catalog.relations.items() if name in names],
            )
        return self._busy[1]

    def _begin(self, relation: Relation, drain: bool) -> Pipeline:
        from headrace.runtime.rounds import Pipeline

        def assign(registered: Registered) -> str:
            return family_of(registered, self._catalog.relation).name

        pipeline = self.by_name.get(relation.name)
        if pipeline is None:
            self._make_jobs()
            pipeline = Pipeline(
                self._home,
                relation,
                self._catalog,
                self._jobs,
                self._config,
                assign,
                signal=self.signal,
            )
            self.by_name[relation.name] = pipeline
        pipeline.open()
        pipeline.start(self._spark.session, self._frames.get(relation.name), drain)
        return pipeline

    def _make_jobs(self) -> None:
        if not self._jobs:
            self._jobs = tuple(family.job(self._workplace(family)) for family in registry.FAMILIES)

    def _workplace(self, family: Family) -> Workplace:
        def quarantined(relation: str) -> list[int]:
            asked = [r for r in self._catalog.quarantined if relation in r.query.relations]
            return [r.id for r in asked if family_of(r, self._catalog.relation) is family]

        return Workplace(
            self._home.disk,
            self._config,
            self._catalog.relation,
            self._ledger_of,
            self._relations,
            lambda relation: bool(quarantined(relation)),
            quarantined,
        )

    # -- looking after them ------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Ends when it is told to, or when Spark is gone for good."""
        while not self._stopping.wait(POLL_S):
            error = self._trouble()
            if error is None:
                self._note_commits()
            elif self._may_restart(error):
                self._restart(error)
            elif error.code in ENDS:
                self._give_up(error)
                return
            else:  # the other streams go on
                self._failure = self._failure or error

    def _trouble(self) -> HeadraceError | None:
        """What is wrong now; an error of any kind, in this thread or another, is told as one of
        ours."""
        # looking after the streams would start Spark, and nobody would count that
        if self._not_started is not None:
            error, self._not_started = self._not_started, None
            return error
        if not self._spark.is_alive():
            return self._spark.gone()
        errors: list[HeadraceError] = []
        for look in (self._catalog.refresh, self._look_after_all, self._look_for_failures):
            try:
                look()
            except HeadraceError as error:
                errors.append(error)
            except Exception as error:  # noqa: BLE001 - unseen, it would end this thread and nobody would know
                errors.append(self._spark.explain(error))
        return next((e for e in errors if e.code == GONE), errors[0]) if errors else None

    def _look_after_all(self) -> None:
        """Start pipelines for streams that get their first query; the others are looked at in spite
        of one's error."""
        errors: list[Exception] = []
        for relation in self._busy_relations():
            try:
                self._look_after(relation)
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if errors:
            raise errors[0]

    def _look_after(self, relation: Relation) -> None:
        from headrace.runtime.sources import check_there

        pipeline = self.by_name.get(relation.name)
        if pipeline is None or (not pipeline.is_running and pipeline.failure() is None):
            self._try_to_begin(relation)
        else:
            check_there(relation)  # Spark takes a folder that has vanished for an empty one

    def _try_to_begin(self, relation: Relation) -> None:
        """What cannot be opened is tried again after pauses that double: opening looks at all its
        rounds."""
        next_s, pause_s = self._closed.get(relation.name, (0.0, POLL_S))
        if time.monotonic() < next_s:
            return
        self._closed[relation.name] = (
            time.monotonic() + pause_s,
            min(2 * pause_s, CLOSED_PAUSE_S_MAX),
        )
        self._begin(relation, drain=False)
        del self._closed[relation.name]

    def _look_for_failures(self) -> None:
        for pipeline in list(self.by_name.values()):
            if (error := pipeline.failure()) is not None:
                raise self._told(error)

    def _told(self, error: HeadraceError) -> HeadraceError:
        """A pipeline does not know whose Spark it was."""
        return self._spark.gone() if error.code == GONE else error

    # -- starting again ----------------------------------------------------------------------------

    def _may_restart(self, error: HeadraceError) -> bool:
        """A DataFrame dies with the Spark that made it, and a Spark that was given is not ours to
        start."""
        if error.code not in PASSING or not self._restarts.are_left or self._stopping.is_set():
            return False
        owns_all = not self._spark.is_given and not any(
            r.name in self._frames for r in self._busy_relations()
        )
        return owns_all or error.code == WORKER_GONE

    def _restart(self, error: HeadraceError) -> None:
        """From the newest manifest of each stream, after a pause.  A start that fails as this one
        did is looked at by the next turn of the supervisor."""
        self._note_commits()
        pause_s = self._restarts.next_pause_s()
        # where warnings are errors, this one must not end the thread
        with suppress(HeadraceWarning):
            warnings.warn(
                f"{error.what}: it is started again in {pause_s:g} s", HeadraceWarning, stacklevel=1
            )
        if self._stopping.wait(pause_s):
            self._failure = self._failure or error
            return
        try:
            self._abandon()
            for relation in self._busy_relations():
                self._begin(relation, drain=False)
        except HeadraceError as found:
            if found.code in PASSING:
                self._not_started = found
            else:
                self._failure = self._failure or found
        except Exception as found:  # noqa: BLE001 - as in `_trouble`
            self._failure = self._failure or self._spark.explain(found)

    def _give_up(self, error: HeadraceError) -> None:
        """Nothing can go on.  The home is let go at once: another engine may run it."""
        try:
            self._end()
        finally:
            self._failure = self._failure or error

    def _note_commits(self) -> None:
        newest = sum(
            p.ledger.newest.round_id + 1
            for p in self.by_name.values()
            if p.ledger.newest is not None
        )
        if newest != self._committed:
            self._committed = newest
            self._restarts.end_row()
