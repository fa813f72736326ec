"""The command where nothing can be written but the home, for a user without a name."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.cli.starting import FILES, write_trades
from headrace.values import US_PER_S
from tests.container import HOME_VOLUME, READ_VOLUME, USER, headrace, run, why_not

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=f"no container here: {why_not()}"),
    pytest.mark.timeout(900),  # a start, and kernels that may have to be compiled
]

SCRIPT = f"""
CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, side STRING, venue STRING, ts TIMESTAMP)
USING parquet OPTIONS (path '{HOME_VOLUME}/trades', time 'ts', late '2 seconds');
CREATE QUERY per_minute AS SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 minute');
CREATE QUERY texts AS SELECT symbol FROM trades WHERE symbol LIKE 'ZZ%';
"""
JOINED = """
CREATE QUERY some AS SELECT symbol, price FROM trades WHERE price BETWEEN 10.0 AND 10.5;
"""
HOME = ["--home", str(HOME_VOLUME / "race")]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    place = tmp_path / "volume"
    place.mkdir()
    write_trades(place / "trades")
    (place / "queries.sql").write_text(SCRIPT)
    return place


def said(done: CompletedProcess[str]) -> str:
    """What it said on standard error, and that it went well and quietly."""
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr, done.stderr
    return done.stderr


def check_answers(volume: Path) -> None:
    """Every closed minute has as many rows as its files."""
    read = run(volume, headrace("read", "per_minute", "--format", "json", *HOME))
    said(read)
    counts = [row["n"] for row in map(json.loads, read.stdout.splitlines())]
    times = pq.read_table(volume / "trades", columns=["ts"])["ts"].cast(pa.int64()).to_numpy()
    _, wanted = np.unique(times // (60 * US_PER_S), return_counts=True)
    assert len(counts) >= FILES - 1 and counts == list(wanted)[: len(counts)]


def test_it_runs_where_only_the_home_can_be_written(volume: Path) -> None:
    script = str(HOME_VOLUME / "queries.sql")
    said(run(volume, headrace("run", script, *HOME)))
    check_answers(volume)
    home = volume / "race"
    assert {p.stat().st_uid for p in home.rglob("*")} == {USER}
    assert not list((home / "tmp").glob("spark-*")), "what is temporary went with its Spark"
    # beside the home nothing, and neither in the folder it was started in
    assert {p.name for p in volume.iterdir()} == {"race", "trades", "queries.sql"}


def test_what_cannot_be_is_told_in_our_words(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    demo = run(volume, headrace("demo"))
    assert demo.returncode == 1 and "[DEMO]" in demo.stderr and "--home DIR" in demo.stderr
    nowhere = {"NUMBA_CACHE_DIR": "/nowhere"}
    warm = run(volume, headrace("warm"), environment=nowhere)
    assert warm.returncode == 1 and "[KERNELS]" in warm.stderr and "/nowhere" in warm.stderr
    doctor = run(volume, headrace("doctor", *HOME), environment=nowhere)
    assert f"user {USER} has no name" in doctor.stdout and doctor.returncode == 0
    assert "compiled kernels will be kept in the home" in doctor.stdout
    assert not list(volume.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("small_tmp", [False, True])
def test_kernels_are_kept_in_the_home_by_workers_too(volume: Path, small_tmp: bool) -> None:
    (volume / "queries.sql").write_text(SCRIPT + JOINED)
    nowhere = {"NUMBA_CACHE_DIR": "/nowhere"}
    command = headrace("run", str(HOME_VOLUME / "queries.sql"), *HOME)
    said(run(volume, command, environment=nowhere, small_tmp=small_tmp))
    kept = {path.name for path in (volume / "race" / "kernels").glob("*.nbc")}
    assert any(".windows.rings." in name for name in kept), "the driver's"
    assert any(".prefixes.find_prefixes." in name for name in kept), "the workers'"
    check_answers(volume)


@pytest.mark.slow
@pytest.mark.timeout(2700)
def test_kernels_of_an_image_are_read_and_not_compiled_again(volume: Path, tmp_path: Path) -> None:
    """`headrace warm` is run by another user than the one who reads them later."""
    maker, image = tmp_path / "maker", tmp_path / "image"
    image.mkdir()
    maker.mkdir()
    given = {"NUMBA_CACHE_DIR": str(HOME_VOLUME / "kernels"), "TMPDIR": str(HOME_VOLUME)}
    warm = run(maker, headrace("warm"), environment=given, seconds=1500)
    said(warm)
    assert "are kept in" in warm.stdout
    (maker / "kernels").rename(image / "kernels")
    (image / "kernels").chmod(0o755)
    (volume / "queries.sql").write_text(SCRIPT + JOINED)
    read = {"NUMBA_CACHE_DIR": str(READ_VOLUME / "kernels")}
    command = headrace("run", str(HOME_VOLUME / "queries.sql"), *HOME)
    said(run(volume, command, given=image, environment=read))
    found = volume / "race" / "kernels"
    compiled = sorted(p.name for p in found.glob("*.nbc")) if found.exists() else []
    assert not [name for name in compiled if ".windows." in name], compiled
    check_answers(volume)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_plays_in_a_home(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    demo = ["demo", "--home", str(HOME_VOLUME / "demo"), "--seconds", "3", "--queries", "20"]
    done = run(volume, headrace(*demo), seconds=500)
    said(done)
    assert "answers" in done.stdout + done.stderr
