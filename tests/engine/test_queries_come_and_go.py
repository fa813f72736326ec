"""Queries come and go between rounds and while running: what is answered is right, and nobody else
notices."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from tests.engine import random_windows
from tests.engine import test_oracle as oracle
from tests.engine.race import Race, row, rows_of
from tests.streams import EPOCH_US, canonical, same_rows, spark_answer, write_file


def asked(what: str, window: str, keys: str = "k", where: str = "") -> str:
    by = f"{keys}, " if keys else ""
    where = f"WHERE {where} " if where else ""
    return f"SELECT {by}{what}, window.end AS we FROM s {where}GROUP BY {by}window(ts, {window})"


BASE = {
    "sums": asked("sum(n) AS t, count(*) AS c", "'20 seconds', '10 seconds'"),
    "some": asked("avg(x) AS p", "'30 seconds', '10 seconds'", where="n > 2"),
}
# what a newcomer asks for, and whether the pane log has the history for it
NEWCOMERS = {
    "same": (BASE["sums"], True),
    "shorter": (asked("sum(n) AS t", "'10 seconds'"), True),
    "rolled_up": (asked("sum(n) AS t", "'20 seconds', '10 seconds'", keys=""), True),
    "longer": (asked("sum(n) AS t", "'60 seconds', '10 seconds'"), True),
    "having": (asked("max(n) IS NULL AS z", "'20 seconds'") + " HAVING count(*) > 1", False),
    "other_measure": (asked("stddev(x) AS d, max(n) AS m", "'20 seconds'"), False),
    "other_predicate": (asked("sum(n) AS t", "'20 seconds'", where="n < 5"), False),
    "other_key": (asked("count(*) AS c", "'20 seconds'", keys="n"), False),
    "finer": (asked("sum(n) AS t", "'7 seconds', '3 seconds', '1 second'"), False),
    "plain": (asked("min(k) AS c", "'20 seconds', '5 seconds'", keys=""), False),
    "sketch": (
        asked("count(DISTINCT k) AS c, median(x) AS m", "'20 seconds', '5 seconds'", keys=""),
        False,
    ),
}
ADDED_S = 65  # rows up to here have been read when they come


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    """Three rounds with the old queries, then one newcomer a round, a restart in the middle."""
    race = Race(spark, tmp_path_factory.mktemp("grown"), late_s=5)
    race.eng.add_many(BASE)
    race.feed(rows_of(0, 22), rows_of(22, 22), rows_of(44, 22))
    race.eng.run()
    race.eng.add_many({name: sql for name, (sql, _) in NEWCOMERS.items()})
    race.feed([*rows_of(66, 22), row(61.5, "b", 3)])
    race.eng.run()
    race.open()
    race.feed([*rows_of(88, 30), row(84, "c", 5)], rows_of(118, 40))
    race.eng.run()
    return race


@pytest.mark.parametrize("name", [*BASE])
def test_those_who_were_there_do_not_notice(grown: Race, name: str) -> None:
    grown.check(name)


@pytest.mark.parametrize("name", [*NEWCOMERS])
def test_a_newcomer_answers_whole_windows_only(grown: Race, name: str) -> None:
    grown.check(name, whole=False)
    window = grown.eng.catalog.query(name).query.window
    assert window is not None
    ends_us = [round(r["we"].timestamp() * 1e6) - EPOCH_US for r in grown.answers(name)]
    first_us = min(ends_us)
    if NEWCOMERS[name][1]:
        assert first_us - window.range_us <= ADDED_S * 1_000_000, "it had no history"
    else:
        assert first_us - window.range_us > ADDED_S * 1_000_000, (
            "it answered a window it has not seen whole"
        )
        assert first_us - window.range_us <= ADDED_S * 1_000_000 + window.slide_us, (
            "it began later than it could"
        )


def test_a_newcomer_with_history_begins_with_windows_that_are_open(grown: Race) -> None:
    """Closed windows are answered once, by whoever was there; a newcomer takes part from the next
    to close."""
    ends = {name: min(r["we"] for r in grown.answers(name)) for name in ("same", "rolled_up")}
    assert set(ends.values()) == {min(r["we"] for r in grown.answers("shorter"))}


def test_rows_that_came_while_nobody_asked_for_windows_are_not_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The log of panes has nothing of such rounds: no window with rows of theirs is answered, now
    or after a restart, nor after the rounds of the log have been taken together."""
    race = Race(spark, tmp_path, config=Config.of(log_rounds_max=4))
    windows = asked("sum(n) AS t", "'20 seconds'")
    race.eng.add("SELECT upper(k) AS u FROM s", name="beside")
    race.feed(rows_of(0, 15), rows_of(15, 15))
    race.eng.run()
    race.eng.add(windows, name="first")
    race.feed(rows_of(30, 30), rows_of(60, 30))
    race.eng.run()
    race.eng.drop("first")
    race.feed(rows_of(90, 15))
    race.open().run()
    race.eng.add(windows, name="second")
    race.feed(*(rows_of(first, 10) for first in range(105, 225, 10)))
    race.open().run()
    race.eng.add(asked("sum(n) AS t", "'80 seconds', '20 seconds'"), name="third")
    race.feed(rows_of(225, 60))
    race.open().run()
    race.check("second", whole=False, whole_from_s=140)
    race.check("third", whole=False, whole_from_s=280)
    assert [s.figures["windows"]["log_files"] for s in race.eng.statistics()][-1] < 8
    assert race.answers("second") and race.answers("third")


