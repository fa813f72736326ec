"""Plain Spark queries, one Spark job each, inside the same round as the shared ones.

They read the same rows under the same watermark and commit with the same manifest, so their
answers are as exactly-once as all others; the source is still read once.  Answers stay in Spark:
executors write them as Parquet, and the driver only makes the files durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.catalog import Registered
from headrace.families.plain.differences import Differences
from headrace.families.plain.figures import NAME, PlainFigures
from headrace.families.plain.plan import Way, horizon_us, plain_price_s, way_of
from headrace.families.plain.present import FOLDER
from headrace.quoting import quote_name
from headrace.records import encode
from headrace.relations.rows import Relations
from headrace.relations.stream_rows import RowLog
from headrace.relations.tables import table_frame
from headrace.runtime.answers import file_mark, plain_folder
from headrace.runtime.family import BAD, OK, Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.faults import is_nobodys, reason_of, why_failing
from headrace.runtime.parquet_files import write_parquet
from headrace.runtime.statistics import Stopwatch
from headrace.sql.emit import emit_query
from headrace.sql.query import Query

VIEW = "headrace_rows"
_Asked = tuple[DataFrame, str | None]


class PlainJob:
    name = "plain"
    folders = ("rows", FOLDER)

    def __init__(self, relations: Relations, quarantined: Callable[[str], Collection[int]]) -> None:
        self._relations = relations
        self._quarantined = quarantined

    def open(self, place: Place) -> PlainWork:
        return PlainWork(place, self._relations, partial(self._quarantined, place.relation.name))


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a query begins: windows that start at `time_us` or later, rows of `round_id` or
    later."""

    time_us: int | None
    round_id: int


