"""The joins benchmark: every method is measured on work that all of them agree about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.bench.joins import benchmark, hotspots, intervals, kernels, on_spark, routing
from headrace.bench.joins.kernels import band_speeds, events_per_s, select_speeds
from headrace.bench.joins.workload import DOMAIN, draw_bands, draw_keyed_rows, draw_rectangles
from headrace.bench.report import Report


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernels, "BUDGET_S", 1e-3)
    monkeypatch.setattr(kernels, "EVENTS", 64)
    monkeypatch.setattr(benchmark, "CHANGES", 20)
    monkeypatch.chdir(tmp_path)


def test_speeds_of_all_methods_are_there() -> None:
    ours = {"ours", "ours_with_output"}
    bands, selects = band_speeds(300, 600.0), select_speeds(300, 600.0)
    assert set(bands.per_s) == {*ours, "query_outer", "merge", "merge_with_output", "data_outer"}
    assert set(selects.per_s) == {
        *ours,
        "naive",
        "select_first",
        "select_first_with_output",
        "join_first",
    }
    for speeds in (bands, selects):
        assert (
            all(speed > 0 for speed in speeds.per_s.values())
            and speeds.groups > 1
            and speeds.affected > 1
        )
        for with_output in (False, True):
            name, best = speeds.best_rival(with_output)
            rivals = {
                m: s
                for m, s in speeds.per_s.items()
                if m not in ours and ("output" in m) == with_output
            }
            assert rivals[name] == best == max(rivals.values())


def test_a_slow_method_gets_fewer_events() -> None:
    asked: list[int] = []

    def slow(events: int) -> None:
        asked.append(events)
        sum(range(200_000))

    assert 0 < events_per_s(slow, 1_000_000) < 10_000
    assert max(asked) == 1


def test_the_workload_is_that_of_the_thesis() -> None:
    rng = np.random.default_rng(1)
    bands, made = draw_bands(rng, 20_000, 600.0), draw_rectangles(rng, 20_000, 600.0, 0.1)
    rows = draw_keyed_rows(rng, 500)
    assert np.mean(bands.hi - bands.lo) == pytest.approx(600, rel=0.02) and np.all(
        bands.lo <= bands.hi
    )
    holding = [np.mean((made.a_lo <= a) & (a <= made.a_hi)) for a in rng.integers(0, DOMAIN, 200)]
    assert np.mean(holding) == pytest.approx(0.1, rel=0.1)
    met = [
        np.searchsorted(rows.b, b, "right") - np.searchsorted(rows.b, b)
        for b in rng.choice(rows.b, 200)
    ]
    assert 200 < np.mean(met) < 2_000


def test_a_short_run_has_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    extent = benchmark.Extent((50, 200), (50, 200), 200, (600.0, 60.0), (0.1,), (10.0,), 500, (20,))
    monkeypatch.setitem(benchmark.EXTENTS, True, extent)
    for part in (intervals, hotspots, routing, on_spark):
        monkeypatch.setattr(part, "run", lambda quick, tell: Report("", ()))
    told: list[str] = []
    report = benchmark.run(True, told.append)
    names = {figure.name for figure in report.figures}
    assert {
        "band_ratio",
        "band_kept",
        "select_ratio",
        "change_500_ms",
        "histogram_20_error",
    } <= names
    assert {
        "band_ratio_with_output",
        "select_having_0.1_ours_per_s",
        "select_joining_10_naive_per_s",
    } <= names
    assert report.plot is not None and report.plot.path is not None
    assert report.plot.path.exists() and told
