"""Routing beside every method and OPT: the workloads are what they say, and every figure is
there."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.bench.joins import hotspots, routing
from headrace.bench.joins.routing import Extent, Outcome, b_with, cases, check, outcome, worst
from headrace.bench.joins.workload import DOMAIN, draw_joined_rows, hot_shares, zipf_shares
from headrace.families.joins.selects.methods import METHODS

TINY = Extent((2_000,), (0.1,), (1_500.0,))


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "EVENTS_MIN": 64,
        "EVENTS": 64,
        "SAMPLE": 640,
        "GROUPS": 100,
        "BUDGET_S": 1e-3,
    }.items():
        monkeypatch.setattr(routing, name, value)
    monkeypatch.setattr(hotspots, "ROWS", 2_000)
    monkeypatch.setattr(hotspots, "EVENTS", 64)


def test_a_short_run_has_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(routing.EXTENTS, True, TINY)
    told: list[str] = []
    flat = routing.run(True, told.append).flat()
    assert len(told) == 6
    for name in ("spread_2000", "popular_2000", "popular_joining_0.1", "spread_having_1500"):
        for way in ("groups", "select_first", "join_first", "router", "opt"):
            assert float(str(flat[f"routing_{name}_{way}_per_s"])) > 0
    ratios = [float(str(value)) for name, value in flat.items() if name.endswith("_opt_ratio")]
    assert flat["routing_opt_ratio"] == max(ratios) and len(ratios) == 7


def test_the_workloads_are_those_of_the_thesis() -> None:
    made = {case.name: case for case in cases(Extent((20_000,), (0.1,), (1_500.0,)))}
    spread, popular = made["spread_20000"], made["popular_20000"]
    assert spread.methods.shape.groups < 60 and spread.methods.shape.scattered == 0
    shape = popular.methods.shape
    assert shape.groups == 100 and 0 < shape.hot_groups <= 100
    met = spread.methods.meet(spread.rows, spread.events)
    assert met.having.mean() == pytest.approx(2_000, rel=0.3)
    few = made["spread_having_1500"]
    assert few.methods.meet(few.rows, few.events).having.mean() < 0.5 * met.having.mean()


def test_rows_are_as_many_as_wanted_for_a_b() -> None:
    rows = draw_joined_rows(np.random.default_rng(1), 500_000)
    joined = {
        share: np.mean([np.sum(rows.b == int(b_with(share)) + i) for i in range(-5, 6)])
        for share in (0.1, 1.0)
    }
    assert joined[1.0] == pytest.approx(500_000 * 0.4 / (DOMAIN / 10), rel=0.1)
    assert joined[0.1] / joined[1.0] == pytest.approx(0.1, rel=0.3)


def test_shares_of_groups_are_all_queries() -> None:
    shares = zipf_shares(5_000)
    assert shares.sum() == pytest.approx(1) and shares[:500].sum() == pytest.approx(0.75, abs=0.01)
    assert hot_shares(5_000, 500, 0.3).sum() == pytest.approx(1)
    assert hot_shares(5_000, 500, 0.1).max() == pytest.approx(hot_shares(5_000, 500, 0.1).min())


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(cases(TINY))
    check(case)
    affected = case.methods.affected
    calls: list[int] = []

    def wrong(found: object, events: int) -> object:
        calls.append(events)
        return [ids[1:] if len(calls) == 2 else ids for ids in affected(found, events)]  # type: ignore[arg-type]

    monkeypatch.setattr(case.methods, "affected", wrong)
    with pytest.raises(AssertionError):
        check(case)


def test_opt_is_never_slower_than_the_best_method() -> None:
    for case in cases(TINY):
        found = outcome(case)
        assert found.opt <= found.fixed[found.best] == min(found.fixed.values())
        assert sum(found.shares.values()) == pytest.approx(1) and 0 <= found.agreed <= 1


def test_misses_are_told() -> None:
    good = Outcome({"groups": 1.0, "select_first": 3.0}, 0.98, 1.0, {}, 1.0, 1.02, 0.99, 0.01)
    slow = Outcome(
        {"groups": 1.0, "select_first": 3.0}, 1.6, 1.0, {"groups": 1.0}, 1.0, 0.6, 1.0, 0.02
    )
    assert [f.note.rpartition(": ")[2] for f in worst([good]) if "want" in f.note] == ["met", "met"]
    told = {figure.name: figure for figure in worst([good, slow])}
    assert [f.note.rpartition(": ")[2] for f in told.values() if "want" in f.note] == [
        "MISSED",
        "MISSED",
    ]
    assert "less in 1 of 2, of which in 1 it takes that" in told["routing_to_best"].note
    assert (told["routing_best_to_itself"].value, told["routing_asking"].value) == (0.99, 0.02)


def test_hotspots_hold_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    extent = hotspots.Extent(20_000, 100, (0.0, 0.5, 1.0))
    for share, scattered in ((0.0, 20_000), (0.5, 10_000), (1.0, 0)):
        shape = hotspots.workload(extent, share).methods.shape
        assert shape.scattered == pytest.approx(scattered, abs=1_500)
        assert shape.hot_groups in (0, 9, 10)
    monkeypatch.setitem(hotspots.EXTENTS, True, hotspots.Extent(2_000, 50, (0.5, 1.0)))
    flat = hotspots.run(True, lambda _: None).flat()
    assert all(
        float(str(flat[f"hotspots_{share}_{method}_per_s"])) > 0
        for share in (50, 100)
        for method in METHODS
    )
    assert "hotspots_100_ratio" in flat
