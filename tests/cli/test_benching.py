"""bench: figures beside the published ones, on screen and as flat JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import Result

from headrace.bench.report import Figure, Report

Command = Callable[..., Result]


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A benchmark that is done at once; whether it was asked to be quick."""
    asked: list[bool] = []

    def run(quick: bool, tell: Callable[[str], None]) -> Report:
        asked.append(quick)
        tell("half way")
        figures = (
            Figure("rows_per_s", 1_234_567.0, "rows/s", "about 7 M"),
            Figure("ratio_1000", 0.95, note="want 0.9"),
        )
        return Report("windows", figures, None, {"machine": "2 cores"})

    monkeypatch.setitem(sys.modules, "headrace.bench.windows", SimpleNamespace(run=run))
    return asked


def test_figures_are_shown_and_kept(headrace: Command, windows: list[bool]) -> None:
    result = headrace("bench", "windows", "--quick", "--json", "out/figures.json")
    assert result.exit_code == 0, result.stderr
    assert windows == [True]
    assert "about 7 M" in result.stdout
    kept = json.loads(Path("out/figures.json").read_text())
    assert kept == {"rows_per_s": 1_234_567.0, "ratio_1000": 0.95, "machine": "2 cores"}


def test_unknown_names_list_the_choices(headrace: Command) -> None:
    result = headrace("bench", "widows")
    assert result.exit_code == 1
    assert "windows" in result.stderr


def test_list(headrace: Command) -> None:
    assert headrace("bench", "list").stdout.startswith("windows")
