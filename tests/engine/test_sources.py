"""Where rows come from, and the ways a query runs over them: each gives Spark's own answer."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import HeadraceError, SourceError
from headrace.runtime.sources import parse_source
from tests.engine.race import DDL, Race, row, rows_of, said
from tests.streams import EPOCH_US, FIRST_FILE_S, canonical, same_rows, spark_answer, write_file

W = "window(ts, '10 seconds')"


def put(path: Path, text: str, index: int = 0) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (FIRST_FILE_S + index, FIRST_FILE_S + index))


def open_stream(spark: SparkSession, folder: Path, source: str, schema: str) -> headrace.Engine:
    eng = headrace.Engine(folder / "race", spark=spark)
    eng.create_stream("s", source, schema=schema, time="ts")
    return eng


def test_json_with_options(spark: SparkSession, tmp_path: Path) -> None:
    lines = [json.dumps({"n": i, "ts": f"0{i} hours, 2024-01-01"}) for i in range(9)]
    put(tmp_path / "src" / "a.json", "\n".join(lines))
    put(tmp_path / "src" / "b.txt", "not for us")
    source = f"json:{tmp_path}/src?timestampFormat=HH%20'hours,'%20yyyy-MM-dd&pathGlobFilter=*.json"
    eng = open_stream(spark, tmp_path, source, "n INT, ts TIMESTAMP")
    eng.add("SELECT sum(n) AS t FROM s GROUP BY window(ts, '4 hours')", name="q")
    eng.run()
    assert eng.results("q").column("t").to_pylist() == [6, 22]
    assert [(s.rows, s.bad) for s in eng.statistics()] == [(9, 0)]


def test_csv_with_options(spark: SparkSession, tmp_path: Path) -> None:
    put(
        tmp_path / "src" / "a.csv",
        "k|n|ts\n'x|y'|1|2024-01-01 00:00:00\n# no\nz|NONE|2024-01-01 00:00:10\n",
    )
    source = f"csv:{tmp_path}/src?header=true&sep=|&quote='&comment=%23&nullValue=NONE"
    eng = open_stream(spark, tmp_path, source, "k STRING, n INT, ts TIMESTAMP")
    eng.add("SELECT k, n FROM s", name="q")
    eng.run()
    assert eng.results("q").to_pylist() == [{"k": "x|y", "n": 1}, {"k": "z", "n": None}]


def test_options_that_spark_does_not_take(spark: SparkSession, tmp_path: Path) -> None:
    """One of our errors, and the other streams are read all the same."""
    race = Race(spark, tmp_path)
    race.feed(rows_of(0, 25))
    race.eng.create_stream(
        "lookup", f"parquet:{tmp_path}/src?recursiveFileLookup=perhaps", schema=DDL, time="ts"
    )
    race.eng.add(f"SELECT count(*) AS c FROM lookup GROUP BY {W}", name="lookup")
    with pytest.raises(HeadraceError) as refused:
        race.eng.run()
    assert refused.value.code == "SOURCE_OPEN" and "perhaps" in str(refused.value)
    race.eng.drop("lookup")
    race.eng.create_stream(
        "a", f"parquet:{tmp_path}/src?recursiveFileLookup=perhaps", schema=DDL, time="ts"
    )
    race.eng.add_many(
        {
            "good": f"SELECT count(*) AS c FROM s GROUP BY {W}",
            "bad": f"SELECT count(*) AS c FROM a GROUP BY {W}",
        }
    )
    with pytest.raises(SourceError) as caught:
        race.eng.run()
    assert caught.value.code == "SOURCE_OPEN"
    assert race.eng.results("good").num_rows


def test_one_file_a_round(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add(f"SELECT count(*) AS c FROM s GROUP BY {W}")
    race.feed(rows_of(0, 5), rows_of(5, 5), rows_of(10, 5))
    race.eng.run()
    assert [s.rows for s in race.eng.statistics()] == [5, 5, 5]


def test_a_rate_source_runs_dry_and_on(spark: SparkSession, tmp_path: Path) -> None:
    eng = open_stream(spark, tmp_path, "rate://20?numPartitions=1", "ts TIMESTAMP, value BIGINT")
    eng.add(
        "SELECT count(*) AS c, min(value) AS lo, max(value) AS hi FROM s GROUP BY window(ts, '1 second')",
        name="q",
    )
    eng.run()
    began = tmp_path / "race/streams/s/checkpoint/sources/0/0"
    first = began.read_text()
    eng.start()
    seen = []
    for answer in eng.watch("q"):
        seen.append((answer["c"], answer["lo"], answer["hi"]))
        if len(seen) == 2:
            eng.stop()
    assert len(seen) >= 2
    assert began.read_text() == first, "another beginning is another stream"
    assert all(isinstance(c, int) and 1 <= c <= 20 and hi - lo == c - 1 for c, lo, hi in seen)  # type: ignore[operator]
    assert [lo for _, lo, _ in seen] == sorted(lo for _, lo, _ in seen)  # type: ignore[type-var]


def test_a_streaming_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    """Its program's own session, with settings of its own: answers do not depend on them, nor do
    they change."""
    race = Race(spark, tmp_path)
    race.feed(rows_of(0, 20))
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")

    def opened() -> headrace.Engine:
        frame = (
            theirs.readStream.schema(DDL).parquet(str(race.src)).selectExpr("k", "n * 2 AS m", "ts")
        )
        eng = headrace.Engine(tmp_path / "frames", spark=spark)
        eng.create_stream("f", frame, time="ts")
        return eng

    eng = opened()
    eng.add(f"SELECT k, sum(m) AS t, hour(window.end) AS h FROM f GROUP BY k, {W}", name="q")
    eng.add("SELECT hour(ts) AS h, ts FROM f", name="each")
    eng.add("SELECT 1 / (m - 2) AS h FROM f", name="zero")
    eng.run()
    sql = f"SELECT k, sum(n * 2) AS t, hour(window.end) AS h, window.end AS window_end FROM s GROUP BY k, {W}"
    expected = spark_answer(spark, sql, "s", race.files[0], DDL)
    done = canonical(expected.slice(0), ["k", "t", "h", "window_end"])
    ours = canonical(eng.results("q"), ["k", "t", "h", "window_end"])
    assert ours and same_rows(ours, [r for r in done if r[-1].timestamp() <= EPOCH_US / 1e6 + 19])
    assert eng.results("each").schema.field("ts").type == pa.timestamp("us", "UTC")
    assert set(eng.results("each").column("h").to_pylist()) == {22}
    assert {q.name: q.state for q in eng.queries()} == {
        "q": "live",
        "each": "live",
        "zero": "quarantined",
    }
    assert theirs.conf.get("spark.sql.ansi.enabled") == "false"

    race.feed(rows_of(20, 20))
    again = headrace.Engine(tmp_path / "frames", spark=spark)
    with pytest.raises(SourceError) as found:
        again.run()
    said(found.value, "DataFrame", "create_stream")
    again = opened()
    again.run()
    assert again.results("q").num_rows == 9


def test_kafka_is_told_apart() -> None:
    source = parse_source(
        "kafka://host:9092,other:9092/trades?startingOffsets=latest&maxOffsetsPerTrigger=1000"
    )
    assert (source.kind, source.place) == ("kafka", "host:9092,other:9092/trades")
    assert dict(source.options) == {"startingOffsets": "latest", "maxOffsetsPerTrigger": "1000"}
    assert source.marks_bad_rows


def test_columns_with_names_of_our_own(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever we call our own columns, a stream may have columns of the same names."""
    names = [
        "kind",
        "pane",
        "t",
        "cut",
        "newest",
        "census_rows",
        "k0",
        "a0",
        "s0_0",
        "m0_0",
        "c0",
        "a b.c",
        "row",
        "old",
    ]
    times = pa.array([EPOCH_US + i * 1_000_000 for i in range(12)], pa.int64()).cast(
        pa.timestamp("us", "UTC")
    )
    numbers = {n: pa.array(range(i, i + 12), pa.int64()) for i, n in enumerate(names)}
    table = pa.table({**numbers, "time": times})
    (tmp_path / "src").mkdir()
    pq.write_table(table, tmp_path / "src" / "0.parquet")
    ddl = ", ".join(f"`{n}` BIGINT" for n in names) + ", time TIMESTAMP"
    eng = headrace.Engine(tmp_path / "race", spark=spark)
    eng.create_stream("s", f"parquet:{tmp_path}/src", schema=ddl, time="time")
    total = " + ".join(f"sum(`{n}`)" for n in names)
    where = " AND ".join(f"`{n}` >= 0" for n in names)
    grouped = f"FROM s WHERE {where} GROUP BY `a b.c` % 2, kind % 3, window(time, '10 seconds')"
    eng.add(f"SELECT `a b.c` % 2 AS kind, kind % 3 AS pane, {total} AS t {grouped}", name="shared")
    eng.add(
        f"SELECT count(DISTINCT t) AS kind, max_by(`a b.c`, `row`) AS `x y` {grouped}", name="plain"
    )
    eng.add("SELECT * FROM s", name="each")
    eng.run()
    assert {q.name: q.family for q in eng.queries()} == {
        "shared": "windows",
        "plain": "plain",
        "each": "plain",
    }
    closed = sum(sum(table.column(n).to_pylist()[:10]) for n in names)
    assert sum(eng.results("shared").column("t").to_pylist()) == closed
    assert sum(eng.results("plain").column("kind").to_pylist()) == 10
    assert eng.results("each").column_names == [*names, "time"]


