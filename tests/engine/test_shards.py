"""Windows in shards have the answers of windows that the driver holds, and of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from tests.streams import EPOCH_US, write_file

DDL = "k BIGINT, side STRING, x DOUBLE, n INT, ts TIMESTAMP"
SHARDED = Config.of(driver_state_bytes_max=0, shards=3)
QUERIES = {
    "sums": "SELECT k, sum(x) AS s, count(*) AS c FROM s GROUP BY k, window(ts, '20 seconds', '10 seconds')",
    "alerts": "SELECT k, side, avg(n) AS a FROM s WHERE n > 2 GROUP BY k, side, window(ts, '10 seconds') HAVING count(*) > 1",
    "odd": "SELECT k, max(x) - min(x) AS gap FROM s WHERE k % 3 = 0 GROUP BY k, window(ts, '30 seconds', '10 seconds')",
    "sides": "SELECT side, stddev(x) AS d FROM s GROUP BY side, window(ts, '10 seconds')",
    "all": "SELECT count(DISTINCT k) AS kinds FROM s GROUP BY window(ts, '20 seconds', '10 seconds')",
}


def rows_of(index: int, groups: int = 200, rows: int = 600) -> pa.Table:
    """Ten seconds of rows; some are late, some groups come and go, some keys are null."""
    ids = range(rows)
    start = EPOCH_US + index * 10_000_000
    keys = [None if i % 97 == 5 else (i * 7919 + index * 13) % groups + index * 10 for i in ids]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "side": pa.array([["buy", "sell", None][(i + index) % 3] for i in ids]),
            "x": pa.array([((i * 31 + index) % 1000) / 8 for i in ids]),
            "n": pa.array([i % 11 - 2 for i in ids], pa.int32()),
            "ts": pa.array(
                [start + i * 10_000_000 // rows - (40_000_000 if i % 50 == 3 else 0) for i in ids],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


class Race:
    """One home, fed file by file."""

    def __init__(self, spark: SparkSession, folder: Path, config: Config) -> None:
        self.spark, self.folder, self.config, self.files = spark, folder, config, 0

    def open(self) -> headrace.Engine:
        eng = headrace.Engine(self.folder / "race", spark=self.spark, config=self.config)
        source = f"parquet:{self.folder / 'src'}?maxFilesPerTrigger=1"
        eng.create_stream("s", source, schema=DDL, time="ts", late="2 seconds")
        return eng

    def feed(self, files: int) -> None:
        for _ in range(files):
            write_file(self.folder / "src", self.files, rows_of(self.files))
            self.files += 1


def answers(eng: headrace.Engine, names: Any) -> dict[str, list[Any]]:
    return {
        name: sorted(map(repr, (r.values() for r in eng.results(name).to_pylist())))
        for name in names
    }


def shards_of(eng: headrace.Engine) -> dict[str, Any]:
    found: dict[str, Any] = eng.statistics("s")[-1].figures["windows"]["shards"]
    return found


def test_shards_answer_as_the_driver_does(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for name, config in (("driver", Config()), ("shards", SHARDED)):
        race = Race(spark, tmp_path / name, config)
        race.feed(6)
        with race.open() as eng:
            eng.add_many(QUERIES)
            eng.run()
            found.append(answers(eng, QUERIES))
            if config is SHARDED:
                assert shards_of(eng)["queries"] == 3
                assert shards_of(eng)["keys"] == ["k"]
                assert shards_of(eng)["anew"] == 0
    assert found[0] == found[1]
    assert all(found[0].values())
