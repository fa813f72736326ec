"""Totals and rates: every round once, whatever is reported how often."""

from __future__ import annotations

import pytest

from headrace.cli.tally import RATE_SPAN_S, Tally
from tests.cli.fakes import a_round


def test_a_round_counts_once() -> None:
    tally = Tally()
    tally.absorb([a_round(0), a_round(1)], 10.0)
    tally.absorb([a_round(0), a_round(1), a_round(2)], 11.0)
    assert (tally.rounds, tally.rows, tally.answers, tally.late, tally.bad) == (3, 300, 30, 3, 6)
    assert tally.first_s == 10.0
    assert tally.elapsed_s(14.0) == 4.0


def test_rounds_from_before_are_left_out() -> None:
    tally = Tally()
    tally.skip([a_round(0), a_round(1)])
    tally.absorb([a_round(0), a_round(1), a_round(2)], 5.0)
    assert tally.rounds == 1


def test_rates_are_of_the_recent_rounds() -> None:
    tally = Tally()
    for number in range(40):
        tally.absorb([a_round(number)], number * 0.5)
    assert tally.rows_per_s(19.5) == pytest.approx(200, rel=0.05)
    assert tally.answers_per_s(19.5) == pytest.approx(20, rel=0.05)
    tally.absorb([], 19.5 + RATE_SPAN_S + 1)
    assert tally.rows_per_s(19.5 + RATE_SPAN_S + 1) == 0


def test_saving_and_round_time() -> None:
    tally = Tally()
    assert tally.saving == tally.round_s == tally.event_s == 0
    tally.absorb([a_round(0), a_round(1), a_round(2)], 1.0)
    assert tally.saving == 100
    assert tally.round_s == 0.5
    assert tally.event_s == 8


def test_steady_rates_leave_the_first_round_out() -> None:
    tally = Tally()
    tally.absorb([a_round(0, rows=100, answers=10)], 10.0)
    assert tally.steady(10.0) == (200, 20)
    tally.absorb([a_round(1, rows=400, answers=30)], 12.0)
    assert tally.steady(12.0) == (200, 15)
