"""When Spark is asked for rows instead of groups."""

from __future__ import annotations

from headrace.families.windows.measures import ROWS, Measure
from headrace.families.windows.plan import Cut, Cuts
from headrace.families.windows.sending import LOOK_ROUNDS, Sending
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
