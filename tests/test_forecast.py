"""Forecasts: a home's factors are learnt from its rounds, and the newest round is not among
them."""

from __future__ import annotations

import pytest

from headrace.forecast import FACTOR_MAX, factors_of, forecast, measured_stages
from headrace.runtime.statistics import Stats


def told(seconds: dict[str, float], priced: dict[str, float]) -> Stats:
    """A committed round: what was measured, and what the rates alone say of it."""
    return {"seconds": seconds, "priced": priced}


def test_factors_are_medians_within_bounds() -> None:
    rounds = [told({"spark": s, "total": s}, {"spark": 0.1, "roll": 1e-9}) for s in (0.2, 0.3, 9.0)]
    assert factors_of(rounds)["spark"] == pytest.approx(3.0)
    assert factors_of(rounds)["roll"] == 1 / FACTOR_MAX
    assert factors_of([told({"spark": 1.0, "total": 1.0}, {})]) == {}


def test_what_no_stage_counts_is_commit_and_the_trigger_is_not_ours() -> None:
    stages = measured_stages({"spark": 0.5, "roll": 0.1, "trigger": 3.0, "total": 0.7})
    assert stages == pytest.approx({"spark": 0.5, "roll": 0.1, "commit": 0.1})
    assert sum(stages.values()) == pytest.approx(0.7)


def test_a_forecast_moves_with_the_plan_and_the_machine() -> None:
    slow = [told({"spark": 0.4, "total": 0.4}, {"spark": 0.2})] * 4
    made = forecast(100, {"spark": 0.5, "roll": 0.1}, slow, overlaps=False)
    assert made.seconds["spark"] == pytest.approx(1.0)
    assert "wait" not in made.seconds
    assert made.learnt_from == 3


def test_a_round_waits_when_finishing_takes_longer_than_reading_the_next() -> None:
    made = forecast(100, {"roll": 1.0, "plan": 0.1, "spark": 0.2}, [], overlaps=True)
    assert made.seconds["wait"] == pytest.approx(0.6)
    assert made.total_s == pytest.approx(1.9)
    assert [*made.seconds] == ["plan", "spark", "roll", "wait"]
