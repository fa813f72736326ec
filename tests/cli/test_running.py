"""run without a file: what the home holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import Result

from headrace.cli.running import RESTARTS
from headrace.errors import RoundError
from tests.cli.fakes import FakeEngine, FakeInfo

Command = Callable[..., Result]


def test_a_summary_of_the_run(headrace: Command, engine: FakeEngine) -> None:
    engine.infos["q"] = FakeInfo("q", "SELECT 1", answers=20)
    result = headrace("run")
    assert result.exit_code == 0, result.stderr
    assert "2 rounds, 200 rows in" in result.stdout
    assert "20 new answers" in result.stdout
    assert "2 late rows left out" in result.stdout
    assert "4 rows did not fit the schema" in result.stdout
    assert "headrace watch q" in result.stderr


def test_only_new_rounds_count(headrace: Command, engine: FakeEngine) -> None:
    engine.infos["q"] = FakeInfo("q", "SELECT 1")
    headrace("run")
    assert "2 rounds, 200 rows" in headrace("run").stdout


def test_nothing_to_run(headrace: Command, engine: FakeEngine) -> None:
    result = headrace("run")
    assert result.exit_code == 1
    assert "nothing to run" in result.stderr


def test_an_error_of_the_run_is_told(headrace: Command, engine: FakeEngine) -> None:
    def fail() -> None:
        raise RoundError("disk full", round_id=3)

    engine.infos["q"] = FakeInfo("q", "SELECT 1")
    engine.run = fail  # type: ignore[method-assign]
    result = headrace("run")
    assert result.exit_code == 1
    assert "round 3: disk full" in result.stderr
    assert ("close",) in engine.calls


def test_troubled_queries_come_first(headrace: Command, engine: FakeEngine) -> None:
    engine.add_many({f"q{i:02d}": "SELECT 1" for i in range(30)})
    engine.infos["bad"] = FakeInfo(
        "bad", "SELECT 1/0", state="quarantined", reason="division by zero"
    )
    result = headrace("run")
    assert "bad: division by zero" in result.stdout
    assert "16 more" in result.stderr


def test_a_missing_script(headrace: Command, engine: FakeEngine) -> None:
    result = headrace("run", "nowhere.sql")
    assert result.exit_code == 1
    assert "cannot read the script" in result.stderr


@pytest.mark.parametrize(
    ("words", "restart"),
    [
        (["--follow"], RESTARTS),
        (["--follow", "--restarts", "2"], 2),
        ([], None),
    ],
)
def test_following_starts_spark_again(
    headrace: Command,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    restart: int | None,
) -> None:
    engine.infos["q"] = FakeInfo("q", "SELECT 1")
    monkeypatch.setattr(engine, "start", lambda: None)  # it has failed at once
    assert headrace("run", *words).exit_code == 0
    assert engine.restart == restart
