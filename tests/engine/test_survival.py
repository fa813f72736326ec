"""Kill the process anywhere: after restarts the answers are those of an undisturbed run, each
exactly once.

The child (`survivor.py`) adds and drops queries as it goes.  SIGKILL hits it while Spark starts,
after a random time, or within milliseconds of a certain file appearing in the home: the middle of a
round, of a write, of a commit.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from tests.engine.killing import Kill, kill_and_restart
from tests.engine.survivor import FORMS, Add, Drop, answers_by_id, survive
from tests.streams import canonical, left_over, same_value

CHILD = Path(__file__).with_name("survivor.py")
Answers = dict[int, list[dict[str, Any]]]

# what a round leaves, in the order it does: each is a moment to be killed at
MOMENTS = (
    "s/checkpoint/sources/0/{0}",
    "s/checkpoint/offsets/{0}",
    "s/panes/{0:012d}.arrow",
    "s/rows/{0:012d}",
    "s/answers/{0:012d}.plain",
    "s/answers/{0:012d}.arrow",
    "s/rounds/{0:012d}.json.part",
    "s/rounds/{0:012d}.json",
    "s/checkpoint/commits/{0}",
)


def at(moment: int, round_id: int, after_s: float = 0.0) -> Kill:
    return Kill(MOMENTS[moment].format(round_id), after_s)


def undisturbed(spark: SparkSession, folder: Path, form: str) -> Answers:
    survive(folder, form, spark)
    answers = answers_by_id(folder / "race", form)
    assert all(answers.values()), "every query answers something, or the comparison is empty"
    return answers


@pytest.fixture(scope="module")
def short(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return undisturbed(spark, tmp_path_factory.mktemp("short"), "short")


@pytest.fixture(scope="module")
def long(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return undisturbed(spark, tmp_path_factory.mktemp("long"), "long")


@pytest.mark.timeout(600)
def test_two_kills_leave_the_same_answers(short: Answers, tmp_path: Path) -> None:
    hits = kill_and_restart(CHILD, tmp_path, "short", [at(2, 1), at(5, 4, 0.002)])
    assert hits == 2
    check_same(tmp_path / "race", "short", short)


@pytest.mark.timeout(600)
def test_two_kills_leave_the_answers_of_shards(spark: SparkSession, tmp_path: Path) -> None:
    """The memory in which shards lie goes with the run; they are made anew from their logs."""
    expected = undisturbed(spark, tmp_path / "whole", "shards")
    (tmp_path / "killed").mkdir()
    kills = [at(2, 1, 0.05), at(5, 4, 0.002)]
    hits = kill_and_restart(CHILD, tmp_path / "killed", "shards", kills)
    assert hits == 2
    check_same(tmp_path / "killed" / "race", "shards", expected)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_kills_leave_the_answers_of_shards(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """While the driver hands its windows over, too."""
    expected = undisturbed(spark, tmp_path / "whole", "handed")
    (tmp_path / "killed").mkdir()
    kill_and_restart(CHILD, tmp_path / "killed", "handed", draw_kills(Random(seed)))
    check_same(tmp_path / "killed" / "race", "handed", expected)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", [1, 2])
def test_many_kills_leave_the_same_answers(
    long: Answers, tmp_path: Path, run: int, seed: int
) -> None:
    kills = draw_kills(Random(seed))
    hits = kill_and_restart(CHILD, tmp_path, "long", kills)
    check_same(tmp_path / "race", "long", long)
    assert hits >= len(kills) // 2, (
        "most moments were over before the kill came: how many is chance"
    )


def draw_kills(r: Random) -> list[Kill]:
    """One or two in each round, at any moment of it; some while Spark starts."""
    kills = []
    for round_id in range(12):
        for _ in range(2 if round_id % 3 == 0 else 1):
            moment = r.choice(MOMENTS).format(round_id)
            kills.append(
                Kill(
                    moment, r.choice([0.0, r.uniform(0, 0.02), r.uniform(0, 0.5)]), r.random() < 0.7
                )
            )
        if round_id % 5 == 2:
            kills.append(Kill(None, r.uniform(0.5, 9.0)))
    return kills


# -- what must be true afterwards ------------------------------------------------------------------


def check_same(race: Path, form: str, expected: Answers) -> None:
    ours = answers_by_id(race, form)
    for query_id, theirs in expected.items():
        a, b = sorted(ours[query_id], key=_order), sorted(theirs, key=_order)
        assert len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True)), (
            f"query {query_id}"
        )
    check_watch(race)


def check_watch(race: Path) -> None:
    """`watch` gives what `results` gives, with places that only grow, and resumes after any of
    them; and `read` what is left of it."""
    eng = headrace.Engine(race)
    for info in eng.queries():
        answers = list(eng.watch(info.name, follow=False))
        seqs = [a.seq for a in answers]
        assert seqs == sorted(set(seqs))
        log, present = eng.results(info.name), eng.read(info.name)
        assert [dict(a) for a in answers] == log.to_pylist()
        assert left_over(log) == canonical(present, present.column_names)
        for place in range(0, len(seqs), 7):
            assert [a.seq for a in eng.watch(info.name, since=seqs[place], follow=False)] == seqs[
                place + 1 :
            ]


def _order(row: dict[str, Any]) -> list[str]:
    return [f"{v:+.6e}" if isinstance(v, float) else str(v) for v in row.values()]


# -- between our commit and Spark's own ------------------------------------------------------------


def test_a_round_that_spark_repeats_is_not_answered_twice(
    spark: SparkSession, short: Answers, tmp_path: Path
) -> None:
    """Killed after our commit and before Spark noted it: Spark repeats the round, and we know it by
    its input."""
    survive(tmp_path, "short", spark)
    race = tmp_path / "race"
    commits = race / "streams" / "s" / "checkpoint" / "commits"
    newest = max(int(p.name) for p in commits.iterdir() if p.name.isdigit())
    before = answers_by_id(race, "short")
    for _ in range(2):
        for name in (f"{newest}", f".{newest}.crc"):
            (commits / name).unlink()
        with headrace.Engine(race, spark=spark) as eng:
            eng.run()
        assert (commits / f"{newest}").exists()
        assert answers_by_id(race, "short") == before
    check_same(race, "short", short)


@pytest.mark.parametrize("form", FORMS)
def test_the_steps_add_and_drop_meanwhile(form: str) -> None:
    assert (
        sum(isinstance(s, Drop) for s in FORMS[form]) >= 1
        and sum(isinstance(s, Add) for s in FORMS[form]) >= 3
    )
