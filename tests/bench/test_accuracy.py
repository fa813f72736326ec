"""Sums of doubles against exact arithmetic: a small form of `headrace bench accuracy`, and what it
trusts."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.bench.accuracy import (
    ERROR_MAX,
    FIGURES,
    PANE_S,
    PANES,
    START_S,
    WINDOWS,
    Exact,
    Size,
    answered,
    exact_panes,
    rows_of,
    worst_errors,
)
from headrace.values import US_PER_S

SMALL = Size(200_000, 2)


def test_the_exact_sums_are_those_of_fractions(spark: SparkSession) -> None:
    size = Size(20_000)
    rows = rows_of(spark.range(size.rows).withColumnRenamed("id", "value"), size)
    mine: defaultdict[tuple[int, int], Exact] = defaultdict(Exact)
    for row in (
        rows.selectExpr("unix_micros(ts) AS us", "g", "mixed", "hard", "level")
        .toArrow()
        .to_pylist()
    ):
        mixed, hard, level = (Fraction(row[c]) for c in ("mixed", "hard", "level"))
        pane = (row["us"] - START_S * US_PER_S) // (PANE_S * US_PER_S)
        mine[pane, row["g"]] += Exact(1, mixed, hard, abs(float(hard)), level, level * level)
    theirs = exact_panes(spark, size)
    assert len(theirs) == len(mine) == 4 * PANES
    for key, exact in mine.items():
        found = theirs[key]
        assert (found.rows, found.mixed, found.hard, found.level, found.squares) == (
            exact.rows,
            exact.mixed,
            exact.hard,
            exact.level,
            exact.squares,
        )


@pytest.mark.slow
def test_sums_means_and_deviations_are_as_exact_as_promised(
    spark: SparkSession, tmp_path: Path
) -> None:
    answers, exact = answered(spark, tmp_path, SMALL), exact_panes(spark, SMALL)
    windows = sum((PANES - panes) // slide + 1 for panes, slide in WINDOWS)
    assert len(answers) == 5 * windows  # four groups, and all
    assert sum(e.rows for e in exact.values()) == SMALL.rows
    errors = worst_errors(answers, exact)
    assert all(errors.relative[name] <= ERROR_MAX for name in FIGURES if name != "hard_sum"), errors
    assert errors.hard_to_size <= 1e-12
    assert errors.condition > 1e9, "the hard column is not hard"


def test_a_wrong_answer_is_found() -> None:
    exact = {(0, 0): Exact(4, Fraction(8), Fraction(2), 4.0, Fraction(6), Fraction(10))}
    right = {
        "mixed_sum": 8.0,
        "mixed_avg": 2.0,
        "level_avg": 1.5,
        "level_dev": 0.5,
        "hard_split": 2.0,
        "hard_sum": 2.0,
    }
    assert max(worst_errors({(0, 1, 0): right}, exact).relative.values()) == 0
    for name in FIGURES:
        wrong = {**right, name: right[name] * (1 + 1e-8)}
        found = worst_errors({(0, 1, 0): wrong}, exact).relative
        assert found[name] > ERROR_MAX and max(v for n, v in found.items() if n != name) == 0
