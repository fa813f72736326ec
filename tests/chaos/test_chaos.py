"""The short form of `make chaos`: a few faults drawn by the run's seed, every answer compared with
Spark's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.run import Plan, Run

SECONDS = 75


@pytest.mark.timeout(1200)
def test_faults_cost_no_answer(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run = Run(Plan(seed, SECONDS), tmp_path / "chaos", lambda: spark, print)
    verdict = run.carry_out()
    assert not verdict.wrong
    assert run.done.total() >= 2 and verdict.answers > 100, "it was to work, and to be disturbed"
