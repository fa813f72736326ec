"""EXPLAIN as a user reads it: golden texts.  HEADRACE_UPDATE_GOLDEN=1 writes them anew; read the
difference."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.explaining import explain_all, explain_one
from headrace.families.joins.figures import JoinsFigures, ShapeFigures
from headrace.runtime.statistics import RoundStats
from tests.engine.race import Race, row, rows_of

GOLDEN = Path(__file__).parents[1] / "golden"
TRADES = "symbol STRING, side STRING, price DOUBLE, qty INT, ts TIMESTAMP"
QUERIES = {
    "hourly": "SELECT symbol, avg(price) AS p FROM trades GROUP BY symbol, window(ts, '1 hour', '10 minutes')",
    "daily": "SELECT symbol, avg(price) AS p, max(price) FROM trades "
    "GROUP BY symbol, window(ts, '1 day', '10 minutes')",
    "big": "SELECT symbol, side, sum(qty) AS q FROM trades WHERE qty > 100 "
    "GROUP BY symbol, side, window(ts, '90 seconds', '1 minute') HAVING sum(qty) > 1000",
    "doubled": "SELECT symbol, side, 2 * sum(qty) AS q FROM trades WHERE qty > 100 "
    "GROUP BY symbol, side, window(ts, '90 seconds', '1 minute')",
    "all": "SELECT count(*) FROM trades GROUP BY window(ts, '5 minutes')",
    "by_size": "SELECT qty, stddev(price) AS d FROM trades WHERE side = 'buy' GROUP BY qty, window(ts, '1 minute')",
    "median": "SELECT symbol, median(price) AS m FROM trades GROUP BY symbol, window(ts, '1 hour')",
    "alert": "SELECT * FROM trades WHERE price > 1000",
    "loud": "SELECT upper(symbol) AS s FROM trades WHERE price > 1000",
    "near": "SELECT t.symbol, s.symbol AS other FROM trades t JOIN stock s ON s.qty - t.qty BETWEEN -5 AND 5",
    "same": "SELECT t.price FROM trades t JOIN stock s ON s.symbol = t.symbol WHERE t.price > 10 AND s.qty < 7",
    "so_far": "SELECT symbol, count(*) AS n FROM trades GROUP BY symbol",
    "shelf": "SELECT sum(qty) AS q FROM stock",
    "broken": "SELECT sum(price / qty) AS r FROM trades GROUP BY window(ts, '1 minute')",
}


@pytest.fixture
def eng(tmp_path: Path) -> headrace.Engine:
    engine = headrace.Engine(tmp_path / "race")
    engine.create_stream(
        "trades", "parquet:/data/trades", schema=TRADES, time="ts", late="10 seconds"
    )
    engine.create_table("stock", "json:/data/stock", schema="symbol STRING, qty INT", key="symbol")
    engine.create_stream("idle", "parquet:/data/idle", schema=TRADES, time="ts")
    engine.add_many(QUERIES)
    engine.catalog.quarantine(
        {engine.catalog.query("broken").id: "DIVIDE_BY_ZERO: Division by zero."}
    )
    return engine


def golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("HEADRACE_UPDATE_GOLDEN"):
        path.write_text(text + "\n")
    assert text + "\n" == path.read_text(), (
        f"{path} differs; HEADRACE_UPDATE_GOLDEN=1 writes it anew"
    )


@pytest.mark.parametrize(
    "name", ["hourly", "big", "median", "alert", "loud", "near", "same", "shelf", "broken"]
)
def test_one_query(eng: headrace.Engine, name: str) -> None:
    golden(f"explain_{name}", eng.explain(name))


def test_the_whole_plan(eng: headrace.Engine, tmp_path: Path) -> None:
    text = eng.explain()
    golden("explain_all", text)
    assert headrace.Engine(tmp_path / "race").explain() == text


def measured(shapes: dict[str, ShapeFigures], **standing: float) -> dict[str, Any]:
    """As the manifest of a round has it."""
    seconds = {"plan": 0.001, "joins": 0.9, "commit": 0.03, "total": 1.0}
    figures = {"joins": asdict(JoinsFigures(shapes, 2_000, standing))}
    counts = (20_000, 0, 0, 0, 14, 0, 0)
    stats = RoundStats("trades", 3, *counts, seconds, priced={"joins": 0.5}, figures=figures)
    return dict(json.loads(json.dumps(asdict(stats))))


def test_joins_after_a_round(eng: headrace.Engine) -> None:
    """Rates that were fitted count as long as the ranges are as many as they were."""
    select = "trades with stock where trades.`symbol` = stock.`symbol`, ranges of trades.`price` and stock.`qty`"
    select += " (side 0)"
    alone = {"groups": 4.1e-6, "hotspots": 5e-6, "select_first": 3.2e-6, "join_first": 1.2e-3}
    ways = {"groups": 12_000, "select_first": 7_500, "join_first": 500}
    filtered = ShapeFigures(1, {"prefixes of groups": 20_000}, {}, 2.1e-7)
    shapes = {
        select: ShapeFigures(1, ways, alone, 3.9e-6),
        "rows of trades by `price` (side 0)": filtered,
    }
    round_3 = measured(shapes, levels=4, groups=9, fewest=3, ranges=10, hot=9)
    catalog, rounds = eng.catalog, {"trades": [round_3], "stock": [round_3]}
    texts = [
        explain_one(catalog.query(name), catalog, rounds) for name in ("alert", "near", "same")
    ]
    golden("explain_measured", "\n\n".join([*texts, explain_all(catalog, rounds)]))
    more = {**shapes, select: ShapeFigures(7, ways, alone, 3.9e-6)}
    assert "rates fitted here" in texts[2]
    assert "rates fitted here" not in explain_one(
        catalog.query("same"), catalog, {"trades": [measured(more)]}
    )


def test_nothing_yet(tmp_path: Path) -> None:
    golden("explain_nothing", headrace.Engine(tmp_path / "race").explain())


def test_many_rings_are_cut(eng: headrace.Engine) -> None:
    text = (
        "SELECT sum(qty) AS q FROM trades WHERE symbol = '{i}' GROUP BY window(ts, '{i} seconds')"
    )
    eng.add_many({f"more{i}": text.format(i=i) for i in range(1, 31)})
    lines = eng.explain().splitlines()
    assert len(lines) < 70
    assert any(re.search(r"… and \d+ more rings", line) for line in lines)


def test_the_order_of_adding_does_not_show(eng: headrace.Engine, tmp_path: Path) -> None:
    other = headrace.Engine(tmp_path / "other")
    other.create_stream(
        "trades", "parquet:/data/trades", schema=TRADES, time="ts", late="10 seconds"
    )
    other.create_table("stock", "json:/data/stock", schema="symbol STRING, qty INT", key="symbol")
    for name in reversed(QUERIES):
        other.add(QUERIES[name], name=name)
    other.catalog.quarantine(
        {other.catalog.query("broken").id: "DIVIDE_BY_ZERO: Division by zero."}
    )
    for name in QUERIES:
        assert other.explain(name) == eng.explain(name)


def test_what_the_last_round_measured(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add("SELECT k, sum(n) AS t FROM s GROUP BY k, window(ts, '10 seconds')", name="shared")
    race.eng.add("SELECT k, 1 / n AS r FROM s", name="each")
    race.feed([*rows_of(0, 20), row(20, n=0)])
    race.eng.run()
    for text in (race.eng.explain(), race.eng.explain("shared"), race.eng.explain("each")):
        measured = next(line for line in text.splitlines() if "measured:" in line)
        assert re.sub(r"\d+\.\d+", "S", measured).startswith(
            "  measured: round 0: 21 rows, 6 answers in S s ("
        )
        assert "spark " in measured and "plain " in measured and "unshared, at least" in measured
        took = r"this process took [1-9][\d,]*\.\d MB at most"
        assert re.search(
            rf"rings of \d+\.\d MB, pane log of \d+\.\d MB in 1 file; {took}$", measured
        )
    golden("explain_quarantined", re.sub(r"measured: .*", "measured: …", race.eng.explain("each")))


def test_a_table_says_what_deletes(tmp_path: Path) -> None:
    eng = headrace.Engine(tmp_path / "race")
    eng.create_table(
        "stock",
        "json:/data/stock",
        schema="symbol STRING, Gone BOOLEAN",
        key="symbol",
        deleted="gone",
    )
    eng.add("SELECT count(*) AS n FROM stock", name="n")
    assert "over:     table stock (key symbol, deleted by Gone)" in eng.explain("n")
    assert "\ntable stock (key symbol, deleted by Gone)\n" in eng.explain()
