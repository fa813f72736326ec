"""A stream with filters only, whose shared job fails: nobody is blamed for what has passed, or for
a Spark gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.families.joins import job
from headrace.families.joins.levels.probing import Report, Task
from tests.engine.race import Race, rows_of

HIGH = "SELECT k, n, x, ts AS we FROM s WHERE x > 1"
SOME = "SELECT k, n, x, ts AS we FROM s WHERE n BETWEEN 2 AND 5"
Why = Callable[[Task, int], Exception | None]


def fail_as(monkeypatch: pytest.MonkeyPatch, why: Why) -> list[Task]:
    """All tasks that were tried; `why`: how one fails, and the how-many-th it is."""
    take, tried = job.SparkTasks.take, list[Task]()

    def failing(self: job.SparkTasks, task: Task) -> list[Report]:
        tried.append(task)
        error = why(task, len(tried))
        if error is not None:
            raise error
        return take(self, task)

    monkeypatch.setattr(job.SparkTasks, "take", failing)
    return tried


def asked(spark: SparkSession, tmp_path: Path) -> Race:
    race = Race(spark, tmp_path)
    race.eng.add(HIGH, name="high")
    race.eng.add(SOME, name="some")
    race.feed(rows_of(0, 20))
    return race


def check(race: Race) -> None:
    rows = rows_of(0, 20)
    for name, passing in (
        ("high", [r for r in rows if r["x"] > 1]),
        ("some", [r for r in rows if 2 <= r["n"] <= 5]),
    ):
        assert race.state(name)[0] == "live"
        wanted = [(r["k"], r["n"], r["x"]) for r in passing]
        assert sorted((r["k"], r["n"], r["x"]) for r in race.answers(name)) == sorted(wanted)


def test_what_has_passed_is_nobodys_fault(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = asked(spark, tmp_path)
    tried = fail_as(monkeypatch, lambda task, times: MemoryError("full") if times == 1 else None)
    race.eng.run()
    assert [len(task.looks) for task in tried[:3]] == [2, 0, 2], (
        "without any query in between, on Spark"
    )
    check(race)


@pytest.mark.parametrize("died", [1, 2, 3])
def test_a_spark_that_dies_quarantines_nobody(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: int
) -> None:
    """Before it is known whose fault an error is, or while it is looked for."""
    race = asked(spark, tmp_path)
    with monkeypatch.context() as patch:
        fail_as(
            patch,
            lambda task, times: (
                Py4JError("An error occurred while calling o1.x")
                if times >= died
                else MemoryError("full")
            ),
        )
        with pytest.raises(HeadraceError):
            race.eng.run()
    race.open().run()
    check(race)
