"""The engine: wires catalog, families and rounds; the public API.

    eng = headrace.Engine("race")
    eng.create_stream("trades", "parquet:data/trades", schema="…", time="ts", late="10 seconds")
    q = eng.add("SELECT symbol, avg(price) AS p FROM trades GROUP BY symbol, window(ts, '1 hour', '10 minutes')")
    eng.run()
    eng.results(q)

Spark starts when it is first needed; asking (`results`, `watch`, `explain`, `add`) never needs it, and several
processes may ask while one runs the home.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.arguments import check_optional, check_queries, check_round, check_texts
from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import CatalogError, HeadraceError, HeadraceWarning, PlanError
from headrace.families.joins.plan import filter_share, share
from headrace.families.plain.plan import Way, way_of
from headrace.reading import Answer, Log, QueryInfo, empty_answer, watch_answers
from headrace.runtime.answers import AnswerLog
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger, check_catalog
from headrace.runtime.statistics import RoundStats
from headrace.sql.bind import bind
from headrace.sql.duration import parse_duration_us
from headrace.sql.emit import quote_name
from headrace.sql.query import Query
from headrace.sql.schema import deleted_column, parse_schema
from headrace.values import TIMESTAMP, Field, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.bills import StreamCost
    from headrace.families.joins.expand import JoinLog, JoinReader
    from headrace.families.joins.filtering import FilterLog
    from headrace.families.joins.notices import Notice
    from headrace.families.joins.state import Joints
    from headrace.runtime.rounds import Pipeline

POLL_S = 0.2


class Engine:
    """Standing queries over the streams of one home folder."""

    def __init__(self, home: str | Path, *, spark: SparkSession | None = None, config: Config | None = None) -> None:
        self.config = config or Config.from_environment()
        self.home = Home(Path(home))
        self.catalog = Catalog(self.home.disk, self.config)
        self._given = spark
        self._spark: SparkSession | None = None
        self._frames: dict[str, DataFrame] = {}
        self._busy: tuple[int, list[Relation]] = (-1, [])
        self._pipelines: dict[str, Pipeline] = {}
        self._logs: dict[str, tuple[Ledger, AnswerLog]] = {}
        self._supervisor: threading.Thread | None = None
        self._joints: Joints | None = None
        self._reader: JoinReader | None = None
        self._stopping = threading.Event()
        self._failure: HeadraceError | None = None

    # -- declare ----------------------------------------------------------------------------------

    def create_stream(self, name: str, source: str | DataFrame, *, schema: str | None = None, time: str,
                      late: str = "0 seconds") -> None:
        """Append-only rows with an event time; rows more than `late` behind the newest are left out and counted."""
        check_texts(name=name, time=time, late=late)
        check_optional(schema=schema)
        fields = self._fields(schema, source)
        moment = next((f for f in fields if f.name.lower() == time.lower()), None)
        if moment is None or moment.type != TIMESTAMP:
            raise CatalogError(
                "the event time must be a TIMESTAMP column", value=time if moment is None else f"{time} {moment.type}",
                choices=[f.name for f in fields if f.type == TIMESTAMP], hint="name it with time='…'",
            )
        relation = Relation(name, self._source(name, source), fields, moment.name, parse_duration_us(late))
        if relation.late_us < 0:
            raise CatalogError("lateness must not be negative", value=late, hint="e.g. late='10 seconds'")
        self._create(relation, source)

    def create_table(self, name: str, source: str | DataFrame, *, schema: str | None = None, key: str,
                     deleted: str | None = None) -> None:
        """An upsert stream: the latest row of each key counts, and where its BOOLEAN column `deleted` is true there
        is no row of that key."""
        check_texts(name=name, key=key)
        check_optional(schema=schema, deleted=deleted)
        fields = self._fields(schema, source)
        by_name = {f.name.lower(): f.name for f in fields}
        keys = [k.strip() for k in key.split(",")]
        for k in keys:
            if k.lower() not in by_name:
                raise CatalogError("the key is not a column", value=k, choices=[f.name for f in fields])
        if deleted is not None:
            deleted = deleted_column(deleted, fields, keys)
        relation = Relation(name, self._source(name, source), fields, key=tuple(by_name[k.lower()] for k in keys),
                            deleted=deleted)
        self._create(relation, source)

    def add(self, sql: str, name: str | None = None) -> str:
        """Register a standing query; it takes effect at the next round.  Its name, which is its handle."""
        check_texts(sql=sql)
        check_optional(name=name)
        self.catalog.refresh()
        name = name if name is not None else self.catalog.free_name()
        self.catalog.add([self._bind(sql, name)])
        return name

    def add_many(self, queries: Mapping[str, str]) -> list[str]:
        """Register queries (name → SQL), all or none, with one durable write."""
        check_queries(queries)
        self.catalog.refresh()
        self.catalog.add(list(map(self._bind, queries.values(), queries)))
        return list(queries)

    def drop(self, query: str) -> None:
        """Take a query out, from the next round on."""
        check_texts(query=query)
        self.catalog.drop([query])

    def drop_many(self, queries: Iterable[str]) -> None:
        """Take queries out, all or none, with one durable write."""
        names = list(queries) if not isinstance(queries, str) else [queries]
        for name in names:
            check_texts(query=name)
        self.catalog.drop(names)

    # -- run ----------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        if self._spark is None:
            from headrace.runtime.session import KAFKA, borrow_session, make_session

            kafka = any(r.source.startswith("kafka:") for r in self.catalog.relations.values())
            given = self._given
            self._spark = make_session(self.config, [KAFKA] if kafka else []) if given is None else borrow_session(
                given, self.config)
        return self._spark

    def run(self) -> None:
        """Read what is there, answer it, return.  Every window that the newest row closes has then been answered."""
        if self._supervisor is not None:
            raise HeadraceError("the engine is running already", hint="eng.stop() first", code="RUNNING")
        self.home.hold()
        try:
            self._check_catalog()
            errors: list[HeadraceError] = []
            started: list[Pipeline] = []
            for relation in self._busy_relations():
                try:
                    started.append(self._begin(relation, drain=True))
                except HeadraceError as error:  # the other streams are read all the same
                    errors.append(error)
            errors += [failed for pipeline in started if (failed := _join(pipeline)) is not None]
            if errors:
                raise errors[0]
        finally:
            self._end()

    def start(self) -> None:
        """Keep going in the background until `stop`."""
        if self._supervisor is not None:
            raise HeadraceError("the engine is running already", hint="eng.stop() first", code="RUNNING")
        self.home.hold()
        self._stopping.clear()
        self._failure = None
        try:
            self._check_catalog()
            for relation in self._busy_relations():
                self._begin(relation, drain=False)
        except BaseException:
            self._end()
            raise
        self._supervisor = threading.Thread(target=self._supervise, name="headrace-supervisor", daemon=True)
        self._supervisor.start()

    def stop(self) -> None:
        """Stop after the round under way; raises what made a stream fail meanwhile, if anything did."""
        try:
            if self._supervisor is not None:
                self._stopping.set()
                self._supervisor.join()
            self._end()
            if self._supervisor is not None:  # the last round may have failed after the supervisor looked
                self._failure = self._failure or next((p.error for p in self._pipelines.values() if p.error), None)
        finally:
            self._supervisor = None  # only now: who watches has seen the last round
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @property
    def is_running(self) -> bool:
        return self._supervisor is not None and self._failure is None

    def close(self) -> None:
        """Stop, and let Spark go if it is ours."""
        try:
            self.stop()
        finally:
            if self._spark is not None and self._given is None:
                self._spark.stop()
            self._spark = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- ask ------------------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """All committed answers of a query, with the columns of its SELECT (+ window_start, window_end)."""
        registered = self._registered(query)
        if self._is_kept(registered):
            return self._join_log(registered).read_all()
        log = self._answers(registered.query.source)
        tables = [table for _, table in log.read_all(registered.id, registered.query)]
        if self._replaces(registered):
            tables = tables[-1:]
        return pa.concat_tables(tables).combine_chunks() if tables else empty_answer(registered.query)

    def watch(self, query: str, since: int | None = None, follow: bool | None = None) -> Iterator[Answer]:
        """Answers as they are committed, each a dict with a `.seq` to resume after (`since`).

        `follow`: wait for more; by default as long as this engine is running."""
        registered = self._registered(query)

        def goes_on() -> bool:
            return self.is_running if follow is None else follow

        is_kept = self._is_kept(registered)

        def log() -> Log:
            return self._join_log(registered) if is_kept else self._answers(registered.query.source)

        return watch_answers(registered, log, since, goes_on, POLL_S)

    def notices(self, stream: str, after: int = -1) -> Iterator[Notice]:
        """Whom the rows of committed rounds of a stream or table affect, by joins and filters, round by round after
        `after`: compact records, to be shared by whoever delivers."""
        from headrace.families.joins.notices import Notices

        check_texts(stream=stream)
        check_round(after)
        relation = self.catalog.relation(stream)
        return Notices(self.home.disk.root, self._ledger(relation.name)).after(after)

    def explain(self, query: str | None = None) -> str:
        """How one query runs, or the whole shared plan, with costs."""
        from headrace.costing import recent_stats
        from headrace.explaining import explain_all, explain_one

        check_optional(query=query)
        self.catalog.refresh()
        rounds = {name: recent_stats(ledger) for name, (ledger, _) in self._all_logs().items()}
        if query is not None:
            return explain_one(self.catalog.query(query), self.catalog, rounds)
        return explain_all(self.catalog, rounds)

    def queries(self) -> list[QueryInfo]:
        """Every live query: where it runs, how, and how many answers it has given (None: they are made on reading)."""
        from headrace.explaining import JOINS, family_of

        self.catalog.refresh()
        counts = {name: log.counts() for name, (_, log) in self._all_logs().items()}
        infos = []
        for r in self.catalog.queries.values():
            family, reason = family_of(r, self.catalog.relation(r.query.source))
            state = "quarantined" if r.quarantine else "live"
            answers = None if family == JOINS else counts.get(r.query.source, {}).get(r.id, 0)
            over = ", ".join(r.query.relations)
            infos.append(QueryInfo(r.name, over, family, state, r.quarantine or reason, r.query.sql, answers))
        return infos

    def costs(self) -> list[StreamCost]:
        """What a round of each stream takes, split among its queries; from committed rounds, without Spark."""
        from headrace.bills import stream_cost

        self.catalog.refresh()
        logs = self._all_logs()
        found = (stream_cost(r, self.catalog, *logs[name]) for name, r in self.catalog.relations.items())
        return [cost for cost in found if cost is not None]

    def statistics(self, stream: str | None = None) -> list[RoundStats]:
        """Recent rounds of this engine, oldest first."""
        return [s for name, p in list(self._pipelines.items()) if stream in (None, name) for s in list(p.recent)]

    # -- inside -----------------------------------------------------------------------------------------

    def _bind(self, sql: str, name: str) -> Query:
        """The query the text means, if its window is one that can be kept."""
        query = bind(sql, self.catalog.relations, name=name, config=self.config)
        if query.joined is not None:
            self._check_join(query)
        elif not query.grouped:
            filter_share(query, self.catalog.relation(query.source))
        panes = query.window.range_us // query.window.grain_us if query.window is not None else 0
        if panes > self.config.panes_max:
            raise PlanError(
                f"the window of {name!r} spans too many panes", value=f"{panes:,} panes of {query.window}",
                choices=(f"panes_max = {self.config.panes_max:,}",),
                hint="a shorter range, or a slide and offset that divide it more coarsely", code="PANES",
            )
        return query

    def _check_join(self, query: Query) -> None:
        """A join that can run; one that has to look at every pair of rows is warned of."""
        assert query.joined is not None
        own = share(query, self.catalog.relation(query.source), self.catalog.relation(query.joined))
        if own.is_cross:
            warnings.warn(f"every row of {query.source} meets every row of {query.joined} in {query.name!r}: there may "
                          "be as many answers as pairs", HeadraceWarning, stacklevel=4)  # fmt: skip

    def _create(self, relation: Relation, source: object) -> None:
        from headrace.runtime.sources import check_relation, parse_source

        check_relation(relation, parse_source(relation.source))
        self.catalog.create(relation)
        if not isinstance(source, str):
            self._frames[relation.name] = source  # type: ignore[assignment]

    def _source(self, name: str, source: str | DataFrame) -> str:
        from headrace.runtime.sources import DATAFRAME, absolute, parse_source

        return absolute(parse_source(source), source) if isinstance(source, str) else DATAFRAME + name

    def _fields(self, schema: str | None, source: str | DataFrame) -> tuple[Field, ...]:
        if schema is None:
            if isinstance(source, str):
                raise CatalogError("a schema is needed", value=source, hint="schema='symbol STRING, price DOUBLE, …'")
            schema = ", ".join(f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in source.schema.fields)
        return parse_schema(schema)

    def _check_catalog(self) -> None:
        """Every stream the home has rounds of was answered with this catalog, also those it no longer names."""
        self.catalog.refresh()
        for folder in self.home.stream_folders():
            check_catalog(Ledger(self.home.disk, folder), self.catalog)

    def _busy_relations(self) -> list[Relation]:
        """Relations with a query to answer."""
        version = self.catalog.version
        if version != self._busy[0]:
            names = {n for r in self.catalog.queries.values() if r.quarantine is None for n in r.query.relations}
            self._busy = version, [own for name, own in self.catalog.relations.items() if name in names]
        return self._busy[1]

    def _begin(self, relation: Relation, drain: bool) -> Pipeline:
        from headrace.explaining import families, family_of
        from headrace.families.joins.state import Joints
        from headrace.runtime.rounds import Pipeline

        def assign(registered: Registered) -> str:
            return family_of(registered, relation)[0]

        pipeline = self._pipelines.get(relation.name)
        if pipeline is None:
            self._joints = self._joints or Joints(self.home.disk, self.config, self.catalog.relation, self._ledger,
                                                  self._rests)  # fmt: skip
            pipeline = Pipeline(self.home, relation, self.catalog, families(self._joints), self.config, assign)
            self._pipelines[relation.name] = pipeline
        pipeline.open()
        pipeline.start(self.spark, self._frames.get(relation.name), drain)
        return pipeline

    def _rests(self, relation: str) -> bool:
        """Whether joins or filters of a relation are in quarantine."""
        from headrace.explaining import JOINS, family_of

        asked = [r for r in self.catalog.quarantined if relation in r.query.relations]
        return any(family_of(r, self.catalog.relation(relation))[0] == JOINS for r in asked)

    def _supervise(self) -> None:
        """Start pipelines for streams that get their first query; notice those that fail."""
        while not self._stopping.wait(POLL_S):
            try:
                self.catalog.refresh()
            except HeadraceError as error:
                self._failure = self._failure or error
            for relation in self._busy_relations():
                try:
                    self._look_after(relation)
                except HeadraceError as error:  # the other streams go on
                    self._failure = self._failure or error
            self._failure = self._failure or next(
                (e for p in list(self._pipelines.values()) if (e := p.failure()) is not None), None
            )

    def _look_after(self, relation: Relation) -> None:
        from headrace.runtime.sources import check_there

        pipeline = self._pipelines.get(relation.name)
        if pipeline is None or (not pipeline.is_running and pipeline.failure() is None):
            self._begin(relation, drain=False)
        else:
            check_there(relation)  # Spark takes a folder that has vanished for an empty one

    def _end(self) -> None:
        for pipeline in self._pipelines.values():
            pipeline.stop()
        self.home.release()

    def _registered(self, query: str) -> Registered:
        check_texts(query=query)
        self.catalog.refresh()
        return self.catalog.query(query)

    def _replaces(self, registered: Registered) -> bool:
        return way_of(registered.query, self.catalog.relation(registered.query.source)) is Way.CURRENT

    def _answers(self, stream: str) -> AnswerLog:
        if stream not in self._logs:
            ledger = self._ledger(stream)
            self._logs[stream] = (ledger, AnswerLog(self.home.disk, ledger))
        ledger, log = self._logs[stream]
        ledger.refresh()
        return log

    def _ledger(self, stream: str) -> Ledger:
        return Ledger(self.home.disk, self.home.stream_folder(stream))

    def _is_kept(self, registered: Registered) -> bool:
        """Whether its answers are made when they are read, from rows that are kept."""
        from headrace.explaining import JOINS, family_of

        return family_of(registered, self.catalog.relation(registered.query.source))[0] == JOINS

    def _join_log(self, registered: Registered) -> JoinLog | FilterLog:
        from headrace.families.joins.expand import JoinReader
        from headrace.runtime.asking import ask

        if self._reader is None:
            self._reader = JoinReader(
                self.home.disk.root, self.catalog.relation, self._ledger, self.config.join_pairs_max,
                partial(ask, lambda: self.spark),
            )
        return self._reader.log(registered)

    def _all_logs(self) -> dict[str, tuple[Ledger, AnswerLog]]:
        for name in self.catalog.relations:
            self._answers(name)
        return self._logs


def _join(pipeline: Pipeline) -> HeadraceError | None:
    try:
        pipeline.join()
    except HeadraceError as error:
        return error
    return None
