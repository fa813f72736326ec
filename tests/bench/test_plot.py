"""Pictures where matplotlib is installed; without it, everything else and a line that says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from headrace.bench import windows
from headrace.bench.plot import Curve, Panel, draw
from headrace.bench.report import Figure, Report
from headrace.cli.app import app

PANELS = [Panel("cost", "queries", "ms", [Curve("ours", {10.0: 1.5, 100.0: 4.0})], log_x=True)]
NUMBERS = {"cost": {"ours": {"10.0": 1.5, "100.0": 4.0}}}
PNG = b"\x89PNG"


@pytest.fixture
def _without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """None in `sys.modules` makes an import fail as if nothing were installed."""
    for name in [known for known in sys.modules if known.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def _drawing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A benchmark that only draws."""

    def run(quick: bool, tell: Callable[[str], None]) -> Report:
        return Report("weave", (Figure("ratio", 0.5),), draw(PANELS, Path("bench"), "weave", "key"))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "headrace.bench.weave.benchmark", SimpleNamespace(run=run))


@pytest.mark.usefixtures("_drawing")
def test_with_matplotlib_there_is_a_picture() -> None:
    result = CliRunner().invoke(app, ["bench", "weave"])
    assert result.exit_code == 0, result.stderr
    assert "plot: bench/weave.png\n" in result.stderr
    assert Path("bench/weave.png").read_bytes().startswith(PNG)
    assert json.loads(Path("bench/weave.json").read_text()) == NUMBERS


@pytest.mark.usefixtures("_drawing", "_without_matplotlib")
def test_without_it_the_table_the_numbers_and_what_to_install() -> None:
    result = CliRunner().invoke(app, ["bench", "weave"])
    assert result.exit_code == 0, result.stderr
    assert "0.5" in result.stdout
    told = [line for line in result.stderr.splitlines() if line.startswith("plot:")]
    assert told == [
        "plot: left out, matplotlib is not installed; pip install 'headrace[bench]' brings it"
    ]
    assert [path.name for path in Path("bench").iterdir()] == ["weave.json"]
    assert json.loads(Path("bench/weave.json").read_text()) == NUMBERS


@pytest.mark.usefixtures("_without_matplotlib")
def test_the_bars_of_windows_are_left_out_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert windows.plot({}, {}).path is None
    assert list(tmp_path.iterdir()) == []
