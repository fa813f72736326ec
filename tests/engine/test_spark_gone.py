"""Spark's Java is killed, in earnest: an engine in a process of its own, and what is left of the
home afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.restarts import Restarts
from headrace.runtime.sparkuse import Gateway, SparkUse, spark_gone
from tests.engine.mortal import SUMS
from tests.engine.race import DDL, SCHEMA, rows_of, table_of
from tests.streams import Stream, canonical, same_rows, spark_answer

CHILD_S_MAX = 280


def play(folder: Path, form: str) -> dict[str, Any]:
    """What the child said, all together."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [sys.executable, str(Path(__file__).with_name("mortal.py")), str(folder), form]
    done = subprocess.run(
        words, capture_output=True, text=True, env=env, timeout=CHILD_S_MAX, check=False
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    said: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        said.update(json.loads(line))
    return said


def check(spark: SparkSession, folder: Path, files: int) -> None:
    """The home goes on, and every answer is there once: Spark's own, over all rows of closed
    windows."""
    with headrace.Engine(folder / "race", spark=spark) as eng:
        eng.run()
        ours = eng.results("q")
    tables = tuple(table_of(rows_of(index * 10, 10)) for index in range(files))
    stream = Stream(SCHEMA, DDL, tables, 0)
    columns = ["k", "t"]
    text = SUMS.replace("AS t", "AS t, window.end AS we")
    theirs = spark_answer(spark, text, "s", stream.counted(), DDL)
    closed_us = stream.closed_us() or 0
    ends = [w.timestamp() * 1e6 <= closed_us + 0.5 for w in theirs.column("we").to_pylist()]
    assert ours.num_rows == sum(ends)
    assert same_rows(canonical(ours, columns), canonical(theirs.filter(ends), columns))


def test_a_spark_that_dies_is_noticed_and_told(spark: SparkSession, tmp_path: Path) -> None:
    said = play(tmp_path, "told")
    # this machine may have stood still: only what is slow twice is slow
    if said["noticed_s"] >= 1.0:
        (again := tmp_path / "again").mkdir()
        said["noticed_s"] = play(again, "told")["noticed_s"]
    assert said.pop("noticed_s") < 1.0
    assert said.pop("open") == []
    assert said == {
        "scratch": True,
        "watches": False,
        "stop": "SPARK_GONE",
        "again": "none",
        "close": "none",
    }
    assert list(tmp_path.glob("race/tmp/*")) == []
    check(spark, tmp_path, 1)


def test_spark_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    said = play(tmp_path, "restarted")
    assert said == {"runs": True, "is_another": True, "watches": True, "stop": "SPARK_GONE"}
    check(spark, tmp_path, 2)


@pytest.mark.slow
def test_a_spark_that_dies_while_a_home_is_drained(spark: SparkSession, tmp_path: Path) -> None:
    assert play(tmp_path, "drained") == {"run": "SPARK_GONE", "again": "none"}
    check(spark, tmp_path, 8)


@pytest.mark.slow
def test_a_spark_that_always_dies_is_given_up(spark: SparkSession, tmp_path: Path) -> None:
    assert play(tmp_path, "given_up") == {"kills": 3, "stop": "SPARK_GONE"}
    check(spark, tmp_path, 1)


def test_pauses_grow_up_to_a_limit() -> None:
    restarts = Restarts(Config.of(restart=5, restart_pause_ms=100, restart_pause_ms_max=1_000))
    pauses = []
    while restarts.are_left:
        pauses.append(restarts.next_pause_s())
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0]
    restarts.end_row()
    assert restarts.next_pause_s() == 0.1
    assert not Restarts(Config()).are_left


def test_a_given_session_is_left_to_its_owner(spark: SparkSession) -> None:
    used = SparkUse(spark, Config(), list)
    assert used.session.sparkContext is spark.sparkContext
    used.close()
    assert spark.range(3).count() == 3
    assert "make another session" in spark_gone(is_given=True).hint
    assert not Gateway(spark).has_ended(ValueError("a message of something else"))
