"""Rows that wait for their pane: none is lost, none comes twice, and a pane comes once unless
something forces it."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.windows.bands import waiting as module
from headrace.families.windows.bands.waiting import CellPick, CellRows, Waiting
from headrace.families.windows.measures import ROWS, Arrangement, Measure, arrange
from headrace.sql.tree import Column
from headrace.values import DOUBLE

Row = tuple[int, int, int, int, int, float]
GIVEN = (
    arrange((ROWS, Measure("sum_float", Column("x", DOUBLE)))),
    arrange((ROWS, Measure("sum_float", None))),
)
EDGES = ((3, 5, 9), (4,))


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_a_pane_comes_once_when_it_is_closed(seed: int) -> None:
    r = Random(seed)
    waiting, given_now = Waiting(), GIVEN[0]
    edges: tuple[tuple[int, ...], ...] = EDGES
    came: Counter[Row] = Counter()
    due: Counter[Row] = Counter()
    closed_us: int | None = None
    seen: set[int] = set()
    is_forced = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_MAX", r.choice([30, 1_000]))
        for turn in range(8):
            rows = _draw_rows(r, turn, closed_us)
            came.update(rows)
            if r.random() < 0.15:
                given_now, edges = r.choice(GIVEN), r.choice([EDGES, ((3, 5, 8, 9), (4,))])
                is_forced = True
            if r.random() < 0.7:
                closed_us = turn - 1
            is_forced |= module.ROWS_MAX == 30
            for found, _ in waiting.add(_pick(r, rows, edges), given_now, closed_us):
                own = _rows_of(found)
                due.update(own)
                panes = {row[0] for row in own}
                assert is_forced or (
                    closed_us is not None and max(panes) <= closed_us and not panes & seen
                )
                seen |= panes
            assert not due - came
            assert all(row in due for row in came if closed_us is not None and row[0] <= closed_us)
        for found, _ in waiting.flush():
            due.update(_rows_of(found))
    assert due == came
    assert not list(waiting.flush())


def test_columns_that_change_are_given_with_the_rows_that_had_them() -> None:
    r, waiting = Random(1), Waiting()
    first, second = [(0, 1, 2, 0, 1, 0.5)], [(0, 1, 1, 0, 2, 1.5)]
    assert not list(waiting.add(_pick(r, first, EDGES), GIVEN[0], None))
    found: list[tuple[list[Row], Arrangement]] = [
        (_rows_of(rows), given) for rows, given in waiting.add(_pick(r, second, EDGES), GIVEN[1], 0)
    ]
    assert found == [(first, GIVEN[0]), (second, GIVEN[1])]


def _draw_rows(r: Random, turn: int, closed_us: int | None) -> list[Row]:
    first = 0 if closed_us is None else closed_us + 1
    rows = [
        (
            r.randint(first, max(first, turn + 1)),
            r.randint(0, 3),
            r.randint(0, 3),
            r.randint(0, 1),
            r.randint(1, 5),
            r.choice([0.5, 1.25, -3.0]),
        )
        for _ in range(r.choice([0, 1, 20]))
    ]
    return sorted(rows, key=lambda row: row[0])


def _pick(r: Random, rows: list[Row], edges: tuple[tuple[int, ...], ...]) -> CellPick:
    """The rows of a table that has others too, and stands in another order."""
    size = len(rows) + 3
    places = np.array(r.sample(range(size), len(rows)), np.int64)
    ints, floats = np.full(size, -1, np.int64), np.full(size, np.nan)
    ints[places] = [row[4] for row in rows]
    floats[places] = [row[5] for row in rows]
    columns = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4).T
    ranks = columns[2:].astype(np.int32)
    return CellPick(
        columns[0].copy(), columns[1].astype(np.int32), ranks, edges, places, (ints,), (floats,)
    )


def _rows_of(rows: CellRows) -> list[Row]:
    key = list(
        zip(rows.pane_us.tolist(), rows.groups.tolist(), rows.ranks[0].tolist(), strict=True)
    )
    assert key == sorted(key)
    return [
        (*own, second, n, x)
        for own, second, n, x in zip(
            key, rows.ranks[1].tolist(), rows.ints[0].tolist(), rows.floats[0].tolist(), strict=True
        )
    ]


def test_few_rows_that_wait_do_not_hold_their_round() -> None:
    waiting, rows = Waiting(), [(int(i >= 9_990), i % 3, i % 4, 0, 1, 0.5) for i in range(10_000)]
    (due, _), *more = waiting.add(_pick(Random(1), rows, EDGES), GIVEN[0], 0)
    assert not more and due.pane_us.size == 9_990
    assert 0 < sum(r.nbytes for r in waiting._rounds) < 1_000
