"""A home of format 5, made by the version before, and what becomes of it.

`format-5.tar.gz` holds the home, its sources and what its queries answered: windows, a filter, a join
of a stream and a table, plain queries over both, and a table with more rows than may be joined.
Spark notes where sources are, so it is unpacked where it was made.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import HomeError
from headrace.migration.homes import migrate
from headrace.runtime.home import FORMAT, MARK

ARCHIVE = Path(__file__).parent / "format-5.tar.gz"
PLACE = Path("/tmp/headrace-format-5")
CHANGING = ("now", "sums", "total")


@pytest.fixture
def home() -> Iterator[Path]:
    shutil.rmtree(PLACE, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(PLACE.parent, filter="data")
    yield PLACE / "home"
    shutil.rmtree(PLACE)


def shown(answers: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in answers.to_pylist())


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def check(eng: headrace.Engine) -> None:
    expected = json.loads((PLACE / "expected.json").read_text())
    for name, answers in expected.items():
        found = eng.read(name) if name in CHANGING else eng.results(name)
        assert shown(found) == answers, name


def test_an_older_home_has_its_answers_and_goes_on(home: Path, spark: SparkSession) -> None:
    before = contents(home)
    with pytest.raises(HomeError, match="headrace migrate"):
        headrace.Engine(home)
    told = migrate(home)
    assert told[-1] == f"the home as it was: {home}.format-5" and len(told) == 4
    assert contents(home.with_name("home.format-5")) == before
    assert json.loads((home / MARK).read_text())["format"] == FORMAT
    assert migrate(home) == []
    with headrace.Engine(home, spark=spark) as eng:
        check(eng)
        feed()
        eng.run()
        assert all(info.state == "live" for info in eng.queries())
        assert shown(eng.read("now")) == ["('s0', 11)", "('s1', 5)", "('s2', 7)"]
        assert shown(eng.read("sums")) == ["(1502, 1125249.0)"]
        assert shown(eng.read("total")) == ["('s0', 12)", "('s1', 10)", "('s2', 10)"]
        lots = eng.read("lots").to_pylist()
        assert all(row["v"] % 11 == 0 for row in lots if row["symbol"] == "s0") and len(lots) == 32
        assert eng.statistics("trades")[-1].rows == 2


def feed() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    times = pa.array([start + timedelta(seconds=s) for s in (100, 101)], pa.timestamp("us", "UTC"))
    trades = {"symbol": pa.array(["s0", "s0"]), "price": pa.array([7.0, 8.0]), "ts": times}
    book = {"symbol": pa.array(["s0"]), "lot": pa.array([11]), "gone": pa.array([False])}
    big = {"k": pa.array([3000]), "v": pa.array([400.0])}
    for name, columns in {"trades": trades, "book": book, "big": big}.items():
        pq.write_table(pa.table(columns), PLACE / "src" / name / "99.parquet")


def test_a_migration_that_was_cut_off_is_ended(home: Path) -> None:
    migrate(home)
    home.rename(home.with_name("home.migrating"))  # as if the last rename had not come
    assert len(migrate(home)) == 1
    check(headrace.Engine(home))


def test_one_that_was_cut_off_earlier_is_begun_again(home: Path) -> None:
    (home.with_name("home.migrating") / "streams").mkdir(parents=True)
    migrate(home)
    check(headrace.Engine(home))


def test_a_home_that_is_run_is_left_alone(home: Path) -> None:
    before = contents(home)
    with (home / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(HomeError) as caught:
            migrate(home)
    assert caught.value.code == "HOME_HELD" and contents(home) == before


def test_damage_is_found_before_anything_is_renamed(home: Path) -> None:
    manifest = next((home / "streams/trades/rounds").glob("*2.json"))
    manifest.write_bytes(manifest.read_bytes()[:-9] + b"123456789")
    with pytest.raises(HomeError) as caught:
        migrate(home)
    assert caught.value.code == "FILE_DAMAGED" and not home.with_name("home.format-5").exists()


@pytest.mark.parametrize("number", [1, 99])
def test_a_format_nobody_knows_is_refused(tmp_path: Path, number: int) -> None:
    (tmp_path / MARK).write_text(json.dumps({"format": number, "id": "x"}))
    with pytest.raises(HomeError) as caught:
        migrate(tmp_path)
    assert caught.value.code == "HOME_VERSION" and f"format {number}" in str(caught.value)


def test_a_folder_that_is_no_home(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="not a Headrace home"):
        migrate(tmp_path)
