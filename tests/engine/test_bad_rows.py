"""Rows, files and folders that do not fit: dead letters or a clear stop, nothing committed lost,
and a way on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config, utc_us
from headrace.disk import Bytes, Disk
from headrace.errors import HeadraceError, SourceError
from headrace.evaluation.python_rows import time_text
from tests.engine.race import DDL, Race, row, rows_of, said, table_of
from tests.streams import FIRST_FILE_S

W = "window(ts, '10 seconds')"
QUERIES = {
    "shared": f"SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, {W}",
    "plain": f"SELECT min(k) AS c, window.end AS we FROM s GROUP BY {W}",
}
COUNTS = {
    "counts": f"SELECT count(*) AS c, sum(n) AS t FROM s GROUP BY {W}",
    "each": "SELECT k, n FROM s",
}


def text_stream(
    spark: SparkSession, folder: Path, source: str, config: Config | None = None
) -> headrace.Engine:
    eng = headrace.Engine(folder / "race", spark=spark, config=config)
    eng.create_stream("s", source, schema="k STRING, n INT, ts TIMESTAMP", time="ts")
    eng.add_many(COUNTS)
    return eng


def dead_letters(eng: headrace.Engine) -> list[dict[str, object]]:
    folder = eng.home.root / eng.home.stream_folder("s") / "dead"
    return [
        json.loads(line)
        for path in sorted(folder.iterdir())
        for line in path.read_text().splitlines()
    ]


def test_json_rows_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    good = [{"k": "a", "n": i, "ts": f"2024-01-01T00:00:0{i}Z"} for i in range(5)] + [
        {"k": "b", "n": None, "ts": "2024-01-01T00:00:15Z"}
    ]
    bad = [
        '{"k": "a", "n": "many", "ts": "2024-01-01T00:00:01Z"}',
        '{"k": "a", ',
        "[1, 2]",
        "not json",
        '{"k": "a", "n": 1, "ts": "yesterday"}',
        '{"k": "a", "n": 99999999999, "ts": "2024-01-01T00:00:01Z"}',
    ]
    source = tmp_path / "src"
    source.mkdir()
    (source / "0.json").write_text(
        "\n".join([*map(json.dumps, good[:3]), *bad, *map(json.dumps, good[3:])])
    )
    eng = text_stream(spark, tmp_path, f"json:{source}", Config.of(dead_letter_rows_max=5))
    eng.run()
    assert eng.results("counts").select(["c", "t"]).to_pylist() == [{"c": 5, "t": 10}]
    assert sorted(eng.results("each").column("n").to_pylist(), key=str) == [0, 1, 2, 3, 4, None]
    letters = dead_letters(eng)
    assert {x["row"] for x in letters if "row" in x} < set(bad)
    assert {x["reason"] for x in letters} == {"does not fit the schema", "dead_letter_rows_max"}
    assert [x["left_out"] for x in letters if "left_out" in x] == [1]
    (stats,) = eng.statistics()
    assert (stats.rows, stats.bad, stats.late) == (12, 6, 0)


def test_csv_rows_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "0.csv").write_text(
        "k;n;ts\na;1;2024-01-01 00:00:01\na;x;2024-01-01 00:00:02\na;2\n"
        "b;3;2024-01-01 00:00:03;more\n;;2024-01-01 00:00:04\nb;4;2024-01-01 00:00:12\n"
    )
    eng = text_stream(spark, tmp_path, f"csv:{source}?header=true&sep=%3B")
    eng.run()
    assert eng.results("counts").select(["c", "t"]).to_pylist() == [{"c": 2, "t": 1}]
    assert [x["row"] for x in dead_letters(eng)] == [
        "a;x;2024-01-01 00:00:02",
        "a;2",
        "b;3;2024-01-01 00:00:03;more",
    ]
    assert [s.bad for s in eng.statistics()] == [3]


LEAST_US, YEAR_200000_US = -(2**63), 6_249_223_180_800_000_000
TIMED = {
    **QUERIES,
    "by_year": f"SELECT year(date_trunc('YEAR', ts)) AS y, count(*) AS c, window.end AS we FROM s "
    f"GROUP BY year(date_trunc('YEAR', ts)), {W}",
    "later": f"SELECT max(ts + INTERVAL '1' DAY) AS m, window.end AS we FROM s GROUP BY {W}",
    "distinct": f"SELECT count(DISTINCT k) AS c, window.end AS we FROM s GROUP BY {W}",
    "running": "SELECT count(*) AS c, max(ts) AS m FROM s",
    "each": "SELECT k, n FROM s",
    "filter": "SELECT k, n FROM s WHERE n > 0",
    "joined": "SELECT a.n, b.n AS m FROM s AS a JOIN s AS b ON a.k = b.k WHERE a.n > 2 AND b.n > 2",
}


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_rows_with_a_time_that_is_not_taken(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Beyond what Spark can compute with, beyond the year 9999, or far ahead of the clock: dead
    letters, and nothing else is lost or late by them."""
    race = Race(spark, tmp_path)
    if kind == "json":
        race.eng = headrace.Engine(tmp_path / "texts", spark=spark)
        race.eng.create_stream("s", f"json:{race.src}?maxFilesPerTrigger=1", schema=DDL, time="ts")
    race.eng.add_many(TIMED)
    ahead_us = int(time.time() * 1e6) + 2 * 86_400_000_000
    odd = [
        LEAST_US,
        YEAR_200000_US,
        2**63 - 1,
        -62_135_596_800_000_001,
        ahead_us,
        253_402_300_799_000_000,
    ]
    rows = [
        rows_of(0, 20),
        [*rows_of(20, 10), *({**row(0, "bad", 9), "ts": us} for us in odd)],
        rows_of(30, 20),
    ]
    if kind == "json":
        odd = odd[3:]
        rows[1] = [*rows_of(20, 10), *({**row(0, "bad", 9), "ts": us} for us in odd)]
        for i, file in enumerate(rows):
            lines = [json.dumps({**r, "ts": time_text(r["ts"], 1_000_000) + "Z"}) for r in file]
            (race.src / f"{i}.json").write_text("\n".join(lines))
            os.utime(race.src / f"{i}.json", (FIRST_FILE_S + i, FIRST_FILE_S + i))
    else:
        race.feed(*rows)
    race.eng.run()
    assert {q.name: q.state for q in race.eng.queries()} == dict.fromkeys(TIMED, "live")
    letters = dead_letters(race.eng)
    assert [s.bad for s in race.eng.statistics()] == [0, len(odd), 0] and len(letters) == len(odd)
    assert [s.late for s in race.eng.statistics()] == [0, 0, 0]
    reasons = sorted(str(x["reason"]).partition(" = ")[0].rpartition(" ")[2] for x in letters)
    assert reasons.count("ahead_ms_max") == 2 and reasons.count("time_min") == len(odd) - len(
        [us for us in odd if us > 0]
    )
    texts = {str(x["row"]["ts"]) for x in letters if isinstance(x["row"], dict)}
    assert len(texts) == len(odd) and all(
        x["row"]["k"] == "bad" for x in letters if isinstance(x["row"], dict)
    )
    race.files = [table_of([r for r in file if r["k"] != "bad"]) for file in rows]
    race.check(*(name for name, sql in TIMED.items() if "GROUP BY" in sql))
    assert race.eng.read("running").to_pylist()[0]["c"] == 50
    assert race.eng.results("each").num_rows == race.eng.results("filter").num_rows == 50
    assert all(r["n"] != 9 for r in race.answers("joined"))