def test_a_name_that_comes_back_is_another_query(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(BASE)
    race.feed(rows_of(0, 41))
    race.eng.run()
    old = race.eng.results("sums")
    assert old.num_rows
    race.eng.drop("sums")
    race.eng.add(BASE["sums"], name="sums")
    assert race.eng.results("sums").num_rows == 0
    assert list(race.eng.watch("sums")) == []
    race.feed(rows_of(41, 30))
    race.eng.run()
    race.check("some")
    race.check("sums", whole=False)
    assert min(race.eng.results("sums").column("we").to_pylist()) > max(
        old.column("we").to_pylist()
    )
    race.eng.drop("sums")
    race.eng.drop("some")
    race.feed(rows_of(71, 10))
    race.eng.run()  # nobody asks, nothing is read
    race.eng.add(BASE["some"], name="some")
    race.feed(rows_of(81, 70))
    race.eng.run()
    race.check("some", whole=False)


def test_two_hundred_adds_while_running(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(BASE)
    race.feed(rows_of(0, 30))
    race.eng.start()
    done = threading.Event()

    def feed() -> None:
        at_s = 30
        while not done.is_set():
            race.feed(rows_of(at_s, 10))
            at_s += 10
            done.wait(0.3)

    feeder = threading.Thread(target=feed)
    feeder.start()
    names: dict[str, bool] = {}
    try:
        for i in range(200):
            window = f"'{(i % 4 + 1) * 10} seconds', '10 seconds'"
            sql = asked("sum(n) AS t, min(x) AS lo", window, ("k", "", "n")[i % 3], f"n > {i % 10}")
            names[race.eng.add(sql)] = i % 10 < 7  # n goes up to 7
            if i % 10 == 9:
                dropped = next(iter(names))
                race.eng.drop(dropped)
                del names[dropped]
            done.wait(0.01)
    finally:
        done.set()
        feeder.join()
        race.eng.stop()
    assert len(race.eng.statistics()) > 3, "the adds were to fall between rounds"
    race.feed(rows_of(10 * len(race.files) + 20, 60))
    race.eng.run()
    assert {q.state for q in race.eng.queries()} == {"live"}
    assert len(race.eng.queries()) == 182
    race.check(*BASE)
    race.check(*list(names)[::30], whole=False)
    assert {name: bool(race.eng.results(name).num_rows) for name in names} == names


def check_changes(spark: SparkSession, seed: int) -> None:
    """Queries come and go at random between rounds, with restarts: every answer is Spark's over all
    rows, and from a query's first answer on none is missing."""
    r = Random(seed)
    stream = random_windows.draw_stream(r)
    with tempfile.TemporaryDirectory() as folder:

        def opened() -> headrace.Engine:
            eng = headrace.Engine(Path(folder) / "race", spark=spark)
            eng.create_stream(
                "s",
                f"parquet:{folder}/src?maxFilesPerTrigger=1",
                schema=random_windows.DDL,
                time="ts",
                late=f"{stream.late_us} microseconds",
            )
            return eng

        (Path(folder) / "src").mkdir()
        eng, sqls = opened(), {f"first{i}": random_windows.draw_query(r) for i in range(3)}
        eng.add_many(sqls)
        for index, rows in enumerate(stream.files):
            write_file(Path(folder) / "src", index, rows)
            eng.run()
            eng = opened() if r.random() < 0.3 else eng
            for i in range(r.randint(0, 3)):
                sqls[f"r{index}q{i}"] = random_windows.draw_query(r)
                eng.add(sqls[f"r{index}q{i}"], name=f"r{index}q{i}")
            gone = r.choice(sorted(sqls))
            if r.random() < 0.5 and gone != "first0":
                eng.drop(gone)
                del sqls[gone]
        assert not [q.reason for q in eng.queries() if q.state != "live"]
        for name, sql in sqls.items():
            theirs = spark_answer(
                spark, oracle.spark_sql(eng, name, sql), "s", stream.counted(), random_windows.DDL
            )
            columns = [c for c in theirs.column_names if not c.startswith("window_")]
            closed = stream.closed_us()
            done = [
                x
                for x in canonical(theirs, columns)
                if closed is not None and oracle.micros(x[-1]) <= closed
            ]
            ours = canonical(eng.results(name), columns)
            first = min((x[-1] for x in ours), default=None)
            if not name.startswith("first"):
                done = [x for x in done if first is not None and x[-1] >= first]
            assert same_rows(ours, done), f"{name}: {sql}\nours:  {ours}\nspark: {done}"


@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_random_changes(spark: SparkSession, seed: int) -> None:
    check_changes(spark, seed)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@settings(max_examples=40, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_random_changes_long(spark: SparkSession, seed: int) -> None:
    check_changes(spark, seed)
