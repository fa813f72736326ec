"""Benchmark `windows`: 1,000 and 10,000 distinct window queries, against plain Spark running one of
them.

Same files, same trigger (one file a round, as fast as it goes), same Spark; answers written to disk
included. The peer is Structured Streaming as one would write it: the query's own SQL over a
watermarked stream, appended to Parquet, with as many shuffle partitions as cores.  Which of the
queries the peer runs matters, since plain Spark expands every row r/s times: it is given a tumbling
one, the cheapest kind, and one of median overlap.  Headrace also chooses how Spark writes its
checkpoints (see `runtime/session.py`), which any Spark user could do: a third peer is the tumbling
query with that setting.  The targets are held against each; `ratio` is to the faster of the first
two.

Rows a second are those of whole cycles, from the end of one round to the end of the next, Spark's
own bookkeeping included.  A JVM compiles what it runs while it runs it, so every contestant first
drains WARM_FILES files unmeasured.  Machines drift: contestants take turns, PASSES times, and of
each drain the first WARM_ROUNDS rounds are left out, for all alike.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.bench import market
from headrace.bench.feed import write_file
from headrace.bench.plot import pyplot
from headrace.bench.report import Figure, Plot, Report, machine
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import borrow_session, make_session
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.statistics import RoundStats

SEED = 7
ROWS_PER_SECOND = 50_000
SECONDS_PER_FILE = 4
ROWS = ROWS_PER_SECOND * SECONDS_PER_FILE
FILES = {True: 10, False: 24}
PASSES = 3
WARM_FILES = 18
WARM_ROUNDS = 3
SIZES = (1_000, 10_000)
WANTED = {1_000: 0.9, 10_000: 0.7}
ROUND_S_MAX, PLAN_MS_MAX = 1.0, 50.0
LATE_QUERY = "SELECT symbol, avg(price) AS late FROM trades GROUP BY symbol, window(ts, '50 seconds', '25 seconds')"

TUNED = "tumbling tuned"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Drain:
    """Seconds of each measured cycle, and for ours the rounds and what one more query cost."""

    cycles_s: tuple[float, ...]
    rounds: tuple[RoundStats, ...] = ()
    add_ms: float = 0.0
    plan_ms: float = 0.0

    @staticmethod
    def together(drains: Sequence[Drain]) -> Drain:
        """Several passes as one."""
        return Drain(
            tuple(c for d in drains for c in d.cycles_s),
            tuple(r for d in drains for r in d.rounds),
            median([d.add_ms for d in drains]),
            median([d.plan_ms for d in drains]),
        )

    @property
    def rows_per_s(self) -> float:
        return ROWS / mean(self.cycles_s)

    def stage_s(self, name: str) -> float:
        return median([r.seconds.get(name, 0.0) for r in self.rounds])


def run(quick: bool, tell: Tell) -> Report:
    files = FILES[quick]
    texts = market.queries(np.random.default_rng(SEED), max(SIZES))
    spark = make_session(Config.from_environment())
    try:
        with tempfile.TemporaryDirectory(
            prefix="headrace-bench-", ignore_cleanup_errors=True
        ) as made:
            bench = Bench(spark, Path(made), tell)
            bench.prepare(max(files, WARM_FILES))
            chosen = choose_peers(texts)
            chosen[TUNED] = chosen["tumbling"]
            sized = {size: dict(list(texts.items())[:size]) for size in SIZES}
            bench.drain(chosen, sized, WARM_FILES)
            passes = [bench.drain(chosen, sized, files) for _ in range(PASSES)]
            peers = {kind: Drain.together([p[kind] for p, _ in passes]) for kind in chosen}
            ours = {size: Drain.together([o[size] for _, o in passes]) for size in sized}
    finally:
        spark.stop()
    title = f"{PASSES} × {files - WARM_ROUNDS} rounds of {ROWS:,} rows, {os.cpu_count()} cores"
    return Report(title, tuple(figures_of(peers, ours)), plot(peers, ours), machine(files, SEED))


class Bench:
    """The files, and the two ways to drain them."""

    def __init__(self, spark: SparkSession, folder: Path, tell: Tell) -> None:
        self._spark = spark
        self._folder = folder
        self._tell = tell
        self._market = market.Market(np.random.default_rng(SEED))

    def prepare(self, files: int) -> None:
        self._tell(f"writing {files} files of {ROWS:,} trades")
        for number in range(files):
            write_file(self._folder / "trades", number, self._trades(number))

    def _trades(self, number: int) -> pa.Table:
        start_us = market.START_US + number * SECONDS_PER_FILE * US_PER_S
        return self._market.trades(start_us, SECONDS_PER_FILE, ROWS_PER_SECOND)

    def drain(
        self, chosen: dict[str, str], sized: dict[int, dict[str, str]], files: int
    ) -> tuple[dict[str, Drain], dict[int, Drain]]:
        """Every contestant over the same files."""
        peers = {kind: self.peer(kind, sql, files) for kind, sql in chosen.items()}
        return peers, {size: self.ours(queries, files) for size, queries in sized.items()}

    def peer(self, kind: str, sql: str, files: int) -> Drain:
        """Plain Structured Streaming, one query."""
        self._tell(f"plain Spark, one query ({kind}), {files} files: {sql}")
        folder = Path(tempfile.mkdtemp(prefix="peer-", dir=self._folder))
        source = linked(self._folder / "trades", folder, files)
        config = Config.from_environment()
        session = borrow_session(self._spark, config) if kind == TUNED else self._spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", config.shuffle_partitions)
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", 10_000)
        stream = session.readStream.schema(market.SCHEMA).option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(source)).withWatermark(market.TIME, market.LATE)
        frame.createOrReplaceTempView("trades")
        writer = session.sql(sql).writeStream.outputMode("append").format("parquet")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
            availableNow=True
        )
        query = writer.start(str(folder / "out"))
        query.awaitTermination()
        progress = query.recentProgress
        starts = [
            datetime.fromisoformat(p["timestamp"]).timestamp()
            for p in progress
            if p["numInputRows"]
        ]
        ends = [*starts[1:], starts[-1] + progress[len(starts) - 1]["batchDuration"] / 1000]
        return Drain(tuple(e - s for s, e in zip(starts, ends, strict=True))[WARM_ROUNDS:])

    def ours(self, queries: dict[str, str], files: int) -> Drain:
        """All queries in one engine; then one more query and one more file."""
        self._tell(f"Headrace, {len(queries):,} queries, {files} files")
        folder = Path(tempfile.mkdtemp(prefix="ours-", dir=self._folder))
        source = linked(self._folder / "trades", folder, files)
        with Engine(folder / "race", spark=self._spark) as engine:
            engine.create_stream(
                "trades",
                f"parquet:{source}?maxFilesPerTrigger=1",
                schema=market.SCHEMA,
                time=market.TIME,
                late=market.LATE,
            )
            engine.add_many(queries)
            engine.start()
            rounds = tuple(wait_for_rounds(engine, files))
            began = perf_counter()
            engine.add(LATE_QUERY, name="late_comer")
            add_ms = 1000 * (perf_counter() - began)
            write_file(source, files, self._trades(files))
            last = wait_for_rounds(engine, files + 1)[-1]
            engine.stop()
        measured = rounds[WARM_ROUNDS:]
        return Drain(
            tuple(r.cycle_s for r in measured), measured, add_ms, 1000 * last.seconds["plan"]
        )


def linked(files_in: Path, folder: Path, files: int) -> Path:
    """A source folder of its own with the first files: a contestant reads nothing but these."""
    source = folder / "trades"
    source.mkdir(exist_ok=True)
    for path in sorted(files_in.glob("*.parquet"))[:files]:
        if not (source / path.name).exists():
            os.link(path, source / path.name)
    return source


def wait_for_rounds(engine: Engine, rounds: int, stream: str = "trades") -> list[RoundStats]:
    """Until so many rounds are committed; a stream that failed says so in `stop`."""
    while len(found := engine.statistics(stream)) < rounds:
        if not engine.is_running:
            engine.stop()
        time.sleep(0.05)
    return found


def choose_peers(texts: dict[str, str]) -> dict[str, str]:
    """Grouped by symbol, no HAVING: a tumbling window, and one of median overlap."""
    plain = [
        sql for sql in texts.values() if "GROUP BY symbol, window(" in sql and "HAVING" not in sql
    ]
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


def figures_of(peers: dict[str, Drain], ours: dict[int, Drain]) -> list[Figure]:
    found = [
        Figure(f"spark_1_{_slug(kind)}_rows_per_s", d.rows_per_s, "rows/s")
        for kind, d in peers.items()
    ]
    best = max(d.rows_per_s for kind, d in peers.items() if kind != TUNED)
    for size, drain in ours.items():
        longest = max(r.seconds["total"] for r in drain.rounds)
        found += [
            Figure(f"headrace_{size}_rows_per_s", drain.rows_per_s, "rows/s"),
            Figure(
                f"headrace_{size}_ratio",
                drain.rows_per_s / best,
                "×",
                note=_held(drain.rows_per_s / best, size, "the faster plain peer"),
            ),
            *(
                Figure(
                    f"headrace_{size}_ratio_to_{_slug(kind)}",
                    drain.rows_per_s / d.rows_per_s,
                    "×",
                    note=_held(drain.rows_per_s / d.rows_per_s, size, "this peer"),
                )
                for kind, d in peers.items()
            ),
            Figure(
                f"headrace_{size}_answers_per_round",
                mean(r.answers for r in drain.rounds),
                "answers",
            ),
            Figure(
                f"headrace_{size}_round_s",
                drain.stage_s("total"),
                "s",
                note=f"median; want < {ROUND_S_MAX}",
            ),
            Figure(f"headrace_{size}_round_max_s", longest, "s"),
            *(
                Figure(f"headrace_{size}_{stage}_s", drain.stage_s(stage), "s", note="median")
                for stage in ("trigger", "spark", "wait", "roll", "answer", "write", "commit")
            ),
            Figure(
                f"headrace_{size}_add_ms",
                drain.add_ms,
                "ms",
                note="parse, bind and write one more query",
            ),
            Figure(
                f"headrace_{size}_plan_ms",
                drain.plan_ms,
                "ms",
                note=f"first round with it; want < {PLAN_MS_MAX}",
            ),
        ]
    return found


def _slug(text: str) -> str:
    return text.replace(" ", "_")


def _held(ratio: float, size: int, peer: str) -> str:
    return f"to {peer}; want ≥ {WANTED[size]}: {'met' if ratio >= WANTED[size] else 'MISSED'}"


def plot(peers: dict[str, Drain], ours: dict[int, Drain]) -> Plot:
    drawing = pyplot()
    if drawing is None:
        return Plot(None)
    bars = {f"Spark, 1 query\n({kind})": d.rows_per_s for kind, d in peers.items()}
    bars |= {f"Headrace,\n{size:,} queries": d.rows_per_s for size, d in ours.items()}
    figure, axes = drawing.subplots(figsize=(7, 4))
    colours = ["#c07a2c"] * len(peers) + ["#2f8f5b"] * len(ours)
    axes.bar(list(bars), [value / 1e3 for value in bars.values()], color=colours)
    axes.set_ylabel("thousand rows a second")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path = Path("bench") / "windows.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    drawing.close(figure)
    return Plot(path)
