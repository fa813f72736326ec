"""On a real cluster, with processes of its own: the answers of one machine; and an executor that
does not see the home costs an error, never an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.engine import Engine
from tests.cluster.scenario import brief
from tests.cluster.standalone import can_hide, environment, standalone
from tests.everything import check, spark_answers, steps

PLAY_S_MAX = 840
HERE_APART = "local-cluster[2,1,1024]"
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)
needs_hiding = pytest.mark.skipif(
    not can_hide(), reason="a worker with mounts of its own needs root and `unshare -m`"
)


@contextmanager
def playing(
    name: str, folder: Path, seed: int, conf: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process at its play; `conf`: its environment."""
    source = Path(headrace.__file__).parents[1]
    own = {**conf, "PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.scenario", name, str(folder), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=own,
            cwd=folder,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def ended(process: subprocess.Popen[str], folder: Path) -> Any:
    """What came of it."""
    out, _ = process.communicate("\n", timeout=PLAY_S_MAX)
    assert process.returncode == 0, (folder / "stderr").read_text()[-4000:]
    return json.loads(out.strip().split("\n")[-1])


def played(name: str, folder: Path, seed: int, conf: Mapping[str, str]) -> Any:
    with playing(name, folder, seed, conf) as process:
        return ended(process, folder)


def here(spark: SparkSession, folder: Path, seed: int, count: int = 2) -> Any:
    """The answers of one machine."""
    return as_told(brief(folder, seed, lambda: Engine(folder / "race", spark=spark), count))


def as_told(found: Any) -> Any:
    """As JSON has them."""
    return rows_of(json.loads(json.dumps(found, default=str)))


def rows_of(found: Any) -> Any:
    return {name: [tuple(row) for row in rows] for name, rows in found.items()}


def test_the_answers_are_those_of_one_machine(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Also where paths alone would be of another file system."""
    with standalone(tmp_path / "cluster") as cluster:
        conf = environment(cluster.url, {"spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:9"})
        found = played("lent", tmp_path / "there", seed, conf)
    package = tmp_path / "there" / "race" / "package"
    assert list(package.rglob("keeping.*.pyc")), "workers import the package that is in the home"
    check(rows_of(found), here(spark, tmp_path / "here", seed, 1))


@pytest.mark.slow
@needs_hiding
def test_an_executor_without_the_home_is_told_before_anything_runs(tmp_path: Path) -> None:
    folder = _with_home(tmp_path)
    with standalone(tmp_path / "cluster", hidden={1: folder / "race"}) as cluster:
        found = played("plain", folder, 1, environment(cluster.url))
    assert found["error"]["code"] == "HOME_UNSEEN"
    assert "an executor does not see the home" in found["error"]["text"]
    assert f"another folder is at {folder / 'race'}" in found["error"]["text"]
    assert found["rounds"] == 0 and not any(found["answers"].values())


@pytest.mark.slow
def test_each_engine_has_a_spark_of_its_own(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """And every query there is: Spark's own answers."""
    with standalone(tmp_path / "cluster") as cluster:
        found = played("everything", tmp_path / "there", seed, environment(cluster.url))
    check(rows_of(found), as_told(spark_answers(spark, steps(seed))))


@pytest.mark.slow
def test_workers_in_processes_of_their_own_here(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    conf = environment(HERE_APART, {"spark.executor.memory": "1024m"})
    found = played("own", tmp_path / "there", seed, conf)
    check(rows_of(found), here(spark, tmp_path / "here", seed))


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    folder = tmp_path / "there"
    with (
        standalone(tmp_path / "cluster") as cluster,
        playing("interrupted", folder, seed, environment(cluster.url)) as process,
    ):
        _until_ready(process, folder)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        _until_read_from(folder)
        cluster.kill_worker(0)
        found = ended(process, folder)
    check(rows_of(found), here(spark, tmp_path / "here", seed))


@pytest.mark.slow
@needs_hiding
@pytest.mark.parametrize("play_name", ["blind", "blind_joins"])
def test_what_executors_have_written_elsewhere_is_missed(tmp_path: Path, play_name: str) -> None:
    """Even if they had not been asked."""
    folder = _with_home(tmp_path)
    with standalone(
        tmp_path / "cluster", hidden={0: folder / "race", 1: folder / "race"}
    ) as cluster:
        found = played(play_name, folder, 1, environment(cluster.url))
    assert found["error"]["code"] == "HOME_UNSEEN", found
    assert found["rounds"] == 0 and not any(found["answers"].values())
    assert set(found["states"]) == {"live"}


@pytest.mark.slow
@needs_hiding
def test_an_executor_that_joins_later_proves_it_too(tmp_path: Path) -> None:
    folder = _with_home(tmp_path)
    with (
        standalone(tmp_path / "cluster", workers=1, hidden={1: folder / "race"}) as cluster,
        playing("late", folder, 1, environment(cluster.url)) as process,
    ):
        _until_ready(process, folder)
        cluster.add_worker()
        found = ended(process, folder)
    assert found["error"]["code"] == "HOME_UNSEEN"
    assert found["rounds"] == 1


@pytest.mark.slow
def test_a_python_that_is_missing_or_lacks_something_is_told(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    conf = environment(HERE_APART, {"spark.executor.memory": "1024m"})
    lacking = played("plain", tmp_path / "a", 1, {**conf, "PYSPARK_PYTHON": f"{bare}/bin/python"})
    missing = played("plain", tmp_path / "b", 1, {**conf, "PYSPARK_PYTHON": f"{tmp_path}/no"})
    for found, words in (
        (lacking, ["lacks what Headrace needs: numpy", f"{bare}/bin/python"]),
        (missing, ["do not find the Python they are to run", f"{tmp_path}/no"]),
    ):
        assert found["error"]["code"] == "WORKER_PYTHON"
        assert all(word in found["error"]["text"] for word in [*words, "PYSPARK_PYTHON"])
        assert found["rounds"] == 0 and set(found["states"]) == {"live"}


def _with_home(tmp_path: Path) -> Path:
    """Where something is to be mounted over it, it has to be there."""
    folder = tmp_path / "there"
    (folder / "race").mkdir(parents=True)
    return folder


def _until_ready(process: subprocess.Popen[str], folder: Path) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            return
    raise AssertionError((folder / "stderr").read_text()[-4000:])


def _until_read_from(folder: Path) -> None:
    """Spark has noted what the second round reads: its tasks run, or are about to."""
    offsets = folder / "race" / "streams" / "trades" / "checkpoint" / "offsets" / "1"
    start_s = time.monotonic()
    while not offsets.exists():
        assert time.monotonic() - start_s < PLAY_S_MAX
        time.sleep(0.02)
