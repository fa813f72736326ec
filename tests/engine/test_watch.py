"""Reading answers: what columns they have, in what order they come, from where one may resume."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.errors import HomeError, ServingError
from headrace.reading import Answer
from tests.engine.race import DDL, Race, rows_of, said

W = "window(ts, '10 seconds')"
SHARED = f"SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, {W}"

TYPED = {
    "shared": f"SELECT k, count(*), sum(n), sum(x) AS sx, avg(n), min(n), max(x), stddev(x), min(ts), max(n > 2) AS b, "
    f"sum(big) + 1, window FROM s GROUP BY k, {W}",
    "bounds": f"SELECT window.start, window.end AS e, date_trunc('hour', window.start) AS h, n % 2 AS `odd one` "
    f"FROM s GROUP BY n % 2, {W}",
    "plain": f"SELECT collect_set(k) AS ks, collect_list(n) AS ns, count(DISTINCT x), percentile(n, 0.5) AS p, min(k), "
    f"sum(CAST(x AS DECIMAL(9,2))), window FROM s GROUP BY {W}",
    "lists": f"SELECT collect_list(CAST(x AS DECIMAL(9,2))) AS ds, collect_set(ts) AS ts, collect_list(n > 1) AS bs "
    f"FROM s GROUP BY {W}",
    "each": "SELECT *, CAST(n AS TINYINT) AS i8, CAST(x AS FLOAT) AS f4, CAST(k AS BINARY) AS raw, "
    "CAST(ts AS DATE) AS d, CAST(ts AS TIMESTAMP_NTZ) AS ntz, n > 1 AS b FROM s",
    "current": "SELECT k, count(*) AS `how many` FROM s GROUP BY k",
}


def test_columns_and_types_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """Named and typed as Spark has them, with answers and before the first; the window's bounds
    follow."""
    race = Race(spark, tmp_path)
    race.eng.add_many(TYPED)
    empty = {name: race.eng.results(name).schema for name in TYPED}
    race.feed(rows_of(0, 20))
    race.eng.run()
    for name in TYPED:
        ours = race.eng.results(name)
        assert ours.num_rows, name
        theirs = race.oracle(name).schema
        bounds = [] if name in ("each", "current") else [("window_start", UTC), ("window_end", UTC)]
        change = [("change", pa.int8())] if name == "current" else []
        expected = [*((f.name, plain_type(f.type)) for f in theirs), *bounds, *change]
        assert [(f.name, plain_type(f.type)) for f in ours.schema] == expected, name
        assert [(f.name, plain_type(f.type)) for f in empty[name]] == expected, name


UTC = pa.timestamp("us", "UTC")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Without the names and nullability that readers give to elements of lists and structs."""
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(i).name, kind.field(i).type) for i in range(kind.num_fields)])
    return kind