STATELESS = {
    "project": "SELECT k, n * 2 AS m, upper(k) AS u, ts FROM s WHERE n > 3",
    "star": "SELECT * FROM s WHERE k <> 'b' OR x IS NULL",
}
CURRENT = {
    "by_key": "SELECT k, sum(n) AS t, avg(x) AS p FROM s GROUP BY k HAVING sum(n) > 12",
    "total": "SELECT count(*) AS c, max(ts) AS m FROM s WHERE n > 2",
}
WINDOWED = {
    "percentile": f"SELECT k, percentile(n, 0.5) AS p, first(k) AS lo, window.end AS we FROM s GROUP BY k, {W}",
    "distinct": f"SELECT count(DISTINCT k) AS c, sum(DISTINCT n) AS t, window.end AS we FROM s GROUP BY {W}",
    "text": f"SELECT min(k) AS lo, max(k) AS hi, window.end AS we FROM s WHERE n > 1 GROUP BY {W}",
    "decimal": f"SELECT k, sum(CAST(x AS DECIMAL(9,2))) AS t, window.end AS we FROM s GROUP BY k, {W}",
    "mode": "SELECT mode(k) AS m, window.end AS we FROM s GROUP BY window(ts, '20 seconds', '5 seconds')",
}


def test_plain_queries_give_sparks_answer(spark: SparkSession, tmp_path: Path) -> None:
    """Filters see every row as it comes, late ones too; aggregates leave late rows out, with and
    without a window."""
    race = Race(spark, tmp_path, late_s=2)
    race.eng.add_many({**STATELESS, **CURRENT, **WINDOWED})
    race.feed(rows_of(0, 25), [row(24, "b", 9, None), row(3, "late", 7), *rows_of(25, 10)])
    race.eng.run()
    race.open()
    race.feed(rows_of(30, 25))
    race.eng.run()
    assert {q.family for q in race.eng.queries()} == {"plain"}
    for name, sql in STATELESS.items():
        theirs = spark_answer(spark, sql, "s", pa.concat_tables(race.files), DDL)
        columns = theirs.column_names
        assert same_rows(canonical(race.eng.results(name), columns), canonical(theirs, columns)), (
            name
        )
    for name in CURRENT:
        theirs = race.oracle(name)
        columns = theirs.column_names
        assert same_rows(canonical(race.eng.read(name), columns), canonical(theirs, columns)), name
    race.check(*WINDOWED)
    assert race.eng.results("decimal").schema.field("t").type == pa.decimal128(19, 2)


