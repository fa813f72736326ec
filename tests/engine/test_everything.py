"""A query of each kind, over two streams and a table, restarted twice: Spark's own answers.

It is what `make test-spark` runs on other versions of Spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.engine import Engine
from tests.everything import KEPT, agree, check, play, spark_answers, steps


def test_everything_is_answered(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    played = steps(seed)
    ours = play(tmp_path / "src", played, lambda: Engine(tmp_path / "race", spark=spark))
    check(ours, spark_answers(spark, played))
    agree(ours, spark.version, seed)


def test_versions_that_answer_otherwise_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEPT, str(tmp_path))
    agree({"n": [(1.0,)]}, "4.0.1", seed=7)
    agree({"n": [(1.0,)]}, "4.3.0", seed=7)
    agree({"n": [(2.0,)]}, "4.3.0", seed=8)
    with pytest.raises(AssertionError):
        agree({"n": [(2.0,)]}, "4.2.0", seed=7)
