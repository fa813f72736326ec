"""Benchmark `cluster`: 1 and 2 executors in processes of their own, against one process with as many
cores.

The executors are those of `local-cluster`: Java processes of this machine, which the driver reaches
as it would others, through sockets, with the package and the proof of the home (`docs/cluster.md`).
So what is measured is what a cluster costs beside threads, not what more machines bring: driver and
executors share these cores.

Windows collect aggregates at the driver; joins keep rows and look them up in Python on executors.
Of each the rows a second of whole cycles, and the driver's share: of the seconds of a round, those
in which no executor works for it.  Contestants take turns, PASSES times, each with a Spark of its
own; the first WARM_ROUNDS rounds are left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.bench import market
from headrace.bench.feed import write_file
from headrace.bench.report import Figure, Report, machine
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import make_session
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.statistics import RoundStats

SEED = 11
MASTERS = {
    "local_1": "local[1]",
    "executors_1": "local-cluster[1,1,1024]",
    "local_2": "local[2]",
    "executors_2": "local-cluster[2,1,1024]",
}
EXECUTOR_MEMORY = "1024m"  # as the masters say: Spark takes none that has less
FILES_PER_ROUND = 2  # so that two executors have work
WARM_ROUNDS = 3
BY_EXECUTORS = ("spark", "joins", "count", "plain")  # stages of a round
KEPT_ROWS, DOMAIN = 50_000, 1_000_000
_RS = "a INT, b INT, ts TIMESTAMP"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: rounds, rows of each, standing queries, passes."""

    rounds: int
    rows: int
    windows: int
    joins: int
    passes: int


EXTENTS = {True: Extent(3, 60_000, 200, 500, 1), False: Extent(12, 400_000, 1_000, 10_000, 3)}


@dataclass(frozen=True, slots=True)
class Drain:
    """The measured rounds of a contestant."""

    rounds: tuple[RoundStats, ...]

    @property
    def rows_per_s(self) -> float:
        return sum(r.rows for r in self.rounds) / sum(r.cycle_s for r in self.rounds)

    @property
    def driver_share(self) -> float:
        return median(_driver_share(r) for r in self.rounds)


def _driver_share(round: RoundStats) -> float:
    """Waiting for the round before, or for Spark to begin, is nobody's work."""
    idle = ("total", "cycle", "wait", "trigger", "turn")
    own = {stage: s for stage, s in round.seconds.items() if stage not in idle}
    executors_s = sum(own.get(stage, 0.0) for stage in BY_EXECUTORS)
    return 1 - executors_s / sum(own.values())


def run(quick: bool, tell: Tell) -> Report:
    extent = EXTENTS[quick]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as made:
        bench = Bench(Path(made), extent, tell)
        bench.prepare()
        found: dict[str, list[dict[str, Drain]]] = {name: [] for name in MASTERS}
        for _ in range(extent.passes):
            for name in MASTERS:
                found[name].append(bench.drained(name))
    drains = {name: together(passes) for name, passes in found.items()}
    title = f"{extent.passes} × {extent.rounds} rounds of {extent.rows:,} rows: executors beside threads"
    about = machine((WARM_ROUNDS + extent.rounds) * FILES_PER_ROUND, SEED)
    return Report(title, tuple(figures_of(drains, extent)), None, about)


def together(passes: Sequence[dict[str, Drain]]) -> dict[str, Drain]:
    return {
        kind: Drain(tuple(r for drains in passes for r in drains[kind].rounds))
        for kind in passes[0]
    }


