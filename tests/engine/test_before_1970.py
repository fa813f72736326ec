"""Times before and around 1970: pane numbers and times are below zero there, and none of them may
mean "nothing".

Every kind of aggregate, out of rings, crowds of constants and sketches, against Spark's own
answers.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.engine.race import Race, Row, row
from tests.streams import EPOCH_US

YEAR_S = 31_556_952
AGGREGATES = {
    "rings": "count(*) AS c, count(x) AS cx, sum(n) AS sn, sum(big) AS sb, sum(x) AS sx, avg(x) AS ax, "
    "stddev(x) AS dx, var_pop(n) AS vn, min(n) AS mn, max(x) AS mx, min(ts) AS mt, max(n > 3) AS mb",
    "values": "median(x) AS m, median(n) AS mn, percentile(big, 0.3) AS p, mode(n) AS o",
    "distinct": "count(DISTINCT n) AS dn, count(DISTINCT x) AS dx, count(DISTINCT k) AS dk, count(DISTINCT ts) AS dt",
    "about": "approx_count_distinct(n) AS an, percentile_approx(n, 0.5) AS pn, percentile_approx(big, 0.9, 200) AS pb",
}
WINDOWS = [
    "'10 seconds'",
    "'20 seconds', '5 seconds'",
    "'7 seconds', '3 seconds', '1 second'",
    "'1 second'",
    "'250 milliseconds'",
    "'60 seconds', '20 seconds'",
]


def add_all(race: Race, r: Random) -> list[str]:
    """Every kind with windows that differ from run to run; bands of constants for a crowd."""
    queries = {
        f"{kind}{i}": f"SELECT {keys}{what}, window.end AS we FROM s {where}GROUP BY {keys}window(ts, {window})"
        for kind, what in AGGREGATES.items()
        for i, window in enumerate(r.sample(WINDOWS, 1))
        for keys, where in [(r.choice(["", "k, "]), r.choice(["", "", "WHERE n > 1 "]))]
    }
    for i in range(18):
        queries[f"band{i}"] = (
            f"SELECT count(*) AS c, sum(n) AS v, window.end AS we FROM s WHERE x < {i / 2 - 4} "
            f"GROUP BY window(ts, {r.choice(WINDOWS[:2])})"
        )
    race.eng.add_many(queries)
    assert "plain" not in race.eng.explain()
    return [*queries][:4] + r.sample([n for n in queries if n.startswith("band")], 2)


def draw_rows(r: Random, first_s: float, count: int, span_s: float = 30) -> list[Row]:
    return [
        row(
            first_s + r.random() * span_s - EPOCH_US / 1e6,
            r.choice(["a", "b", None]),
            r.choice([None, 1, 2, 3, 4, 50]),
            r.choice([None, 0.0, 2.5, round(r.uniform(-9, 9), 2)]),
            r.choice([None, r.randint(-(2**40), 2**40)]),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("begin_s", [-70, -1960 * YEAR_S], ids=["1970", "year 10"])
def test_every_kind_is_sparks_before_1970(
    spark: SparkSession, tmp_path: Path, begin_s: int, seed: int
) -> None:
    """Rounds from 70 s before 1970 to 50 s after, and long before; a restart in between."""
    r = Random(seed)
    race = Race(spark, tmp_path, late_s=2)
    names = add_all(race, r)
    for i in range(5):
        race.feed(draw_rows(r, begin_s + 24 * i, 60))
        race.eng.run()
        if i == 1:
            race.open()
    assert {q.state for q in race.eng.queries()} == {"live"}
    race.check(*names)


@pytest.mark.parametrize("width", [10, 3])
def test_the_window_that_ends_one_grain_before_1970(
    spark: SparkSession, tmp_path: Path, width: int
) -> None:
    """Its end is pane -1; the one that ends in 1970 is pane 0.  Each is the first and only answer
    of a round."""
    race = Race(spark, tmp_path)
    names = []
    for kind, what in AGGREGATES.items():
        race.eng.add(
            f"SELECT {what}, window.end AS we FROM s GROUP BY window(ts, '{width} seconds')",
            name=kind,
        )
        names.append(kind)
    for end in (-2, -1, 0, 1, 2):
        at = (end - 1) * width - EPOCH_US / 1e6
        race.feed([row(at + i * width / 8, "a", i + 1, i / 2, i * i) for i in range(8)])
        race.eng.run()
    race.check(*names)


def test_rows_without_a_time_come_first(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """A round that knows of no time at all must not say that time begins in 1970."""
    r = Random(seed)
    race = Race(spark, tmp_path)
    names = add_all(race, r)
    race.feed([{**row(0), "ts": None}], draw_rows(r, -500, 50), draw_rows(r, -470, 50))
    race.eng.run()
    race.check(*names)
