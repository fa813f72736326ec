"""Standing joins through SQL on Spark: what is answered, and taken back, adds up to Spark's own
join of the rows."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.sql.bind import bind
from headrace.sql.emit import emit_join, emit_query
from tests.streams import EPOCH_US, write_file

DDL = "k STRING, n BIGINT, a INT, b DOUBLE, gone BOOLEAN, ts TIMESTAMP"
TYPES = {
    "k": pa.string(),
    "n": pa.int64(),
    "a": pa.int32(),
    "b": pa.float64(),
    "gone": pa.bool_(),
    "ts": pa.timestamp("us", "UTC"),
}
Row = dict[str, Any]
QUERIES = {
    "band": "SELECT r.k AS rk, s.k AS sk, s.b - r.b AS d FROM r JOIN s ON s.b - r.b BETWEEN -0.5 AND 1.5",
    "far": "SELECT r.n AS rn, s.n AS sn FROM r JOIN s ON abs(s.b - r.b) > 3",
    "whole": "SELECT r.n AS rn, s.n AS sn, r.k AS k FROM r JOIN s ON s.n BETWEEN r.n - 1 AND r.n + 2 WHERE r.k <> 'x'",
    "select": "SELECT r.a + s.a AS t, r.b AS b FROM r JOIN s ON r.n = s.n WHERE r.a BETWEEN 2 AND 7 AND s.a < 6",
    "names": "SELECT r.k AS k, r.a AS ra, s.a AS sa FROM r JOIN s ON r.k = s.k WHERE s.b > 1.0 AND r.a + s.a > 5",
    "two": "SELECT r.n AS n, s.b AS b FROM r, s WHERE r.k = s.k AND r.n = s.n",
    "cross": "SELECT r.a AS ra, s.a AS sa FROM r CROSS JOIN s WHERE r.a > 8 AND s.a IN (1, 3)",
    "timed": "SELECT r.k AS k, s.ts AS ts FROM r JOIN s ON r.a = s.a "
    "AND s.ts BETWEEN r.ts - INTERVAL '20' SECONDS AND r.ts",
    "apart": "SELECT r.k AS k, s.n AS n FROM r JOIN s "
    "ON r.ts - s.ts BETWEEN INTERVAL '1' SECOND AND INTERVAL '5' SECONDS AND s.a > 3",
}
ASKED = {
    "upper": "SELECT upper(r.k) AS k, concat(r.k, '/', s.k) AS both, s.b + 1 AS b, s.n * 1.50 AS m FROM r JOIN s "
    "ON r.n = s.n WHERE s.a > 2",
    "like": "SELECT r.n AS rn, s.ts AS ts FROM r JOIN s ON s.b - r.b BETWEEN -1 AND 1 WHERE r.k LIKE 'z%' "
    "AND s.a + 1 > 4",
    "lower": "SELECT s.k AS k, date_trunc('minute', r.ts) AS t, r.ts AS ts FROM r JOIN s ON lower(r.k) = lower(s.k)",
    "guarded": "SELECT CAST(concat('1', substring(r.k, 3, 1)) AS INT) AS i, s.gone AS g FROM r JOIN s ON r.n = s.n "
    "WHERE length(r.k) = 2 AND 10 / (length(r.k) - 1) > s.a",
}
SELF = {
    "near": "SELECT x.n AS xn, y.n AS yn FROM r x JOIN r y ON y.b - x.b BETWEEN 0.0 AND 1.0",
    "same": "SELECT x.k AS k, x.a AS xa, y.a AS ya FROM r x JOIN r y ON x.k = y.k WHERE y.a > 4",
}


def drawn(chance: random.Random, count: int, at_s: int) -> list[Row]:
    return [
        {
            "k": chance.choice(["x", "y", "zz", "", None]),
            "n": chance.choice([None, *range(-2, 6)]),
            "a": chance.choice([None, *range(10)]),
            "b": chance.choice([None, -0.0, 0.1, 1.5, chance.uniform(-4, 4)]),
            "gone": chance.random() < 0.2,
            "ts": EPOCH_US + (at_s + chance.randrange(10)) * 1_000_000,
        }
        for _ in range(count)
    ]


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    )


class Side:
    """A stream or table fed file by file, and the rows it then has."""

    def __init__(self, name: str, folder: Path, is_table: bool, late: str) -> None:
        self.late = late
        self.name, self.folder, self.is_table = name, folder / f"src_{name}", is_table
        self.folder.mkdir()
        self.files = 0
        self.rows: dict[Any, Row] = {}

    def create(self, eng: headrace.Engine) -> None:
        source = f"parquet:{self.folder}?maxFilesPerTrigger=1"
        if self.is_table:
            eng.create_table(self.name, source, schema=DDL, key="k, n", deleted="gone")
        else:
            eng.create_stream(self.name, source, schema=DDL, time="ts", late=self.late)

    def write(self, rows: Sequence[Row]) -> None:
        write_file(self.folder, self.files, arrow(rows))
        for number, row in enumerate(rows):
            key = (row["k"], row["n"]) if self.is_table else (self.files, number)
            self.rows.pop(key, None)
            if not (self.is_table and row["gone"]):
                self.rows[key] = row
        self.files += 1


class Joined:
    """Two sides, an engine on them, and Spark's answer for the rows there are."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        tables: Mapping[str, bool],
        config: Config | None = None,
        late: str = "1 hour",
    ) -> None:
        self.spark, self.home, self.config = spark, folder / "race", config
        self.sides = [Side(name, folder, is_table, late) for name, is_table in tables.items()]
        self.open()

    def open(self) -> None:
        """Another engine on the same home, as after a restart."""
        self.eng = headrace.Engine(self.home, spark=self.spark, config=self.config)
        for side in self.sides:
            side.create(self.eng)

    def theirs(self, sql: str) -> Counter[tuple[Any, ...]]:
        session = self.spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", "true")
        relations = self.eng.catalog.relations
        query = bind(sql, relations, name="q")
        for side in self.sides:
            session.createDataFrame(arrow(list(side.rows.values())), DDL).createOrReplaceTempView(
                side.name
            )
        alone = emit_query(query, relations[query.source], query.source)
        found = session.sql(emit_join(query, query.relations) if query.joined else alone).toArrow()
        return Counter(tuple(row.values()) for row in found.to_pylist())

    def ours(self, name: str) -> Counter[tuple[Any, ...]]:
        net: Counter[tuple[Any, ...]] = Counter()
        for row in self.eng.results(name).to_pylist():
            change = row.pop("change", 1)
            net[tuple(row.values())] += change
        assert all(count >= 0 for count in net.values())
        return +net

    def check(self, queries: Mapping[str, str]) -> None:
        for name, sql in queries.items():
            theirs = self.theirs(sql)
            assert self.ours(name) == theirs, name
            present = self.eng.read(name).to_pylist()
            assert Counter(tuple(row.values()) for row in present) == theirs, name


