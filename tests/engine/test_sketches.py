"""Distinct counts and percentiles out of shared sketches, against Spark's own answers over the same
rows."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.families.windows.sketches.kinds import SENT_MAX
from tests.engine import random_windows
from tests.engine import test_oracle as oracle
from tests.engine import test_queries_come_and_go as changes
from tests.engine.race import Race, Row, row
from tests.streams import EPOCH_US

EXACT = [
    "count(DISTINCT k)",
    "count(DISTINCT x)",
    "count(DISTINCT n)",
    "count(DISTINCT date_trunc('minute', ts))",
    "count(DISTINCT n > 3)",
    "median(x)",
    "median(n)",
    "percentile(x, 0.3)",
    "percentile(big, 0.95)",
    "percentile(n, 0) + percentile(n, 1)",
    "count(DISTINCT CAST(n AS DECIMAL(9,2)))",
    "median(x) FILTER (WHERE n > 2)",
    "percentile_approx(n, 0.5)",
    # without NaN: what Spark's own summaries answer with NaN among the values depends on the order
    # of the rows
    "percentile_approx(CASE WHEN NOT isnan(x) THEN x END, 0.9)",
    "percentile_approx(big, 0.25, 1000)",
    "count(DISTINCT CASE WHEN n > 2 THEN k END)",
]
WINDOWS = [
    "'10 seconds'",
    "'20 seconds', '10 seconds'",
    "'30 seconds', '5 seconds'",
    "'7 seconds', '3 seconds', '1 second'",
    "'60 seconds', '20 seconds'",
    "'9 seconds', '4 seconds'",
]


def asked(what: str, window: str, keys: str = "k", where: str = "") -> str:
    by = f"{keys}, " if keys else ""
    where = f"WHERE {where} " if where else ""
    return f"SELECT {by}{what}, window.end AS we FROM s {where}GROUP BY {by}window(ts, {window})"


def draw_rows(r: Random, first_s: int, count: int) -> list[Row]:
    """Rows with nulls, NaN, both zeros and equal values."""
    odd = [None, float("nan"), 0.0, -0.0, float("inf"), 2.5]
    return [
        row(
            first_s + r.random() * 25,
            r.choice(["a", "b", "ü", "", None]),
            r.choice([None, 1, 2, 3, 4, 50]),
            r.choice(odd) if r.random() < 0.4 else round(r.uniform(-9, 9), 2),
            r.choice([None, r.randint(-99, 2**52)]),
        )
        for _ in range(count)
    ]


def test_exact_ones_are_sparks(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    r = Random(seed)
    race = Race(spark, tmp_path, late_s=5)
    for i, what in enumerate(EXACT):
        where, keys = r.choice(["", "", "n > 1", "k <> 'a'"]), r.choice(["k", "k", "", "n"])
        race.eng.add(
            asked(f"{what} AS v, count(*) AS c", WINDOWS[i % len(WINDOWS)], keys, where),
            name=f"q{i}",
        )
    names = [f"q{i}" for i in range(len(EXACT))]
    assert "plain" not in race.eng.explain(), race.eng.explain()
    race.feed(*(draw_rows(r, 20 * i, 120) for i in range(5)))
    race.eng.run()
    assert {q.state for q in race.eng.queries()} == {"live"}
    race.check(*names)


APPROXIMATE = {
    "users": asked(
        "approx_count_distinct(big) AS v, count(DISTINCT big) AS exact",
        "'40 seconds', '10 seconds'",
    ),
    "finer": asked(
        "approx_count_distinct(big, 0.01) AS v, count(DISTINCT big) AS exact", "'30 seconds'", ""
    ),
    "texts": asked(
        "approx_count_distinct(concat(k, CAST(n AS STRING))) AS v, "
        "count(DISTINCT concat(k, CAST(n AS STRING))) AS exact",
        "'20 seconds'",
        "",
    ),
    "doubles": asked(
        "approx_count_distinct(x) AS v, count(DISTINCT x) AS exact", "'20 seconds', '7 seconds'"
    ),
    "high": asked(
        "percentile_approx(x, 0.9, 20) AS v, mode(n) AS m", "'40 seconds', '10 seconds'", ""
    ),
}


@pytest.fixture(scope="module")
def approximate(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    """Groups of thousands of rows, read in three rounds with a restart after the first."""
    r = Random(11)
    race = Race(spark, tmp_path_factory.mktemp("approximate"))
    race.eng.add_many(APPROXIMATE)
    for i in range(3):
        race.feed(
            [
                row(
                    20 * i + r.random() * 22,
                    r.choice("ab"),
                    r.randint(0, 300),
                    r.choice([0.0, -0.0, r.gauss(0, 1)]),
                    r.randint(0, 2_000),
                )
                for _ in range(3_000)
            ]
        )
        race.eng.run()
        if i == 0:
            race.open()
    assert "plain" not in race.eng.explain()
    return race


def test_distinct_counts_are_sparks(approximate: Race) -> None:
    """Spark's own estimate, not one as good."""
    names = [name for name in APPROXIMATE if name != "high"]
    assert all(len(approximate.answers(name)) >= 2 for name in names)
    approximate.check(*names)


