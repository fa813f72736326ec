"""Benchmark `start`: phases are medians of runs, and a stage has caches of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.bench.start import Stage, _missing_s, _phases, _wanted
from headrace.errors import HeadraceError
from headrace.runtime.java_archive import VARIABLE


def test_phases_are_medians_in_their_order() -> None:
    runs = [{"first answer": s, "imported": s / 10} for s in (1.0, 9.0, 2.0)]
    found = [(f.name, f.value) for f in _phases("warm", runs)]
    assert found == [("warm: imported", 0.2), ("warm: first answer", 2.0)]


def test_verdicts() -> None:
    assert _wanted("x", 3.0, 2.0).note == "MISSED" and _wanted("x", 2.0, 2.0).note == "met"


def test_a_missing_folder_is_measured_without_spark(tmp_path: Path) -> None:
    stage = Stage.make(tmp_path)
    assert (tmp_path / "queries.sql").exists()
    assert Path(stage.environment[VARIABLE]).is_relative_to(tmp_path)
    assert 0 < _missing_s(stage) < 60
    with pytest.raises(HeadraceError, match="a start that is measured failed"):
        stage.run(["false"])