def test_how_far_ahead_a_row_may_be_is_chosen(spark: SparkSession, tmp_path: Path) -> None:
    config = Config.of(ahead_ms_max=0, time_min="2000-01-01", time_max="2100-01-01")
    race = Race(spark, tmp_path, config=config)
    race.eng.add_many(QUERIES)
    race.feed(
        [
            {**row(0), "ts": utc_us(t, "")}
            for t in ("1999-12-31", "2000-01-01", "2099-12-31", "2100-01-02")
        ]
    )
    race.eng.run()
    assert [x["row"]["ts"][:4] for x in dead_letters(race.eng) if isinstance(x["row"], dict)] == [
        "1999",
        "2100",
    ]
    assert [(s.rows, s.bad) for s in race.eng.statistics()] == [(4, 2)]


def test_env_is_plain_text(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add(
        "SELECT '${env:HOME}' AS a, '${spark.app.name}' AS b, concat('$', '{env:HOME}') AS c FROM s",
        name="q",
    )
    race.eng.add(f"SELECT max(k = '${{env:HOME}}') AS a FROM s GROUP BY {W}", name="shared")
    race.feed(rows_of(0, 11))
    race.eng.run()
    assert race.answers("q")[0] == {
        "a": "${env:HOME}",
        "b": "${spark.app.name}",
        "c": "${env:HOME}",
    }
    assert race.answers("shared")[0]["a"] is False


def other_types(path: Path) -> None:
    pq.write_table(pa.table({"k": ["a"], "n": ["many"], "x": [1.0], "big": [1], "ts": [1]}), path)


def not_parquet(path: Path) -> None:
    path.write_bytes(b"PAR1 this is not it")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half_written(path: Path) -> None:
    pq.write_table(table_of(rows_of(20, 20)), path)
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("spoil", "way_out"),
    [
        (other_types, "mend"),
        (not_parquet, "take away"),
        (empty, "mend"),
        (half_written, "mend"),
        (empty, "take away"),
    ],
)
def test_a_file_that_cannot_be_read(
    spark: SparkSession, tmp_path: Path, spoil: Callable[[Path], None], way_out: str
) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20))
    race.eng.run()
    bad = race.src / "bad.parquet"
    spoil(bad)
    os.utime(bad, (FIRST_FILE_S + 10, FIRST_FILE_S + 10))
    before = {name: race.eng.results(name) for name in QUERIES}
    for _ in range(2):  # nothing changes by trying again
        with pytest.raises(SourceError) as found:
            race.eng.run()
        said(found.value, "SOURCE_UNREADABLE", "bad.parquet", "take it away")
        assert {race.state(name)[0] for name in QUERIES} == {"live"}
        assert all(race.eng.results(name).equals(before[name]) for name in QUERIES)
    bad.unlink()
    if way_out == "mend":
        race.feed(rows_of(20, 20))
        (race.src / "000001.parquet").rename(bad)
    race.feed(rows_of(40, 20))
    race.eng.run()
    race.check(*QUERIES)