class Bench:
    """The files, and a Spark for each contestant in turn."""

    def __init__(self, folder: Path, extent: Extent, tell: Tell) -> None:
        self._folder, self._extent, self._tell = folder, extent, tell
        self._rng = np.random.default_rng(SEED)

    def prepare(self) -> None:
        """Trades for windows; events and kept rows for joins."""
        rounds, rows = WARM_ROUNDS + self._extent.rounds, self._extent.rows // FILES_PER_ROUND
        self._tell(f"writing {rounds} rounds of {self._extent.rows:,} rows, twice")
        trades = market.Market(np.random.default_rng(SEED))
        for number in range(rounds * FILES_PER_ROUND):
            start_us = market.START_US + number * 4 * US_PER_S
            write_file(self._folder / "trades", number, trades.trades(start_us, 4, rows // 4))
            write_file(self._folder / "r", number, self._events(rows))
        write_file(self._folder / "s", 0, self._events(KEPT_ROWS))

    def _events(self, count: int) -> pa.Table:
        times = pa.array(
            market.START_US + np.arange(count, dtype=np.int64), pa.timestamp("us", "UTC")
        )
        drawn = {name: self._rng.integers(0, DOMAIN, count).astype(np.int32) for name in "ab"}
        return pa.table({**drawn, "ts": times})

    def drained(self, name: str) -> dict[str, Drain]:
        master = MASTERS[name]
        self._tell(f"{master}: starting Spark")
        given = {"spark.executor.memory": EXECUTOR_MEMORY, "spark.executor.cores": "1"}
        config = Config.from_environment()
        spark = make_session(
            replace(config, master=master, spark={**config.spark, **given}), scratch=None
        )
        try:
            return {
                kind: self._drain(spark, kind, ours)
                for kind, ours in (("windows", self._windows), ("joins", self._joins))
            }
        finally:
            spark.stop()

    def _drain(self, spark: SparkSession, kind: str, declare: Callable[[Engine], str]) -> Drain:
        self._tell(f"{spark.sparkContext.master}: {kind}")
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self._folder))
        with Engine(folder / "race", spark=spark) as engine:
            stream = declare(engine)
            engine.run()
            assert all(query.state == "live" for query in engine.queries())
            return Drain(tuple(engine.statistics(stream)[WARM_ROUNDS:]))

    def _windows(self, engine: Engine) -> str:
        engine.create_stream(
            "trades",
            self._source("trades"),
            schema=market.SCHEMA,
            time=market.TIME,
            late=market.LATE,
        )
        engine.add_many(market.queries(np.random.default_rng(SEED), self._extent.windows))
        return "trades"

    def _joins(self, engine: Engine) -> str:
        """Bands of s around r."""
        for name in ("r", "s"):
            engine.create_stream(name, self._source(name), schema=_RS, time="ts", late="1 day")
        lows = np.random.default_rng(SEED).integers(-DOMAIN, DOMAIN, self._extent.joins)
        engine.add_many(
            {
                f"q{i}": f"SELECT r.b AS rb, s.b AS sb FROM r JOIN s ON s.b - r.b BETWEEN {low} AND {low + 600}"
                for i, low in enumerate(lows.tolist())
            }
        )
        return "r"

    def _source(self, name: str) -> str:
        return f"parquet:{self._folder / name}?maxFilesPerTrigger={FILES_PER_ROUND}"


def figures_of(drains: dict[str, dict[str, Drain]], extent: Extent) -> list[Figure]:
    queries = {"windows": extent.windows, "joins": extent.joins}
    found = []
    for kind, count in queries.items():
        for name, own in drains.items():
            note = f"{count:,} queries, {MASTERS[name]}"
            drain = own[kind]
            found += [
                Figure(f"{kind}_{name}_rows_per_s", drain.rows_per_s, "rows/s", note=note),
                Figure(
                    f"{kind}_{name}_round_s",
                    mean(r.cycle_s for r in drain.rounds),
                    "s",
                    note="mean",
                ),
                Figure(
                    f"{kind}_{name}_driver_share",
                    drain.driver_share,
                    note="of the seconds of a round, median",
                ),
            ]
        for number in (1, 2):
            ratio = (
                drains[f"executors_{number}"][kind].rows_per_s
                / drains[f"local_{number}"][kind].rows_per_s
            )
            note = "rows/s, executors against threads, as many cores for tasks"
            found.append(Figure(f"{kind}_executors_{number}_ratio", ratio, "×", note=note))
    return found
