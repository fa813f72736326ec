"""Benchmark `windows`: 1,000 and 10,000 distinct window queries, against plain Spark running one of them.

Same files, same trigger (one file a round), same Spark session; each drains the files from a cold
checkpoint, answers written to disk included.  The peer is Structured Streaming as one would write it:
the query's own SQL over a watermarked stream, appended to Parquet.  Which of the queries the peer runs
matters, since plain Spark expands every row r/s times: it is given a tumbling one, the cheapest kind,
and one of median overlap.
"""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from headrace.bench import market
from headrace.bench.feed import write_file
from headrace.bench.report import Figure, Report
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import make_session
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 7
ROWS_PER_SECOND = 50_000
SECONDS_PER_FILE = 4
FILES = {True: 12, False: 60}
SIZES = (1_000, 10_000)
WANTED = {1_000: 0.9, 10_000: 0.7}
WARM_FILES = 2

Tell = Callable[[str], None]


class Measured:
    """Seconds of a drain, and of its rounds by stage."""

    def __init__(self, seconds: float, rounds: list[dict[str, float]]) -> None:
        self.seconds = seconds
        self.rounds = rounds

    def stage_s(self, name: str) -> float:
        return median([stages.get(name, 0.0) for stages in self.rounds]) if self.rounds else 0.0


def run(quick: bool, tell: Tell) -> Report:
    files = FILES[quick]
    rows = files * SECONDS_PER_FILE * ROWS_PER_SECOND
    texts = market.queries(np.random.default_rng(SEED), max(SIZES))
    spark = make_session(Config.from_environment())
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as made:
            bench = Bench(spark, Path(made), tell)
            bench.prepare(files)
            peers = {kind: bench.peer(kind, sql) for kind, sql in choose_peers(texts).items()}
            ours = {size: bench.ours(dict(list(texts.items())[:size])) for size in SIZES}
    finally:
        spark.stop()
    figures = list(figures_of(rows, peers, ours))
    return Report(
        f"{rows:,} rows in {files} rounds, {os.cpu_count()} cores",
        tuple(figures),
        plot(rows, peers, ours),
        machine(files),
    )


class Bench:
    """The files, and the two ways to drain them."""

    def __init__(self, spark: SparkSession, folder: Path, tell: Tell) -> None:
        self._spark = spark
        self._folder = folder
        self._tell = tell

    def prepare(self, files: int) -> None:
        self._tell(f"writing {files} files of trades")
        walking = market.Market(np.random.default_rng(SEED))
        for number in range(files):
            start_us = market.START_US + number * SECONDS_PER_FILE * US_PER_S
            table = walking.trades(start_us, SECONDS_PER_FILE, ROWS_PER_SECOND)
            write_file(self._folder / "trades", number, table)
            if number < WARM_FILES:
                write_file(self._folder / "warm", number, table)
        self._tell("warming up")
        warm = market.queries(np.random.default_rng(SEED + 1), 20)
        self._drain_peer("warm", "warm", next(iter(warm.values())))
        self._drain_ours("warm", warm)

    def peer(self, kind: str, sql: str) -> float:
        self._tell(f"plain Spark, one query ({kind})")
        return self._drain_peer("trades", kind, sql)

    def ours(self, queries: dict[str, str]) -> Measured:
        self._tell(f"Headrace, {len(queries):,} queries")
        return self._drain_ours("trades", queries)

    def _drain_peer(self, data: str, name: str, sql: str) -> float:
        session = self._spark.newSession()
        stream = session.readStream.schema(market.SCHEMA).option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(self._folder / data)).withWatermark(market.TIME, market.LATE)
        frame.createOrReplaceTempView("trades")
        writer = session.sql(sql).writeStream.outputMode("append").format("parquet")
        writer = writer.option("checkpointLocation", str(self._folder / f"peer-{data}-{name}" / "checkpoint"))
        began = perf_counter()
        writer.trigger(availableNow=True).start(str(self._folder / f"peer-{data}-{name}" / "out")).awaitTermination()
        return perf_counter() - began

    def _drain_ours(self, data: str, queries: dict[str, str]) -> Measured:
        home = self._folder / f"ours-{data}-{len(queries)}"
        with Engine(home, spark=self._spark) as engine:
            source = f"parquet:{self._folder / data}?maxFilesPerTrigger=1"
            engine.create_stream("trades", source, schema=market.SCHEMA, time=market.TIME, late=market.LATE)
            engine.add_many(queries)
            began = perf_counter()
            engine.run()
            seconds = perf_counter() - began
            return Measured(seconds, [dict(stats.seconds) for stats in engine.statistics()])


def choose_peers(texts: dict[str, str]) -> dict[str, str]:
    """Grouped by symbol, no HAVING: a tumbling window, and one of median overlap."""
    plain = [sql for sql in texts.values() if "GROUP BY symbol, window(" in sql and "HAVING" not in sql]
    tumbling = next(sql for sql in plain if overlap(sql) == 1)
    ordered = sorted(plain, key=overlap)
    return {"tumbling": tumbling, "median overlap": ordered[len(ordered) // 2]}


_UNITS_S = {"second": 1, "minute": 60, "hour": 3600}


def overlap(sql: str) -> float:
    """r/s: into how many windows a row falls."""
    spans = [
        int(n) * _UNITS_S[unit]
        for n, unit in re.findall(r"'(\d+) (second|minute|hour)s?'", sql.partition("window(")[2])
    ]
    return spans[0] / spans[-1]


def figures_of(rows: int, peers: dict[str, float], ours: dict[int, Measured]) -> list[Figure]:
    found = [Figure(f"spark_{kind.replace(' ', '_')}_rows_per_s", rows / s, "rows/s") for kind, s in peers.items()]
    for size, measured in ours.items():
        wanted = f"want ≥ {WANTED[size]}"
        found.append(Figure(f"headrace_{size}_rows_per_s", rows / measured.seconds, "rows/s"))
        for kind, seconds in peers.items():
            name = f"headrace_{size}_to_spark_{kind.replace(' ', '_')}"
            found.append(Figure(name, seconds / measured.seconds, "×", note=wanted))
        found.append(Figure(f"headrace_{size}_round_s", measured.stage_s("total"), "s", note="median; want < 1"))
        found.append(Figure(f"headrace_{size}_plan_ms", 1000 * max(s.get("plan", 0.0) for s in measured.rounds), "ms"))
    return found


def plot(rows: int, peers: dict[str, float], ours: dict[int, Measured]) -> Path:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    bars = {f"Spark, 1 query\n({kind})": rows / s for kind, s in peers.items()}
    bars |= {f"Headrace,\n{size:,} queries": rows / measured.seconds for size, measured in ours.items()}
    figure, axes = pyplot.subplots(figsize=(7, 4))
    colours = ["#c07a2c"] * len(peers) + ["#2f8f5b"] * len(ours)
    axes.bar(list(bars), [value / 1e6 for value in bars.values()], color=colours)
    axes.set_ylabel("million rows a second")
    figure.tight_layout()
    path = Path("bench") / "windows.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def machine(files: int) -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "files": str(files),
        "seed": str(SEED),
    }
