"""A little of everything: two streams, a table, a query of each kind, and what Spark itself answers.

The same scenario is played on other versions of Spark (`make test-spark`) and on clusters.  It goes
in steps with an engine of its own each, so what it ends with has been recovered twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.engine import Engine
from tests.streams import EPOCH_US, as_oracle, canonical, same_rows, write_file

STEPS = 3
ROWS = 3_000  # of a step and stream
SYMBOLS = [f"{letter}{number}" for letter in "ABCD" for number in range(5)]
LATE_S = 60
DDL = {
    "trades": "symbol STRING, price DOUBLE, qty INT, side STRING, ts TIMESTAMP",
    "quotes": "symbol STRING, bid DOUBLE, ts TIMESTAMP",
    "limits": "symbol STRING, cap DOUBLE, note STRING, gone BOOLEAN",
}
_MINUTE = "window(ts, '1 minute', '20 seconds')"
WINDOWS = {
    "vwap": "SELECT symbol, window.end AS we, sum(price * qty) / sum(qty) AS p, count(*) AS n "
    f"FROM trades GROUP BY symbol, {_MINUTE} HAVING count(*) > 3",
    "spread": "SELECT side, window.end AS we, stddev(price) AS s, min(qty) AS l, max(qty) AS h "
    "FROM trades WHERE symbol LIKE 'A%' GROUP BY side, window(ts, '2 minutes')",
    "kinds": "SELECT window.end AS we, count(DISTINCT qty) AS d, median(price) AS m, "
    "approx_count_distinct(price) AS a, percentile_approx(qty, 0.9) AS q "
    f"FROM trades GROUP BY {_MINUTE}",
    "plain_window": "SELECT symbol, window.end AS we, max_by(side, price) AS s "
    "FROM trades GROUP BY symbol, window(ts, '1 minute')",
    **{
        f"above_{c}": "SELECT symbol, window.end AS we, count(*) AS n, avg(price) AS p "
        f"FROM trades WHERE price > {c} GROUP BY symbol, window(ts, '1 minute')"
        for c in range(80, 120, 2)
    },
}
OTHERS = {
    "filtered": "SELECT symbol, price, qty FROM trades WHERE price BETWEEN 99.0 AND 99.5",
    "texts": "SELECT symbol, upper(side) AS s FROM trades WHERE symbol LIKE '%3' AND side = 'buy'",
    "near": "SELECT t.symbol AS symbol, t.price AS p, q.bid AS b FROM trades t JOIN quotes q "
    "ON q.bid - t.price BETWEEN -0.001 AND 0.001 AND t.symbol = q.symbol",
    "capped": "SELECT t.symbol AS symbol, t.price AS p, l.cap AS c FROM trades t JOIN limits l "
    "ON t.symbol = l.symbol AND t.qty > 95 AND t.price > l.cap",
    "totals": "SELECT side, count(*) AS n, sum(qty) AS q FROM trades GROUP BY side",
    "caps": "SELECT symbol, cap, note FROM limits WHERE cap > 90",
}
QUERIES = {**WINDOWS, **OTHERS}


@dataclass(frozen=True)
class Step:
    """What comes with a step, by relation."""

    rows: Mapping[str, pa.Table]


def steps(seed: int) -> list[Step]:
    chance = np.random.default_rng(seed)
    return [Step({name: _drawn(chance, name, number) for name in DDL}) for number in range(STEPS)]


def _drawn(chance: np.random.Generator, name: str, step: int) -> pa.Table:
    if name == "limits":
        keys = [s for s in SYMBOLS if chance.random() < (1.0 if step == 0 else 0.4)]
        caps = chance.choice([80.0, 95.0, 100.0, 105.0], len(keys))
        gone = [step > 0 and bool(chance.random() < 0.2) for _ in keys]
        note = [f"step {step}"] * len(keys)
        return pa.table({"symbol": keys, "cap": caps, "note": note, "gone": gone})
    start = EPOCH_US + step * 120_000_000
    times = np.sort(start + chance.integers(0, 120_000_000, ROWS))
    found: dict[str, Any] = {"symbol": chance.choice(SYMBOLS, ROWS)}
    price = np.round(chance.normal(100, 8, ROWS), 3)
    if name == "quotes":
        found["bid"] = price
    else:
        qty = pa.array(chance.integers(1, 100, ROWS), pa.int32())
        found.update(price=price, qty=qty, side=chance.choice(["buy", "sell"], ROWS))
    return pa.table({**found, "ts": pa.array(times, pa.timestamp("us", "UTC"))})


def declare(eng: Engine, sources: Path) -> None:
    """Also of an engine on a home that has it all: nothing changes then."""
    for name in ("trades", "quotes"):
        eng.create_stream(
            name, f"parquet:{sources / name}", schema=DDL[name], time="ts", late=f"{LATE_S} seconds"
        )
    eng.create_table(
        "limits",
        f"parquet:{sources / 'limits'}",
        schema=DDL["limits"],
        key="symbol",
        deleted="gone",
    )


def feed(sources: Path, number: int, step: Step) -> None:
    for name, rows in step.rows.items():
        write_file(sources / name, number, rows)


Answers = dict[str, list[tuple[Any, ...]]]


def play(sources: Path, played: Sequence[Step], open_engine: Callable[[], Engine]) -> Answers:
    """The present answers in the end."""
    found: Answers = {}
    for number, step in enumerate(played):
        feed(sources, number, step)
        with open_engine() as eng:
            declare(eng, sources)
            if number == 0:
                eng.add_many(QUERIES)
            eng.run()
            if number == len(played) - 1:
                found = answers(eng)
    return found


def answers(eng: Engine) -> Answers:
    states = {info.name: (info.state, info.reason) for info in eng.queries()}
    assert all(state == "live" for state, _ in states.values()), states
    return {name: canonical(eng.read(name), _selected(eng, name)) for name in QUERIES}


def _selected(eng: Engine, name: str) -> list[str]:
    """Without the columns that say which window an answer is of."""
    return [output.name for output in eng.catalog.query(name).query.outputs]


def spark_answers(spark: SparkSession, played: Sequence[Step]) -> Answers:
    """Spark's own, over all rows; of windows those that are closed."""
    rows = {name: pa.concat_tables([step.rows[name] for step in played]) for name in DDL}
    rows["limits"] = _latest(rows["limits"])
    newest_us = max(rows["trades"].column("ts").cast(pa.int64()).to_pylist())
    closed_us = newest_us - LATE_S * 1_000_000
    found: Answers = {}
    with as_oracle(spark):
        for name, table in rows.items():
            spark.createDataFrame(table.to_pandas(), DDL[name]).createOrReplaceTempView(name)
        for name, sql in QUERIES.items():
            answer = spark.sql(sql)
            if name in WINDOWS:
                answer = answer.where(f"unix_micros(we) <= {closed_us}")
            own = answer.toArrow()
            found[name] = canonical(own, own.column_names)
    return found


def _latest(rows: pa.Table) -> pa.Table:
    newest = {row["symbol"]: row for row in rows.to_pylist()}
    return pa.Table.from_pylist([r for r in newest.values() if not r["gone"]], rows.schema)


def check(ours: Answers, theirs: Answers) -> None:
    assert ours.keys() == theirs.keys()
    for name, own in ours.items():
        assert own, f"{name} has no answers to compare"
        assert same_rows(own, theirs[name]), f"{name}\nours:  {own[:9]}\nspark: {theirs[name][:9]}"
