"""Benchmark `predicates`: 2,000 queries with 2,000 different predicates, against the same queries
without any.

1,000 symbols; every query groups by symbol.  Predicates compare the price with a constant of their
own (`one attribute`), or the price and the quantity with two (`two attributes`).  Prices stay near
the level of their symbol, as prices do (`market`), or range so far that every symbol meets most
constants (`wide`), which is the worst there is for cells: hardly two rows of a round fall in one.
Contestants take turns over the same files, as in `windows`, after a drain that nobody counts; the
first rounds of each are left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from headrace.bench.feed import write_file
from headrace.bench.report import Figure, Report, machine
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import make_session
from headrace.runtime.statistics import RoundStats
from headrace.values import US_PER_S

SCHEMA = "symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP"
START_US = 1_735_741_800 * US_PER_S
SEED = 11
SYMBOLS, QUERIES = 1_000, 2_000
ROWS, SECONDS_PER_FILE = 200_000, 4
FILES = {True: 12, False: 24}
PASSES = {True: 1, False: 3}
WARM_ROUNDS = 4
WANTED = 0.5
SPREADS = {"market": 0.01, "wide": 0.3}
WINDOWS = (
    "'10 seconds'",
    "'1 minute', '10 seconds'",
    "'5 minutes', '1 minute'",
    "'30 seconds', '15 seconds'",
)
AGGREGATES = (
    "count(*) AS n, avg(price) AS p",
    "sum(qty) AS v",
    "max(price) AS hi, min(price) AS lo",
    "sum(price * qty) / sum(qty) AS vwap",
)
HAVINGS = ("", " HAVING count(*) > 100")
NONE, ONE, TWO = "no predicate", "one attribute", "two attributes"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trades:
    """Trades of many symbols, each around a level of its own."""

    rng: np.random.Generator
    levels: np.ndarray
    spread: float

    @staticmethod
    def of(spread: float) -> Trades:
        rng = np.random.default_rng(SEED)
        return Trades(rng, np.exp(rng.uniform(np.log(8.0), np.log(400.0), SYMBOLS)), spread)

    def file(self, number: int) -> pa.Table:
        rng = self.rng
        symbol = rng.integers(0, SYMBOLS, ROWS)
        at_s = number * SECONDS_PER_FILE + np.sort(rng.random(ROWS)) * SECONDS_PER_FILE
        price = self.levels[symbol] * np.exp(rng.normal(0.0, self.spread, ROWS))
        return pa.table(
            {
                "symbol": pa.array([f"S{i:04d}" for i in range(SYMBOLS)]).take(pa.array(symbol)),
                "price": pa.array(np.round(price, 2)),
                "qty": pa.array(rng.integers(1, 1_000, ROWS).astype(np.int32)),
                "ts": pa.array(
                    START_US + (at_s * US_PER_S).astype(np.int64), pa.timestamp("us", "UTC")
                ),
            }
        )


def queries(kind: str) -> dict[str, str]:
    """The same queries with predicates of this kind."""
    rng = np.random.default_rng(SEED)
    shapes = list(product(WINDOWS, AGGREGATES, HAVINGS))
    found: dict[str, str] = {}
    while len(found) < QUERIES:
        price = round(float(np.exp(rng.uniform(np.log(8.0), np.log(400.0)))), 2)
        qty = int(rng.integers(1, 900))
        i = len(found)
        forms = (
            f"price > {price}",
            f"price <= {price}",
            f"price BETWEEN {price} AND {round(1.3 * price, 2)}",
        )
        where = {
            NONE: "",
            ONE: f"WHERE {forms[i % 3]} ",
            TWO: f"WHERE {forms[i % 3]} AND qty > {qty} ",
        }[kind]
        window, aggregates, having = shapes[i % len(shapes)]
        grouped = f"GROUP BY symbol, window(ts, {window}){having}"
        found[f"q{i:04d}"] = f"SELECT symbol, {aggregates} FROM trades {where}{grouped}"
    return found


def run(quick: bool, tell: Tell) -> Report:
    files, contests = (
        FILES[quick],
        [(spread, kind) for spread in SPREADS for kind in (NONE, ONE, TWO)],
    )
    spark = make_session(Config.from_environment())
    rounds: dict[tuple[str, str], list[RoundStats]] = {contest: [] for contest in contests}
    try:
        with tempfile.TemporaryDirectory(
            prefix="headrace-bench-", ignore_cleanup_errors=True
        ) as made:
            folder = Path(made)
            for spread, wide in SPREADS.items():
                tell(f"writing {files} files of {ROWS:,} trades ({spread})")
                trades = Trades.of(wide)
                for number in range(files):
                    write_file(folder / spread, number, trades.file(number))
            tell("warming up")
            with Engine(folder / "warm", spark=spark) as engine:
                _drain(engine, folder / next(iter(SPREADS)), queries(NONE))
            for turn in range(PASSES[quick]):
                # nobody is always the first
                for spread, kind in contests[2 * turn :] + contests[: 2 * turn]:
                    tell(f"turn {turn + 1}: {QUERIES:,} queries, {kind}, prices: {spread}")
                    with Engine(Path(tempfile.mkdtemp(dir=folder)) / "race", spark=spark) as engine:
                        rounds[spread, kind] += _drain(engine, folder / spread, queries(kind))
    finally:
        spark.stop()
    title = (
        f"{PASSES[quick]} × {files - WARM_ROUNDS} rounds of {ROWS:,} rows, {os.cpu_count()} cores"
    )
    return Report(title, tuple(_figures(rounds)), None, machine(files, SEED))


def _drain(engine: Engine, source: Path, texts: dict[str, str]) -> list[RoundStats]:
    engine.create_stream(
        "trades",
        f"parquet:{source}?maxFilesPerTrigger=1",
        schema=SCHEMA,
        time="ts",
        late="2 seconds",
    )
    engine.add_many(texts)
    engine.run()
    assert all(q.state == "live" for q in engine.queries())
    return engine.statistics("trades")[WARM_ROUNDS:]


def _figures(rounds: dict[tuple[str, str], list[RoundStats]]) -> list[Figure]:
    found: list[Figure] = []
    for spread in SPREADS:
        rate = {kind: _rows_per_s(rounds[spread, kind]) for kind in (NONE, ONE, TWO)}
        for kind, own in rate.items():
            name, ratio = f"{spread}_{kind.replace(' ', '_')}", own / rate[NONE]
            found.append(Figure(f"{name}_rows_per_s", own, "rows/s"))
            if kind != NONE:
                verdict = "met" if ratio >= WANTED else "MISSED"
                found.append(
                    Figure(
                        f"{name}_ratio",
                        ratio,
                        "×",
                        note=f"to no predicate; want ≥ {WANTED}: {verdict}",
                    )
                )
            found += _details(name, rounds[spread, kind])
    return found


def _details(name: str, rounds: list[RoundStats]) -> list[Figure]:
    return [
        *(
            Figure(
                f"{name}_{stage}_s",
                median([r.seconds.get(stage, 0.0) for r in rounds]),
                "s",
                note="median",
            )
            for stage in ("trigger", "spark", "roll", "answer", "write", "total")
        ),
        Figure(f"{name}_answers", float(np.mean([r.answers for r in rounds])), "a round"),
        Figure(
            f"{name}_ring_mb", max(r.figures["windows"]["ring_bytes"] for r in rounds) / 1e6, "MB"
        ),
    ]


def _rows_per_s(rounds: list[RoundStats]) -> float:
    return ROWS / float(np.mean([r.cycle_s for r in rounds]))
