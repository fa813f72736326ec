"""Errors, help, speed: what every command has in common."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest
from typer.testing import Result

from headrace.cli import app as application
from headrace.engine import Engine
from headrace.errors import SQLError
from tests.cli.fakes import FakeEngine

Command = Callable[..., Result]


def test_help_names_every_command(headrace: Command) -> None:
    said = headrace("--help").stdout
    for name in application.COMMANDS:
        assert name in said


def test_version(headrace: Command) -> None:
    result = headrace("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("headrace 0.")


def test_an_error_is_told_on_stderr_without_traceback(
    headrace: Command, engine: FakeEngine
) -> None:
    engine.failure = SQLError(
        "unknown column", sql="SELECT prise FROM trades", at=7, choices=("price",)
    )
    result = headrace("add", "SELECT prise FROM trades")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "[SQL] unknown column" in result.stderr
    assert "Traceback" not in result.stderr
    caret = result.stderr.splitlines()[2]
    assert caret.strip() == "^"
    assert ("close",) in engine.calls


@pytest.mark.parametrize("is_script", [False, True])
def test_a_warning_is_a_line(headrace: Command, tmp_path: Path, is_script: bool) -> None:
    """Not the line of our code that gave it."""
    with Engine("race") as eng:
        eng.create_stream("r", f"parquet:{tmp_path}", schema="a INT, ts TIMESTAMP", time="ts")
    query = "SELECT x.a AS a FROM r x CROSS JOIN r y"
    asked = (
        headrace("sql", text=f"CREATE QUERY q1 AS {query};")
        if is_script
        else headrace("add", query)
    )
    assert asked.exit_code == 0
    assert asked.stderr == (
        "warning: every row of r meets every row of r in 'q1': there may be as many answers as "
        "pairs\n"
    )


def test_other_warnings_are_left_to_python(
    headrace: Command, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain(query: str | None) -> str:
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return ""

    monkeypatch.setattr(engine, "explain", explain)
    with pytest.warns(DeprecationWarning, match="old"):
        headrace("explain")


def test_debug_lets_the_error_through(
    headrace: Command, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    engine.failure = SQLError("unknown column")
    assert isinstance(headrace("add", "SELECT 1").exception, SQLError)


def test_brackets_in_an_error_are_not_markup(headrace: Command, engine: FakeEngine) -> None:
    engine.failure = SQLError("bad [/red] text [bold]")
    assert "bad [/red] text [bold]" in headrace("add", "SELECT 1").stderr


def test_wrong_usage_is_exit_code_2(headrace: Command) -> None:
    assert headrace("nonsense").exit_code == 2
    assert headrace("watch").exit_code == 2
    assert headrace("watch", "q", "--format", "xml").exit_code == 2


def test_a_missing_home_is_an_error_that_says_what_to_do(headrace: Command) -> None:
    for arguments in (
        ["list"],
        ["drop", "q"],
        ["explain"],
        ["watch", "q"],
        ["add", "SELECT 1"],
        ["run"],
    ):
        result = headrace(*arguments, "--home", "nowhere")
        assert result.exit_code == 1
        assert "headrace init" in result.stderr
        assert not Path("nowhere").exists()


def test_the_home_may_come_from_the_environment(
    headrace: Command, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_HOME", "elsewhere")
    assert "elsewhere" in headrace("list").stderr
    Path("elsewhere").mkdir()
    assert headrace("list").exit_code == 0


def test_an_unforeseen_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    monkeypatch.setattr(application, "app", fail)
    with pytest.raises(SystemExit) as ended:
        application.main()
    assert ended.value.code == 1
    assert "ZeroDivisionError: oh" in capsys.readouterr().err


def test_the_command_imports_nothing_heavy() -> None:
    """`headrace --help` must answer at once; these take most of a second."""
    heavy = ("pyspark", "pandas", "numba", "matplotlib", "headrace.bench.market")
    code = f"import sys, headrace.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_is_fast() -> None:
    began = perf_counter()
    environment = {**os.environ, "COLUMNS": "100"}
    code = "from headrace.cli import main; main()"
    subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, check=True, env=environment
    )
    assert perf_counter() - began < 3  # 0.3 s on an idle machine