def test_answers_come_in_order_and_resume(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add(SHARED, name="q")
    race.eng.add("SELECT k, count(*) AS c FROM s GROUP BY k", name="current")
    race.feed(*(rows_of(15 * i, 15) for i in range(4)))
    race.eng.run()
    whole = list(race.eng.watch("q"))
    assert [dict(a) for a in whole] == race.answers("q")
    seqs = [a.seq for a in whole]
    assert len(seqs) > 10 and seqs == sorted(set(seqs))
    for place, answer in enumerate(whole):
        assert [a.seq for a in race.eng.watch("q", since=answer.seq)] == seqs[place + 1 :]
    race.open()
    race.feed(rows_of(60, 30))
    race.eng.run()
    later = list(race.eng.watch("q", since=seqs[-1]))
    assert [dict(a) for a in whole + later] == race.answers("q")
    assert later and later[0].seq > seqs[-1]
    # five rounds of 3 keys each: all but the first take back the counts before, first of all
    changes = [answer["change"] for answer in race.eng.watch("current")]
    assert changes == [1] * 3 + [-1, -1, -1, 1, 1, 1] * 4
    assert race.eng.read("current").num_rows == 3
    with pytest.raises(ServingError) as found:
        race.eng.watch("q", since=99 << 32)
    said(found.value, "SINCE_UNKNOWN", ".seq")


def test_watching_follows_the_engine_and_ends_with_it(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add(SHARED, name="q")
    race.feed(rows_of(0, 20))
    race.eng.start()
    seen: list[Answer] = []
    first = threading.Event()

    def follow() -> None:
        for answer in race.eng.watch("q"):
            seen.append(answer)
            first.set()

    watcher = threading.Thread(target=follow)
    watcher.start()
    assert first.wait(60)
    race.feed(rows_of(20, 30))
    while len(seen) < 12:
        first.wait(0.05)
        assert watcher.is_alive()
    race.feed(rows_of(50, 30))
    race.eng.stop()
    watcher.join(60)
    assert not watcher.is_alive()
    assert [dict(a) for a in seen] == race.answers("q")
    race.eng.run()
    race.check("q")


def test_one_runs_and_another_reads(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add(SHARED, name="q")
    race.feed(rows_of(0, 20))
    reader = headrace.Engine(tmp_path / "race")
    assert reader.results("q").num_rows == 0
    race.eng.start()
    try:
        followed = reader.watch("q", follow=True)
        seen = [next(followed) for _ in range(3)]
        for attempt in (reader.run, reader.start):
            with pytest.raises(HomeError) as found:
                attempt()
            said(found.value, "HOME_HELD", "process")
        assert (
            reader.add("SELECT count(*) AS c FROM s GROUP BY window(ts, '5 seconds')", name="added")
            == "added"
        )
        race.feed(rows_of(20, 20))
        seen += [next(followed) for _ in range(3)]
        assert [{a["k"] for a in part} for part in (seen[:3], seen[3:])] == [{"a", "b", "c"}] * 2
        added = next(reader.watch("added", follow=True))
        assert added["c"] == 5
    finally:
        race.eng.stop()
    assert reader.results("q").equals(race.eng.results("q"))
    assert next(q.answers for q in reader.queries()) == reader.results("q").num_rows
    assert "measured: round" in reader.explain("q")


def test_answers_that_were_removed(spark: SparkSession, tmp_path: Path) -> None:
    """Only so many rounds are kept, but always those an open window needs."""
    race = Race(spark, tmp_path, config=Config.of(manifests_kept=2))
    race.eng.add(SHARED, name="q")
    race.feed(rows_of(0, 10), rows_of(10, 10), rows_of(20, 10))
    race.eng.run()
    old = next(iter(race.eng.watch("q"))).seq
    race.feed(rows_of(30, 10), rows_of(40, 10), rows_of(50, 10))
    race.eng.run()
    with pytest.raises(ServingError) as found:
        race.eng.watch("q", since=old)
    said(found.value, "SINCE_GONE", "without since")
    order = [("we", "ascending"), ("k", "ascending")]
    closed = race.oracle("q").sort_by(order).column("t").to_pylist()[:15]
    kept = race.eng.results("q").sort_by(order).column("t").to_pylist()
    assert 6 <= len(kept) < 15
    assert kept == closed[-len(kept) :]
    long = "SELECT min(k) AS d, count(*) AS c, window.end AS we FROM s GROUP BY window(ts, '40 seconds')"
    race.eng.add(long, name="plain")
    race.eng.add(long.replace("min(k)", "sum(n)"), name="shared")
    for i in range(6, 13):
        race.feed(rows_of(10 * i, 10))
        if i == 8:
            race.eng.add("SELECT count(*) AS c FROM s", name="all")
        race.open()
        race.eng.run()
    assert race.eng.read("all").to_pylist() == [{"c": 50}]
    for name in ("plain", "shared"):
        race.check(name, whole=False)
        assert race.eng.results(name).num_rows, name


def test_a_stream_that_is_not_read_yet(tmp_path: Path) -> None:
    eng = headrace.Engine(tmp_path / "race")
    eng.create_stream("s", f"parquet:{tmp_path}", schema=DDL, time="ts")
    eng.add(SHARED, name="q")
    assert list(eng.watch("q")) == []
    assert eng.results("q").schema.names == ["k", "t", "we", "window_start", "window_end"]
