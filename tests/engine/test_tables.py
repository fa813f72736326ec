"""Tables whose keys are deleted: a plain dict says what is left, Spark what a query answers to
it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import headrace
from tests.streams import canonical, spark_answer, write_file

DDL = "symbol STRING, shelf INT, qty INT, gone BOOLEAN"
COLUMNS = ["symbol", "shelf", "qty", "gone"]
TYPES = [pa.string(), pa.int32(), pa.int32(), pa.bool_()]
QUERIES = {
    "rows": "SELECT symbol, shelf, qty, gone FROM stock",
    "sums": "SELECT symbol, sum(qty) AS q, count(*) AS n FROM stock GROUP BY symbol",
    "all": "SELECT sum(qty) AS q, count(*) AS n, max(symbol) AS last FROM stock",
    "marked": "SELECT symbol FROM stock WHERE gone",
}
Row = tuple[str | None, int, int | None, bool | None]


def table_of(rows: Sequence[Row]) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    return pa.table({c: pa.array(v, t) for c, v, t in zip(COLUMNS, values, TYPES, strict=True)})


class Stock:
    """A table fed file by file, and the dict it should be."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0
        self.rows: dict[tuple[str | None, int], Row] = {}
        self.open()
        self.eng.add_many(QUERIES)

    def open(self) -> None:
        """Another engine on the same home, as after a restart."""
        (self.folder / "src").mkdir(exist_ok=True)
        self.eng = headrace.Engine(self.folder / "race", spark=self.spark)
        self.eng.create_table(
            "stock", f"parquet:{self.folder}/src", schema=DDL, key="symbol, shelf", deleted="GONE"
        )

    def run(self, *files: Sequence[Row]) -> None:
        """One round of these files; every query then answers what Spark answers over the dict."""
        for rows in files:
            write_file(self.folder / "src", self.files, table_of(rows))
            self.files += 1
            for row in rows:
                self.rows.pop(row[:2], None)
                if not row[3]:
                    self.rows[row[:2]] = row
        self.eng.run()
        for name, sql in QUERIES.items():
            theirs = spark_answer(self.spark, sql, "stock", table_of(list(self.rows.values())), DDL)
            ours = canonical(self.eng.read(name), theirs.column_names)
            assert ours == canonical(theirs, theirs.column_names), name


def drawn(chance: random.Random, count: int) -> list[Row]:
    """Rows of a few keys, a third of them deletions; some keys have NULL in them."""

    def one() -> Row:
        gone = chance.choice([True, False, None])
        return (
            chance.choice(["a", "b", "c", None]),
            chance.randrange(3),
            chance.choice([None, 1, 2, 3, 4]),
            gone,
        )

    return [one() for _ in range(count)]


