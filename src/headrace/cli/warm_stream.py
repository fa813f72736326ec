"""Small streams with a query of each kind: running them compiles the kernels, here and in workers.

A kernel is compiled for the types of its arguments, which only a run knows.  What these queries do
not use is compiled when a query first does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from headrace.engine import Engine

SEED = 7
ROUNDS = 2
ROWS = 1_500  # of a stream and round
ROUND_US = 120_000_000
SCHEMAS = {
    "trades": "symbol STRING, price DOUBLE, qty INT, side STRING, ts TIMESTAMP",
    "quotes": "symbol STRING, bid DOUBLE, ts TIMESTAMP",
    "limits": "symbol STRING, cap DOUBLE, gone BOOLEAN",
}
_MINUTE = "window(ts, '1 minute', '20 seconds')"

WINDOWS = {
    "means": "SELECT symbol, sum(price * qty) / sum(qty) AS p, count(*) AS n, stddev(price) AS s, min(qty) AS l, "
    f"max(price) AS h FROM trades GROUP BY symbol, {_MINUTE} HAVING count(*) > 3",
    "sides": "SELECT side, sum(qty) AS q FROM trades WHERE symbol LIKE 'A%' GROUP BY side, window(ts, '90 seconds')",
    "whole": "SELECT count(*) AS n, avg(qty) AS q FROM trades GROUP BY window(ts, '40 seconds', '10 seconds')",
    "exact": f"SELECT count(DISTINCT qty) AS d, median(price) AS m, mode(side) AS o FROM trades GROUP BY {_MINUTE}",
    "sketched": "SELECT symbol, approx_count_distinct(price) AS a, approx_count_distinct(qty) AS b, "
    f"percentile_approx(qty, 0.9) AS q FROM trades GROUP BY symbol, {_MINUTE}",
}
CROWDS = {
    "above": "SELECT symbol, count(*) AS n, avg(price) AS p, max(qty) AS q FROM trades WHERE price > {0} "
    "GROUP BY symbol, window(ts, '1 minute', '30 seconds')",
    "within": "SELECT side, sum(qty) AS n, stddev(price) AS p FROM trades WHERE price > {0} AND qty < {1} "
    "GROUP BY side, window(ts, '1 minute')",
    "filter": "SELECT symbol, price FROM trades WHERE price BETWEEN {0} AND {0} + 0.5",
    "band": "SELECT t.symbol AS symbol, q.bid AS b FROM trades t JOIN quotes q "
    "ON q.bid - t.price BETWEEN {1} * 0.001 AND {1} * 0.001 + 0.002",
    "equal": "SELECT t.price AS p, q.bid AS b FROM trades t JOIN quotes q ON t.symbol = q.symbol "
    "WHERE t.price BETWEEN {0} AND {0} + 1 AND q.bid < {0}",
    "capped": "SELECT t.symbol AS symbol, l.cap AS c FROM trades t JOIN limits l "
    "ON t.symbol = l.symbol WHERE t.qty > {1} AND t.price > l.cap",
}
CROWD = 24


def play(engine: Engine, sources: Path) -> None:
    """Round after round; in the middle queries come and go."""
    import numpy as np

    chance = np.random.default_rng(SEED)
    for name, schema in SCHEMAS.items():
        source = f"parquet:{sources / name}"
        if name == "limits":
            engine.create_table(name, source, schema=schema, key="symbol", deleted="gone")
        else:
            engine.create_stream(name, source, schema=schema, time="ts", late="10 seconds")
    engine.add_many({**WINDOWS, **_crowds(0)})
    for number in range(ROUNDS):
        _feed(sources, number, chance)
        engine.run()
        if number == 0:
            engine.add_many(_crowds(1))
            engine.drop("band_0_3")
    for name in ("means", "capped_0_3"):
        engine.read(name)


def _crowds(turn: int) -> dict[str, str]:
    """Queries that differ in constants: few kinds of them, many of each."""
    return {
        f"{kind}_{turn}_{number}": text.format(80 + 40 * (number + turn / 2) / CROWD, 4 * number)
        for kind, text in CROWDS.items()
        for number in range(CROWD if turn == 0 else 2)
    }


def _feed(sources: Path, number: int, chance: np.random.Generator) -> None:
    from headrace.bench.feed import write_file

    for name in SCHEMAS:
        write_file(sources / name, number, _rows(name, number, chance))


def _rows(name: str, number: int, chance: np.random.Generator) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    from headrace.bench.market import START_US

    symbols = [f"{letter}{digit}" for letter in "ABCD" for digit in range(5)]
    if name == "limits":
        gone = [number > 0 and row % 5 == 0 for row in range(len(symbols))]
        return pa.table({"symbol": symbols, "cap": chance.normal(100, 8, 20), "gone": gone})
    price = np.round(chance.normal(100, 8, ROWS), 3)
    times = np.sort(START_US + number * ROUND_US + chance.integers(0, ROUND_US, ROWS))
    rows = {"symbol": chance.choice(symbols, ROWS)}
    if name == "trades":
        qty = pa.array(chance.integers(1, 100, ROWS), pa.int32())
        rows |= {"price": price, "qty": qty, "side": chance.choice(["BUY", "SELL"], ROWS)}
    else:
        rows["bid"] = price
    return pa.table({**rows, "ts": pa.array(times, pa.timestamp("us", "UTC"))})
