"""The runtime counts the rows of a round, as the aggregate of windows does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.runtime.census import VIEW, count_rows
from headrace.runtime.family import BEYOND, CORRUPT, Batch
from headrace.runtime.statistics import Census
from headrace.values import BIGINT, STRING, TIMESTAMP, Field, Relation

STREAM = Relation("s", "", (Field("v", BIGINT), Field("ts", TIMESTAMP)), "ts")
TABLE = Relation("t", "", (Field("v", BIGINT),), key=("v",))
S = 1_000_000


@pytest.mark.parametrize("is_small", [False, True])
def test_rows_by_kind(spark: SparkSession, is_small: bool) -> None:
    """A row that is bad has no say in the newest time; a late one, and one without a time, count
    as such."""
    rows = [
        "(1, timestamp_seconds(100), NULL, false)",
        "(2, timestamp_seconds(90), NULL, false)",
        "(3, timestamp_seconds(10), NULL, false)",
        "(4, NULL, NULL, false)",
        "(5, timestamp_seconds(900), 'torn', false)",
        "(6, NULL, NULL, true)",
    ]
    names = f"v, ts, {CORRUPT}, {BEYOND}"
    frame = spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS r({names})")
    batch = Batch(frame, STREAM, 50 * S, True, True, is_small)
    assert count_rows(batch) == Census(6, 1, 1, 2, 100 * S)


def test_no_rows_and_no_time(spark: SparkSession) -> None:
    empty = spark.sql("SELECT 1L AS v, current_timestamp() AS ts WHERE false")
    assert count_rows(Batch(empty, STREAM, None)) == Census()
    assert count_rows(Batch(spark.range(7).toDF("v"), TABLE, None)) == Census(7)


def test_only_the_time_is_read_of_files_and_a_small_round_is_one_task(
    spark: SparkSession, tmp_path: Path
) -> None:
    times = pa.array([S, 2 * S], pa.timestamp("us", "UTC"))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": [1, 2], "k": ["a", "b"], "ts": times}), path)
    relation = Relation("s", "", (*STREAM.fields, Field("k", STRING)), "ts")
    frame = spark.read.schema(relation.ddl()).parquet(str(path))
    assert count_rows(Batch(frame, relation, None, is_small=True)) == Census(2, newest_us=2 * S)
    counted = spark.sql(f"SELECT count(1), max(ts) FROM {VIEW} GROUP BY ts IS NULL")
    plan = counted._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<ts:timestamp>" in plan and "Exchange" not in plan