def test_a_table_is_a_dict(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Several rows of a key in a file, in files of a round, and over rounds with restarts: the last
    one counts."""
    stock, chance = Stock(spark, tmp_path), random.Random(seed)
    sizes: list[int] = []
    # at least one round in which keys were lost
    while len(sizes) < 6 or not any(b < a for a, b in pairwise(sizes)):
        if len(sizes) in (2, 3):
            stock.open()
        stock.run(*(drawn(chance, chance.randrange(1, 9)) for _ in range(chance.randrange(1, 4))))
        sizes.append(len(stock.rows))


def test_the_last_row_of_a_round_wins(spark: SparkSession, tmp_path: Path) -> None:
    stock = Stock(spark, tmp_path)
    stock.run([("a", 1, 1, None), ("a", 1, 2, True), ("b", 1, 3, True), ("b", 1, 4, False)])
    assert list(stock.rows) == [("b", 1)]
    stock.run([("a", 1, 5, False), ("b", 1, 6, True)], [("a", 1, 7, True), ("b", 1, 8, None)])
    assert list(stock.rows.values()) == [("b", 1, 8, None)]


def test_a_table_with_nothing_left(spark: SparkSession, tmp_path: Path) -> None:
    """Only deletions: of keys never seen, in the first round; then of all there are; a row brings
    its key back."""
    stock = Stock(spark, tmp_path)
    stock.run([("a", 1, None, True), (None, 1, None, True)])
    assert stock.eng.read("all").to_pylist() == [{"q": None, "n": 0, "last": None}]
    stock.run([("a", 1, 1, False), ("b", 1, 2, None), (None, 2, 3, False)])
    assert stock.eng.read("all").to_pylist() == [{"q": 6, "n": 3, "last": "b"}]
    stock.run(
        [("b", 1, None, True), ("a", 1, None, True), (None, 2, 9, True), ("z", 1, None, True)]
    )
    assert stock.eng.read("all").to_pylist() == [{"q": None, "n": 0, "last": None}]
    assert stock.eng.read("rows").num_rows == stock.eng.read("sums").num_rows == 0
    stock.open()
    stock.run([("c", 1, None, True)])
    assert not stock.rows
    stock.run([("b", 1, 7, False)])
    assert stock.eng.read("rows").to_pylist() == [
        {"symbol": "b", "shelf": 1, "qty": 7, "gone": False}
    ]


def test_a_deletion_needs_only_its_key(spark: SparkSession, tmp_path: Path) -> None:
    """As lines of JSON; a line that does not fit the schema deletes nothing."""
    source = tmp_path / "src"
    source.mkdir()
    eng = headrace.Engine(tmp_path / "race", spark=spark)
    eng.create_table("stock", f"json:{source}", schema=DDL, key="symbol", deleted="gone")
    eng.add("SELECT symbol, qty, gone FROM stock", name="rows")

    def put(name: str, *lines: dict[str, Any]) -> None:
        (source / name).write_text("\n".join(json.dumps(line) for line in lines))
        eng.run()

    put("a.json", *({"symbol": s, "qty": 1} for s in "abc"))
    put(
        "b.json",
        {"symbol": "a", "gone": True},
        {"symbol": "b", "gone": "perhaps"},
        {"symbol": "c", "gone": False},
    )
    assert canonical(eng.read("rows"), ["symbol", "qty", "gone"]) == [
        ("b", 1, None),
        ("c", None, False),
    ]
    assert [s.bad for s in eng.statistics()] == [0, 1]


def test_without_it_the_column_is_like_others(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "src", 0, table_of([("a", 1, 1, False), ("a", 1, 2, True)]))
    eng = headrace.Engine(tmp_path / "race", spark=spark)
    eng.create_table("stock", f"parquet:{tmp_path}/src", schema=DDL, key="symbol, shelf")
    eng.add(QUERIES["rows"], name="rows")
    eng.run()
    assert canonical(eng.read("rows"), COLUMNS) == [("a", 1, 2, True)]


def test_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """`row`, backquotes, keywords: in tables, their keys and deletions, in joins and in event
    times."""
    names = ["row", "a`b", "select", "t`s", "u.v w"]
    rows = [
        ("x", 1, False, 0, 5),
        ("x", 2, False, 1, 6),
        ("y", 3, False, 2, 7),
        ("y", 4, True, 3, 8),
    ]
    kinds = [pa.string(), pa.int32(), pa.bool_(), pa.timestamp("us", "UTC"), pa.int64()]
    columns = {
        n: pa.array(v, k) for n, v, k in zip(names, zip(*rows, strict=True), kinds, strict=True)
    }
    for name in ("t", "s"):
        write_file(tmp_path / name, 0, pa.table(columns))
    eng = headrace.Engine(tmp_path / "race", spark=spark)
    schema = "`row` STRING, `a``b` INT, `select` BOOLEAN, `t``s` TIMESTAMP, `u.v w` BIGINT"
    eng.create_table("t", f"parquet:{tmp_path}/t", schema=schema, key="row", deleted="select")
    eng.create_stream("s", f"parquet:{tmp_path}/s", schema=schema, time="t`s", late="1 hour")
    eng.add("SELECT `row`, `a``b` AS `c``d` FROM t", name="table")
    eng.add(
        "SELECT s.`row` AS k, t.`a``b` - s.`a``b` AS d, upper(s.`row`) AS u, s.`u.v w` "
        "FROM s JOIN t ON t.`row` = s.`row`",
        name="joined",
    )
    eng.add(
        "SELECT `row`, sum(`a``b`) AS n FROM s GROUP BY `row`, window(`t``s`, '1 second')",
        name="window",
    )
    eng.add("SELECT `a``b` AS n FROM s WHERE `a``b` > 2", name="filter")
    eng.run()
    assert eng.read("table").to_pylist() == [{"row": "x", "c`d": 2}]
    assert canonical(eng.results("joined"), ["k", "d", "u", "u.v w"]) == [
        ("x", 0, "X", 6),
        ("x", 1, "X", 5),
    ]
    assert canonical(eng.read("filter"), ["n"]) == [(3,), (4,)]


def test_names_of_ours_are_refused(tmp_path: Path) -> None:
    with pytest.raises(headrace.HeadraceError, match="_headrace_row"):
        headrace.Engine(tmp_path / "race").create_stream(
            "s", "rate://1", schema="_headrace_row INT, ts TIMESTAMP", time="ts"
        )


@pytest.mark.slow
def test_a_round_costs_what_changes(spark: SparkSession, tmp_path: Path) -> None:
    """1,000 upserts on 1,000,000 keys: under a second, under 2 MB; prints what it took."""
    source, chance = tmp_path / "t", np.random.default_rng(7)
    source.mkdir()

    def write(number: int, keys: NDArray[np.int64]) -> None:
        columns = {"k": keys, "name": [f"n{k % 977}" for k in keys.tolist()]}
        write_file(source, number, pa.table({**columns, "v": chance.random(keys.size)}))

    def size() -> int:
        places = (tmp_path / "race/streams/t").rglob("*")
        return sum(p.stat().st_size for p in places if p.is_file() and "checkpoint" not in p.parts)

    eng = headrace.Engine(tmp_path / "race", spark=spark)
    (tmp_path / "s").mkdir()
    eng.create_stream("s", f"parquet:{tmp_path / 's'}", schema="k BIGINT, ts TIMESTAMP", time="ts")
    eng.create_table("t", f"parquet:{source}", schema="k BIGINT, name STRING, v DOUBLE", key="k")
    eng.add("SELECT s.k AS k, t.v AS v FROM s JOIN t ON s.k = t.k WHERE t.v > 0.5")
    write(0, np.arange(1_000_000))
    eng.run()
    took, wrote = [], []
    for number in range(1, 6):
        before = size()
        write(number, chance.choice(1_000_000, 1_000, replace=False))
        eng.run()
        took.append(eng.statistics("t")[-1].seconds["total"])
        wrote.append(size() - before)
    print(f"median of {[round(s, 3) for s in took]} s; {max(wrote):,} bytes at most")
    assert sorted(took)[2] < 1.0 and max(wrote) < 2_000_000