@pytest.mark.parametrize(
    "tables", [(False, False), (False, True), (True, True)], ids=["streams", "mixed", "tables"]
)
def test_joins_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, tables: tuple[bool, bool], seed: int
) -> None:
    chance = random.Random(seed)
    joined = Joined(spark, tmp_path, dict(zip("rs", tables, strict=True)))
    queries = QUERIES if not any(tables) else {n: q for n, q in QUERIES.items() if n != "timed"}
    joined.eng.add_many(queries)
    play(joined, queries, chance)
    text = joined.eng.explain()
    assert re.search(
        r"measured: +(\S+ .?s an event, with its records; )?\d+ look-ups? of the newest round: ",
        text,
    )
    stand = r"newest round: \d+ levels of \d+ groups(, where one for each joint would have \d+)?; hotspots held 100.0%"
    assert re.search(stand, text)


def test_a_relation_joined_with_itself(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    for is_table in (False, True):
        folder = tmp_path / str(is_table)
        folder.mkdir()
        joined = Joined(spark, folder, {"r": is_table})
        joined.eng.add_many(SELF)
        play(joined, SELF, random.Random(seed))


@pytest.mark.filterwarnings("ignore:every row")
@pytest.mark.parametrize("is_table", [False, True], ids=["streams", "mixed"])
def test_spark_is_asked_for_what_is_not_evaluated_here(
    spark: SparkSession, tmp_path: Path, is_table: bool, seed: int
) -> None:
    joined = Joined(spark, tmp_path, {"r": False, "s": is_table})
    joined.eng.add_many(ASKED)
    assert (
        joined.eng.results("upper").schema.names == ["k", "both", "b", "m"] + ["change"] * is_table
    )
    chance = random.Random(seed)
    play(joined, ASKED, chance)
    for side in joined.sides:
        side.write(drawn(chance, 60, 30))  # however few were drawn so far
    joined.eng.run()
    joined.check(ASKED)
    assert sum(joined.ours(name).total() for name in ASKED) > 100
    assert "by Spark, for they use function upper, function concat" in joined.eng.explain("upper")
    assert [dict(a) for a in joined.eng.watch("like")] == joined.eng.results("like").to_pylist()


def test_queries_of_very_many_ranges(spark: SparkSession, tmp_path: Path) -> None:
    """However many ranges a condition has, it is answered, and so are the others."""
    apart = ("s.n - r.n", "r.n - s.n", "abs(s.n - r.n)", "abs(r.n - s.n)")
    parts = [
        f"{d} NOT IN ({', '.join(str(2 * i + 8 * j) for j in range(63))})"
        for i, d in enumerate(apart)
    ]
    joins = {
        "parts": " AND ".join(parts),
        "each": " AND ".join(f"s.n - r.n <> {2 * i}" for i in range(-150, 150)),
        "in": f"r.n = s.n AND r.a IN ({', '.join(str(2 * i) for i in range(300))}) AND s.a <> 1",
        "or": "r.n = s.n AND ("
        + " OR ".join(f"s.b BETWEEN {i / 10} AND {i / 10 + 0.05}" for i in range(300))
        + ")",
    }
    filters = {
        "f_each": " AND ".join(f"a <> {2 * i}" for i in range(300)),
        "f_in": f"a IN ({', '.join(str(2 * i) for i in range(300))})",
        "f_or": " OR ".join(f"b BETWEEN {i / 10} AND {i / 10 + 0.05}" for i in range(-150, 150)),
        "f_both": " AND ".join(f"a <> {2 * i}" for i in range(300)) + " AND n > 0",
    }
    queries = {
        name: f"SELECT r.n AS rn, s.n AS sn, r.a AS a FROM r JOIN s ON {on}"
        for name, on in joins.items()
    }
    queries |= {name: f"SELECT n, a, b FROM r WHERE {where}" for name, where in filters.items()}
    queries["few"] = QUERIES["whole"]
    joined = Joined(spark, tmp_path, {"r": False, "s": True})
    with pytest.warns(UserWarning, match="every row"):
        joined.eng.add_many(queries)
    for side in joined.sides:
        side.write(drawn(random.Random(side.is_table), 40, 0))
    joined.eng.run()
    joined.check(queries)
    assert all(info.state == "live" for info in joined.eng.queries())
    assert all(joined.eng.results(name).num_rows for name in queries)


def test_columns_keep_their_names_and_zeros_their_signs(
    spark: SparkSession, tmp_path: Path
) -> None:
    joined = Joined(spark, tmp_path, {"r": False, "s": True})
    joined.eng.add(
        "SELECT r.n AS Change, s.n AS _change, CAST(r.b * 0e0 AS STRING) AS p, "
        "CAST(r.b * -0e0 AS STRING) AS m FROM r JOIN s ON r.a = s.a",
        name="q",
    )
    own = {"k": "x", "a": 1, "b": 2.0, "gone": False, "ts": EPOCH_US}
    joined.sides[0].write([own | {"n": 7}])
    joined.sides[1].write([own | {"n": 42}])
    joined.eng.run()
    found = {"Change": 7, "_change": 42, "p": "0.0", "m": "-0.0", "__change": 1}
    assert (
        joined.eng.results("q").to_pylist()
        == [found]
        == [dict(answer) for answer in joined.eng.watch("q")]
    )


FILTERS = {
    "cheap": "SELECT k, b * 2 AS bb FROM r WHERE b < 1.0 AND k <> 'x'",
    "some": "SELECT n, ts FROM r WHERE a IN (1, 3, 8)",
    "late": "SELECT n, a FROM r WHERE n BETWEEN 0 AND 3 AND a IS NOT NULL",
    "none": "SELECT n FROM r WHERE a > 100",
}


def test_filters_are_those_of_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Rows as they come, late ones too, NaN and infinities as Spark compares them."""
    joined = Joined(spark, tmp_path, {"r": False})
    joined.eng.add_many(FILTERS)
    assert {info.family for info in joined.eng.queries()} == {"joins"}
    chance = random.Random(seed)
    side = joined.sides[0]
    for at_s in (9_000, 0, 9_100):
        rows = drawn(chance, 40, at_s)
        rows += [
            rows[0] | {"b": odd, "k": "o"} for odd in (float("nan"), float("inf"), -float("inf"))
        ]
        side.write(rows)
        joined.eng.run()
        joined.check(FILTERS)
    seen = list(joined.eng.watch("some"))
    resumed = list(joined.eng.watch("some", since=seen[3].seq))
    assert [dict(a) for a in seen] == joined.eng.results("some").to_pylist()
    assert [(a.seq, dict(a)) for a in seen[4:]] == [(a.seq, dict(a)) for a in resumed]


def play(joined: Joined, queries: Mapping[str, str], chance: random.Random) -> None:
    """Rounds of both sides, in whatever order they come, with a restart."""
    for step in range(3):
        if step == 2:
            joined.open()
        for side in joined.sides:
            for _ in range(chance.randrange(1, 3)):
                side.write(drawn(chance, chance.choice([1, 5, 30]), step * 10))
        joined.eng.run()
        joined.check(queries)


@pytest.mark.parametrize(
    "first", [[True], [False, True], []], ids=["gone", "came and gone", "a row"]
)
def test_a_table_whose_first_round_leaves_no_row(
    spark: SparkSession, tmp_path: Path, first: list[bool]
) -> None:
    """It is not taken for one of too many rows, which quarantined all that joined it."""
    joined = Joined(spark, tmp_path, {"r": True, "s": True})
    asked = {"q": "SELECT r.n AS rn, s.n AS sn FROM r JOIN s ON r.a = s.a"}
    joined.eng.add_many(asked)
    own = {"k": "x", "n": 1, "a": 1, "b": 2.0, "ts": EPOCH_US}
    joined.sides[0].write([own | {"gone": gone} for gone in first] or [own | {"gone": False}])
    joined.sides[1].write([own | {"gone": False}])
    joined.eng.run()
    joined.check(asked)
    joined.sides[0].write([own | {"gone": False, "n": 2}])
    joined.open()
    joined.eng.run()
    joined.check(asked)
    joined.sides[0].write([own | {"gone": False, "n": 3}])  # nothing has been let go of
    joined.eng.run()
    joined.check(asked)
    assert [q.state for q in joined.eng.queries()] == ["live"] and joined.ours("q")
