"""Tables that are joined late, not any more, or again: whoever joins a table finds all rows it
has."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.errors import HomeError
from headrace.relations import wear
from tests.engine.test_join_limits import row
from tests.engine.test_joins import Joined

JOIN = "SELECT r.a AS ra, s.a AS sa FROM r JOIN s ON r.b = s.b"
PLAIN = "SELECT k, a FROM s"


def tables(spark: SparkSession, folder: Path, limit: int = 1_000) -> Joined:
    joined = Joined(spark, folder, {"r": False, "s": True}, Config.of(join_rows_max=limit))
    joined.eng.add(PLAIN, "plain")
    return joined


def feed(joined: Joined, side: int, *rows: tuple[int, str]) -> None:
    """Of a table, `k` is the key."""
    joined.sides[side].write([{**row(0, 1.0, k=k), "a": a} for a, k in rows])
    joined.eng.run()


def again(joined: Joined, limit: int = 1_000) -> None:
    """As after a restart."""
    joined.config = Config.of(join_rows_max=limit)
    joined.open()


def pairs(joined: Joined, name: str) -> list[tuple[int, ...]]:
    return [tuple(own.values()) for own in joined.eng.results(name).to_pylist()]


@pytest.mark.parametrize("spare", [100_000, 0])
def test_a_table_has_its_rows_whenever_it_is_joined(
    spark: SparkSession, tmp_path: Path, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after rounds in which nobody joined it; rows that went meanwhile are left out of its
    files."""
    monkeypatch.setattr(wear, "SPARE_ROWS", spare)
    joined = tables(spark, tmp_path)
    for n in range(4):
        feed(joined, 1, (n, "x"), (10 + n, "y"))
    feed(joined, 1, (20, "z"))
    joined.eng.add(JOIN, "first")
    feed(joined, 0, (1, "r"))
    assert sorted(pairs(joined, "first")) == [(1, 3, 1), (1, 13, 1), (1, 20, 1)]
    now = sorted((row["k"], row["a"]) for row in joined.eng.read("plain").to_pylist())
    assert now == [("x", 3), ("y", 13), ("z", 20)]
    kept = list((tmp_path / "race/streams/s/kept").iterdir())
    assert len(kept) < 5 if spare == 0 else len(kept) == 5
    joined.eng.drop("first")
    feed(joined, 1, (4, "x"))
    again(joined)
    joined.eng.add(JOIN, "second")
    feed(joined, 0, (2, "r"))
    assert sorted(pairs(joined, "second")) == [(2, 4, 1), (2, 13, 1), (2, 20, 1)]
    feed(joined, 1, (14, "y"))
    assert sorted(pairs(joined, "second"))[-2:] == [(2, 14, 1), (2, 20, 1)]
    assert (2, 13, -1) in pairs(joined, "second")


def test_a_table_too_large_to_be_joined_is_said_to_be(spark: SparkSession, tmp_path: Path) -> None:
    """Not joined with a part of its rows; with a greater limit, with all of them."""
    joined = tables(spark, tmp_path, limit=2)
    feed(joined, 1, (1, "x"), (2, "y"), (3, "z"))
    feed(joined, 1, (4, "x"))
    joined.eng.add(JOIN, "join")
    feed(joined, 0, (1, "r"))
    (info,) = [info for info in joined.eng.queries() if info.name == "join"]
    assert info.state == "quarantined" and "join_rows_max = 2" in info.reason
    again(joined, 100)
    joined.eng.drop("join")
    joined.eng.add(JOIN, "join")
    feed(joined, 1, (5, "x"))
    feed(joined, 0, (2, "r"))
    assert sorted(pairs(joined, "join")) == [(2, 2, 1), (2, 3, 1), (2, 5, 1)]


def test_answers_of_the_last_join_stay_when_it_is_quarantined(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And rows that came without it are not joined in part."""
    joined = Joined(spark, tmp_path, {"r": False, "s": False}, Config.of(join_rows_max=3))
    counts = {
        name: f"SELECT count(*) AS n FROM {name} GROUP BY window(ts, '10 seconds')" for name in "rs"
    }
    joined.eng.add_many({"join": JOIN, **counts})
    feed(joined, 0, (1, "r"))
    feed(joined, 1, (1, "x"), (2, "y"))
    before = pairs(joined, "join")
    assert len(before) == 2
    feed(joined, 1, (3, "x"), (4, "y"))
    assert {info.name: info.state for info in joined.eng.queries()}["join"] == "quarantined"
    feed(joined, 1, (5, "x"))
    feed(joined, 0, (2, "r"))
    assert pairs(joined, "join") == before
    again(joined, 100)
    assert pairs(joined, "join") == before
    assert [tuple(row.values()) for row in joined.eng.read("join").to_pylist()] == before
    joined.eng.add(JOIN, "again")
    feed(joined, 1, (6, "x"))
    feed(joined, 0, (3, "r"))
    assert pairs(joined, "again") == [(3, 6)] and pairs(joined, "join") == before
    joined.eng.drop("join")
    feed(joined, 0, (4, "r"))
    assert pairs(joined, "again") == [(3, 6), (4, 6)]


def test_a_damaged_row_is_told_by_whoever_reads_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also on a worker: in our words, and no query is blamed."""
    joined = tables(spark, tmp_path)
    feed(joined, 1, (1, "x"), (2, "y"))
    (path,) = (tmp_path / "race/streams/s/kept").glob("*/*.rows.arrow")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again(joined)
    with pytest.raises(HomeError) as caught:
        feed(joined, 1, (3, "z"))
    assert caught.value.code == "FILE_DAMAGED" and str(path.name) in str(caught.value)
    assert [info.state for info in joined.eng.queries()] == ["live"]


def test_a_table_that_is_updated_for_long_has_few_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wear, "FILES_MAX", 3)
    joined = tables(spark, tmp_path)
    for n in range(12):
        feed(joined, 1, (n, "x"), (20 + n, f"k{n % 5}"))
        assert {row["k"] for row in joined.eng.read("plain").to_pylist()} == {
            "x",
            *(f"k{i}" for i in range(min(n + 1, 5))),
        }
    assert len(list((tmp_path / "race/streams/s/kept").iterdir())) <= 5


def test_a_joined_table_grows_with_its_keys(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with its changes; the log is kept for as many rounds as `config` says, and the present
    answer is that of all rounds."""
    monkeypatch.setattr(wear, "FILES_MAX", 3)
    joined = Joined(
        spark, tmp_path, {"r": False, "s": True}, Config.of(join_rows_max=1_000, manifests_kept=4)
    )
    joined.eng.add(JOIN, "join")
    feed(joined, 0, (1, "r"))
    folder, counts = tmp_path / "race/streams/s", list[int]()
    for n in range(16):
        feed(joined, 1, (n, "x"), (20 + n, f"k{n % 3}"))
        own = (path for part in ("kept", "rounds") for path in (folder / part).rglob("*"))
        counts.append(sum(path.is_file() for path in own))
        if n == 8:
            joined.open()
    assert max(counts[8:]) <= max(counts[:8]) + 4, counts
    newest = [(1, 15), (1, 33), (1, 34), (1, 35)]
    assert sorted(tuple(row.values()) for row in joined.eng.read("join").to_pylist()) == newest
    told = pairs(joined, "join")
    assert 0 < len(told) < 64 and {(1, 15, 1), (1, 14, -1), (1, 35, 1)} <= set(told)
    feed(joined, 0, (2, "r"))
    assert sorted(pairs(joined, "join")[-4:]) == [(2, a, 1) for _, a in newest]
