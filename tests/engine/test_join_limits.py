"""Joins at their limits: what is kept, for how long, what is refused, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.errors import PlanError
from tests.engine.test_joins import DDL, Joined, Row, arrow
from tests.streams import EPOCH_US, write_file

BAND = "SELECT r.n AS rn, s.n AS sn FROM r JOIN s ON s.b - r.b BETWEEN 0.0 AND 1.0"
TIMED = BAND + " AND s.ts BETWEEN r.ts - INTERVAL '10' SECONDS AND r.ts + INTERVAL '5' SECONDS"


def row(n: int, b: float | None, at_s: int = 0, k: str = "k") -> Row:
    return {"k": k, "n": n, "a": n, "b": b, "gone": False, "ts": EPOCH_US + at_s * 1_000_000}


def test_odd_numbers_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """A row with NaN or an infinity in what a join subtracts joins nothing, is counted and told;
    windows count it."""
    joined = Joined(spark, tmp_path, {"r": False, "s": False})
    count = "SELECT count(*) AS n FROM r GROUP BY window(ts, '10 seconds')"
    joined.eng.add_many(
        {"band": BAND, "open": "SELECT r.n AS rn FROM r JOIN s ON s.b - r.b > 0", "count": count}
    )
    odd = [float("nan"), float("inf"), -float("inf")]
    joined.sides[1].write([row(7, 1.0), row(8, float("inf"))])
    joined.sides[0].write([row(i, b) for i, b in enumerate(odd)] + [row(3, 0.5)])
    joined.sides[0].write([row(9, None, 7_200)])
    joined.eng.run()
    assert joined.eng.results("band").to_pylist() == [{"rn": 3, "sn": 7}]
    assert joined.eng.results("open").to_pylist() == [{"rn": 3}]
    assert joined.eng.results("count").column("n").to_pylist() == [4]
    told = {}
    for name in "rs":
        files = sorted((tmp_path / "race" / "streams" / name / "dead").glob("*.joins.jsonl"))
        told[name] = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert [line["row"]["n"] for line in told["r"]] == [0, 1, 2] and [
        line["row"]["n"] for line in told["s"]
    ] == [8]
    assert all("NaN" in line["reason"] for lines in told.values() for line in lines)


def test_too_many_rows_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Queries that need all rows kept are quarantined with the limit's name; those with a time
    bound go on."""
    joined = Joined(spark, tmp_path, {"r": False, "s": False}, Config.of(join_rows_max=40))
    joined.eng.add_many({"band": BAND, "timed": TIMED})
    joined.sides[1].write([row(1, 1.0, at_s) for at_s in range(5)])
    for step in range(6):
        joined.sides[0].write([row(step, 0.5, 10_000 * step + i) for i in range(8)])
        joined.sides[1].write([row(step, 1.0, 10_000 * step + i) for i in range(8)])
        joined.eng.run()
    states = {info.name: info for info in joined.eng.queries()}
    assert states["band"].state == "quarantined" and "join_rows_max is 40" in states["band"].reason
    assert "INTERVAL" in states["band"].reason and states["timed"].state == "live"
    assert joined.ours("timed") == joined.theirs(TIMED)
    before = joined.eng.results("band").num_rows
    joined.sides[0].write([row(9, 0.5, 70_000)])
    joined.eng.run()
    assert 0 < before == joined.eng.results("band").num_rows


def test_rows_are_let_go_when_nothing_can_join_them(spark: SparkSession, tmp_path: Path) -> None:
    joined = Joined(spark, tmp_path, {"r": False, "s": False}, late="0 seconds")
    joined.eng.add(
        "SELECT r.n AS rn, s.n AS sn FROM r JOIN s ON s.n = r.n AND "
        "s.ts BETWEEN r.ts - INTERVAL '10' SECONDS AND r.ts",
        name="timed",
    )
    for step in range(5):
        for side in joined.sides:
            side.write([row(i, 0.0, 100 * step + i) for i in range(10)])
        joined.eng.run()
    kept = {s.stream: s.figures["joins"]["kept_rows"] for s in joined.eng.statistics()}
    assert (
        all(count <= 20 for count in kept.values()) and joined.eng.results("timed").num_rows == 50
    )


def test_the_source_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """Windows, filters, bands and select-joins over one stream: one pipeline, one round for its
    rows."""
    joined = Joined(spark, tmp_path, {"r": False, "s": True})
    joined.eng.add_many(
        {
            "band": BAND,
            "select": "SELECT r.a AS a, s.a AS c FROM r JOIN s ON r.k = s.k WHERE r.a > 0 AND s.a < 9",
            "filter": "SELECT n FROM r WHERE a BETWEEN 1 AND 3",
            "window": "SELECT k, sum(a) AS t FROM r GROUP BY k, window(ts, '10 seconds')",
        }
    )
    joined.sides[1].write([row(1, 1.0), row(2, 2.0)])
    for step in range(3):
        joined.sides[0].write([row(i, i / 2, 7_200 * step + i) for i in range(5)])
    joined.eng.run()
    rounds = joined.eng.statistics("r")
    assert [(s.rows, s.queries) for s in rounds] == [(5, 4)] * 3
    assert (
        len(list((tmp_path / "race" / "streams" / "r" / "checkpoint" / "offsets").glob("[0-9]*")))
        == 3
    )
    assert all(joined.eng.results(name).num_rows for name in ("band", "select", "filter", "window"))