def test_percentiles_are_within_the_stated_error(approximate: Race) -> None:
    """Ranks are off by at most 1/20 of the rows, where cells and fragments have been thinned; modes
    are exact."""
    rows = [r for table in approximate.files for r in table.to_pylist()]
    ours = approximate.answers("high")
    assert ours
    for answer in ours:
        inside = [r for r in rows if 0 < answer["we"].timestamp() - r["ts"].timestamp() <= 40]
        values = sorted(r["x"] for r in inside)
        assert len(values) > 1_000
        below, upto = sum(v < answer["v"] for v in values), sum(v <= answer["v"] for v in values)
        assert below - len(values) / 20 <= 0.9 * len(values) <= upto + len(values) / 20
        counts = _counted([r["n"] for r in inside])
        assert counts[answer["m"]] == max(counts.values())


def _counted(values: list[Any]) -> dict[Any, int]:
    return {v: values.count(v) for v in set(values)}


def test_queries_come_and_go_and_trees_are_rewoven(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Newcomers with the log's history answer windows that are open; nobody misses an answer; a
    restart in between."""
    r = Random(seed)
    race = Race(spark, tmp_path, late_s=3)
    race.eng.add_many(
        {
            "first": asked("count(DISTINCT n) AS v", "'20 seconds', '10 seconds'"),
            "other": asked("count(DISTINCT n) AS v, median(x) AS m", "'12 seconds', '4 seconds'"),
        }
    )
    newcomers = iter(
        [
            asked("count(DISTINCT n) AS v", "'40 seconds', '8 seconds'"),
            asked("count(DISTINCT n) AS v, percentile(x, 0.9) AS m", "'9 seconds', '3 seconds'"),
            asked("median(x) AS v", "'14 seconds', '7 seconds'"),
            asked("count(DISTINCT n) AS v", "'30 seconds', '15 seconds'", where="n > 1"),
        ]
    )
    for i in range(5):
        race.feed(draw_rows(r, 20 * i, 80))
        race.eng.run()
        sql = next(newcomers, None)
        if sql is not None:
            race.eng.add(sql, name=f"new{i}")
        if i == 1:
            race.open()
        if i == 2:
            race.eng.drop("other")
    race.check("first")
    race.check("new0", "new1", "new2", "new3", whole=False)
    added: datetime = min(a["we"] for a in race.answers("new0"))
    assert added.timestamp() - 40 < race.files[0].column("ts")[0].as_py().timestamp() + 25, (
        "it had history"
    )


def test_exact_counts_are_refused_above_the_limit(spark: SparkSession, tmp_path: Path) -> None:
    """In one pane and in a window: the query is quarantined, with the limit and what to do; its
    neighbours go on."""
    race = Race(spark, tmp_path, config=Config.of(distinct_values_max=30, sketch_values_max=50))
    race.eng.add_many(
        {
            "pane": asked("count(DISTINCT big) AS v", "'10 seconds'", "", "k = 'a'"),
            "window": asked(
                "count(DISTINCT big) AS v", "'40 seconds', '10 seconds'", "", "k = 'b'"
            ),
            "short": asked("count(DISTINCT big) AS v", "'10 seconds'", "", "k = 'b'"),
            "values": asked("median(big) AS v", "'40 seconds', '10 seconds'", "", "k = 'c'"),
            "about": asked("approx_count_distinct(big) AS v", "'40 seconds'", ""),
        }
    )
    rows = [row(i / 20, "abc"[i % 3], 1, 1.0, i) for i in range(800)]
    race.feed([r for r in rows if r["k"] != "a" or r["big"] >= 600], [row(60), row(100)])
    race.eng.run()
    for name, limit in (
        ("pane", "distinct_values_max = 30"),
        ("window", "distinct_values_max = 30"),
        ("values", "sketch_values_max = 50"),
    ):
        state, reason = race.state(name)
        assert state == "quarantined" and limit in reason and "use " in reason, (
            name,
            state,
            reason,
        )
    assert race.state("pane")[1].startswith("DISTINCT_VALUES:")
    assert race.state("short")[0] == "quarantined", "66 values in ten seconds"
    assert race.state("about")[0] == "live"
    assert race.answers("about")


def test_what_was_over_a_limit_is_not_taken_for_all_under_a_higher_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The log has no values of such panes: with history from before, a query begins after them."""
    race = Race(spark, tmp_path, config=Config.of(distinct_values_max=30))
    counted = asked("count(DISTINCT big) AS v", "'120 seconds', '20 seconds'", "", "k = 'a'")
    race.eng.add_many(
        {
            "before": counted,
            "rows": asked("count(*) AS v", "'20 seconds'", "", "k = 'a'"),
            "others": asked("count(DISTINCT big) AS v", "'20 seconds'", "", "k = 'z'"),
        }
    )
    race.feed([row(i / 10, big=i) for i in range(400)], [row(60), row(100)])
    race.eng.run()
    assert race.state("before")[0] == "quarantined" and race.state("others")[0] == "live"
    race.eng.stop()
    race.config = Config.of(distinct_values_max=300)
    race.open()
    race.eng.add(counted, name="again")
    race.feed([row(i, big=i) for i in range(101, 200)], [row(300)])
    race.eng.run()
    assert race.state("again") == ("live", "")
    race.check("again", whole=False)
    first: datetime = min(a["we"] for a in race.answers("again"))
    assert round(first.timestamp() * 1e6) == EPOCH_US + 160_000_000, (
        "the first window that begins after 39.9 s"
    )


def test_sketches_that_take_too_much_memory_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    race = Race(spark, tmp_path, config=Config.of(sketch_bytes_max=20_000))
    race.eng.add_many(
        {
            "many": asked("approx_count_distinct(n) AS v", "'30 seconds', '10 seconds'", "big"),
            "few": asked("approx_count_distinct(n) AS v", "'10 seconds'", ""),
        }
    )
    race.feed([row(i / 10, big=i) for i in range(300)], [row(40)])
    race.eng.run()
    assert race.state("many")[0] == "quarantined"
    assert "sketch_bytes_max = 20,000" in race.state("many")[1]
    race.check("few")


def test_a_round_of_too_many_values_is_asked_for_as_sketches(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is sent as it comes is larger than its sketches; nobody is refused for that."""
    race = Race(spark, tmp_path, config=Config.of(sketch_bytes_max=20_000))
    race.eng.add(asked("approx_count_distinct(n, 0.2) AS v", "'10 seconds'", ""), name="few")
    race.feed([row(i / 1_000, n=i) for i in range(4_000)], [row(40)])
    race.eng.run()
    assert race.state("few")[0] == "live"
    race.check("few")


def test_a_cell_of_very_many_rows_is_asked_for_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small round with more rows of a cell than are sent as they come, then rounds of few rows:
    all are Spark's."""
    monkeypatch.setattr("headrace.families.windows.driver_work.LOOK_ROUNDS", 1)
    race = Race(spark, tmp_path)
    own = "approx_count_distinct({0}) AS a, percentile({0}, 0.5) AS m"
    race.eng.add_many({c: asked(own.format(c), "'10 seconds'", "") for c in ("n", "big", "x")})
    many = [row(i / 1_000, n=i % 700, big=i, x=i / 7) for i in range(SENT_MAX + 10)]
    race.feed(many, [row(20 + i, n=i, big=i, x=-0.0) for i in range(9)], [row(40)], [row(60)])
    race.eng.run()
    for name in ("n", "big", "x"):
        race.check(name)


SKETCHED = [
    "median(x)",
    "median(n)",
    "percentile(x, 0.7)",
    "percentile(big, 0.1)",
    "percentile(f, 1)",
    "count(DISTINCT k)",
    "count(DISTINCT x)",
    "count(DISTINCT day)",
    "count(DISTINCT at)",
    "count(DISTINCT flag)",
    "count(DISTINCT dec)",
    "percentile_approx(n, 0.25)",
    "percentile_approx(CASE WHEN NOT isnan(f) THEN f END, 0.75)",
    "percentile_approx(big, 1)",
    "sum(n)",
    "count(*)",
    "approx_count_distinct(side)",
    "approx_count_distinct(flag)",
    "median(n) FILTER (WHERE flag)",
    "median(n) + count(DISTINCT side)",
    "max(n) - median(n)",
    "count(DISTINCT n)",
    # doubles of all kinds, both ends of whole numbers, times around 1970, wide decimals, odd texts
    "median(d)",
    "percentile(d, 0.9)",
    "count(DISTINCT d)",
    "count(DISTINCT f)",
    "median(f)",
    "median(huge)",
    "percentile(huge, 0.25)",
    "percentile(tiny, 0.5)",
    "percentile_approx(whole, 0.5)",
    "percentile_approx(huge, 0.9)",
    "percentile_approx(small, 0.1, 500)",
    "count(DISTINCT wide)",
    "count(DISTINCT huge)",
    "count(DISTINCT tiny)",
    "count(DISTINCT CAST(d AS STRING))",
    "count(DISTINCT date_trunc('HOUR', at))",
    *(f"approx_count_distinct({c})" for c in random_windows.FIELDS),
    "approx_count_distinct(x, 0.2)",
    "approx_count_distinct(huge, 0.01)",
    "approx_count_distinct(d) FILTER (WHERE flag)",
]


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@settings(max_examples=20, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_random_sketches_are_sparks(spark: SparkSession, seed: int) -> None:
    """Random streams and queries, as in the oracle's test, that all ask for sketches; once they
    come and go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_windows, "AGGREGATES", SKETCHED)
        patch.setattr(
            random_windows, "HAVINGS", ["count(*) > 1", "median(n) > 0", "count(DISTINCT k) > 1"]
        )
        oracle.check_seed(spark, seed)
        changes.check_changes(spark, seed)
