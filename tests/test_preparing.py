"""Sources are looked at before Spark is started; a session that was given is left as it is."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headrace import Engine, HeadraceError
from headrace.preparing import Rehearsal
from headrace.runtime.quiet import ERROR_LOGGERS
from headrace.runtime.sparkuse import SparkUse

SCHEMA = "k STRING, x DOUBLE, ts TIMESTAMP"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is begun, without being begun."""
    found: list[str] = []

    def begin_spark(_self: SparkUse, _needs: Callable[[], bool]) -> bool:
        found.append("Spark")
        return True

    monkeypatch.setattr(SparkUse, "begin", begin_spark)
    monkeypatch.setattr(Rehearsal, "begin", lambda _self: found.append("rehearsal"))
    return found


def engine_on(tmp_path: Path, *streams: str, there: str = "") -> Engine:
    made = Engine(tmp_path / "race")
    for name in streams:
        if name in there:
            (tmp_path / name).mkdir()
        made.create_stream(name, f"parquet:{tmp_path / name}", schema=SCHEMA, time="ts")
        made.add(f"SELECT k, sum(x) AS s FROM {name} GROUP BY k, window(ts, '1 minute')")
    return made


def test_a_missing_source_is_told_first(tmp_path: Path, begun: list[str]) -> None:
    engine = engine_on(tmp_path, "a")
    for call in (engine.prepare, engine.run, engine.start):
        with pytest.raises(HeadraceError, match="source folder of 'a' is not there"):
            call()
    assert begun == []
    (tmp_path / "a").mkdir()
    assert engine.prepare() == []
    assert begun == ["Spark", "rehearsal"]


def test_others_are_read_in_spite_of_one(tmp_path: Path, begun: list[str]) -> None:
    engine = engine_on(tmp_path, "a", "b", there="b")
    assert [error.code for error in engine.prepare()] == ["SOURCE_GONE"]
    assert begun == ["Spark", "rehearsal"]
    with pytest.raises(HeadraceError, match="'a' is not there"):
        engine.prepare(whole=True)


def test_without_queries_nothing_is_begun(tmp_path: Path, begun: list[str]) -> None:
    engine = engine_on(tmp_path)
    assert engine.prepare() == [] and begun == []


def test_a_rehearsal_that_fails_is_nobodys_concern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_on(tmp_path, "a", there="a")
    failed: list[str] = []

    def fail(*_: object) -> None:
        failed.append("yes")
        raise RuntimeError("no")

    monkeypatch.setattr(SparkUse, "begin", lambda *_: True)
    monkeypatch.setattr("headrace.families.windows.rehearsal.rehearse", fail)
    engine.prepare()
    thread = engine._pipelines._rehearsal._thread
    assert thread is not None
    thread.join()
    assert failed == ["yes"]


def test_spark_is_begun_once_and_not_after_it_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_on(tmp_path, "a", there="a")
    made, warmed = list[int](), list[int]()

    def make(_self: SparkUse) -> None:
        made.append(1)
        raise HeadraceError("no Spark here", code="SPARK_START")

    monkeypatch.setattr(SparkUse, "_made", make)
    monkeypatch.setattr("headrace.runtime.warming.warm", lambda *_, **__: warmed.append(1))
    monkeypatch.setattr(Rehearsal, "begin", lambda _self: None)
    use = engine._spark
    with use._making:  # nothing is made before this ends
        engine.prepare()
        engine.prepare()
        (thread,) = [t for t in threading.enumerate() if t.name == "headrace-spark"]
        engine.close()
    thread.join()
    assert (made, warmed) == ([], [])
    engine.prepare()
    for thread in [t for t in threading.enumerate() if t.name == "headrace-spark"]:
        thread.join()
    assert (made, warmed) == ([1], [])
    with pytest.raises(HeadraceError, match="no Spark here"):
        assert engine.spark


def test_a_session_that_was_given_logs_as_before(spark: SparkSession, tmp_path: Path) -> None:
    def state() -> list[object]:
        assert spark._jvm is not None
        root = spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger()
        loggers = [PySparkLogger.getLogger(name) for name in ERROR_LOGGERS]
        return [
            str(root.getLevel()),
            logging.getLogger("py4j").level,
            [(own.level, own.propagate, list(own.handlers)) for own in loggers],
        ]

    before = state()
    (tmp_path / "a").mkdir()
    engine = Engine(tmp_path / "race", spark=spark)
    engine.create_stream("a", f"parquet:{tmp_path / 'a'}", schema=SCHEMA, time="ts")
    engine.add("SELECT k, sum(x) AS s FROM a GROUP BY k, window(ts, '1 minute')")
    engine.run()
    engine.close()
    assert state() == before
    assert not (tmp_path / "race" / "logs").exists()


ENDS_AT_ONCE = """
import time
from types import SimpleNamespace

from headrace.preparing import Rehearsal

class Slow:
    uses_workers = False

    def rehearse(self, *_):
        time.sleep(0.5)
        print("whole", flush=True)


query = SimpleNamespace(quarantine=None, query=SimpleNamespace(source="s"))
catalog = SimpleNamespace(queries={1: query}, relation=lambda name: name)
Rehearsal(catalog, None, lambda registered: Slow()).begin()
time.sleep(0.2)
"""


def test_a_process_does_not_end_under_a_rehearsal() -> None:
    """Compilers and Arrow end a process that is ending already by a signal."""
    found = subprocess.run(
        [sys.executable, "-c", ENDS_AT_ONCE], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "whole\n"), found.stderr
