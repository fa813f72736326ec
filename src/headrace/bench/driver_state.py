"""What one driver holds, and how long it works: a group, a query, a pane, an answer.  Part of
`bench shards`.

The driver's own machinery is fed panes as Spark leaves them, without Spark.  Each size is a process of
its own (`python -m headrace.bench.driver_state GROUPS QUERIES MINUTES`), so that memory is that of the
size alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.aggregation.aggregate import PANE, key_name
from headrace.families.windows.aggregation.columns import part_names
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.rings.answering import Answering
from headrace.families.windows.rings.rings import Rings
from headrace.runtime.family import Round
from headrace.runtime.ledger import Ledger
from headrace.runtime.statistics import Census, peak_bytes
from headrace.sql.bind import bind
from headrace.values import BIGINT, DOUBLE, INT, TIMESTAMP, US_PER_S, Field, Relation

PANE_US = 60 * US_PER_S
START_US = 28_333_334 * PANE_US
FOLDER = "streams/orders"
FIELDS = (
    Field("account", BIGINT),
    Field("amount", DOUBLE),
    Field("items", INT),
    Field("ts", TIMESTAMP),
)
ORDERS = Relation("orders", "none:", FIELDS, "ts")
ROUNDS = 18  # of a pane each; the last half is timed
SHAPES = 40


@dataclass(frozen=True, slots=True)
class Measured:
    """Of a round of one pane: bytes by the engine's own count and by the process, seconds to take the
    pane in and to answer."""

    groups: int
    queries: int
    minutes: int
    ring_bytes: int
    process_bytes: int
    take_s: float
    answer_s: float
    answers: float


def texts(queries: int, minutes: int) -> list[str]:
    """Windows of one minute to so many, each with a total, a mean or a spread, and a constant of its
    own once all shapes have been taken."""
    return [_text(number % SHAPES, number // SHAPES, minutes) for number in range(queries)]


def _text(shape: int, constant: int, minutes: int) -> str:
    width = 1 + shape % 10 * max(1, minutes // 10)
    columns = ("sum(amount) AS x", "avg(amount) AS x", "stddev(amount) AS x", "max(amount) AS x")
    having = "" if not constant else f" HAVING sum(items) >= {constant}"
    return (
        f"SELECT account, {columns[shape // 10 % 4]} FROM orders GROUP BY account, "
        f"window(ts, '{width} minutes', '1 minute'){having}"
    )


def panes(cuts: Cuts, first: int, groups: int, rng: np.random.Generator) -> pa.Table:
    """A cell for each group."""
    values = rng.uniform(0, 100, groups)
    of = {
        "count": np.full(groups, 4),
        "sum": 4 * values,
        "var_pop": values,
        "min": values,
        "max": values,
    }

    def part(function: str, arg: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        own = of[function]
        return own.astype(np.int64) if "items" in arg else own

    return pa.table(
        {
            PANE: np.full(groups, first),
            key_name(0): np.arange(groups),
            **{name: part(*own) for own, name in part_names(cuts.measures).items()},
        }
    )


def measure(groups: int, queries: int, minutes: int) -> Measured:
    """Take and answer ROUNDS panes."""
    rng, config, before = np.random.default_rng(3), Config(ring_bytes_max=1 << 40), peak_bytes()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        disk = Disk(Path(folder))
        for part in ("rounds", "panes", "folded"):
            disk.make_folder(f"{FOLDER}/{part}")
        rings, answering = Rings(disk, Ledger(disk, FOLDER), config), Answering()
        bound = [
            bind(sql, {"orders": ORDERS}, name=f"q{i}", config=config)
            for i, sql in enumerate(texts(queries, minutes))
        ]
        rings.assign([Registered(i, query, 1) for i, query in enumerate(bound)], ORDERS)
        took = [_round(rings, answering, number, groups, rng) for number in range(ROUNDS)]
        rings.rest()
    timed = took[ROUNDS // 2 :]
    take_s, answer_s, answers = (float(np.median([t[i] for t in timed])) for i in range(3))
    return Measured(
        groups, queries, minutes, rings.nbytes, peak_bytes() - before, take_s, answer_s, answers
    )


def _round(
    rings: Rings, answering: Answering, number: int, groups: int, rng: np.random.Generator
) -> tuple[float, float, int]:
    first = START_US + number * PANE_US
    cuts = rings.cutting.cuts()
    table = panes(cuts, first, groups, rng)
    round = Round(
        number, first - 1 if number else None, 0, Census(groups, newest_us=first + PANE_US)
    )
    began = perf_counter()
    rings.take(cuts, table, round, lambda keys, values, facts: [])
    taken = perf_counter()
    answers = 0
    for closed in rings.close(round.watermark_us):
        for _, count in answering.finish(closed, rings.keys, {}):
            answers += count
    return taken - began, perf_counter() - taken, answers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(measure(*map(int, sys.argv[1:4])))) + "\n")
