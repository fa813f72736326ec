"""Rounds that are sent as rows: the same answers, whatever Spark is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.families.windows import driver_work
from headrace.families.windows.aggregation import sending
from tests.engine.race import Race, Row, row

AGGREGATES = (
    "count(*) AS c, count(x) AS cx, sum(n) AS sn, sum(big) AS sb",
    "avg(x) AS ax, min(x) AS lo, max(x) AS hi",
    "stddev(x) AS d, var_pop(n) AS v, min(big) AS lb",
    "max(ts) AS last, min(n) AS ln",
)
WHERES = ("", "WHERE x > 1 ", "WHERE k <> 'b' AND n > 2 ")


def thin(first_s: int, count: int) -> list[Row]:
    """Every row a group of its own; nulls, NaN and numbers too large for a double among the
    values."""
    odd = {2: None, 5: float("nan"), 7: float("inf"), 11: -0.0}
    return [
        row(first_s + i, "abcdefg"[i % 7], i % 5, odd.get(i % 13, i / 4), 2**60 + i)
        for i in range(count)
    ]


def test_rows_and_groups_give_the_same_answers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds are grouped at first, then sent; grouped again when it is time to look, and as long as
    it pays."""
    sent: list[bool] = []
    own = driver_work.DriverWork._collect

    def note(
        self: driver_work.DriverWork, batch: Any, cuts: Any, limits: Any, as_rows: bool
    ) -> Any:
        sent.append(as_rows)
        return own(self, batch, cuts, limits, as_rows)

    monkeypatch.setattr(driver_work.DriverWork, "_collect", note)
    monkeypatch.setattr(sending, "LOOK_ROUNDS", 2)
    race = Race(spark, tmp_path, late_s=3)
    names = race.eng.add_many(
        {
            f"q{i}": f"SELECT k, {what}, window.end AS we FROM s {WHERES[i % 3]}"
            "GROUP BY k, window(ts, '20 seconds', '10 seconds')"
            for i, what in enumerate(AGGREGATES)
        }
    )
    thick = [row(140 + i / 100, "a", 1, 1.0, 1) for i in range(400)]
    odd = [*thin(144, 3), row(100, "late"), {**row(146, "b"), "ts": None}]
    race.feed(*(thin(20 * i, 20) for i in range(7)), thick, odd, thin(160, 40))
    race.eng.run()
    race.check(*names)
    assert sent == [False, True, True, False, True, True, False, True, True, False]
