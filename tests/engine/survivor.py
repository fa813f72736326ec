"""A run that may be killed anywhere: a fixed list of steps over one folder, resumed where the home
says it stopped.

Every catalog change is one record of the catalog log, so the catalog's version tells which steps
are done. As a script (`python survivor.py FOLDER FORM [wait]`) it is the child that the survival
tests kill; with `wait` it starts Spark, and goes on when its input ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.runtime.answers import AnswerLog
from headrace.runtime.ledger import Ledger
from headrace.runtime.session import make_session
from headrace.sql.bind import bind
from tests.streams import EPOCH_US, write_file

DDL = "k STRING, x DOUBLE, n INT, ts TIMESTAMP"
FILE_US = 10_000_000
LATE_US = 5_000_000
ROWS = 60
CONFIG = Config.of(master="local[2]", driver_memory="1g")


@dataclass(frozen=True)
class Add:
    """Register queries: one record of the log."""

    queries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Drop:
    name: str


@dataclass(frozen=True)
class Read:
    """Let the source folder hold this many files, and answer them."""

    files: int


Step = Add | Drop | Read

SUMS = (
    "SELECT k, sum(x) AS s, avg(x) AS a FROM s GROUP BY k, window(ts, '20 seconds', '10 seconds')"
)
BRIEF = "SELECT k, sum(x) AS s FROM s GROUP BY k, window(ts, '5 seconds')"
LOWS = "SELECT min(x) AS lo, max(n) AS hi, count(*) AS c FROM s WHERE n > 0 GROUP BY window(ts, '10 seconds')"
DEVIATIONS = "SELECT k, stddev(x) AS d FROM s GROUP BY k, window(ts, '30 seconds', '10 seconds') HAVING count(*) > 3"
EACH = "SELECT upper(k) AS k, x, ts FROM s WHERE x > 80"
KINDS = "SELECT count(DISTINCT k) AS kinds, min(k) AS lo, max(x) AS hi FROM s GROUP BY window(ts, '15 seconds')"
ODD = "SELECT sum(n) AS t, variance(x) AS v FROM s GROUP BY window(ts, '7 seconds')"
BUSY = "SELECT k, avg(n) * 2 + 1 AS m FROM s WHERE x > 20 GROUP BY k, window(ts, '20 seconds') HAVING avg(x) > 30"
SO_FAR = "SELECT k, count(*) AS c, sum(n) AS t FROM s GROUP BY k"
MEDIAN = "SELECT percentile(n, 0.5) AS p FROM s GROUP BY window(ts, '10 seconds')"

SHORT: tuple[Step, ...] = (
    Add((("sums", SUMS), ("deviations", DEVIATIONS), ("each", EACH), ("so_far", SO_FAR))),
    Read(2),
    Add((("lows", LOWS), ("kinds", KINDS))),
    Drop("sums"),
    Read(4),
    Add((("sums", BRIEF),)),
    Read(6),
)
LONG: tuple[Step, ...] = (
    Add(
        (
            ("sums", SUMS),
            ("lows", LOWS),
            ("deviations", DEVIATIONS),
            ("each", EACH),
            ("kinds", KINDS),
            ("so_far", SO_FAR),
        )
    ),
    Read(4),
    Add((("odd", ODD), ("busy", BUSY))),
    Drop("lows"),
    Read(7),
    Add((("lows", LOWS), ("median", MEDIAN))),
    Drop("deviations"),
    Drop("kinds"),
    Read(10),
    Add((("kinds", KINDS),)),
    Drop("odd"),
    Read(14),
)
FORMS = {"short": SHORT, "long": LONG, "shards": SHORT, "handed": LONG}
CONFIGS = {
    "shards": replace(CONFIG, driver_state_bytes_max=0, shards=2),
    "handed": replace(CONFIG, driver_state_bytes_max=1, shards=3),
}
"""Of the forms whose windows are in shards: from the first round on, or after some."""


def rows_of(index: int) -> pa.Table:
    """File `index`: ten seconds of rows, out of order by less than the lateness, with nulls."""
    r = Random(index)
    start = EPOCH_US + index * FILE_US
    times = [
        start + i * FILE_US // ROWS - r.choice([0, 0, r.randrange(LATE_US - 1_000_000)])
        for i in range(ROWS)
    ]
    return pa.table(
        {
            "k": pa.array([r.choice(["a", "b", "c", "ü", None]) for _ in times], pa.string()),
            "x": pa.array(
                [None if r.random() < 0.1 else round(r.uniform(0, 100), 3) for _ in times],
                pa.float64(),
            ),
            "n": pa.array([r.randint(-5, 20) for _ in times], pa.int32()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def survive(folder: Path, form: str, spark: SparkSession | None = None) -> None:
    """All steps that the home does not have yet, in order."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    config = CONFIGS.get(form, CONFIG)
    with headrace.Engine(folder / "race", spark=spark, config=config) as eng:
        source = f"parquet:{folder / 'src'}?maxFilesPerTrigger=1"
        eng.create_stream("s", source, schema=DDL, time="ts", late=f"{LATE_US} microseconds")
        for step in to_do(FORMS[form], eng.catalog.version - 1):
            match step:
                case Add(queries):
                    eng.add_many(dict(queries))
                case Drop(name):
                    eng.drop(name)
                case Read(files):
                    _reveal(folder / "src", files)
                    eng.run()
    (folder / "done").touch()


def to_do(steps: Sequence[Step], changes: int) -> Iterator[Step]:
    """The steps after the first `changes` catalog changes."""
    for step in steps:
        if changes > 0:
            changes -= not isinstance(step, Read)
        else:
            yield step


def _reveal(folder: Path, files: int) -> None:
    for index in range(files):
        if not (folder / f"{index:06d}.parquet").exists():
            write_file(folder, index, rows_of(index))


def answers_by_id(race: Path, form: str) -> dict[int, list[dict[str, Any]]]:
    """Every committed answer of every query there ever was, dropped ones too, by query id; no
    JVM."""
    eng = headrace.Engine(race)
    log = AnswerLog(eng.home.disk, Ledger(eng.home.disk, eng.home.stream_folder("s")))
    added = [q for step in FORMS[form] if isinstance(step, Add) for q in step.queries]
    found = {}
    for query_id, (name, sql) in enumerate(added, 1):
        query = bind(sql, eng.catalog.relations, name=name, config=eng.config)
        found[query_id] = [
            row for _, table in log.read_all(query_id, query) for row in table.to_pylist()
        ]
    return found


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if sys.argv[3:] == ["wait"]:
        make_session(CONFIG)
        sys.stdin.read()
    survive(Path(sys.argv[1]), sys.argv[2])
