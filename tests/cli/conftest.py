"""Commands run in an empty folder that has a home, against an engine that only remembers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli import opening
from headrace.cli.app import app
from tests.cli.fakes import FakeEngine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()

    def fake(home: Path, restart: int | None = None, conf: Sequence[str] = ()) -> FakeEngine:
        home.mkdir(parents=True, exist_ok=True)
        made.restart, made.conf = restart, list(conf)
        return made

    monkeypatch.setattr(opening, "open_engine", fake)
    return made


@pytest.fixture
def headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command, as typed."""
    monkeypatch.chdir(tmp_path)
    for name in ("HEADRACE_HOME", "HEADRACE_DEBUG", "HEADRACE_RESTART"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "race").mkdir()

    def call(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=text)

    return call
