"""Plain Spark queries, one Spark job each, inside the same round as the shared ones.

They read the same rows under the same watermark and commit with the same manifest, so their
answers are as exactly-once as all others; the source is still read once.  Answers stay in Spark:
executors write them as Parquet, and the driver only makes the files durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.catalog import Registered
from headrace.families.plain.plan import Way, horizon_us, way_of
from headrace.runtime.answers import file_mark, plain_folder
from headrace.runtime.family import BAD, OK, Batch, Outcome, Place, Round
from headrace.runtime.faults import reason_of
from headrace.runtime.statistics import Stopwatch
from headrace.runtime.tables import TableState
from headrace.sql.emit import emit_query
from headrace.sql.query import Query

VIEW = "headrace_rows"


class PlainFamily:
    name = "plain"

    def open(self, place: Place) -> PlainWork:
        return PlainWork(place)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A round of the row log."""

    round_id: int
    newest_us: int | None


class PlainWork:
    """Plain queries of one stream or table."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._queries: dict[int, Registered] = {}
        self._since: dict[int, int | None] = {}
        self._table = TableState(place) if place.relation.is_table else None
        self._log, self._rows_kept = self._restore()

    @property
    def reads_rows(self) -> bool:
        return bool(self._queries) or self._table is not None

    def replan(self, queries: Sequence[Registered]) -> None:
        self._queries = {r.id: r for r in queries}
        for gone in self._since.keys() - self._queries.keys():
            del self._since[gone]
        for new in self._queries.keys() - self._since.keys():
            self._since[new] = self._covered_from()

    def round(self, batch: Batch, round: Round, watch: Stopwatch) -> Outcome:
        outcome = Outcome()
        if not self.reads_rows:
            return outcome
        with watch.stage("plain"):
            disk, folder = self._place.disk, plain_folder(self._place.folder, round.id)
            disk.clear(folder)
            rows = self._keep_rows(batch, round, outcome)
            for query_id, registered in self._queries.items():
                frame = self._frame(registered, batch, rows, round)
                if frame is not None:
                    self._write(frame, f"{folder}/{query_id}", query_id, outcome)
            self._let_go(round, outcome)
        return outcome

    # -- answers ------------------------------------------------------------------------------------

    def _frame(self, registered: Registered, batch: Batch, rows: DataFrame | None, round: Round) -> DataFrame | None:
        """The query's answers of this round, as a DataFrame; None when it has none."""
        query, relation = registered.query, self._place.relation
        way = way_of(query, relation)
        if way is Way.EACH:
            good = batch.frame.where(f"({batch.kind()}) <> {BAD}")
            return self._select(good, query)
        if rows is None or (way is Way.CURRENT and not round.census.rows):
            return None
        if way is Way.CURRENT:
            return self._select(rows, query)
        return self._closed(rows, registered, round)

    def _closed(self, rows: DataFrame, registered: Registered, round: Round) -> DataFrame | None:
        """Windows this round closes whose rows are all kept."""
        query, relation = registered.query, self._place.relation
        before, after = round.watermark_before_us, round.watermark_us
        assert query.window is not None
        if after is None or (before is not None and after // query.window.grain_us == before // query.window.grain_us):
            return None
        tests = [f"unix_micros(window_end) <= {after}L"]
        if before is not None:
            rows = rows.where(f"unix_micros(`{relation.time}`) >= {before - query.window.range_us}L")
            tests.append(f"unix_micros(window_end) > {before}L")
        since = self._since[registered.id]
        if since is not None:
            tests.append(f"unix_micros(window_start) >= {since}L")
        return self._select(rows, query, " AND ".join(tests))

    def _select(self, rows: DataFrame, query: Query, where: str | None = None) -> DataFrame:
        rows.createOrReplaceTempView(VIEW)
        sql = emit_query(query, self._place.relation, VIEW)
        answer = rows.sparkSession.sql(sql if where is None else f"SELECT * FROM ({sql}) WHERE {where}")
        # generic names: a user's name may hold what Parquet does not take
        return answer.toDF(*(f"c{i}" for i in range(len(answer.columns))))

    def _write(self, frame: DataFrame, folder: str, query_id: int, outcome: Outcome) -> None:
        disk = self._place.disk
        try:
            frame.write.mode("overwrite").parquet(str(disk.root.absolute() / folder))
        except PySparkException as error:
            disk.clear(folder)
            outcome.faults[query_id] = reason_of(error)
            return
        paths = disk.adopt(folder)
        outcome.files += [file_mark(disk, path) for path in paths]
        outcome.answers += sum(pq.read_metadata(disk.root / path).num_rows for path in paths)

    # -- the row log ----------------------------------------------------------------------------------

    def _keep_rows(self, batch: Batch, round: Round, outcome: Outcome) -> DataFrame | None:
        """All rows the stateful queries need, this round's included."""
        spark = batch.frame.sparkSession
        if self._table is not None:
            return self._table.upsert(batch, round, outcome)
        ways = {way_of(r.query, self._place.relation) for r in self._queries.values()}
        if not ways - {Way.EACH}:
            return None
        fields = [f"`{f.name}`" for f in self._place.relation.fields]
        good = batch.frame.where(f"({batch.kind()}) = {OK}").select(*fields)
        if round.census.rows:
            self._log_rows(good, round, outcome)
        return self._read_rows(spark)

    def _log_rows(self, good: DataFrame, round: Round, outcome: Outcome) -> None:
        disk, folder = self._place.disk, f"{self._place.folder}/rows/{round.id:012d}"
        disk.clear(folder)
        good.write.mode("overwrite").parquet(str(disk.root.absolute() / folder))
        paths = disk.adopt(folder)
        outcome.files += [file_mark(disk, path) for path in paths]
        self._log.append(_Kept(round.id, round.newest_us))
        self._rows_kept += sum(pq.read_metadata(disk.root / path).num_rows for path in paths)
        self._check_limit(outcome)

    def _read_rows(self, spark: SparkSession) -> DataFrame:
        root = self._place.disk.root.absolute() / self._place.folder / "rows"
        reader = spark.read.schema(self._place.relation.ddl())
        if not self._log:
            return spark.createDataFrame([], self._place.relation.ddl())
        return reader.parquet(*(str(root / f"{k.round_id:012d}") for k in self._log))

    def _check_limit(self, outcome: Outcome) -> None:
        limit = self._place.config.plain_rows_max
        if self._rows_kept <= limit:
            return
        for query_id, registered in self._queries.items():
            if way_of(registered.query, self._place.relation) is not Way.EACH:
                outcome.faults[query_id] = (
                    f"it needs {self._rows_kept:,} rows kept, the limit plain_rows_max is {limit:,}; "
                    "use a shorter window, or raise the limit"
                )

    def _let_go(self, round: Round, outcome: Outcome) -> None:
        """Forget rounds of the row log that no query needs."""
        if self._table is not None:
            return
        stateful = [r.query for r in self._queries.values() if way_of(r.query, self._place.relation) is not Way.EACH]
        horizon = horizon_us(stateful, self._place.relation, round.watermark_us)
        while self._log and (not stateful or (horizon is not None and (self._log[0].newest_us or 0) < horizon)):
            del self._log[0]
        outcome.keep["rows"] = self._log[0].round_id if self._log else round.id + 1

    def _covered_from(self) -> int | None:
        """The time from which the log has all rows; None when it has all there ever were."""
        ledger = self._place.ledger
        logged = {k.round_id for k in self._log}
        for round_id in reversed(ledger.rounds):
            manifest = ledger.read(round_id)
            if round_id not in logged and manifest.stats.get("rows") and manifest.newest_us is not None:
                return manifest.newest_us + 1
        return None

    def _restore(self) -> tuple[list[_Kept], int]:
        ledger = self._place.ledger
        first = ledger.newest.keep.get("rows", 0) if ledger.newest else 0
        log, rows = [], 0
        for round_id in ledger.rounds:
            manifest = ledger.read(round_id) if round_id >= first else None
            marks = [m for m in manifest.files if "/rows/" in m.path] if manifest else []
            for mark in marks:
                ledger.check(mark)
                rows += pq.read_metadata(self._place.disk.root / mark.path).num_rows
            if marks and manifest is not None:
                log.append(_Kept(round_id, manifest.newest_us))
        return log, rows
