"""Executors that prove that they see the home, without any: a context that calls their tasks
here."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import SparkContext, __version__, cloudpickle
from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import HeadraceError, HomeError, RoundError
from headrace.runtime import cluster as module
from headrace.runtime import on_executor, parquet_files
from headrace.runtime.cluster import Cluster, cluster_of, on_workers
from headrace.runtime.on_executor import Sign
from headrace.runtime.session import borrow_session

HERE = {
    "host": "m1",
    "home": "seen",
    "python": platform.python_version(),
    "program": sys.executable,
    "missing": [],
    "user": 7,
    "spark": __version__,
}
Look = Callable[[int, Iterable[int]], Iterable[dict[str, Any]]]


class FakeContext:
    """`executors`: what is told of each, by address.  Each time they are asked one more answers."""

    def __init__(self, executors: dict[str, dict[str, Any]]) -> None:
        self.executors = executors
        self.asked = 0
        self.applicationId, self.master, self.defaultParallelism = "app-1", "spark://m0:7077", 2
        status = SimpleNamespace(
            keySet=lambda: SimpleNamespace(mkString=lambda by: by.join(["m0:1", *self.executors]))
        )
        self._jsc = SimpleNamespace(
            sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status)
        )

    def getConf(self) -> Any:
        return SimpleNamespace(get=lambda name, default: default)

    def parallelize(self, rows: Iterable[int], count: int) -> Any:
        self.asked += 1
        found = [{**HERE, "executor": name, **own} for name, own in self.executors.items()]
        return SimpleNamespace(
            mapPartitionsWithIndex=lambda task: SimpleNamespace(collect=lambda: found[: self.asked])
        )


def cluster(home: Path, executors: dict[str, dict[str, Any]]) -> tuple[Cluster, FakeContext]:
    context = FakeContext(executors)
    return Cluster(cast(SparkContext, context), home), context


def test_each_is_asked_once_and_those_that_join_later_too(tmp_path: Path) -> None:
    own, context = cluster(tmp_path, {"m1:1": {}, "m2:1": {}})
    own.check()
    assert context.asked == 2, "until both had answered"
    own.check()
    del context.executors["m1:1"]
    own.check()
    assert context.asked == 2, "fewer are fine"
    context.executors["m3:1"] = {"home": "missing"}
    for ask in (own.check_new, own.check):
        with pytest.raises(HomeError) as told:
            ask()
        assert told.value.code == "HOME_UNSEEN"
        assert told.value.value == f"on m1 there is no folder {tmp_path}"


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        ({"home": "other"}, "HOME_UNSEEN", "another folder is at"),
        ({"home": "shut"}, "HOME_UNSEEN", "the user with the id 7 may not"),
        ({"missing": ["numba", "pandas"]}, "WORKER_PYTHON", "numba, pandas"),
        ({"spark": "3.5.1"}, "WORKER_SPARK", "executors run Spark 3.5.1"),
        ({"python": "3.9.2"}, "WORKER_PYTHON", "executors run Python 3.9.2"),
    ],
)
def test_what_is_wrong_is_told_with_the_machine(
    tmp_path: Path, found: dict[str, Any], code: str, words: str
) -> None:
    own, _ = cluster(tmp_path, {"m2:1": {"host": "m2", **found}})
    with pytest.raises(HeadraceError) as told:
        own.check()
    assert told.value.code == code
    assert words in str(told.value) and "m2" in str(told.value) and told.value.hint


def test_an_executor_that_cannot_be_asked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSES_S", (0.0,))
    own, _ = cluster(tmp_path, {"m1:1": {}, "m2:1": {}})
    with pytest.raises(RoundError, match="1 of 2 were"):
        own.check()


def test_no_executor_is_told_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_S_MAX", 0.0)
    own, context = cluster(tmp_path, {"m1:1": {}})
    own.check()
    context.executors.clear()
    own.check_new()
    with pytest.raises(RoundError, match=r"no executor has come.*\n.*spark://m0:7077"):
        own.check()


def test_a_task_looks_for_the_sign_and_brings_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(on_executor, "LOOKS_MAX", 1)
    own, _ = cluster(tmp_path, {})
    own.begin()
    batch = pa.record_batch([pa.array([1])], names=["a"])
    task = _sent(own.carried(lambda batches: batches))
    monkeypatch.setattr(on_executor, "use_package", lambda package: None)
    assert [b.num_rows for b in own.carried(lambda batches: batches)(iter([batch]))] == [1]
    (tmp_path / "tmp" / module.SIGN).write_text("of another run")
    with pytest.raises(Exception, match=r"\[HOME_UNSEEN\] an executor does not see the home"):
        task(iter([batch]))
    own.begin()
    assert (tmp_path / "tmp" / module.SIGN).read_text() != "of another run", "it is ours again"


def test_what_is_sent_whole_needs_nothing_of_ours(tmp_path: Path) -> None:
    on_executor.by_value()
    look = on_executor.look_around(Sign(str(tmp_path), str(tmp_path / "no"), "x"), ["numpy"], 0.0)
    assert _sent(look).__globals__ is not on_executor.__dict__, "by value"
    assert _sent(look).__globals__.keys() < on_executor.__dict__.keys()


def _sent(task: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(task))  # type: ignore[no-untyped-call]


def test_a_folder_that_is_not_there_and_one_that_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_executor, "LOOKS_MAX", 1)
    sign = Sign(str(tmp_path / "race"), str(tmp_path / "race/tmp/sign"), "x")
    assert on_executor.state_of(sign) == "missing"
    (tmp_path / "race/tmp").mkdir(parents=True)
    assert on_executor.state_of(sign) == "other"
    (tmp_path / "race/tmp/sign").write_text("x")
    assert on_executor.state_of(sign) == "seen"


def test_processes_of_an_executor_have_one_name() -> None:
    assert on_executor.executor() == on_executor.executor()
    assert str(os.getppid()) in on_executor.executor()


def test_a_daemon_stands_for_what_has_started_it() -> None:
    code = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([*code, "pyspark.daemon", "pyspark.worker"]) as daemon:
        try:
            start_s = monotonic()
            while on_executor._java(daemon.pid) == daemon.pid and monotonic() - start_s < 30:
                sleep(0.05)
            assert on_executor._java(daemon.pid) == os.getpid()
        finally:
            daemon.kill()
    assert on_executor._java(daemon.pid) == daemon.pid, "it is gone"


@pytest.mark.parametrize(
    ("call", "door"),
    [
        (r"\.mapIn(Arrow|Pandas)\(|\.applyInArrow\(|pandas_udf|arrow_udf", "cluster.py"),
        (r"\.write\b(?!.*noop).*\.(parquet|save)\(", "parquet_files.py"),
    ],
)
def test_executors_reach_the_home_by_one_door(call: str, door: str) -> None:
    """What goes past it is not proved, nor compared."""
    package = Path(module.__file__).parents[1]
    found = {
        path.name
        for path in package.rglob("*.py")
        if "bench" not in path.parts and re.search(call, path.read_text())
    }
    assert found == {door}


def test_one_process_needs_no_proof(spark: SparkSession, tmp_path: Path) -> None:
    own = borrow_session(spark, Config())  # its workers run our Python
    assert cluster_of(own, tmp_path) is None
    frame = on_workers(own.range(3), lambda batches: batches, "id BIGINT", tmp_path)
    assert sorted(row.id for row in frame.collect()) == [0, 1, 2]
    assert not list(tmp_path.iterdir())


def test_rows_that_are_written_elsewhere_are_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    monkeypatch.setattr(parquet_files, "cluster_of", lambda session, home: object())
    assert parquet_files.write_parquet(spark.range(10), disk, "whole").rows == 10
    monkeypatch.setattr(Disk, "adopt", lambda self, folder: _but_one(tmp_path, folder))
    with pytest.raises(HomeError) as told:
        parquet_files.write_parquet(spark.range(0, 10, 1, 2), disk, "half")
    assert told.value.code == "HOME_UNSEEN"
    assert told.value.value == "they wrote 10 rows to half, here there is 5"


def _but_one(root: Path, folder: str) -> list[str]:
    found = sorted(path.relative_to(root).as_posix() for path in (root / folder).glob("*.parquet"))
    assert len(found) == 2
    return found[1:]


def test_files_that_executors_name_have_to_be_there(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    (tmp_path / "a").write_bytes(b"123")
    disk.check_written([("a", 3)])
    for files in ([("a", 4)], [("a", 3), ("b", 1)]):
        with pytest.raises(HomeError, match="not in the home"):
            disk.check_written(files)