def test_an_aggregate_without_a_window_counts_from_the_round_it_came(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It has all rows when the row log has them all; else those of the rounds since, also after a
    restart."""
    race = Race(spark, tmp_path)
    race.eng.add(f"SELECT count(*) AS c FROM s GROUP BY {W}", name="shared")
    race.feed(rows_of(0, 10))
    race.eng.run()
    race.eng.add(
        "SELECT sum(DISTINCT n) AS c, count(*) AS r FROM s GROUP BY window(ts, '1 hour')",
        name="hour",
    )
    race.feed(rows_of(10, 10))
    race.eng.run()
    race.eng.add("SELECT count(*) AS c FROM s", name="since")
    race.feed(rows_of(20, 10))
    race.eng.run()
    assert race.eng.read("since").to_pylist() == [{"c": 10}]
    race.open()
    race.feed(rows_of(30, 10))
    race.eng.run()
    assert race.eng.read("since").to_pylist() == [{"c": 20}]


def test_a_table_keeps_the_latest_row_of_each_key(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "src"

    def opened() -> headrace.Engine:
        eng = headrace.Engine(tmp_path / "race", spark=spark)
        eng.create_table(
            "stock",
            f"json:{source}",
            schema="symbol STRING, shelf INT, qty INT, price DECIMAL(9,2)",
            key="symbol, shelf",
        )
        return eng

    def line(symbol: str | None, shelf: int, qty: int | None) -> str:
        return json.dumps({"symbol": symbol, "shelf": shelf, "qty": qty, "price": 1.5})

    eng = opened()
    with pytest.raises(headrace.HeadraceError, match="window"):
        eng.add(f"SELECT count(*) FROM stock GROUP BY {W}")
    eng.add("SELECT symbol, sum(qty) AS q FROM stock GROUP BY symbol", name="sums")
    eng.add("SELECT symbol, shelf, qty, price FROM stock WHERE qty > 0", name="rows")
    put(
        source / "b.json", "\n".join([line("a", 1, 1), line("b", 1, 5), line("a", 1, 2), "oops"]), 1
    )
    put(source / "a.json", "\n".join([line("b", 1, 6), line("a", 2, 10), line(None, 1, 3)]), 2)
    eng.run()
    assert canonical(eng.read("sums"), ["symbol", "q"]) == [(None, 3), ("a", 12), ("b", 6)]

    eng = opened()
    put(source / "c.json", "\n".join([line("b", 1, 0), line(None, 1, 4), line("c", 1, 1)]), 3)
    eng.run()
    assert canonical(eng.read("sums"), ["symbol", "q"]) == [
        (None, 4),
        ("a", 12),
        ("b", 0),
        ("c", 1),
    ]
    price = Decimal("1.50")
    assert canonical(eng.read("rows"), ["symbol", "shelf", "qty", "price"]) == [
        (None, 1, 4, price),
        ("a", 1, 2, price),
        ("a", 2, 10, price),
        ("c", 1, 1, price),
    ]
    assert [s.bad for s in eng.statistics()] == [0]


def test_parquet_files_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Spark hands names on as addresses and as patterns; a round must read its own files, all and
    only them."""
    race = Race(spark, tmp_path)
    race.eng.add("SELECT n FROM s", name="each")
    race.eng.add(
        f"SELECT count(*) AS c, sum(n) AS t, window.end AS we FROM s GROUP BY {W}", name="q"
    )
    names = [
        "a b",
        "c%20d",
        "c d",
        "e[1]",
        "e1",
        "f,g",
        "h*",
        "hh",
        "{i}",
        "é",
        "j=1",
        "k+l",
        "m#n",
    ]
    race.feed(*(rows_of(i * 3, 3) for i in range(len(names))))
    for path, name in zip(sorted(race.src.glob("*.parquet")), names, strict=True):
        path.rename(race.src / f"{name}.parquet")
    race.eng.run()
    assert race.eng.results("each").num_rows == 3 * len(names)
    race.check("q")


def test_parquet_in_folders_by_key(spark: SparkSession, tmp_path: Path) -> None:
    """A key that is only in the names of folders is a column like others."""
    for day in (1, 2, 3):
        stamps = pa.array(
            [EPOCH_US + day * 1_000_000 + i for i in range(day)], pa.timestamp("us", "UTC")
        )
        rows = pa.table({"n": pa.array(range(day), pa.int32()), "ts": stamps})
        write_file(tmp_path / "src" / f"day={day}", day, rows)
    eng = open_stream(
        spark,
        tmp_path,
        f"parquet:{tmp_path}/src?maxFilesPerTrigger=1",
        "n INT, day INT, ts TIMESTAMP",
    )
    eng.add("SELECT day, count(*) AS c FROM s GROUP BY day, window(ts, '1 second')", name="q")
    eng.add("SELECT n, day FROM s", name="each")
    eng.run()
    assert sorted((r["day"], r["c"]) for r in eng.results("q").to_pylist()) == [(1, 1), (2, 2)]
    assert sorted((r["day"], r["n"]) for r in eng.results("each").to_pylist()) == [
        (1, 0),
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
        (3, 2),
    ]
