"""When Spark is asked for rows instead of groups."""

from __future__ import annotations

import json
from dataclasses import asdict

from headrace.families.windows.aggregation.cutting import Choice, ChoiceState
from headrace.families.windows.aggregation.sending import LOOK_ROUNDS, Sending, SendingState
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.measures import ROWS, Measure
from headrace.records import decode
from headrace.sql.tree import Column
from headrace.values import INT

KEY = Column("k", INT)
ONE = Cuts(10, (Cut((KEY,), ()),), (ROWS,))


def test_thin_rounds_are_sent_as_rows_and_looked_at_again() -> None:
    sending = Sending(1_000)
    assert not sending.sends_rows(ONE, True)
    sending.note(100, 59, as_rows=False)
    assert not sending.sends_rows(ONE, True)
    sending.note(100, 60, as_rows=False)
    for _ in range(LOOK_ROUNDS):
        assert sending.sends_rows(ONE, True)
        sending.note(100, 100, as_rows=True)
    assert not sending.sends_rows(ONE, True)
    sending.note(100, 99, as_rows=False)
    assert sending.sends_rows(ONE, True)


def test_large_rounds_several_groupings_and_sketches_are_grouped() -> None:
    sending = Sending(1_000)
    several = Cuts(10, (Cut((KEY,), ()), Cut((), ())), (ROWS,))
    sketches = Cuts(10, (Cut((KEY,), ()),), (ROWS, Measure("distinct", KEY)))
    for cuts in (several, sketches):
        assert not sending.sends_rows(cuts, True)
        sending.note(100, 100, as_rows=False)
        assert not sending.sends_rows(cuts, True)
    assert not sending.sends_rows(ONE, True)
    sending.note(100, 100, as_rows=False)
    assert sending.sends_rows(ONE, True) and not sending.sends_rows(ONE, False)
    sending.note(1_001, 1_001, as_rows=True)
    assert not sending.sends_rows(ONE, True)
    sending.note(1_001, 1_001, as_rows=False)
    assert not sending.sends_rows(ONE, True)


def test_another_plan_begins_grouped() -> None:
    sending = Sending(1_000)
    sending.sends_rows(ONE, True)
    sending.note(100, 100, as_rows=False)
    assert sending.sends_rows(ONE, True)
    assert not sending.sends_rows(Cuts(20, ONE.cuts, ONE.measures), True)


def test_what_is_known_outlives_the_process() -> None:
    """At every step another one, made of what was committed, decides the same; of another plan it
    knows nothing."""
    sending = Sending(1_000)
    rounds = [(100, 60), (100, 100), (100, 100), (2_000, 2_000), (100, 90), (100, 100)]
    for rows, groups in rounds:
        again = Sending(1_000, decode(SendingState, json.loads(json.dumps(asdict(sending.state)))))
        as_rows = sending.sends_rows(ONE, True)
        assert again.sends_rows(Cuts(ONE.pane_us, ONE.cuts, ONE.measures), True) == as_rows
        sending.note(rows, groups, as_rows)
        again.note(rows, groups, as_rows)
        assert again.state == sending.state
        assert not Sending(1_000, again.state).sends_rows(Cuts(20, ONE.cuts, ONE.measures), True)


def test_one_grouping_or_several_outlives_the_process() -> None:
    choice = Choice()
    assert choice.note(10_000, 10_000, 1, 3) and not choice.united
    again = Choice(decode(ChoiceState, json.loads(json.dumps(asdict(choice.state)))))
    assert not again.united and again.state == choice.state
    assert not again.note(10_000, 10, 3, 3) and again.note(20_000, 20_000, 3, 3)
    choice.forbid_united()
    forbidden = Choice(decode(ChoiceState, json.loads(json.dumps(asdict(choice.state)))))
    assert not forbidden.united and not forbidden.note(10_000, 1_000_000, 3, 3)
