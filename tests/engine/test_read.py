"""`read`: the present answer of every kind of query is Spark's own, over the rows committed so far;
and what is left of its log.

A stream and two tables are fed round by round, beside what Spark is asked over.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.errors import HeadraceError, ServingError
from headrace.relations import wear
from headrace.runtime.ledger import Ledger, Manifest
from tests.engine.race import DDL as STREAM_DDL
from tests.engine.race import Race, Row, row, rows_of, said, table_of
from tests.streams import as_oracle, canonical, left_over, same_rows, write_file

DDL = "k STRING, n INT, x DOUBLE, gone BOOLEAN"
TABLE = pa.schema(
    [("k", pa.string()), ("n", pa.int32()), ("x", pa.float64()), ("gone", pa.bool_())]
)
W = "window(ts, '10 seconds', '5 seconds')"
WINDOWS = {
    "shared": f"SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, {W}",
    "alone": f"SELECT collect_set(n) AS ns, min(k) AS lo, window.end AS we FROM s GROUP BY {W}",
}
ONCE = {
    "filter": "SELECT k, n, x FROM s WHERE n BETWEEN 2 AND 5",
    "each": "SELECT upper(k) AS u, x FROM s",
}
CURRENT = {
    "by_key": "SELECT k, count(*) AS c, max(x) AS m, min(x) AS lo FROM s GROUP BY k",
    "total": "SELECT count(*) AS c, sum(n) AS t FROM s",
    "alike": "SELECT n % 2 AS p, NULLIF(k, 'a') AS k FROM s GROUP BY k, n",
    "having": "SELECT k FROM s GROUP BY k HAVING count(*) % 2 = 0",
    "rows": "SELECT k, n, x FROM t",
    "named": "SELECT n % 2 AS change, n AS _Change FROM t",
    "signs": "SELECT x FROM t",
    "sums": "SELECT n, sum(x) AS t, count(*) AS c FROM t GROUP BY n",
    "some": "SELECT k FROM t WHERE n > 2",
    "lists": "SELECT n, collect_set(k) AS b, max(x > 1) AS o FROM t GROUP BY n",
}
JOINED = {
    "looked_up": "SELECT s.k AS k, s.big AS big, t.x AS x FROM s JOIN t ON s.n = t.n WHERE t.n > 1",
    "near": "SELECT a.k AS a, b.k AS b FROM t a JOIN u b ON b.n - a.n BETWEEN 0 AND 1",
    "itself": "SELECT a.k AS a, b.k AS b FROM t a JOIN t b ON a.n = b.n WHERE a.n > 1",
}
Table = dict[tuple[str | None, int], Row]


class Fed:
    """A home with a stream and two tables, and their rows."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        queries: Mapping[str, str],
        config: Config | None = None,
    ) -> None:
        self.spark, self.folder, self.config = spark, folder, config
        self.queries = queries
        self.counts = dict.fromkeys("stu", 0)
        self.stream: list[Row] = []
        self.tables: dict[str, Table] = {"t": {}, "u": {}}
        self.open()
        self.eng.add_many(queries)

    def open(self) -> None:
        """Another engine on the same home, as after a restart."""
        self.eng = headrace.Engine(self.folder / "race", spark=self.spark, config=self.config)
        for name in "stu":
            (self.folder / name).mkdir(exist_ok=True)
        self.eng.create_stream(
            "s", self.source("s"), schema=STREAM_DDL, time="ts", late="0 seconds"
        )
        for name in "tu":
            self.eng.create_table(name, self.source(name), schema=DDL, key="k, n", deleted="gone")

    def source(self, name: str) -> str:
        return f"parquet:{self.folder / name}?maxFilesPerTrigger=1"

    def feed(self, rows: Sequence[Row], **tables: Sequence[Row]) -> None:
        """A file of the stream, if there are rows, and of tables."""
        if rows:
            self.write("s", table_of(rows))
            self.stream += rows
        for name, changes in tables.items():
            self.write(name, pa.Table.from_pylist(list(changes), TABLE))
            for own in changes:
                self.tables[name].pop((own["k"], own["n"]), None)
                if not own["gone"]:
                    self.tables[name][own["k"], own["n"]] = own

    def write(self, name: str, rows: pa.Table) -> None:
        write_file(self.folder / name, self.counts[name], rows)
        self.counts[name] += 1

    def check(self, eng: headrace.Engine | None = None, has_whole_log: bool = True) -> None:
        """Every present answer is Spark's, and what is left of the log."""
        eng = eng or self.eng
        with tempfile.TemporaryDirectory() as folder, as_oracle(self.spark):
            given = {"s": table_of(self.stream)} | {
                name: pa.Table.from_pylist(list(rows.values()), TABLE)
                for name, rows in self.tables.items()
            }
            for name, rows in given.items():
                pq.write_table(rows, f"{folder}/{name}.parquet")
                ddl = STREAM_DDL if name == "s" else DDL
                read = self.spark.read.schema(ddl).parquet(f"{folder}/{name}.parquet")
                read.createOrReplaceTempView(name)
            for name, sql in self.queries.items():
                theirs = self.spark.sql(sql).toArrow()
                self.check_present(name, eng.read(name), theirs)
                if has_whole_log:
                    self.check_log(name, eng.results(name), eng.read(name))

    def check_present(self, name: str, ours: pa.Table, theirs: pa.Table) -> None:
        columns = theirs.column_names
        assert ours.column_names[: len(columns)] == columns
        if name in WINDOWS:
            closed_us = max(r["ts"] for r in self.stream)
            ends = theirs.column("we").cast(pa.int64()).to_pylist()
            theirs = theirs.filter(pa.array([end <= closed_us for end in ends]))
        expected = canonical(theirs, columns)
        assert same_rows(canonical(sets(ours), columns), canonical(sets(theirs), columns)), (
            f"{name}\nours:  {canonical(ours, columns)}\nspark: {expected}"
        )

    def check_log(self, name: str, log: pa.Table, ours: pa.Table) -> None:
        if name == "named":
            assert log.column_names == ["change", "_Change", "__change"]
            log = log.rename_columns(["a", "b", "change"])
        assert same_rows(left_over(log), canonical(ours, ours.column_names)), name