class PlainWork:
    """Plain queries of one stream or table."""

    def __init__(
        self, place: Place, relations: Relations, quarantined: Callable[[], Collection[int]]
    ) -> None:
        self._place = place
        self._relations = relations
        self._queries: dict[int, Registered] = {}
        self._starts: dict[int, _Start] = {}
        self._log = RowLog(place)
        self._differences = Differences(place, quarantined)

    @property
    def reads_rows(self) -> bool:
        """Of a table not the round's rows: those it has with them."""
        return bool(self._queries) and not self._place.relation.is_table

    @property
    def counts_rows(self) -> bool:
        return False

    @property
    def wants_replan(self) -> bool:
        return False

    def replan(self, change: Change) -> None:
        self._queries = dict(change.queries)
        self._starts = {i: start for i, start in self._starts.items() if i in self._queries}
        new = [r for r in self._queries.values() if r.id not in self._starts]
        covered = self._log.covered_from() if new else None
        for registered in new:
            first = 0 if covered is None else self._log.first_round_of(registered)
            self._starts[registered.id] = _Start(covered, first)

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        """All is written within rounds."""

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        outcome = self._answer_all(batch, round, watch)
        return Reading(lambda round, watch: outcome)

    def _answer_all(self, batch: Batch, round: Round, watch: Stopwatch) -> Outcome:
        outcome = Outcome()
        self._differences.begin(round)
        if not self._queries:
            self._let_go(round, outcome)
            outcome.held = self._differences.held(self._queries)
            return outcome
        with watch.stage("plain"):
            disk, folder = self._place.disk, plain_folder(self._place.folder, round.id)
            disk.clear(folder)
            table = self._keep_rows(batch, round, outcome)
            is_shared = table is not None and len(self._queries) > 1
            if table is not None and is_shared:
                table.persist()
            own_s: dict[str, float] = {}
            try:
                for registered in self._queries.values():
                    if registered.id not in outcome.faults:
                        start = perf_counter()
                        self._answer(registered, batch, table, round, outcome)
                        own_s[str(registered.id)] = perf_counter() - start
            finally:
                if table is not None and is_shared:
                    table.unpersist()
            self._let_go(round, outcome)
            outcome.held = self._differences.held(self._queries)
            outcome.priced["plain"] = plain_price_s(len(self._queries))
            outcome.figures[NAME] = encode(PlainFigures(own_s))
        return outcome

    # -- answers -----------------------------------------------------------------------------------

    def _answer(
        self,
        registered: Registered,
        batch: Batch,
        table: DataFrame | None,
        round: Round,
        outcome: Outcome,
    ) -> None:
        """One query's answers; if it fails by its own fault, the round goes on without it."""
        asked = self._asked(registered, batch, table, round)
        if asked is None:
            return
        rows, where = asked
        is_changing = way_of(registered.query, self._place.relation) is Way.CURRENT
        write = self._differences.write if is_changing else self._write
        try:
            write(registered.id, self._select(rows, registered.query, where), round, outcome)
        except Exception as error:
            if is_nobodys(error) or not self._fails_alone(registered.query, rows, where):
                raise
            outcome.faults[registered.id] = reason_of(error)

    def _write(self, query_id: int, answer: DataFrame, round: Round, outcome: Outcome) -> None:
        """Write the answers of one query that are final, as Parquet files of the round."""
        disk, folder = self._place.disk, f"{plain_folder(self._place.folder, round.id)}/{query_id}"
        try:
            written = write_parquet(answer, disk, folder)
        except BaseException:
            disk.clear(folder)
            raise
        outcome.files += [file_mark(disk, path) for path in written.paths]
        outcome.answers += written.rows

    def _asked(
        self, registered: Registered, batch: Batch, table: DataFrame | None, round: Round
    ) -> _Asked | None:
        """The rows the query is asked of in this round, and which of its answers count; None when
        it has none."""
        query, spark = registered.query, batch.frame.sparkSession
        way = way_of(query, self._place.relation)
        if way is Way.EACH:
            return batch.frame.where(f"({batch.kind()}) <> {BAD}"), None
        if way is Way.WINDOW:
            return self._closed(spark, registered, round)
        if not round.census.rows and self._differences.is_known(registered.id):
            return None
        if table is not None:
            return table, None
        return self._log.read(spark, self._starts[registered.id].round_id), None

    def _closed(self, spark: SparkSession, registered: Registered, round: Round) -> _Asked | None:
        """Windows this round closes whose rows are all kept."""
        query, relation = registered.query, self._place.relation
        before, after = round.watermark_before_us, round.watermark_us
        assert query.window is not None
        assert relation.time is not None
        if after is None or (
            before is not None and after // query.window.grain_us == before // query.window.grain_us
        ):
            return None
        rows = self._log.read(spark)
        tests = [f"unix_micros(window_end) <= {after}L"]
        if before is not None:
            rows = rows.where(
                f"unix_micros({quote_name(relation.time)}) >= {before - query.window.range_us}L"
            )
            tests.append(f"unix_micros(window_end) > {before}L")
        since = self._starts[registered.id].time_us
        if since is not None:
            tests.append(f"unix_micros(window_start) >= {since}L")
        return rows, " AND ".join(tests)

    def _fails_alone(self, query: Query, rows: DataFrame, where: str | None) -> bool:
        """Whether it is the query that fails, and not the disk, the source or Spark: it fails again
        with nothing to write, and the rows alone do not."""
        return not _passes(lambda: self._select(rows, query, where)) and _passes(lambda: rows)

    def _select(self, rows: DataFrame, query: Query, where: str | None = None) -> DataFrame:
        rows.createOrReplaceTempView(VIEW)
        sql = emit_query(query, self._place.relation, VIEW)
        answer = rows.sparkSession.sql(
            sql if where is None else f"SELECT * FROM ({sql}) WHERE {where}"
        )
        # generic names: a user's name may hold what Parquet does not take
        return answer.toDF(*(f"c{i}" for i in range(len(answer.columns))))

    # -- the rows they need ------------------------------------------------------------------------

    def _keep_rows(self, batch: Batch, round: Round, outcome: Outcome) -> DataFrame | None:
        """Note this round's rows for the queries that need more than the round; the table, if it is
        one."""
        relation = self._place.relation
        if relation.is_table:
            files = self._relations.files(relation.name)
            return table_frame(batch.frame.sparkSession, self._place.disk.root, relation, files)
        if self._stateful() and round.census.rows:
            good = batch.frame.where(f"({batch.kind()}) = {OK}")
            self._log.append(
                good.select(*(quote_name(f.name) for f in self._place.relation.fields)),
                round,
                outcome,
            )
            self._check_limit(outcome)
        return None

    def _stateful(self) -> list[Registered]:
        return [
            r
            for r in self._queries.values()
            if way_of(r.query, self._place.relation) is not Way.EACH
        ]

    def _check_limit(self, outcome: Outcome) -> None:
        limit, rows = self._place.config.plain_rows_max, self._log.rows
        if rows > limit:
            reason = (
                f"it needs {rows:,} rows kept, the limit plain_rows_max is {limit:,}; "
                "use a shorter window, or raise the limit"
            )
            outcome.faults.update((r.id, reason) for r in self._stateful())

    def _let_go(self, round: Round, outcome: Outcome) -> None:
        """Forget rounds of the row log that no query needs."""
        if self._place.relation.is_table:
            return
        stateful = [r.query for r in self._stateful() if r.id not in outcome.faults]
        if stateful:
            self._log.let_go(horizon_us(stateful, self._place.relation, round.watermark_us))
        else:
            self._log.rounds.clear()
        outcome.keep["rows"] = self._log.rounds[0].round_id if self._log.rounds else round.id + 1


def _passes(make: Callable[[], DataFrame]) -> bool:
    return why_failing(lambda: make().write.format("noop").mode("overwrite").save()) is None
