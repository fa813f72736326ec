"""The demo: ends by itself, cleans up, says what it did; once with Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import Result

from headrace.cli.demo import SAMPLES, Show, choose
from tests.cli.fakes import FakeAnswer, FakeEngine

Command = Callable[..., Result]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go, to see that none stay."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_it_ends_by_itself_and_leaves_nothing(
    headrace: Command, engine: FakeEngine, temporary: Path
) -> None:
    engine.answers = [FakeAnswer(1, symbol="TAX", vwap=81.25)]
    result = headrace("demo", "--seconds", "1", "--queries", "20", "--rate", "100")
    assert result.exit_code == 0, result.stderr
    assert len(engine.infos) == 20
    assert "20 distinct standing queries on one Spark stream" in result.stdout
    assert "a second after the first round" in result.stdout
    assert engine.calls[-2:] == [("stop",), ("close",)]
    assert list(temporary.iterdir()) == []


def test_the_stream_reads_one_file_a_round(
    headrace: Command, engine: FakeEngine, temporary: Path
) -> None:
    headrace("demo", "--seconds", "1", "--queries", "3", "--rate", "100")
    created = next(call for call in engine.calls if call[0] == "create_stream")
    assert created[1] == "trades"
    assert created[2].startswith("parquet:")
    assert created[2].endswith("?maxFilesPerTrigger=1")


def test_ctrl_c_gives_the_summary_too(
    headrace: Command, engine: FakeEngine, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_: Any, **__: Any) -> None:
        if len(engine.rounds) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("headrace.cli.demo_screen.Samples.refresh", watch)
    result = headrace("demo", "--queries", "5", "--rate", "100")
    assert result.exit_code == 0
    assert "5 distinct standing queries" in result.stdout
    assert ("stop",) in engine.calls
    assert list(temporary.iterdir()) == []


def test_home_keeps_everything(headrace: Command, engine: FakeEngine, tmp_path: Path) -> None:
    result = headrace(
        "demo",
        "--seconds",
        "1",
        "--queries",
        "3",
        "--rate",
        "100",
        "--home",
        str(tmp_path / "kept"),
    )
    assert list((tmp_path / "kept" / "trades").glob("part-*.parquet"))
    assert "headrace list --home" in result.stderr


def test_queries_are_as_many_as_asked() -> None:
    assert list(choose(Show(1, 2, 7, 100))) == list(SAMPLES)[:2]
    assert len(set(choose(Show(1, 1_000, 7, 100)).values())) == 1_000


@pytest.mark.slow
def test_with_spark(tmp_path: Path) -> None:
    """The whole of it, as `make demo` runs it; no process and no file stays behind."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    code = "from headrace.cli import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-c", code, "demo", "--seconds", "5", "--queries", "300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    out, err = started.communicate(timeout=280)
    assert started.returncode == 0, err
    assert "300 distinct standing queries" in out
    assert "late rows   0\n" in out
    assert "quarantined" not in out
    assert not list(tmp_path.glob("headrace-demo-*"))
    left = [
        p for p in psutil.process_iter(["environ"]) if _environ(p).get("TMPDIR") == str(tmp_path)
    ]
    _, alive = psutil.wait_procs(left, timeout=20)  # Java ends when Python has
    assert not alive


def _environ(process: psutil.Process) -> dict[str, str]:
    return process.info["environ"] or {}
