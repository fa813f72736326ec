"""Where the home is, and what Spark is started with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from headrace.cli.opening import open_engine
from headrace.errors import HeadraceError
from tests.cli.fakes import FakeEngine, FakeInfo

Command = Callable[..., Result]


@pytest.mark.parametrize("command", [["run"], ["sql"]])
def test_settings_of_spark_reach_the_engine(
    headrace: Command, engine: FakeEngine, command: list[str]
) -> None:
    engine.infos["q"] = FakeInfo("q", "SELECT 1")
    given = ["spark.executor.memory=2g", "spark.cores.max=4"]
    result = headrace(*command, "--conf", given[0], "--conf", given[1], text="")
    assert result.exit_code == 0, result.stderr
    assert engine.conf == given


def test_they_stand_beside_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_CONF", "spark.cores.max=2;spark.executor.memory=1g")
    with open_engine(tmp_path / "race", conf=["spark.cores.max=4"]) as engine:
        assert engine.config.spark == {"spark.cores.max": "4", "spark.executor.memory": "1g"}
        assert engine.config.restart == 0


def test_what_answers_depend_on_is_refused_before_spark_starts(
    headrace: Command, tmp_path: Path
) -> None:
    result = headrace("run", "--conf", "spark.sql.ansi.enabled=false")
    assert result.exit_code == 1
    assert "[SPARK_CONF]" in result.stderr and "spark.sql.ansi.enabled" in result.stderr
    with pytest.raises(HeadraceError, match="key=value"):
        open_engine(tmp_path / "race", conf=["spark.cores.max"])


@pytest.mark.parametrize("command", [["list"], ["run"], ["read", "q"], ["doctor"]])
def test_an_address_is_no_home(headrace: Command, tmp_path: Path, command: list[str]) -> None:
    result = headrace(*command, "--home", "s3a://bucket/race")
    assert result.exit_code == 1
    assert "[HOME_PLACE]" in result.stderr and "NFS" in result.stderr
    assert not list(tmp_path.glob("s3a*"))
