"""Distinct counts and percentiles out of shared sketches, against Spark's own answers over the same rows."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headrace.config import Config
from tests.engine.race import Race, Row, row, rows_of
from tests.streams import canonical, same_rows

EXACT = [
    "count(DISTINCT k)", "count(DISTINCT x)", "count(DISTINCT n)", "count(DISTINCT date_trunc('minute', ts))",
    "count(DISTINCT n > 3)", "median(x)", "median(n)", "percentile(x, 0.3)", "percentile(big, 0.95)",
    "percentile(n, 0) + percentile(n, 1)", "count(DISTINCT CAST(n AS DECIMAL(9,2)))",
    "median(x) FILTER (WHERE n > 2)", "percentile_approx(n, 0.5)", "percentile_approx(x, 0.9)",
    "percentile_approx(big, 0.25, 100)", "count(DISTINCT CASE WHEN n > 2 THEN k END)",
]
WINDOWS = [
    "'10 seconds'", "'20 seconds', '10 seconds'", "'30 seconds', '5 seconds'", "'7 seconds', '3 seconds', '1 second'",
    "'60 seconds', '20 seconds'", "'9 seconds', '4 seconds'",
]


def asked(what: str, window: str, keys: str = "k", where: str = "") -> str:
    by = f"{keys}, " if keys else ""
    where = f"WHERE {where} " if where else ""
    return f"SELECT {by}{what}, window.end AS we FROM s {where}GROUP BY {by}window(ts, {window})"


def draw_rows(r: Random, first_s: int, count: int) -> list[Row]:
    """Rows with nulls, NaN, both zeros and equal values."""
    odd = [None, float("nan"), 0.0, -0.0, float("inf"), 2.5]
    return [
        row(first_s + r.random() * 25, r.choice(["a", "b", "ü", "", None]), r.choice([None, 1, 2, 3, 4, 50]),
            r.choice(odd) if r.random() < 0.4 else round(r.uniform(-9, 9), 2), r.choice([None, r.randint(-99, 2**52)]))
        for _ in range(count)
    ]


def test_exact_ones_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    r = Random(7)
    race = Race(spark, tmp_path, late_s=5)
    for i, what in enumerate(EXACT):
        where, keys = r.choice(["", "", "n > 1", "k <> 'a'"]), r.choice(["k", "k", "", "n"])
        race.eng.add(asked(f"{what} AS v, count(*) AS c", WINDOWS[i % len(WINDOWS)], keys, where), name=f"q{i}")
    names = [f"q{i}" for i in range(len(EXACT))]
    assert "plain" not in race.eng.explain(), race.eng.explain()
    race.feed(*(draw_rows(r, 20 * i, 120) for i in range(5)))
    race.eng.run()
    assert {q.reason for q in race.eng.queries()} == {""}
    race.check(*names)
