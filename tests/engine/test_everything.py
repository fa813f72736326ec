"""A query of each kind, over two streams and a table, restarted twice: Spark's own answers.

It is what `make test-spark` runs on other versions of Spark.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.engine import Engine
from tests.everything import check, play, spark_answers, steps


def test_everything_is_answered(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    played = steps(seed)
    ours = play(tmp_path / "src", played, lambda: Engine(tmp_path / "race", spark=spark))
    check(ours, spark_answers(spark, played))
