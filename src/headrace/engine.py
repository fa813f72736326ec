"""The engine: wires catalog, families and rounds; the public API.

    eng = headrace.Engine("race") eng.create_stream("trades", "parquet:data/trades", schema="…",
    time="ts", late="10 seconds") q = eng.add("SELECT symbol, avg(price) AS p FROM trades GROUP BY
    symbol, window(ts, '1 hour', '10 minutes')") eng.run() eng.results(q)

Spark starts when it is first needed; asking (`results`, `read`, `watch`, `explain`, `add`) never
needs it, and several processes may ask while one runs the home.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.arguments import (
    check_limit,
    check_names,
    check_opening,
    check_optional,
    check_queries,
    check_round,
    check_texts,
)
from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.errors import CatalogError, HeadraceWarning
from headrace.families.contract import Archive, Reader
from headrace.families.registry import family_of, run_of
from headrace.pausing import look_through_now
from headrace.quoting import quote_name
from headrace.reading import Answer, QueryInfo, page_of, watch_answers
from headrace.runtime.answers import AnswerLog
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger, check_catalog, check_folder
from headrace.runtime.sparkuse import SparkUse
from headrace.runtime.statistics import RoundStats
from headrace.runtime.waking import HomeSignal
from headrace.showing import Listing
from headrace.sql.bind import bind
from headrace.sql.duration import parse_duration_us
from headrace.sql.query import Query
from headrace.sql.schema import deleted_column, parse_schema
from headrace.supervision import Pipelines
from headrace.values import TIMESTAMP, Field, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.cost_attribution import StreamCost
    from headrace.describing import QueryDescription
    from headrace.families.joins.reading.notices import Notice
    from headrace.planning import Plans

PLANNED_AT_ONCE = 1_000
"""So many queries that come together are planned then, for milliseconds each of EXPLAIN later."""


class Engine:
    """Standing queries over the streams of one home folder."""

    def __init__(
        self, home: str | Path, *, spark: SparkSession | None = None, config: Config | None = None
    ) -> None:
        check_opening(home, config)
        self.config = config or Config.from_environment()
        self.home = Home(Path(home))
        self.catalog = Catalog(self.home.disk, self.config)
        self._spark = SparkUse(spark, self.config, self._packages, self.home.root)
        self._frames: dict[str, DataFrame] = {}
        self._pipelines = Pipelines(
            self.home, self.catalog, self.config, self._spark, self._frames, self._ledger
        )
        self._logs: dict[str, tuple[Ledger, AnswerLog]] = {}
        self._readers: dict[str, Reader] = {}
        self._is_checked = False

    # -- declare -----------------------------------------------------------------------------------

    def create_stream(
        self,
        name: str,
        source: str | DataFrame,
        *,
        schema: str | None = None,
        time: str,
        late: str = "0 seconds",
    ) -> None:
        """Append-only rows with an event time; rows more than `late` behind the newest are left out
        and counted."""
        check_texts(name=name, time=time, late=late)
        check_optional(schema=schema)
        fields = self._fields(schema, source)
        moment = next((f for f in fields if f.name.lower() == time.lower()), None)
        if moment is None or moment.type != TIMESTAMP:
            raise CatalogError(
                "the event time must be a TIMESTAMP column",
                value=time if moment is None else f"{time} {moment.type}",
                choices=[f.name for f in fields if f.type == TIMESTAMP],
                hint="name it with time='…'",
            )
        relation = Relation(
            name, self._source(name, source), fields, moment.name, parse_duration_us(late)
        )
        if relation.late_us < 0:
            raise CatalogError(
                "lateness must not be negative", value=late, hint="e.g. late='10 seconds'"
            )
        self._create(relation, source)

    def create_table(
        self,
        name: str,
        source: str | DataFrame,
        *,
        schema: str | None = None,
        key: str,
        deleted: str | None = None,
    ) -> None:
        """An upsert stream: the latest row of each key counts, and where its BOOLEAN column
        `deleted` is true there is no row of that key."""
        check_texts(name=name, key=key)
        check_optional(schema=schema, deleted=deleted)
        fields = self._fields(schema, source)
        by_name = {f.name.lower(): f.name for f in fields}
        keys = [k.strip() for k in key.split(",")]
        for k in keys:
            if k.lower() not in by_name:
                raise CatalogError(
                    "the key is not a column", value=k, choices=[f.name for f in fields]
                )
        if deleted is not None:
            deleted = deleted_column(deleted, fields, keys)
        relation = Relation(
            name,
            self._source(name, source),
            fields,
            key=tuple(by_name[k.lower()] for k in keys),
            deleted=deleted,
        )
        self._create(relation, source)

    def add(self, sql: str, name: str | None = None) -> str:
        """Register a standing query; it takes effect at the next round.  Its name, which is its
        handle."""
        check_texts(sql=sql)
        check_optional(name=name)
        self._refresh()
        name = name if name is not None else self.catalog.free_name()
        self.catalog.add([self._bind(sql, name)])
        return name

    def add_many(self, queries: Mapping[str, str]) -> list[str]:
        """Register queries (name → SQL), all or none, with one durable write."""
        check_queries(queries)
        self._refresh()
        self.catalog.add(list(map(self._bind, queries.values(), queries)))
        if len(queries) >= PLANNED_AT_ONCE:
            self._plans.catch_up()
            look_through_now()
        return list(queries)

    def drop(self, query: str) -> None:
        """Take a query out, from the next round on."""
        check_texts(query=query)
        self._refresh()
        self.catalog.drop([query])

    def drop_many(self, queries: Iterable[str]) -> None:
        """Take queries out, all or none, with one durable write."""
        names = check_names(queries)
        self._refresh()
        self.catalog.drop(names)

    # -- run ---------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        return self._spark.session

    def run(self) -> None:
        """Read what is there, answer it, return.  Every window that the newest row closes has then
        been answered."""
        self._pipelines.drain()

    def start(self) -> None:
        """Keep going in the background until `stop`."""
        self._pipelines.start()

    def stop(self) -> None:
        """Stop after the round under way; raises what made a stream fail meanwhile, if anything
        did."""
        self._pipelines.stop()

    @property
    def is_running(self) -> bool:
        """False also when a stream has failed, or Spark has died and was not started again: `stop`
        says why."""
        return self._pipelines.is_running

    def close(self) -> None:
        """Stop, and let Spark go if it is ours."""
        try:
            self.stop()
        finally:
            self._spark.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- ask ---------------------------------------------------------------------------------------

    def results(self, query: str, after: int | None = None, limit: int | None = None) -> pa.Table:
        """The log of a query: all committed answers in their order, with the columns of its SELECT
        (+ window_start, window_end).  Where answers may be taken back a last column, `change`, is
        +1 for one that comes and −1 for one that goes; `read` has what is left.

        With `after` (the seq of an answer) or `limit`, a page of its log: `headrace.last_seq(page)`
        is `after` of the next one."""
        registered = self._registered(query)
        reader = self._reader_of(registered)
        if after is not None or limit is not None:
            wanted = None if limit is None else check_limit(limit)
            return page_of(
                registered, reader.log(registered), after, wanted, reader.empty(registered)
            )
        return reader.results(registered)

    def read(self, query: str) -> pa.Table:
        """The present answer of a query: Spark's answer to its text over the rows committed so far.

        Of windows those that are closed.  Late rows count as they do in `results`: not in windows
        and other aggregates.  A query that came later begins with what was kept for it."""
        registered = self._registered(query)
        return self._reader_of(registered).present(registered)

    def watch(
        self,
        query: str,
        since: int | None = None,
        follow: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[Answer]:
        """Answers as they are committed, each a dict with a `.seq` to resume after (`since`); at
        most `limit` of them.

        `follow`: wait for more; by default as long as this engine is running."""
        registered = self._registered(query)

        def goes_on() -> bool:
            return self.is_running if follow is None else follow

        rounds = [
            self.home.root / self._ledger(name).folder / "rounds"
            for name in registered.query.relations
        ]
        waking = HomeSignal(self._pipelines.signal, lambda: self.is_running, rounds)
        log = partial(self._reader_of(registered).log, registered)
        answers = watch_answers(registered, log, since, goes_on, waking)
        return answers if limit is None else islice(answers, check_limit(limit))

    def notices(self, stream: str, after: int = -1) -> Iterator[Notice]:
        """Whom the rows of committed rounds of a stream or table affect, by joins and filters,
        round by round after `after`: compact records, to be shared by whoever delivers."""
        from headrace.families.joins.reading.notices import Notices

        check_texts(stream=stream)
        check_round(after)
        self._refresh()
        relation = self.catalog.relation(stream)
        return Notices(self.home.disk.root, self._ledger(relation.name)).after(after)

    def explain(self, query: str | None = None) -> str:
        """How one query runs, or the whole shared plan, with costs."""
        from headrace.explaining import explain_all, explain_one
        from headrace.forecast import recent_stats

        check_optional(query=query)
        self._refresh()
        rounds = {name: recent_stats(ledger) for name, (ledger, _) in self._all_logs().items()}
        if query is not None:
            return explain_one(self.catalog.query(query), self.catalog, rounds, self._plans)
        return explain_all(self.catalog, rounds, self._plans)

    def describe(self, query: str) -> QueryDescription:
        """Everything about one query: its text, who runs it and why, its columns, its cost, its
        newest answer."""
        from headrace.describing import describe

        registered = self._registered(query)
        costs = {q.name: q.seconds for stream in self.costs() for q in stream.queries if q.is_live}
        return describe(
            registered, self._plans, self._reader_of(registered), costs.get(registered.name)
        )

    def queries(self) -> Listing[QueryInfo]:
        """Every live query: where it runs, how, and how many answers it has given (None: they are
        made on reading)."""
        from headrace.explaining import infos

        self._refresh()
        counts = {name: log.counts() for name, (_, log) in self._all_logs().items()}
        return Listing(infos(self.catalog, self._plans, counts))

    def costs(self) -> Listing[StreamCost]:
        """What a round of each stream takes, split among its queries; from committed rounds,
        without Spark."""
        from headrace.cost_attribution import stream_cost

        self._refresh()
        logs = self._all_logs()
        found = (
            stream_cost(r, self.catalog, *logs[name]) for name, r in self.catalog.relations.items()
        )
        return Listing(cost for cost in found if cost is not None)

    def statistics(self, stream: str | None = None) -> Listing[RoundStats]:
        """Recent rounds, oldest first: of this engine, or, where another process runs the home,
        those it committed."""
        at_work = list(self._pipelines.by_name.items())
        if at_work:
            return Listing(
                s for name, p in at_work if stream in (None, name) for s in list(p.recent)
            )
        from headrace.forecast import committed_stats

        self._refresh()
        ledgers = {name: ledger for name, (ledger, _) in self._all_logs().items()}
        return Listing(
            s
            for name, own in ledgers.items()
            if stream in (None, name)
            for s in committed_stats(own)
        )

    @cached_property
    def _plans(self) -> Plans:
        """What EXPLAIN and `queries` know of the plan."""
        from headrace.planning import Plans

        return Plans(self.catalog)

    # -- inside ------------------------------------------------------------------------------------

    def _bind(self, sql: str, name: str) -> Query:
        """The query the text means, if a family can run it."""
        query = bind(sql, self.catalog.relations, name=name, config=self.config)
        run = run_of(query, self.catalog.relation)
        warning = run.family.check(query, run.claim, self.config)
        if warning:
            warnings.warn(warning, HeadraceWarning, stacklevel=3)
        return query

    def _create(self, relation: Relation, source: object) -> None:
        from headrace.runtime.sources import check_relation, parse_source

        check_relation(relation, parse_source(relation.source))
        self._refresh()
        self.catalog.create(relation)
        if not isinstance(source, str):
            self._frames[relation.name] = source  # type: ignore[assignment]

    def _source(self, name: str, source: str | DataFrame) -> str:
        from headrace.runtime.sources import DATAFRAME, absolute, parse_source

        return (
            absolute(parse_source(source), source) if isinstance(source, str) else DATAFRAME + name
        )

    def _fields(self, schema: str | None, source: str | DataFrame) -> tuple[Field, ...]:
        if schema is None:
            if isinstance(source, str):
                raise CatalogError(
                    "a schema is needed",
                    value=source,
                    hint="schema='symbol STRING, price DOUBLE, …'",
                )
            schema = ", ".join(
                f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in source.schema.fields
            )
        return parse_schema(schema)

    def _packages(self) -> list[str]:
        from headrace.runtime.session import KAFKA

        return (
            [KAFKA]
            if any(r.source.startswith("kafka:") for r in self.catalog.relations.values())
            else []
        )

    def _registered(self, query: str) -> Registered:
        check_texts(query=query)
        self._refresh()
        return self.catalog.query(query)

    def _refresh(self) -> None:
        """Take in what others have changed; at first see that the catalog is the one the home was
        answered with."""
        self.catalog.refresh()
        if not self._is_checked:
            for folder in self.home.stream_folders():
                check_folder(self.home.disk, folder, self.catalog)
            self._is_checked = True

    def _answers(self, stream: str) -> AnswerLog:
        if stream not in self._logs:
            ledger = self._ledger(stream)
            self._logs[stream] = (ledger, AnswerLog(self.home.disk, ledger))
        ledger, log = self._logs[stream]
        ledger.refresh()
        check_catalog(ledger, self.catalog)
        return log

    def _ledger(self, stream: str) -> Ledger:
        return Ledger(self.home.disk, self.home.stream_folder(stream))

    def _reader_of(self, registered: Registered) -> Reader:
        family = family_of(registered, self.catalog.relation)
        if family.name not in self._readers:
            archive = Archive(
                self.home.disk,
                self.config,
                self.catalog.relation,
                self._ledger,
                self._answers,
                lambda: self.spark,
            )
            # readers may be several threads
            self._readers.setdefault(family.name, family.reader(archive))
        return self._readers[family.name]

    def _all_logs(self) -> dict[str, tuple[Ledger, AnswerLog]]:
        for name in self.catalog.relations:
            self._answers(name)
        return self._logs
