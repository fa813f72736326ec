"""A table: an upsert stream, latest row per key, kept as one snapshot a round.

A key whose latest row is a deletion is not in the snapshot; the next ordinary row brings it
back."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from headrace.quoting import quote_name
from headrace.runtime.answers import file_mark
from headrace.runtime.family import BAD, SNAPSHOT, Batch, Outcome, Place, Round
from headrace.runtime.sources import ARRIVAL

NUMBER, ROW = "_headrace_number", "_headrace_row"


class TableState:
    """The newest snapshot, as Spark wrote it.  Later files win over earlier, later rows over
    earlier ones."""

    def __init__(self, place: Place) -> None:
        self._place = place
        ledger = place.ledger
        self._snapshot: int | None = None
        if ledger.newest is not None and SNAPSHOT in ledger.newest.keep:
            self._snapshot = ledger.newest.keep[SNAPSHOT]
            for mark in ledger.read(self._snapshot).files:
                if "/table/" in mark.path:
                    ledger.check(mark)

    def upsert(self, batch: Batch, round: Round, outcome: Outcome) -> DataFrame | None:
        """The table with this round's rows; None while there never was one."""
        spark = batch.frame.sparkSession
        if round.census.rows:
            merged = self._live(self.upserted(batch))
            folder = self._folder(round.id)
            disk = self._place.disk
            disk.clear(folder)
            merged.write.mode("overwrite").parquet(str(disk.root.absolute() / folder))
            outcome.files += [file_mark(disk, path) for path in disk.adopt(folder)]
            self._snapshot = round.id
        if self._snapshot is None:
            return None
        outcome.keep[SNAPSHOT] = self._snapshot
        return self._read(spark, self._snapshot)

    def upserted(self, batch: Batch) -> DataFrame:
        """The last row of each key with this round, its deletions among them."""
        latest = latest_rows(batch)
        if self._snapshot is None:
            return latest
        old = self._read(batch.frame.sparkSession, self._snapshot)
        same = " AND ".join(
            f"old.{k} <=> new.{k}" for k in map(quote_name, self._place.relation.key)
        )
        return (
            old.alias("old").join(latest.alias("new"), expr(same), "left_anti").unionByName(latest)
        )

    def _live(self, rows: DataFrame) -> DataFrame:
        """Deletions are not kept: they have hidden the old rows of their keys."""
        deleted = self._place.relation.deleted
        return (
            rows if deleted is None else rows.where(f"NOT coalesce({quote_name(deleted)}, false)")
        )

    def _read(self, spark: SparkSession, round_id: int) -> DataFrame:
        path = self._place.disk.root.absolute() / self._folder(round_id)
        return spark.read.schema(self._place.relation.ddl()).parquet(str(path))

    def _folder(self, round_id: int) -> str:
        return f"{self._place.folder}/table/{round_id:012d}"


def latest_rows(batch: Batch) -> DataFrame:
    """The last row of each key in a round, deletions among them."""
    relation = batch.relation
    fields = [quote_name(f.name) for f in relation.fields]
    arrival = [quote_name(ARRIVAL)] if ARRIVAL in batch.frame.columns else []
    good = batch.frame.where(f"({batch.kind()}) <> {BAD}")
    new = good.selectExpr(
        *fields, f"struct({', '.join([*arrival, 'monotonically_increasing_id()'])}) AS {NUMBER}"
    )
    keys = [quote_name(k) for k in relation.key]
    rows = new.selectExpr(*keys, f"struct({', '.join(fields)}) AS {ROW}", NUMBER)
    return rows.groupBy(*keys).agg(expr(f"max_by({ROW}, {NUMBER}) AS {ROW}")).select(f"{ROW}.*")
