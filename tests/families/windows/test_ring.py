"""The ring against a page of Python that keeps every row, and against itself in other steps and
lengths."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.windows.rings import ring as ring_module
from headrace.families.windows.rings.arrays import (
    ADD,
    MAX,
    MIN,
    MOMENTS_M2,
    MOMENTS_MEAN,
    MOMENTS_N,
)
from headrace.families.windows.rings.ring import Answers, Layout, Ring, Windows

LAYOUT = Layout((ADD, ADD, MIN, MAX), (ADD, MIN, MAX, MOMENTS_N, MOMENTS_MEAN, MOMENTS_M2))
EPS = 2.0**-52
TINY = 1e-320  # what rounding near zero may lose


@dataclass(frozen=True)
class Row:
    pane: int
    group: int
    y: int
    x: float


@dataclass(frozen=True)
class Shape:
    span: int
    slide: int
    offset: int
    first_start: int


def windows_of(shapes: list[Shape]) -> Windows:
    columns = (
        np.array([[s.span, s.slide, s.offset, s.first_start] for s in shapes], np.int64)
        .reshape(-1, 4)
        .T
    )
    return Windows(*(np.ascontiguousarray(c) for c in columns))


def add_rows(ring: Ring, rows: list[Row]) -> None:
    """One partial per row, by pane."""
    rows = sorted(rows, key=lambda r: r.pane)
    n = len(rows)
    y = np.array([r.y for r in rows], np.int64)
    x = np.array([r.x for r in rows], np.float64)
    ones, m2 = np.ones(n), np.where(np.isfinite(x), 0.0, np.nan)
    panes = np.array([r.pane for r in rows], np.int64)
    groups = np.array([r.group for r in rows], np.int32)
    ring.add(
        panes, groups, np.stack([ones.astype(np.int64), y, y, y]), np.stack([x, x, x, ones, x, m2])
    )


def expected(
    rows: list[Row], shapes: list[Shape], after: int, through: int
) -> list[tuple[int, int, int, list[Row]]]:
    """(shape, end, group, its rows) of every window that ends in (after, through + 1], in the order
    of Answers."""
    found = []
    for i, s in enumerate(shapes):
        for end in range(after + 1, through + 2):
            start = end - s.span
            if (start - s.offset) % s.slide or start < s.first_start:
                continue
            inside = [r for r in rows if start <= r.pane < end]
            groups = sorted({r.group for r in inside})
            found += [(i, end, group, [r for r in inside if r.group == group]) for group in groups]
    return found


def check_sum(got: float, xs: list[float]) -> None:
    if any(map(math.isnan, xs)) or {math.inf, -math.inf} <= set(xs):
        assert math.isnan(got)
    elif any(map(math.isinf, xs)):
        assert got == next(x for x in xs if math.isinf(x))
    else:
        assert abs(got - math.fsum(xs)) <= len(xs) * EPS * math.fsum(map(abs, xs))


def check_moments(n: float, mean: float, m2: float, xs: list[float]) -> None:
    assert n == len(xs)
    if not all(map(math.isfinite, xs)):
        assert math.isnan(m2)
    elif max(map(abs, xs)) < 1e100:
        exact = [Fraction(x) for x in xs]
        centre = sum(exact) / len(xs)
        scale = float(sum(abs(x) for x in exact))
        assert abs(mean - float(centre)) <= 8 * len(xs) * EPS * scale + TINY
        assert (
            abs(m2 - float(sum((x - centre) ** 2 for x in exact)))
            <= 32 * len(xs) * EPS * scale**2 + TINY
        )


def check(answers: Answers, wanted: list[tuple[int, int, int, list[Row]]]) -> None:
    got = list(
        zip(answers.shape.tolist(), answers.end.tolist(), answers.group.tolist(), strict=True)
    )
    assert got == [w[:3] for w in wanted]
    for i in range(len(answers.offsets) - 1):
        assert set(answers.shape[answers.offsets[i] : answers.offsets[i + 1]].tolist()) <= {i}
    assert answers.offsets[0] == 0 and answers.offsets[-1] == len(wanted)
    for at, (_, _, _, rows) in enumerate(wanted):
        ys, xs = [r.y for r in rows], [r.x for r in rows]
        assert answers.ints[:, at].tolist() == [len(rows), sum(ys), min(ys), max(ys)]
        total, low, high, *moments = answers.floats[:, at].tolist()
        check_sum(total, xs)
        numbers = [x for x in xs if not math.isnan(x)]
        assert low == min(numbers) if numbers else math.isnan(low)
        assert math.isnan(high) if len(numbers) < len(xs) else high == max(numbers)
        check_moments(moments[0], moments[1], moments[2], xs)


def bits(answers: list[Answers]) -> set[tuple[int, ...]]:
    """Every answer as integers, NaN in one form."""
    found: set[tuple[int, ...]] = set()
    for a in answers:
        floats = np.where(np.isnan(a.floats), np.nan, a.floats).view(np.int64)
        table = np.concatenate(
            [[a.shape.astype(np.int64), a.end, a.group.astype(np.int64)], a.ints, floats]
        )
        found |= set(map(tuple, table.T.tolist()))
    return found


numbers = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, 1e300, -1e300, 5e-324, math.nan, math.inf, -math.inf, 1e16, 0.1]
    ),
    st.floats(-1e6, 1e6, width=32),
)
origins = st.sampled_from([0, -9, -64, (1 << 40) - 7, -(1 << 40) - 3, 1 << 33])


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, int, list[tuple[list[Row], int, list[Shape]]]]:
    """Length, first pane, and rounds: rows added, pane to close through, the shapes in force."""
    length = draw(st.integers(1, 21))
    first = here = draw(origins)
    shapes: list[Shape] = []
    rounds = []
    for number in range(draw(st.integers(1, 6))):
        for _ in range(draw(st.integers(0 if number else 1, 3))):
            span, slide = draw(st.integers(1, length)), draw(st.integers(1, 9))
            start = here if number else draw(st.integers(here - length, here + 5))
            shapes.append(Shape(span, slide, draw(st.integers(-4, 12)), start))
        row = st.builds(
            Row,
            st.integers(here, here + draw(st.sampled_from([3, 12, 60]))),
            st.integers(0, 2 + number),
            st.integers(-(1 << 40), 1 << 40),
            numbers,
        )
        rows = draw(st.lists(row, max_size=14))
        through = here + draw(st.sampled_from([-1, 0, 1, 2, 5, 17, 90]))
        rounds.append((rows, through, list(shapes)))
        here = max(here, through + 1)
    return length, first, rounds


@given(streams())
@settings(max_examples=150, deadline=None)
def test_equals_brute_force(
    stream: tuple[int, int, list[tuple[list[Row], int, list[Shape]]]],
) -> None:
    length, first, rounds = stream
    ring, rows, closed = Ring(LAYOUT, length, first), [], first - 1
    for new, through, shapes in rounds:
        add_rows(ring, new)
        rows += new
        check(ring.close(through, windows_of(shapes)), expected(rows, shapes, closed + 1, through))
        closed = max(closed, through)
        assert ring.next_pane == closed + 1


@given(streams(), st.integers(0, 40), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_bits_depend_on_panes_only(
    stream: tuple[int, int, list[tuple[list[Row], int, list[Shape]]]], extra: int, random: Random
) -> None:
    """Other steps, another length, all rows added ahead, small chunks, early folds: the same
    bits."""
    length, first, rounds = stream
    shapes = windows_of(rounds[-1][2])
    rows = [r for new, _, _ in rounds for r in new]
    last = max([t for _, t, _ in rounds] + [first])
    one, other = Ring(LAYOUT, length, first), Ring(LAYOUT, length + extra, first - extra)
    add_rows(one, rows)
    whole = bits([one.close(last, shapes)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring_module, "CHUNK_ROWS", 3)
        for row in rows:
            add_rows(other, [row])
        parts = [other.close(first - 1, Windows.none())]
        while other.next_pane <= last:
            step = random.choice([0, 1, 2, 7, 33])
            parts.append(other.close(min(last, other.next_pane + step), shapes))
    assert whole == bits(parts)
    assert len(whole) == sum(p.group.size for p in parts)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 20])
@pytest.mark.parametrize("first", [-45, 0, 3, (1 << 40) - 30])
def test_every_window_joins_each_of_its_panes_once(length: int, first: int) -> None:
    """Pane i adds 2^(i mod 60): a sum of at most 20 panes names them."""
    ring = Ring(Layout((ADD, ADD), ()), length, first)
    panes = np.arange(first, first + 90)
    ring.add(
        panes,
        np.zeros(90, np.int32),
        np.stack([np.ones_like(panes), 1 << panes % 60]),
        np.empty((0, 90)),
    )
    answers = ring.close(
        first + 89, windows_of([Shape(r, 1, 0, first) for r in range(1, length + 1)])
    )
    assert answers.end.size == sum(91 - r for r in range(1, length + 1))
    for shape, end, total in zip(answers.shape, answers.end, answers.ints[1], strict=True):
        assert total == sum(1 << p % 60 for p in range(end - shape - 1, end))


def test_nothing_large_or_broken_outlives_its_pane() -> None:
    values = [1e300, 1.0, math.nan, 2.0, math.inf, -math.inf, 3.0, 1e-300]
    ring = Ring(LAYOUT, 4, 0)
    add_rows(ring, [Row(p, 0, 0, x) for p, x in enumerate(values)])
    answers = ring.close(7, windows_of([Shape(1, 1, 0, 0)]))
    assert np.array_equal(answers.floats[0], values, equal_nan=True)
    assert np.array_equal(answers.floats[3:5], np.array([[1.0] * 8, values]), equal_nan=True)


def test_a_far_jump_costs_no_more_than_the_ring() -> None:
    ring = Ring(LAYOUT, 1000, 0)
    shapes = windows_of([Shape(1000, 7, 3, -2000), Shape(1, 1, 0, 0)])
    far = 3 * 10**9
    rows = [Row(5, 0, 1, 1.0), Row(far, 1, 2, 2.0), Row(2 * far, 0, 3, 3.0)]
    add_rows(ring, rows)
    started = time.perf_counter()
    answers = ring.close(3 * far, shapes)
    assert time.perf_counter() - started < 5
    assert answers.offsets.tolist() == [0, answers.end.size - 3, answers.end.size]
    for end, group, total in zip(answers.end[:-3], answers.group, answers.ints[1], strict=False):
        inside = [r for r in rows if end - 1000 <= r.pane < end]
        assert [(r.group, r.y) for r in inside] == [(group, total)]
        assert (end - 1003) % 7 == 0
    assert answers.end.size - 3 == sum(
        (p + 1000 - 3 - 1000) // 7 - (p - 3 - 1000) // 7 for p in (5, far, 2 * far)
    )


def test_a_pane_open_for_long_is_kept_small() -> None:
    ring = Ring(Layout((ADD,), (ADD,)), 2, 0)
    groups = np.arange(100, dtype=np.int32)
    for _ in range(2000):
        ring.add(np.full(100, 1), groups, np.ones((1, 100), np.int64), np.full((1, 100), 0.1))
    assert ring.nbytes < 4_000_000
    answers = ring.close(1, windows_of([Shape(1, 1, 0, 0)]))
    assert answers.group.tolist() == groups.tolist()
    assert set(answers.ints[0].tolist()) == {2000}
    assert set(answers.floats[0].tolist()) == {sum([0.1] * 2000)}


def test_memory_is_about_one_row_per_pane() -> None:
    ring = Ring(LAYOUT, 1000, 0)
    add_rows(ring, [Row(0, g, 0, 0.0) for g in range(100)])
    columns = len(LAYOUT.int_ops) + len(LAYOUT.float_ops)
    assert ring.nbytes < 1.1 * 1000 * 100 * columns * 8


def test_a_closed_pane_takes_no_more_rows() -> None:
    ring = Ring(LAYOUT, 4, 0)
    ring.close(3, Windows.none())
    with pytest.raises(AssertionError, match="closed"):
        add_rows(ring, [Row(3, 0, 0, 0.0)])
    with pytest.raises(AssertionError, match="fit"):
        ring.close(9, windows_of([Shape(5, 1, 0, 0)]))