def test_who_is_affected(spark: SparkSession, tmp_path: Path) -> None:
    """Records name, for every row, exactly the queries it brings an answer to."""
    joined = Joined(spark, tmp_path, {"r": False, "s": True})
    bands = {
        f"b{i}": f"SELECT r.n AS n FROM r JOIN s ON s.b - r.b BETWEEN {i / 4} AND {i / 2}"
        for i in range(12)
    }
    ranges = {
        f"k{i}": f"SELECT r.n AS n FROM r JOIN s ON s.a = r.a AND r.b > {i} AND s.b < {i}"
        for i in range(9)
    }
    filters = {f"f{i}": f"SELECT n FROM r WHERE b BETWEEN {i} AND {i + 2}" for i in range(5)}
    joined.eng.add_many({**bands, **ranges, **filters})
    joined.sides[1].write([row(n, n * 0.7) | {"a": n % 5} for n in range(10)])
    joined.eng.run()
    for first in (0, 50):
        joined.sides[0].write(
            [row(n, (n * 37 % 90) / 10) | {"a": n % 7} for n in range(first, first + 50)]
        )
    joined.eng.run()
    names = {r.id: r.name for r in joined.eng.catalog.queries.values()}
    told = set()
    for notice in joined.eng.notices("r"):
        rows, ids = notice.affected()
        numbers = (
            pa.ipc.open_file(tmp_path / "race" / notice.rows_path)
            .read_all()
            .column("n")
            .take(rows)
            .to_pylist()
        )
        told |= {(n, names[i]) for n, i in zip(numbers, ids.tolist(), strict=True)}
    answered = {
        (n, name)
        for name in names.values()
        for n in joined.eng.results(name).column("n").to_pylist()
    }
    assert told == answered and len(told) > 100
    assert {notice.round_id for notice in joined.eng.notices("r", after=0)} == {1}


def test_too_many_pairs_are_not_expanded(spark: SparkSession, tmp_path: Path) -> None:
    joined = Joined(spark, tmp_path, {"r": False, "s": False}, Config.of(join_pairs_max=99))
    joined.eng.add(BAND, name="band")
    for _ in range(2):
        for side in joined.sides:
            side.write([row(n, 0.5) for n in range(5)])
        joined.eng.run()
    with pytest.raises(headrace.HeadraceError, match="join_pairs_max = 99") as caught:
        joined.eng.results("band")
    assert caught.value.code == "PAIRS"
    assert len(list(joined.eng.watch("band"))) == 100


def test_a_new_query_joins_what_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    """It is answered from its first round on: rows that come then join those that came before."""
    joined = Joined(spark, tmp_path, {"r": False, "s": False})
    joined.eng.add(BAND, name="first")
    joined.sides[0].write([row(1, 0.5)])
    joined.sides[1].write([row(2, 1.0)])
    joined.eng.run()
    joined.eng.add("SELECT r.n AS rn, s.n AS sn FROM r JOIN s ON r.k = s.k", name="second")
    joined.sides[1].write([row(3, 1.2)])
    joined.eng.run()
    assert joined.eng.results("first").to_pylist() == [{"rn": 1, "sn": 2}, {"rn": 1, "sn": 3}]
    assert joined.eng.results("second").to_pylist() == [{"rn": 1, "sn": 3}]
    joined.eng.drop("first")
    with pytest.raises(headrace.HeadraceError, match="first"):
        joined.eng.results("first")


@pytest.mark.parametrize(
    "where",
    [
        "s.b - r.b BETWEEN 9 AND 3",
        "r.n = s.n AND r.a > 5 AND r.a < 3",
        "s.n > r.n AND s.n < r.n",
        "r.k = s.k AND s.a = 3 AND s.a = 4",
    ],
)
def test_empty_ranges_are_refused(tmp_path: Path, where: str) -> None:
    eng = both(tmp_path)
    with pytest.raises(PlanError) as caught:
        eng.add(f"SELECT r.n AS n FROM r JOIN s ON {where}")
    assert caught.value.code == "EMPTY_RANGE" and not eng.queries()
    with pytest.raises(PlanError) as caught:
        eng.add("SELECT n FROM r WHERE a BETWEEN 5 AND 2")
    assert caught.value.code == "EMPTY_RANGE"


def test_the_whole_line_is_warned_of(tmp_path: Path) -> None:
    eng = both(tmp_path)
    for number, where in enumerate(
        ["s.b - r.b > -1e300 AND s.b - r.b < 1e300", "r.a IS NOT NULL OR s.a IS NULL"]
    ):
        with pytest.warns(UserWarning, match="every row of r meets every row of s"):
            eng.add(f"SELECT r.n AS n FROM r JOIN s ON {where}", name=f"q{number}")
    assert "whole line" in eng.explain("q0")


def both(folder: Path) -> headrace.Engine:
    eng = headrace.Engine(folder / "race")
    for name in "rs":
        (folder / name).mkdir()
        write_file(folder / name, 0, arrow([row(1, 1.0)]))
        eng.create_stream(name, f"parquet:{folder / name}", schema=DDL, time="ts")
    return eng
