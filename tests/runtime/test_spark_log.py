"""The log of Spark's words: private, bounded, and it says why Java did not start."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from headrace.runtime.spark_log import BEFORE, SparkLog, debugging, log_path


@pytest.fixture
def log(tmp_path: Path) -> SparkLog:
    return SparkLog(tmp_path, bytes_max=1_000)


def test_only_its_owner_reads_it(log: SparkLog) -> None:
    file = log.open()
    assert file is not None
    file.close()
    log.close()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_it_is_bounded_while_others_append(log: SparkLog) -> None:
    file = log.open()
    assert file is not None
    with file:
        for number in range(500):
            file.write(b"line %04d of somebody who knows nothing of it\n" % number)
            if number % 10 == 0:
                log.bound()
        file.write(b"the last\n")
        log.bound()
    log.close()
    before = log.path.with_name(BEFORE)
    text = before.read_text() + log.path.read_text()
    assert log.path.stat().st_size + before.stat().st_size < 3_000
    assert text.endswith("the last\n") and "\0" not in text
    assert stat.S_IMODE(before.stat().st_mode) == 0o600


def test_one_that_ran_full_at_once_keeps_its_end(log: SparkLog) -> None:
    log.path.parent.mkdir()
    log.path.write_bytes(b"x" * 50_000 + b"the end\n")
    log.bound()
    assert log.size() == 0
    before = log.path.with_name(BEFORE).read_bytes()
    assert len(before) == 1_000 and before.endswith(b"the end\n")


def test_where_it_cannot_be_made_there_is_none(tmp_path: Path) -> None:
    log_path(tmp_path).parent.write_text("a file in its place")
    log = SparkLog(tmp_path)
    assert log.open() is None and log.size() == 0 and log.why(0) == ""
    log.bound()
    log.close()


def test_why_java_did_not_start(log: SparkLog) -> None:
    log.path.parent.mkdir()
    log.path.write_text("ERROR of a start before\n")
    begins = log.size()
    with log.path.open("a") as file:
        file.write("WARNING: Using incubator modules\nError occurred during initialization of VM\n")
        file.write("Error: too large a heap\nat somewhere\n")
    assert log.why(begins) == "Error: too large a heap"
    with log.path.open("a") as file:
        begins = log.size()
        file.write("\nlast words\n\n")
    assert log.why(begins) == "last words"
    assert log.why(log.size()) == ""


@pytest.mark.parametrize(("value", "is_debugging"), [("1", True), ("0", False), ("", False)])
def test_debugging(monkeypatch: pytest.MonkeyPatch, value: str, is_debugging: bool) -> None:
    monkeypatch.setenv("HEADRACE_DEBUG", value)
    assert debugging() is is_debugging


def test_the_watch_ends(log: SparkLog) -> None:
    for _ in range(3):
        file = log.open()
        assert file is not None
        file.close()
        log.close()
    assert "headrace-log" not in [thread.name for thread in threading.enumerate()]
