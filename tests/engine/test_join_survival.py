"""Kill the process anywhere while it joins: the answers are Spark's own, each exactly once, each in
its place.

The child (`join_survivor.py`) has two streams and a table.  SIGKILL hits it, Spark and Spark's
workers within milliseconds of a file appearing in the home.  Meanwhile and after each kill somebody
reads: what has been seen stays.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import CatalogError
from tests.engine.join_survivor import FILES, FIRST, LATE, RELATIONS, STREAMS, rows_of
from tests.engine.killing import Kill, kill_and_restart
from tests.engine.test_joins import QUERIES, Joined

CHILD = Path(__file__).with_name("join_survivor.py")
LOOK_S = 1.0
Pairs = Counter[tuple[Any, ...]]

# what a round of a relation leaves, in the order it does: each is a moment to be killed at
MOMENTS = (
    "{0}/checkpoint/offsets/{1}",
    "{0}/kept/{1:012d}",
    "{0}/kept/{1:012d}/round.json",
    "{0}/rounds/{1:012d}.json.part",
    "{0}/rounds/{1:012d}.json",
    "{0}/checkpoint/commits/{1}",
)


def at(relation: str, moment: int, round_id: int, after_s: float = 0.0) -> Kill:
    return Kill(MOMENTS[moment].format(relation, round_id), after_s)


@pytest.mark.timeout(600)
def test_two_kills_leave_sparks_answers(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, "short", [at("t", 1, 0, 0.05), at("r", 2, 1)], hits=2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", [1, 2])
def test_many_kills_leave_sparks_answers(
    spark: SparkSession, tmp_path: Path, run: int, seed: int
) -> None:
    check(spark, tmp_path, "long", draw_kills(Random(seed), FILES["long"]), hits=10)


def draw_kills(r: Random, rounds: int) -> list[Kill]:
    """One or two in each round of some relation, at any moment of it; some while Spark starts."""
    kills = []
    for round_id in range(rounds):
        for _ in range(1 + round_id % 2):
            moment = r.choice(MOMENTS).format(r.choice(list(RELATIONS)), round_id)
            kills.append(
                Kill(
                    moment, r.choice([0.0, r.uniform(0, 0.02), r.uniform(0, 0.5)]), r.random() < 0.7
                )
            )
        if round_id % 5 == 2:
            kills.append(Kill(None, r.uniform(0.5, 9.0)))
    return kills


def check(spark: SparkSession, folder: Path, form: str, kills: list[Kill], hits: int) -> None:
    (folder / "run").mkdir()
    witness = Witness(folder / "run" / "race")
    with witness.looking_on():
        found = kill_and_restart(CHILD, folder / "run", form, kills, witness.look_anew)
    assert found >= hits
    assert witness.seen.keys() == {*FIRST, "far", "whole"}
    check_answers(witness, Oracle(spark, folder / "oracle"), form)


def _ids(eng: headrace.Engine) -> dict[str, int]:
    eng.catalog.refresh()
    return {name: registered.id for name, registered in eng.catalog.queries.items()}


# -- what must be true all the time ----------------------------------------------------------------


class Witness:
    """Reads all answers again and again.  What it has seen stays where it was; more may follow."""

    def __init__(self, race: Path) -> None:
        self._race = race
        self._reading = threading.Lock()
        self.seen: dict[str, list[tuple[int, dict[str, object]]]] = {}
        self._ids: dict[str, int] = {}

    def look_anew(self) -> None:
        """As a process that has just been started."""
        if (self._race / "HEADRACE").exists():
            self._look(headrace.Engine(self._race))

    def _look(self, eng: headrace.Engine) -> None:
        with self._reading:
            for name, query_id in _ids(eng).items():
                try:
                    found = [(answer.seq, dict(answer)) for answer in eng.watch(name, follow=False)]
                except CatalogError:  # it has been dropped meanwhile
                    continue
                if _ids(eng).get(name) != query_id:  # whose answers these are is not known
                    continue
                if self._ids.setdefault(name, query_id) != query_id:  # dropped, and added again
                    self._ids[name], self.seen[name] = query_id, []
                before = self.seen.get(name, [])
                assert found[: len(before)] == before, (
                    f"{name}: what was seen is not there any more"
                )
                self.seen[name] = found

    @contextmanager
    def looking_on(self) -> Iterator[None]:
        """Also all the time, with an engine that remembers."""
        done, failures = threading.Event(), list[BaseException]()

        def look() -> None:
            eng: headrace.Engine | None = None
            while not done.wait(LOOK_S):
                if (self._race / "catalog.log").exists():
                    eng = eng or headrace.Engine(self._race)
                    try:
                        self._look(eng)
                    except BaseException as error:  # noqa: BLE001 - told in the test's own thread
                        failures.append(error)
                        return

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if failures:
            raise failures[0]

    def counted(self, name: str) -> Pairs:
        """Answers that are not taken back; where nothing is, each is there so many times."""
        net: Pairs = Counter()
        for _, row in self.seen[name]:
            change = row.pop("change", 1)
            assert isinstance(change, int)
            net[tuple(row.values())] += change
        assert all(count >= 0 for count in net.values())
        return +net


# -- what must be true at the end ------------------------------------------------------------------


class Oracle:
    """Spark's own join of the same rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._joined = Joined(spark, folder, RELATIONS)
        self._files = 0

    def read(self, files: int) -> None:
        for side in self._joined.sides:
            for index in range(self._files, files):
                side.write(rows_of(side.name, index))
        self._files = files

    def answers(self, sql: str) -> Pairs:
        return self._joined.theirs(sql)


def check_answers(witness: Witness, oracle: Oracle, form: str) -> None:
    late = ("far", "whole")
    oracle.read(LATE[form])
    before = {name: oracle.answers(QUERIES[name]) for name in late}
    oracle.read(FILES[form])
    for name, sql in FIRST.items():
        theirs = oracle.answers(sql)
        assert theirs and witness.counted(name) == theirs, name
        has_changes = any(row.get("change") == -1 for _, row in witness.seen[name])
        assert name in STREAMS or has_changes or len(witness.seen[name]) >= theirs.total()
    for name in late:  # pairs of two rows that were there already are nobody's
        assert witness.counted(name) == oracle.answers(QUERIES[name]) - before[name], name
