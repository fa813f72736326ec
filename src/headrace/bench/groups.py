"""Benchmark `groups`: very many groups that come and go, and a month beside ten seconds.

Part one, on Spark: 1,000,000 groups alive at a time, 1.5 % of them new each round and as many
leaving, 50 window queries of 1 to 10 minutes over each of them.  What the engine states it holds
(`ring_bytes`: rings, rows of open panes, keys) stands beside the most this process ever took, which
adds Python, Arrow and what a round is made with; Spark's JVM is another process.

Part two, without Spark (`month.py`): what the pane log keeps of a month.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.bench.feed import write_file
from headrace.bench.month import Month
from headrace.bench.report import Figure, Report, machine
from headrace.bench.windows import wait_for_rounds
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import make_session
from headrace.runtime.statistics import peak_bytes
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.statistics import RoundStats

SEED = 11
START_US = 1_700_000_040 * US_PER_S  # a whole minute
SECONDS_PER_FILE = 30
NEW_SHARE = 0.015
SCHEMA = "account BIGINT, amount DOUBLE, items INT, ts TIMESTAMP"
WARM_ROUNDS = 6
MB = 1e6

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    groups: int
    files: int

    @property
    def rows(self) -> int:
        """Of a file: a group has a row in about two rounds of five."""
        return self.groups // 2


SIZES = {True: Size(100_000, 16), False: Size(1_000_000, 52)}


def queries() -> dict[str, str]:
    """50 queries: alerts every minute, and totals of whole windows."""
    found: dict[str, str] = {}
    for minutes in range(1, 11):
        often = f"GROUP BY account, window(ts, '{minutes} minutes', '1 minute')"
        whole = f"GROUP BY account, window(ts, '{minutes} minutes')"
        texts = (
            f"SELECT account, sum(amount) AS total, count(*) AS n FROM orders {often} HAVING sum(amount) > 900",
            f"SELECT account, avg(amount) AS mean FROM orders {often} HAVING count(*) > 12",
            f"SELECT account, stddev(amount) AS spread FROM orders {often} HAVING stddev(amount) > 60",
            f"SELECT account, max(amount) - min(amount) AS gap FROM orders {whole}",
            f"SELECT account, sum(items) AS items FROM orders {whole} HAVING sum(items) > 20",
        )
        found.update((f"q{minutes}_{i}", text) for i, text in enumerate(texts))
    return found


def orders(number: int, size: Size, rng: np.random.Generator) -> pa.Table:
    """The rows of a file: any of the accounts alive now."""
    first = int(number * NEW_SHARE * size.groups)
    start_us = START_US + number * SECONDS_PER_FILE * US_PER_S
    times = start_us + np.sort(rng.integers(0, SECONDS_PER_FILE * US_PER_S, size.rows))
    return pa.table(
        {
            "account": rng.integers(first, first + size.groups, size.rows),
            "amount": rng.uniform(0, 200, size.rows),
            "items": rng.integers(1, 5, size.rows).astype(np.int32),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def run(quick: bool, tell: Tell) -> Report:
    size = SIZES[quick]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as made:
        month = Month(Path(made) / "month", quick).run(tell)
        spark = make_session(Config.from_environment())
        try:
            before = peak_bytes()
            rounds = drain(spark, Path(made), size, tell)
        finally:
            spark.stop()
    figures = figures_of(size, rounds[WARM_ROUNDS:], before)
    title = f"{size.groups:,} groups, {len(queries())} windows, rounds of {size.rows:,} rows, {os.cpu_count()} cores"
    return Report(title, (*figures, *month), None, machine(size.files, SEED))


def drain(spark: SparkSession, folder: Path, size: Size, tell: Tell) -> Sequence[RoundStats]:
    """All files, a round each, written one ahead of the reader."""
    rng, source = np.random.default_rng(SEED), folder / "orders"
    write_file(source, 0, orders(0, size, rng))
    with Engine(folder / "race", spark=spark) as engine:
        engine.create_stream(
            "orders", f"parquet:{source}?maxFilesPerTrigger=1", schema=SCHEMA, time="ts"
        )
        engine.add_many(queries())
        engine.start()
        for number in range(1, size.files):
            write_file(source, number, orders(number, size, rng))
            tell(f"{size.groups:,} groups: round {number} of {size.files}")
            wait_for_rounds(engine, number - 1, "orders")
        rounds = wait_for_rounds(engine, size.files, "orders")
        engine.stop()
    return rounds


def figures_of(size: Size, rounds: Sequence[RoundStats], before: int) -> list[Figure]:
    stated, peak = max(r.figures["windows"]["ring_bytes"] for r in rounds), peak_bytes()
    longest = max(r.seconds["total"] for r in rounds)
    return [
        Figure("groups", size.groups, note=f"alive; {NEW_SHARE:.1%} new each round"),
        Figure("windows", len(queries())),
        Figure("rows_per_s", size.rows / mean(r.cycle_s for r in rounds), "rows/s"),
        Figure(
            "answers_per_round", mean(r.answers for r in rounds), "answers", note="that pass HAVING"
        ),
        Figure("round_s", median(r.seconds["total"] for r in rounds), "s", note="median"),
        Figure("round_max_s", longest, "s", note="one in which a minute ends"),
        *(
            Figure(f"{stage}_s", mean(r.seconds.get(stage, 0.0) for r in rounds), "s", note="mean")
            for stage in ("spark", "roll", "answer", "write")
        ),
        Figure("stated_mb", stated / MB, "MB", note="rings, open panes, keys: EXPLAIN"),
        Figure("peak_rss_mb", peak / MB, "MB", note=f"this process, {before / MB:,.0f} MB before"),
        Figure("peak_over_stated", (peak - before) / stated, "×"),
        Figure(
            "log_mb", rounds[-1].figures["windows"]["log_bytes"] / MB, "MB", note="pane log on disk"
        ),
    ]
