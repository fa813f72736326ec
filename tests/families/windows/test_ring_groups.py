"""Rings whose groups come and go, closed a few answers at a time: against a page of Python and
against all at once."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.config import Config
from headrace.families.windows import plan as plan_module
from headrace.families.windows.bands import waiting
from headrace.families.windows.rings import answering as answering_module
from headrace.families.windows.rings import closing, idle
from headrace.families.windows.rings import rings as rings_module
from headrace.families.windows.rings.ring import Answers, Ring, bytes_a_group
from headrace.families.windows.rollup.codes import codes_for
from headrace.families.windows.rollup.groups import Groups
from headrace.sql.tree import Column
from headrace.values import BIGINT, STRING
from tests.families.windows import logged
from tests.families.windows.logged import Logged, near
from tests.families.windows.test_ring import (
    LAYOUT,
    Row,
    Shape,
    add_rows,
    bits,
    check_moments,
    check_sum,
    expected,
    streams,
    windows_of,
)

S = 1_000_000


@given(streams(), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_a_few_answers_at_a_time(
    stream: tuple[int, int, list[tuple[list[Row], int, list[Shape]]]], random: Random
) -> None:
    """The same bits, and of each shape in the same order; never more than asked for and one
    window."""
    length, first, rounds = stream
    whole, slow = Ring(LAYOUT, length, first), Ring(LAYOUT, length, first)
    for new, through, shapes in rounds:
        windows = windows_of(shapes)
        for ring in (whole, slow):
            add_rows(ring, new)
        one = whole.close(through, windows)
        parts = []
        while slow.is_behind(through):
            most = random.choice([1, 2, 5])
            parts.append(slow.close(through, windows, most))
            assert parts[-1].end.size < most + len({r.group for n, _, _ in rounds for r in n})
        assert bits([one]) == bits(parts) and one.end.size == sum(p.end.size for p in parts)
        for shape in range(len(shapes)):
            ends = [int(e) for p in parts for e in p.end[p.offsets[shape] : p.offsets[shape + 1]]]
            assert ends == one.end[one.offsets[shape] : one.offsets[shape + 1]].tolist()


@given(streams(), st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_groups_come_and_go(
    stream: tuple[int, int, list[tuple[list[Row], int, list[Shape]]]], random: Random
) -> None:
    """Idle groups leave, the others get other numbers in any order, and new ones take the numbers
    that are free."""
    length, first, rounds = stream
    ring, rows, closed = Ring(LAYOUT, length, first), list[Row](), first - 1
    called: list[int] = []  # by number, the group's name
    for new, through, shapes in rounds:
        called += [g for g in dict.fromkeys(r.group for r in new) if g not in called]
        add_rows(ring, [Row(r.pane, called.index(r.group), r.y, r.x) for r in new])
        rows += new
        answers = ring.close(through, windows_of(shapes))
        check_named(answers, called, expected(rows, shapes, closed + 1, through))
        closed = max(closed, through)
        live = [
            n
            for n, g in enumerate(called)
            if any(r.group == g and r.pane > closed - length for r in rows)
        ]
        random.shuffle(live)
        ring.keep(np.array(live, np.int64))
        called = [called[n] for n in live]


def check_named(
    answers: Answers, called: list[int], wanted: list[tuple[int, int, int, list[Row]]]
) -> None:
    keys = zip(answers.shape.tolist(), answers.end.tolist(), answers.group.tolist(), strict=True)
    places = {(shape, end, called[group]): at for at, (shape, end, group) in enumerate(keys)}
    assert len(places) == answers.end.size
    assert places.keys() == {w[:3] for w in wanted}
    for shape, end, group, rows in wanted:
        at = places[shape, end, group]
        ys, xs = [r.y for r in rows], [r.x for r in rows]
        assert answers.ints[:, at].tolist() == [len(rows), sum(ys), min(ys), max(ys)]
        check_sum(answers.floats[0, at], xs)
        n, mean, m2 = answers.floats[3:, at].tolist()
        check_moments(n, mean, m2, xs)


def test_what_a_ring_takes_is_what_its_groups_take() -> None:
    """Room for groups to come is not counted, and leaves with them."""
    ring = Ring(LAYOUT, 16, 0)
    each = bytes_a_group(16, LAYOUT)
    for groups in (1_000, 100_000):
        add_rows(ring, [Row(0, groups - 1, 1, 1.0)])
        assert groups * each <= ring.nbytes < (groups + 512) * each + 40 * groups + 100_000
    ring.close(0, windows_of([]))
    ring.keep(np.arange(99_000, 100_000))
    assert ring.nbytes < 1_600 * each


# -- numbers of keys -------------------------------------------------------------------------------


@given(
    st.lists(
        st.lists(
            st.one_of(
                st.none(), st.sampled_from(["", "a", "ü", "long text", "b"]), st.text(max_size=3)
            ),
            max_size=8,
        ),
        max_size=6,
    )
)
@settings(max_examples=100, deadline=None)
def test_values_follow_as_keys_come(rounds: list[list[str | None]]) -> None:
    codes, groups = codes_for(pa.string()), Groups((Column("k", STRING), Column("n", BIGINT)))
    known: list[str | None] = []
    for values in rounds:
        column = pa.array(values, pa.string())
        found = codes.encode(column)
        before = len(known)
        known += [v for v in dict.fromkeys(values) if v not in known and v is not None]
        known += [None] if None in values and None not in known else []
        assert (
            codes.values().to_pylist() == known
            and codes.values(before).to_pylist() == known[before:]
        )
        assert [known[c] for c in found] == values
        numbers = groups.encode([column, pa.array(range(len(values)), pa.int64())], len(values))
        kept = groups.arrays([pa.string(), pa.int64()])
        assert [(kept[0][int(n)].as_py(), kept[1][int(n)].as_py()) for n in numbers] == [
            (v, i) for i, v in enumerate(values)
        ]


# -- whole rounds ----------------------------------------------------------------------------------

QUERIES = (
    "SELECT k, count(*) AS c, sum(n) AS s, avg(x) AS a FROM s GROUP BY k, window(ts, '20 seconds', '5 seconds')",
    "SELECT k, count(*) AS c, sum(n) AS s, avg(x) AS a FROM s GROUP BY k, window(ts, '10 seconds')",
    "SELECT k, count(*) AS c, sum(n) AS s, avg(x) AS a FROM s WHERE n > 0 GROUP BY k, window(ts, '60 seconds')",
)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 1 << 20]), st.booleans())
def test_rounds_with_groups_that_come_and_go(seed: int, most: int, restarts: bool) -> None:
    """Every answer is that of all rows ever, whoever has left, restarts and pieces included."""
    r, now, rows = Random(seed), 1_700_000_000 * S, list[logged.Row]()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings_module, "IDLE_ROUNDS", 1)
        patch.setattr(idle, "GROUPS_MIN", 0)
        patch.setattr(closing, "ANSWERS_MAX", most)
        patch.setattr(answering_module, "ROWS_MAX", most)
        run = Logged(Path(folder), Config())
        for i, sql in enumerate(QUERIES):
            run.add(i, sql)
        widest = 0
        for number in range(80):
            now += r.randrange(1, 8) * S
            names = [f"g{number // 2 + r.randrange(4)}" for _ in range(6)] + [
                r.choice(["old", "g2"])
            ]
            new = [
                logged.Row(
                    now - r.randrange(4 * S),
                    r.choice([*names, None]),
                    r.randint(-3, 9),
                    r.uniform(-9, 9),
                )
                for _ in range(7)
            ]
            rows += run.counted(new)
            run.round(new)
            widest = max(widest, *(len(g) for g in run.rings.keys.slots.values()))
            if restarts and number % 11 == 5:
                run.open()
        assert widest < 0.75 * len({row.k for row in rows}), "groups leave"
        check_rounds(run, rows)


WINDOWS = ("'20 seconds', '5 seconds'", "'10 seconds'", "'60 seconds', '20 seconds'")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_crowds_with_groups_that_come_and_go(seed: int) -> None:
    """Rows of a crowd wait for their panes to close, while groups leave, queries come and go, and
    all starts anew."""
    r, now, rows = Random(seed), 1_700_000_000 * S, list[logged.Row]()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings_module, "IDLE_ROUNDS", r.choice([1, 3]))
        patch.setattr(idle, "GROUPS_MIN", 0)
        patch.setattr(plan_module, "CROWD_MIN", 1)
        patch.setattr(waiting, "ROWS_MAX", r.choice([12, 1 << 20]))
        run = Logged(Path(folder), Config(), late_us=r.choice([0, 3 * S]))
        asked: dict[int, tuple[str, float]] = {}
        stayed: set[int] = set()
        for number in range(50):
            for _ in range(6 if not number else r.random() < 0.2):
                asked[len(asked)] = (column, limit) = (
                    r.choice("nx"),
                    r.randint(-2, 8) + r.choice([0, 0.5]),
                )
                text = f"SELECT k, count(*) AS c, sum(n) AS s, avg(x) AS a FROM s WHERE {column} > {limit} "
                run.add(len(asked) - 1, f"{text}GROUP BY k, window(ts, {r.choice(WINDOWS)})")
                stayed |= {len(asked) - 1} if not number else set()
            if len(run.queries) > 2 and r.random() < 0.1:
                gone = r.choice(list(run.queries))
                run.drop(gone)
                stayed.discard(gone)
            now += r.randrange(1, 8) * S
            names = [f"g{number // 2 + r.randrange(4)}" for _ in range(6)] + [
                r.choice(["old", "g2"])
            ]
            new = [
                logged.Row(
                    now - r.randrange(6 * S),
                    r.choice([*names, None]),
                    r.randint(-3, 9),
                    r.uniform(-3, 9),
                )
                for _ in range(7)
            ]
            rows += run.counted(new)
            run.round(new)
            assert run.rings._standing.crowds
            if r.random() < 0.1:
                run.open()
        newest = run.ledger.newest
        assert newest is not None and newest.newest_us is not None
        for i, query in run.queries.items():
            where = partial(_is_above, *asked[i])
            whole = logged.expected(
                query, rows, newest.newest_us - run.relation.late_us, where, values_of
            )
            ours = sorted(run.answers.get(i, ()), key=lambda a: (a[0], str(a[1])))
            if i not in stayed:
                ends = {a[0] for a in ours}
                whole = [a for a in whole if a[0] in ends]
            assert len(ours) == len(whole) and all(
                near(a, b) for a, b in zip(ours, whole, strict=True)
            )


def _is_above(column: str, limit: float, row: logged.Row) -> bool:
    return bool(getattr(row, column) > limit)


def check_rounds(run: Logged, rows: list[logged.Row]) -> None:
    newest = run.ledger.newest
    assert newest is not None and newest.newest_us is not None
    for query_id, query in run.queries.items():
        where = (lambda row: row.n > 0) if query_id == 2 else (lambda row: True)
        whole = logged.expected(query, rows, newest.newest_us, where, values_of)
        ours = sorted(run.answers[query_id], key=lambda a: (a[0], str(a[1])))
        assert len(ours) == len(whole) and all(near(a, b) for a, b in zip(ours, whole, strict=True))


def values_of(rows: list[logged.Row]) -> logged.Answer:
    xs = [r.x for r in rows if r.x is not None]
    return len(rows), sum(r.n for r in rows), sum(xs) / len(xs)
