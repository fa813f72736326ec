"""Tables on Spark: the last row of each key of a round, and all rows of a table out of its row files.

A key whose latest row is a deletion is not in the table; the next ordinary row brings it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from headrace.quoting import quote_name
from headrace.relations.keeping import rows_there
from headrace.relations.row_files import RowFile
from headrace.relations.store import Store, worker_store
from headrace.runtime.cluster import on_workers
from headrace.runtime.family import BAD, Batch
from headrace.runtime.sources import ARRIVAL
from headrace.values import Relation

NUMBER, ROW = "_headrace_number", "_headrace_row"


def latest_rows(batch: Batch) -> DataFrame:
    """The last row of each key in a round, deletions among them: later files win over earlier,
    later rows over earlier ones."""
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


def table_frame(
    spark: SparkSession, root: Path, relation: Relation, files: Sequence[RowFile]
) -> DataFrame:
    """The rows of a table that is held by these files.  Executors read them, a file at a time."""
    if not files:
        return spark.createDataFrame([], relation.ddl())
    every, home, tasks = tuple(files), str(root.absolute()), len(files)
    columns = [f.name for f in relation.fields]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = worker_store(home, Store)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = rows_there(store, relation, every, every[number])
                numbered = found.select(columns).rename_columns(
                    [f"c{i}" for i in range(len(columns))]
                )
                yield from numbered.combine_chunks().to_batches()

    # columns are numbered: `mapInArrow` does not take every name
    kinds = ", ".join(f"c{i} {field.type}" for i, field in enumerate(relation.fields))
    cores = max(1, spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, tasks, 1, min(tasks, cores))
    return on_workers(numbers, read, kinds, root).toDF(*columns)
