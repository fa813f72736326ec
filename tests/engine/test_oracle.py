"""The promise: every closed window has the answer Spark's own batch SQL gives over the same rows.

Rows and sets of window queries are drawn (`random_windows.py`), rows cut into files, one a round;
every query of a set runs in one engine, which may be closed and opened again between two rounds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.families.windows.aggregation import sending
from headrace.sql.emit import emit_query
from tests.engine.random_windows import DDL, draw_set, draw_stream
from tests.streams import Stream, as_oracle, canonical, same_rows, write_file


def check_set(
    spark: SparkSession,
    stream: Stream,
    sqls: list[str],
    restart_after: int | None = None,
    config: Config | None = None,
) -> None:
    """One engine answers all; Spark answers each.  The engine is opened again after so many
    files."""
    with tempfile.TemporaryDirectory() as folder:
        eng, names = _run(spark, Path(folder), stream, sqls, restart_after, config)
        closed = stream.closed_us()
        pq.write_table(stream.counted(), Path(folder) / "rows.parquet")
        spark.read.schema(DDL).parquet(str(Path(folder) / "rows.parquet")).createOrReplaceTempView(
            "s"
        )
        for name, sql in zip(names, sqls, strict=True):
            with as_oracle(spark, is_compiled=False):
                theirs = spark.sql(spark_sql(eng, name, sql)).toArrow()
            columns = [c for c in theirs.column_names if not c.startswith("window_")]
            done = [
                r
                for r in canonical(theirs, columns)
                if closed is not None and micros(r[-1]) <= closed
            ]
            ours = canonical(eng.results(name), columns)
            keys = [i for i, c in enumerate(columns) if c.startswith("k")]
            is_same = same_rows(ours, done) and _zeros(ours, keys) == _zeros(done, keys)
            assert is_same, f"{sql}\nours:  {ours}\nspark: {done}\n{eng.explain(name)}"
        quarantined = [q.reason for q in eng.queries() if q.state != "live"]
        assert not quarantined, quarantined


def _run(
    spark: SparkSession,
    folder: Path,
    stream: Stream,
    sqls: list[str],
    restart_after: int | None,
    config: Config | None,
) -> tuple[headrace.Engine, list[str]]:
    (folder / "src").mkdir()
    eng: headrace.Engine | None = None
    names: list[str] = []
    done = 0
    for until in (
        (len(stream.files),) if restart_after is None else (restart_after, len(stream.files))
    ):
        if eng is not None:
            eng.close()
        eng = headrace.Engine(folder / "race", spark=spark, config=config)
        eng.create_stream(
            "s",
            f"parquet:{folder / 'src'}?maxFilesPerTrigger=1",
            schema=DDL,
            time="ts",
            late=f"{stream.late_us} microseconds",
        )
        names = names or [eng.add(sql) for sql in sqls]
        for index in range(done, until):
            write_file(folder / "src", index, stream.files[index])
        eng.run()
        done = until
    assert eng is not None
    return eng, names


def micros(time: Any) -> int:
    return int(pa.scalar(time, pa.timestamp("us", "UTC")).value)


def _zeros(answers: list[tuple[Any, ...]], places: list[int]) -> list[str]:
    """Signs of the zeros in these columns: keys have one of them only."""
    return sorted(repr(answer[i]) for answer in answers for i in places if answer[i] == 0)


def spark_sql(eng: headrace.Engine, name: str, sql: str) -> str:
    """The user's own text; Spark itself refuses windows with gaps, there we ask it with a filter
    instead."""
    query = eng.catalog.query(name).query
    assert query.window is not None
    if query.window.slide_us <= query.window.range_us:
        return sql
    return emit_query(query, eng.catalog.relation("s"), "s")


def check_seed(
    spark: SparkSession, seed: int, count: int | None = None, config: Config | None = None
) -> int:
    """How many queries were right."""
    r = Random(seed)
    stream = draw_stream(r)
    sqls = draw_set(r, count)
    restart_after = r.randint(0, len(stream.files) - 1) if r.random() < 0.3 else None
    # rows sent as they are, sometimes, never
    with patch.object(sending, "SHARE_MIN", r.choice([0.0, 0.6, 2.0])):
        check_set(spark, stream, sqls, restart_after, config)
    return len(sqls)


QUICK = settings(max_examples=3, deadline=None, phases=[Phase.generate])
LONG = settings(max_examples=60, deadline=None, phases=[Phase.generate])
SEEDS = st.integers(0, 2**32)


@QUICK
@given(seed=SEEDS)
def test_every_closed_window_is_sparks_answer(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed)


@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS, shards=st.integers(1, 4), limit=st.integers(0, 1))
def test_windows_in_shards_are_sparks_answer(
    spark: SparkSession, seed: int, shards: int, limit: int
) -> None:
    """From the first round on, or once the driver holds something."""
    check_seed(spark, seed, config=in_shards(shards, limit))


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@LONG
@given(seed=SEEDS, shards=st.integers(1, 4), limit=st.integers(0, 1))
def test_windows_in_shards_are_sparks_answer_long(
    spark: SparkSession, seed: int, shards: int, limit: int
) -> None:
    check_seed(spark, seed, config=in_shards(shards, limit))


def in_shards(shards: int, limit: int) -> Config:
    small = (0, Config().one_task_bytes_max)[shards % 2]
    return Config.of(driver_state_bytes_max=limit, shards=shards, one_task_bytes_max=small)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@LONG
@given(seed=SEEDS)
def test_every_closed_window_is_sparks_answer_long(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed)
