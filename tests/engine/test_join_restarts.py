"""Joins of an engine that is stopped and started while both relations run, and of one that meets
damage: on Spark."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.errors import HomeError
from tests.engine.test_joins import QUERIES, Joined, drawn

BOTH = {name: QUERIES[name] for name in ("band", "select", "names")}


def feed(joined: Joined, chance: random.Random, at_s: int) -> None:
    for side in joined.sides:
        side.write(drawn(chance, 15, at_s))


def test_stopped_and_started_while_both_relations_run(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """A query comes and goes meanwhile; the others notice nothing."""
    chance = random.Random(seed)
    joined = Joined(spark, tmp_path, {"r": False, "s": True})
    eng = joined.eng
    eng.add_many(BOTH)
    for turn in range(3):
        eng.start()
        feed(joined, chance, turn * 10)
        eng.add(QUERIES["far"], "far")
        time.sleep(chance.uniform(0.2, 2.0))
        eng.drop("far")
        eng.stop()
    eng.run()
    joined.check(BOTH)
    joined.open()
    feed(joined, chance, 30)
    joined.eng.run()
    joined.check(BOTH)


@pytest.mark.parametrize("name", ["r", "s"])
def test_workers_do_not_go_on_from_a_damaged_file(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Rows of a table that a new one replaces are looked for in its files: what a damaged one hides
    would stay."""
    chance = random.Random(6)
    joined = Joined(spark, tmp_path, {"r": False, "s": True})
    joined.eng.add_many(BOTH)
    feed(joined, chance, 0)
    joined.eng.run()
    # where workers have nothing of it in memory
    joined.home = joined.home.rename(tmp_path / "again")
    path = next((joined.home / "streams" / name / "kept").glob("*/*.rows.arrow"))
    data = path.read_bytes()
    path.write_bytes(bytes([*data[:-400], data[-400] ^ 1, *data[-399:]]))
    joined.open()
    feed(joined, chance, 10)
    with pytest.raises(HomeError, match="FILE_DAMAGED"):
        joined.eng.run()
    with pytest.raises(HomeError, match="FILE_DAMAGED"):
        joined.eng.results("band")
    path.write_bytes(data)
    joined.eng.run()
    joined.check(BOTH)