def sets(table: pa.Table) -> pa.Table:
    """Lists that are sets in order."""
    for at, name in enumerate(table.column_names):
        if pa.types.is_list(table.column(name).type):
            values = [sorted(v) for v in table.column(name).to_pylist()]
            table = table.set_column(at, name, pa.array(values))
    return table


def entry(k: str | None, n: int, x: float | None = 1.0, gone: bool | None = None) -> Row:
    return {"k": k, "n": n, "x": x, "gone": gone}


def drawn(chance: Random, count: int, start_s: int) -> tuple[list[Row], list[Row]]:
    """Rows of the stream, in order, and of a table; with NULL, NaN and both zeros, often alike."""
    odd: list[Any] = [None, math.nan, -0.0, 0.0, 1.5, 2.5]
    rows = [
        row(
            start_s + i, chance.choice(["a", "b", None]), chance.randrange(1, 4), chance.choice(odd)
        )
        for i in range(count)
    ]
    changes = {
        (k, n): entry(k, n, chance.choice(odd), chance.random() < 0.3)
        for k, n in ((chance.choice(["a", "b", None]), chance.randrange(4)) for _ in range(count))
    }
    return rows, list(changes.values())


def test_the_present_answer_is_sparks(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """After every round; also for who reads from another process, without Spark; after a restart,
    and after a round that failed and is done again."""
    chance = Random(seed)
    fed = Fed(spark, tmp_path, {**WINDOWS, **ONCE, **CURRENT, **JOINED})
    for step in range(4):
        rows, changes = drawn(chance, 6, 8 * step)
        fed.feed(rows, t=changes, u=drawn(chance, 4, 0)[1])
        if step == 2:
            fail_once(fed)
        fed.eng.run()
        fed.check(headrace.Engine(tmp_path / "race") if step == 1 else None)
        if step in (0, 2):
            fed.open()


def fail_once(fed: Fed) -> None:
    """The round of each relation is answered, and its commit fails."""
    with pytest.MonkeyPatch.context() as patched:

        def fail(ledger: Ledger, manifest: Manifest) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(Ledger, "commit", fail)
        with pytest.raises(HeadraceError):
            fed.eng.run()
    fed.open()


def test_a_round_that_changes_nothing_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Of a table whose rows come again, or differ only by the sign of a zero or the bits of NaN."""
    fed = Fed(spark, tmp_path, {"signs": CURRENT["signs"], "some": CURRENT["some"]})
    fed.feed([], t=[entry("a", 1, 0.0), entry("b", 3, math.nan), entry(None, 3, None)])
    fed.eng.run()
    present = tmp_path / "race/streams/t/present"
    before = {path.name: path.stat().st_ino for path in present.iterdir()}
    again = [entry("a", 1, -0.0), entry("b", 3, -math.nan), entry("c", 9, 5.0, gone=True)]
    fed.feed([], t=again)
    fed.eng.run()
    ledger = Ledger(fed.eng.home.disk, "streams/t")
    assert ledger.rounds == [0, 1]
    assert any("/answers/" in mark.path for mark in ledger.read(0).files)
    assert not any("/answers/" in mark.path for mark in ledger.read(1).files)
    assert not (tmp_path / "race/streams/t/answers/000000000001.plain").exists() or not list(
        (tmp_path / "race/streams/t/answers/000000000001.plain").iterdir()
    )
    assert {path.name: path.stat().st_ino for path in present.iterdir()} == before
    assert [s.answers for s in fed.eng.statistics()][-1] == 0
    fed.check()
    fed.feed([], t=[entry("b", 3, 2.0)])
    fed.eng.run()
    fed.check()
    kept = {path.name for path in present.iterdir()}
    of_some = f".{fed.eng.catalog.query('some').id}."
    assert kept & before.keys() == {name for name in before if of_some in name}
    assert all(of_some in name or name.startswith("000000000002.") for name in kept)
    goes, comes = fed.eng.results("signs").to_pylist()[-2:]
    assert math.isnan(goes["x"]) and (goes["change"], comes) == (-1, {"x": 2.0, "change": 1})


def test_it_outlives_the_rounds_of_its_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Present answers that are kept whole do, and those of joins over tables, which are made of the
    rows that are there; of others `read` says that some are gone."""
    monkeypatch.setattr(wear, "SPARE_ROWS", 0)
    kept = {name: CURRENT[name] for name in ("rows", "signs", "some")}
    pairs = "SELECT a.k AS a, b.k AS b, a.x AS x FROM u a JOIN u b ON a.n = b.n"
    fed = Fed(
        spark,
        tmp_path,
        {**kept, "pairs": pairs, "each": ONCE["each"]},
        Config.of(manifests_kept=2),
    )
    for step in range(9):
        t = [entry("a", 1, float(step)), *([] if step else [entry("b", 3)])]
        fed.feed(rows_of(10 * step, 3), t=t, u=[entry("a", 2, float(step)), entry("b", 2)])
        fed.eng.run()
    fed.open()
    disk = fed.eng.home.disk
    assert [Ledger(disk, f"streams/{name}").rounds[0] > 0 for name in "stu"] == [True] * 3
    with pytest.raises(ServingError) as found:
        fed.eng.read("each")
    said(found.value, "SINCE_GONE", "manifests_kept", "results()")
    assert 0 < fed.eng.results("each").num_rows < len(fed.stream)
    # the newest of its few changes are gone, and it is right
    assert fed.eng.results("some").num_rows == 0
    fed.queries = kept
    fed.check(has_whole_log=False)
    fed.queries = {"pairs": pairs}
    fed.check(has_whole_log=False)
    fed.eng.add(ONCE["each"], name="later")
    fed.feed(rows_of(90, 3))
    fed.eng.run()
    assert fed.eng.read("later").num_rows == 3


def test_a_damaged_present_answer_is_said(spark: SparkSession, tmp_path: Path) -> None:
    fed = Fed(spark, tmp_path, {"rows": CURRENT["rows"]})
    fed.feed([], t=[entry("a", 1)])
    fed.eng.run()
    (path,) = (tmp_path / "race/streams/t/present").iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(HeadraceError, match="checksum") as found:
        fed.eng.read("rows")
    said(found.value, "FILE_DAMAGED", path.name)
    fed.open()
    fed.feed([], t=[entry("a", 2)])
    with pytest.raises(HeadraceError, match="checksum"):
        fed.eng.run()


def test_before_the_first_round_and_for_no_query(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many({"total": CURRENT["total"], "shared": WINDOWS["shared"]})
    assert race.eng.read("total").schema.names == ["c", "t"]
    assert race.eng.read("shared").num_rows == 0
    with pytest.raises(HeadraceError) as found:
        race.eng.read("totl")
    said(found.value, "UNKNOWN_QUERY", "total")
    race.feed([])
    race.feed([{**row(0), "ts": None}])
    race.eng.run()
    # no row counts yet: Spark answers so too
    assert race.eng.read("total").to_pylist() == [{"c": 0, "t": None}]
    race.feed(rows_of(0, 3))
    race.eng.run()
    assert race.eng.read("total").column("c").to_pylist() == [3]
    assert left_over(race.eng.results("total")) == canonical(race.eng.read("total"), ["c", "t"])