def test_a_source_folder_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    """The other streams are read all the same."""
    race = Race(spark, tmp_path)
    race.eng.create_stream("gone", f"parquet:{tmp_path / 'gone'}", schema=DDL, time="ts")
    race.eng.add("SELECT k FROM gone", name="a_gone")
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20))
    with pytest.raises(SourceError) as found:
        race.eng.run()
    said(found.value, "SOURCE_GONE", "gone", "make the folder")
    race.check(*QUERIES)
    (tmp_path / "gone").mkdir()
    race.eng.run()


def test_a_source_folder_that_vanishes(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20))
    race.eng.run()
    shutil.move(race.src, tmp_path / "away")
    with pytest.raises(SourceError) as found:
        race.eng.run()
    said(found.value, "SOURCE_GONE", str(race.src), "put it back")
    race.check(*QUERIES)
    shutil.move(tmp_path / "away", race.src)
    race.feed(rows_of(20, 20))
    race.eng.run()
    race.check(*QUERIES)


def test_a_source_folder_that_vanishes_while_running(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20))
    race.eng.start()
    answer = next(iter(race.eng.watch("shared")))
    shutil.move(race.src, tmp_path / "away")
    # ends: the engine has failed
    assert all(a.seq > answer.seq for a in race.eng.watch("shared", since=answer.seq))
    assert not race.eng.is_running
    with pytest.raises(SourceError) as found:
        race.eng.stop()
    said(found.value, "SOURCE_GONE", str(race.src))
    shutil.move(tmp_path / "away", race.src)
    race.feed(rows_of(20, 20))
    race.eng.run()
    race.check(*QUERIES)


@pytest.mark.parametrize(
    "place",
    [
        "/panes/",
        pytest.param("/answers/", marks=pytest.mark.slow),
        pytest.param("/rounds/", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20))
    race.eng.run()
    race.feed(rows_of(20, 20), rows_of(40, 20))
    write = Disk.write

    def fill_up(disk: Disk, path: str, data: Bytes) -> None:
        def full(path: str, data: Bytes) -> None:
            (disk.root / path).write_bytes(bytes(data[: len(data) // 2]))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        if place not in path:
            write(disk, path, data)
            return
        with disk._guard("write", path):
            full(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "write", fill_up)
        with pytest.raises(HeadraceError) as found:
            race.eng.run()
        said(found.value, "DISK_FULL", "free space")
        assert {race.state(name)[0] for name in QUERIES} == {"live"}
    race.open()
    race.eng.run()
    race.check(*QUERIES)
