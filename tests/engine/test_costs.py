"""What rounds cost: forecasts beside measurements, and the split among queries, from committed
rounds alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.cost_attribution import StreamCost
from headrace.families.windows.costs.flow import flow_of
from headrace.families.windows.figures import figures_of
from headrace.forecast import recent_stats
from headrace.runtime.ledger import Ledger
from tests.engine.race import Race, rows_of

FIGURES = ("figures", "priced", "watermark_before_us")
FACTOR = 3.0  # what a busy machine may add; `headrace bench cost` holds 1.5
QUERIES = {
    "sums": "SELECT k, sum(n) AS t FROM s GROUP BY k, window(ts, '10 seconds')",
    "same": "SELECT k, sum(n) AS t FROM s GROUP BY k, window(ts, '10 seconds')",
    "picky": "SELECT k, avg(x) AS m FROM s WHERE n > 2 GROUP BY k, window(ts, '20 seconds', '5 seconds')",
    "each": "SELECT upper(k) AS k, n FROM s WHERE n > 3",
    "kept": "SELECT k, n FROM s WHERE n > 3",
}


def ledger_of(race: Race) -> Ledger:
    return Ledger(race.eng.home.disk, race.eng.home.stream_folder("s"))


def estimated_s(text: str) -> float:
    found = re.search(r"estimated: ([\d.]+) s for a round of", text)
    assert found, text
    return float(found[1])


def cost_of(race: Race) -> StreamCost:
    (cost,) = headrace.Engine(race.folder / "race").costs()  # as another process sees it
    return cost


def test_the_split_adds_up_to_what_was_measured(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(*(rows_of(20 * i, 20) for i in range(3)))
    race.eng.run()
    cost = cost_of(race)
    measured = [s["seconds"]["total"] for s in recent_stats(ledger_of(race))]
    assert (cost.first_round, cost.rounds) == (0, 3)
    assert cost.measured_s == pytest.approx(sum(measured) / 3)
    assert abs(sum(q.seconds for q in cost.queries) - cost.measured_s) < 1e-6 * cost.measured_s
    seconds = {q.name: q.seconds for q in cost.queries}
    assert [q.seconds for q in cost.queries] == sorted(seconds.values(), reverse=True)
    assert all(s > 0 for s in seconds.values()) and set(seconds) == set(QUERIES)
    assert seconds["same"] == pytest.approx(seconds["sums"])
    assert seconds["picky"] > seconds["sums"]
    counts = {n: race.eng.results(n).num_rows if n != "kept" else None for n in QUERIES}
    assert {q.name: q.answers for q in cost.queries} == counts
    assert {q.family for q in cost.queries} == {"windows", "joins", "plain"}


def test_a_query_that_has_gone_is_billed_and_one_that_came_is_not_yet(
    spark: SparkSession, tmp_path: Path
) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20), rows_of(20, 20))
    race.eng.run()
    before = {q.name: q.seconds for q in cost_of(race).queries}
    race.eng.drop("same")
    race.eng.add("SELECT count(*) AS c FROM s GROUP BY window(ts, '10 seconds')", name="new")
    cost = cost_of(race)
    assert {q.name: q.seconds for q in cost.queries} == pytest.approx(before)
    assert [q.name for q in cost.queries if not q.is_live] == ["same"]


def test_without_shared_queries_all_is_plain(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many({"each": QUERIES["each"], "all": "SELECT * FROM s"})
    race.feed(rows_of(0, 20))
    race.eng.run()
    cost = cost_of(race)
    assert {q.family for q in cost.queries} == {"plain"}
    assert abs(sum(q.seconds for q in cost.queries) - cost.measured_s) < 1e-6 * cost.measured_s


def test_the_estimate_is_near_what_the_next_rounds_take(
    spark: SparkSession, tmp_path: Path
) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many({n: sql for n, sql in QUERIES.items() if n not in ("each", "kept")})
    race.feed(*(rows_of(20 * i, 20) for i in range(8)))
    race.eng.run()
    told_s = estimated_s(race.eng.explain())
    race.feed(*(rows_of(20 * i, 20) for i in range(8, 13)))
    race.eng.run()
    found = median(s["seconds"]["total"] for s in recent_stats(ledger_of(race), 5))
    assert found / FACTOR < told_s < found * FACTOR
    assert "as learnt from 8 rounds before the newest" in race.eng.explain()


def test_the_estimate_moves_with_the_plan_before_any_round_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    race = Race(spark, tmp_path)
    race.eng.add("SELECT k, sum(n) AS t FROM s GROUP BY k, window(ts, '10 seconds')", name="first")
    race.feed(*(rows_of(20 * i, 20) for i in range(6)))
    race.eng.run()
    alone_s = estimated_s(race.eng.explain())
    race.eng.add_many(
        {
            f"more{i}": f"SELECT k, avg(x) AS a{i} FROM s WHERE n > {i} GROUP BY k, window(ts, '{i + 2} seconds')"
            for i in range(60)
        }
    )
    together_s = estimated_s(race.eng.explain())
    assert together_s > alone_s
    race.feed(*(rows_of(20 * i, 20) for i in range(6, 11)))
    race.eng.run()
    found = median(s["seconds"]["total"] for s in recent_stats(ledger_of(race), 5))
    assert found / FACTOR < together_s < found * FACTOR


def test_the_estimate_has_not_seen_the_newest_round(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(*(rows_of(20 * i, 20) for i in range(4)))
    race.eng.run()
    ledger = ledger_of(race)
    told_s = estimated_s(race.eng.explain())
    newest = ledger.newest
    assert newest is not None
    slow = dict.fromkeys(newest.stats["seconds"], 100.0)
    ledger.commit(replace(newest, stats={**newest.stats, "seconds": slow}))
    again = headrace.Engine(race.folder / "race").explain()
    assert estimated_s(again) == told_s
    assert "in 100.000 s" in again


def test_rounds_tell_what_a_forecast_needs(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20), rows_of(20, 20))
    race.eng.run()
    history = recent_stats(ledger_of(race))
    own = figures_of(history[-1])
    assert own.groups == {"`k`": 3} and own.keys == ("`k`",) and own.predicates == 1
    assert 0 < own.cells <= 20
    assert set(history[-1]["priced"]) == {
        "plan",
        "spark",
        "joins",
        "plain",
        "roll",
        "answer",
        "write",
        "commit",
    }
    assert set(history[-1]["figures"]["plain"]["seconds"]) == {
        str(race.eng.catalog.query("each").id)
    }
    flow = flow_of(history)
    assert flow is not None
    assert (flow.rows, flow.advance_us) == (20, 20_000_000)


def test_rounds_without_figures_are_read(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20), rows_of(20, 20))
    race.eng.run()
    ledger = ledger_of(race)
    for round_id in (0, 1):
        manifest = ledger.read(round_id)
        ledger.commit(
            replace(manifest, stats={k: v for k, v in manifest.stats.items() if k not in FIGURES})
        )
    again = headrace.Engine(race.folder / "race")
    assert "estimated: " in again.explain() and "by default rates" in again.explain()
    (cost,) = again.costs()
    assert abs(sum(q.seconds for q in cost.queries) - cost.measured_s) < 1e-6 * cost.measured_s
