"""Memory stays flat: 500 rounds, queries with long and short windows, new groups coming and old
ones leaving."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from tests.streams import EPOCH_US, write_file

ROUNDS = 500
ROWS = 400
SETTLED = 150  # by then the longest window is full and the JVM has compiled what it runs
DDL = "k STRING, user BIGINT, x DOUBLE, ts TIMESTAMP"


def rows_of(index: int, rng: np.random.Generator) -> pa.Table:
    """Two seconds of rows; users come and go."""
    times = EPOCH_US + index * 2_000_000 + np.sort(rng.integers(0, 2_000_000, ROWS))
    return pa.table(
        {
            "k": np.array(["a", "b", "c", "d"])[rng.integers(0, 4, ROWS)],
            "user": index * 20 + rng.integers(0, 60, ROWS),
            "x": rng.normal(0, 1, ROWS),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def used_mb(spark: SparkSession) -> tuple[float, float]:
    """Resident memory of Python, and what lives on the JVM's heap after a collection."""
    gc.collect()
    jvm = spark._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return psutil.Process().memory_info().rss / 1e6, (
        runtime.totalMemory() - runtime.freeMemory()
    ) / 1e6


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_is_flat_over_500_rounds(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for index in range(ROUNDS):
        write_file(tmp_path / "src", index, rows_of(index, rng))
    eng = headrace.Engine(tmp_path / "race", spark=spark)
    eng.create_stream(
        "s",
        f"parquet:{tmp_path / 'src'}?maxFilesPerTrigger=1",
        schema=DDL,
        time="ts",
        late="2 seconds",
    )
    eng.add_many(
        {
            f"q{size}_{slide}_{i}": f"SELECT {key}, {what} AS v FROM s WHERE x > {limit} "
            f"GROUP BY {key}, window(ts, '{size} seconds', '{slide} seconds')"
            for i, (key, what, limit) in enumerate(
                [("k", "avg(x)", -9), ("k", "max(x)", 0), ("user", "sum(x)", -9)]
            )
            for size, slide in ((10, 2), (60, 10), (200, 20))
        }
    )
    eng.start()
    seen: dict[int, tuple[float, float]] = {}
    for goal in (SETTLED, ROUNDS):
        while len(eng.statistics()) < goal and eng.is_running:
            eng._pipelines.signal.arm()(1)
        seen[goal] = used_mb(spark)
    eng.stop()
    (python, jvm), (python_end, jvm_end) = seen[SETTLED], seen[ROUNDS]
    print(f"python {python:.0f} → {python_end:.0f} MB, JVM heap {jvm:.0f} → {jvm_end:.0f} MB")
    assert python_end < python + 40, "Python grew"
    assert jvm_end < jvm + 40, "the JVM's heap grew"
