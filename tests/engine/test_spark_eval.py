"""What an engine tells of its queries: pages of answers, descriptions, statistics, and how all of
it shows itself."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import HeadraceError, ServingError
from tests.engine.race import Race, rows_of, said
from tests.streams import write_file

WINDOWED = "SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, window(ts, '10 seconds')"
QUERIES = {
    "windowed": WINDOWED,
    "high": "SELECT k, n FROM s WHERE n > 2",
    "odd": "SELECT k, length(k) AS l FROM s WHERE k LIKE '%a%'",
    "current": "SELECT k, count(*) AS c FROM s GROUP BY k",
    "near": "SELECT s.n AS n, t.v AS v FROM s JOIN t ON s.k = t.k",
}


@pytest.fixture(scope="module")
def race(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    folder = tmp_path_factory.mktemp("asking")
    race = Race(spark, folder)
    (folder / "t").mkdir()
    race.eng.create_table("t", f"parquet:{folder / 't'}", schema="k STRING, v INT", key="k")
    write_file(folder / "t", 0, pa.table({"k": ["a", "b"], "v": pa.array([1, 2], pa.int32())}))
    race.eng.add_many(QUERIES)
    race.feed(*(rows_of(15 * i, 15) for i in range(4)))
    race.eng.run()
    return race


@pytest.mark.parametrize("name", ["windowed", "high", "odd", "near"])
@pytest.mark.parametrize("limit", [1, 4, 1_000])
def test_pages_are_the_answers_in_order(race: Race, name: str, limit: int) -> None:
    whole = list(race.eng.watch(name))
    seen: list[dict[str, object]] = []
    after: int | None = None
    while (page := race.eng.results(name, after=after, limit=limit)).num_rows:
        assert page.num_rows <= limit
        seen += page.to_pylist()
        after = headrace.last_seq(page)
        assert after == whole[len(seen) - 1].seq
    assert seen == [dict(answer) for answer in whole]
    assert headrace.last_seq(page) == after and page.schema.equals(race.eng.results(name).schema)
    rest = race.eng.results(name, after=whole[2].seq)
    assert rest.to_pylist() == [dict(answer) for answer in whole[3:]]
    assert rest.schema.equals(race.eng.results(name).schema)


def test_a_watcher_takes_as_many_as_it_wants(race: Race) -> None:
    whole = list(race.eng.watch("windowed"))
    assert list(race.eng.watch("windowed", limit=3)) == whole[:3]
    assert list(race.eng.watch("windowed", since=whole[2].seq, limit=1_000)) == whole[3:]


def test_pages_that_cannot_be(race: Race) -> None:
    for limit in (0, -1, True, 1.5, "x"):
        with pytest.raises(HeadraceError) as wrong:
            race.eng.results("high", limit=limit)  # type: ignore[arg-type]
        said(wrong.value, "ARGUMENT", "limit")
    with pytest.raises(ServingError) as found:
        race.eng.results("high", after=99 << 32)
    said(found.value, "SINCE_UNKNOWN", ".seq")


def test_everything_about_a_query(race: Race) -> None:
    told = {name: race.eng.describe(name) for name in QUERIES}
    assert {name: own.kind for name, own in told.items()} == {
        "windowed": "final",
        "high": "final",
        "odd": "final",
        "current": "changing",
        "near": "changing",
    }
    infos = {info.name: info for info in race.eng.queries()}
    for name, own in told.items():
        assert (own.name, own.sql, own.state) == (name, QUERIES[name], "live")
        assert (own.family, own.reason) == (infos[name].family, infos[name].reason)
        assert [column for column, _ in own.columns] == race.eng.results(name).column_names
        assert own.seconds is not None and own.seconds > 0
        assert own.newest_seq == list(race.eng.watch(name))[-1].seq
        assert all(word in repr(own) for word in (name, own.family, "columns:"))
    assert told["near"].relations == ("s", "t")
    assert dict(told["windowed"].columns) == {
        "k": "string",
        "t": "bigint",
        "we": "timestamp",
        "window_start": "timestamp",
        "window_end": "timestamp",
    }


def test_before_the_first_answer(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add(WINDOWED, name="q")
    told = race.eng.describe("q")
    assert (told.newest_seq, told.seconds) == (None, None)
    page = race.eng.results("q", limit=5)
    assert page.num_rows == 0 and headrace.last_seq(page) is None
    assert race.eng.statistics() == [] and repr(race.eng.statistics()) == "[]"


def test_statistics_are_told_to_other_processes(race: Race) -> None:
    other = headrace.Engine(race.folder / "race")
    ours, theirs = race.eng.statistics("s"), other.statistics("s")
    assert [(s.round_id, s.rows, s.answers) for s in theirs] == [
        (s.round_id, s.rows, s.answers) for s in ours
    ]
    assert all(s.cycle_s > 0 for s in theirs)


def test_lists_and_answers_show_themselves(race: Race) -> None:
    text = repr(race.eng.queries())
    assert text.splitlines()[0].split()[:3] == ["name", "stream", "family"] and "windowed" in text
    answer = next(iter(race.eng.watch("odd")))
    assert repr(answer).startswith(f"Answer(seq={answer.seq}, {{'k':")
    for shown in (
        race.eng.queries(),
        race.eng.statistics(),
        race.eng.costs(),
        answer,
        race.eng.describe("odd"),
    ):
        assert "<table>" in shown._repr_html_()
    assert (
        "&lt;" not in race.eng.describe("high")._repr_html_()
        and "&gt; 2" in race.eng.describe("high")._repr_html_()
    )


def test_all_types_of_results_are_exported() -> None:
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = headrace.Nothing


def test_the_same_query_again(race: Race) -> None:
    version = race.eng.catalog.version
    assert race.eng.add(QUERIES["high"].replace(" FROM", "\nFROM"), name="high") == "high"
    assert race.eng.add_many(QUERIES) == list(QUERIES)
    assert race.eng.catalog.version == version
    with pytest.raises(HeadraceError) as found:
        race.eng.add("SELECT k, n FROM s WHERE n > 3", name="high")
    said(found.value, "NAME_TAKEN", "n > 2", "drop")


def test_a_watcher_is_woken_by_the_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Much sooner than anybody would look again: commits are signalled, and manifests are seen by
    another engine."""
    race = Race(spark, tmp_path)
    race.eng.add("SELECT n FROM s WHERE n > 0", name="q")
    race.eng.start()
    engines, seen = [race.eng, headrace.Engine(tmp_path / "race")], dict[int, dict[int, float]]()

    def watch(number: int) -> None:
        for answer in engines[number].watch("q", follow=True, limit=8):
            seen.setdefault(number, {}).setdefault(answer.seq >> 32, time.monotonic())

    watchers = [Thread(target=watch, args=(number,), daemon=True) for number in range(2)]
    for watcher in watchers:
        watcher.start()
    committed: dict[int, float] = {}
    for index in range(8):
        race.feed(rows_of(index, 1))
        while len(race.eng.statistics()) <= index:
            race.eng._pipelines.signal.arm()(0.02)
        committed[index] = time.monotonic()
    for watcher in watchers:
        watcher.join(60)
    race.eng.stop()
    for number in range(2):
        late_s = sorted(
            at - done for at, done in zip(seen[number].values(), committed.values(), strict=True)
        )
        assert late_s[len(late_s) // 2] < 0.15, late_s
