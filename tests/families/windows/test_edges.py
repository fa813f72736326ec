"""Edges of windows against a brute-force list of times; unions with long periods against closed
forms."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.families.windows.weave.edge_points import Classes, period_points
from headrace.families.windows.weave.edge_samples import SampledPoints
from headrace.families.windows.weave.edge_union import EdgeClass, density, estimate
from headrace.families.windows.weave.edges import Shape, classes_of, edge_rate

SLIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 20, 21, 30)
shapes = st.builds(Shape, st.integers(1, 70), st.sampled_from(SLIDES), st.integers(-40, 40))
some_shapes = st.lists(shapes, min_size=1, max_size=6)

PRIMES = [p for p in range(2, 104_730) if all(p % d for d in range(2, math.isqrt(p) + 1))]


def brute_edges(windows: list[Shape]) -> tuple[set[int], int]:
    """All beginnings and ends of windows, within one period."""
    period = math.lcm(*(s.slide_us for s in windows))
    starts = (
        (s, s.offset_us + k * s.slide_us) for s in windows for k in range(period // s.slide_us)
    )
    return {t % period for s, start in starts for t in (start, start + s.range_us)}, period


def columns(classes: list[EdgeClass], owners: list[int] | None = None) -> Classes:
    residues, moduli = zip(*classes, strict=True)
    return Classes(np.array(residues), np.array(moduli), np.array(owners or [0] * len(classes)))


def test_vector_of_the_paper() -> None:
    a, b = Shape(12, 9), Shape(10, 6)
    assert brute_edges([a, b]) == ({3, 4, 6, 9, 10, 12, 16, 0}, 18)
    assert edge_rate([a]).fraction == Fraction(2, 9) and edge_rate([b]).fraction == Fraction(2, 6)
    assert edge_rate([a, b]).fraction == Fraction(8, 18)


@given(some_shapes)
def test_rates_are_those_of_all_edges(windows: list[Shape]) -> None:
    edges, period = brute_edges(windows)
    found = edge_rate(windows)
    assert found.fraction == Fraction(len(edges), period)
    assert found.rate == float(found.fraction) and not found.is_estimated


@given(shapes, shapes)
def test_same_edges_are_the_same_classes(x: Shape, y: Shape) -> None:
    (x_edges, x_period), (y_edges, y_period) = brute_edges([x]), brute_edges([y])
    period = math.lcm(x_period, y_period)
    x_all = {e + k for e in x_edges for k in range(0, period, x_period)}
    y_all = {e + k for e in y_edges for k in range(0, period, y_period)}
    assert (x_all == y_all) == (classes_of(x) == classes_of(y))


@given(some_shapes, st.sampled_from([0, 1 << 9]))
def test_splitting_and_flags_agree(windows: list[Shape], per_class: int) -> None:
    """Without flags, everything is split by factors down to single classes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.families.windows.weave.edge_union.FLAGS_PER_CLASS", per_class)
        edges, period = brute_edges(windows)
        assert edge_rate(windows).fraction == Fraction(len(edges), period)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(10**6, 10**9)), min_size=1, max_size=4)
)
def test_long_periods_by_inclusion_and_exclusion(rows: list[tuple[int, int]]) -> None:
    classes = [EdgeClass(a % m, m) for a, m in rows]
    found = density(classes)
    assert found.fraction == _included(classes)


def _included(classes: list[EdgeClass]) -> Fraction:
    total = Fraction(0)
    for chosen in range(1, 1 << len(classes)):
        some = [c for n, c in enumerate(classes) if chosen >> n & 1]
        met: EdgeClass | None = some[0]
        for c in some[1:]:
            met = met and _met(met, c)
        if met:
            total += Fraction((-1) ** (len(some) + 1), met.modulus)
    return total


def _met(x: EdgeClass, y: EdgeClass) -> EdgeClass | None:
    g = math.gcd(x.modulus, y.modulus)
    if (x.residue - y.residue) % g:
        return None
    steps = (y.residue - x.residue) // g * pow(x.modulus // g, -1, y.modulus // g)
    period = x.modulus // g * y.modulus
    return EdgeClass((x.residue + x.modulus * steps) % period, period)


def test_coprime_slides_multiply() -> None:
    began = perf_counter()
    found = edge_rate([Shape(3 * p, p) for p in PRIMES[:10_000]])
    assert perf_counter() - began < 5 * 2
    assert not found.is_estimated
    assert found.rate == pytest.approx(1 - math.prod(1 - 1 / p for p in PRIMES[:10_000]), rel=1e-12)


def test_a_period_without_end_is_still_a_rate() -> None:
    """More digits than a fraction may have: counted, as a float."""
    slides = PRIMES[5_000:6_000]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.families.windows.weave.edge_union.PERIOD_BITS_MAX", 1_000)
        found = edge_rate([Shape(n, n) for n in slides])
    assert found.fraction is None and not found.is_estimated
    assert found.rate == pytest.approx(1 - math.prod(1 - 1 / p for p in slides), rel=1e-12)


def test_slides_that_cannot_be_factored_in_time() -> None:
    slides = [p * q for p, q in pairwise(PRIMES[5_000:9_001])]
    began = perf_counter()
    found = edge_rate([Shape(n, n) for n in slides])
    assert perf_counter() - began < 5 * 3
    assert found.rate == pytest.approx(sum(1 / n for n in slides), rel=1e-3)


def test_what_cannot_be_counted_is_estimated() -> None:
    random = np.random.default_rng(1)
    slides = random.integers(1_000, 100_000, 300).tolist()
    windows = [
        Shape(int(w * s), s) for s, w in zip(slides, random.uniform(1, 50, 300), strict=True)
    ]
    began = perf_counter()
    found = edge_rate(windows)
    assert perf_counter() - began < 5 * 3
    assert found.is_estimated and found.fraction is None and found.error < 0.01 * found.rate
    assert found == edge_rate(windows)
    most = sum(1 / c.modulus for w in windows for c in classes_of(w))
    assert most - _pairs(windows) - 5 * found.error < found.rate < most


def _pairs(windows: list[Shape]) -> float:
    """Bonferroni: a union is no less than the sum without all pairs."""
    classes = sorted({c for w in windows for c in classes_of(w)})
    met = (
        (x, y, math.gcd(x.modulus, y.modulus)) for n, x in enumerate(classes) for y in classes[:n]
    )
    return sum(g / x.modulus / y.modulus for x, y, g in met if (x.residue - y.residue) % g == 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(2, 100)), min_size=2, max_size=12))
def test_estimates_are_near(rows: list[tuple[int, int]]) -> None:
    classes = [EdgeClass(a % m, m) for a, m in rows]
    exact, found = density(classes), estimate(classes)
    assert abs(found.rate - exact.rate) <= 6 * found.error + 1e-9


@settings(max_examples=50, deadline=None)
@given(some_shapes, st.booleans())
def test_points_of_a_period_weigh_what_is_counted(windows: list[Shape], merged: bool) -> None:
    rows = [(c, n) for n, w in enumerate(windows) for c in classes_of(w)]
    classes = columns([c for c, _ in rows], [n for _, n in rows])
    points = period_points(classes, 1 << 16, merged)
    assert points is not None
    bits = points.mark(classes, len(windows))
    weighed = points.weight @ np.bitwise_count(bits) / points.span
    assert weighed.tolist() == pytest.approx([edge_rate([w]).rate for w in windows])
    union = points.weight @ np.bitwise_count(np.bitwise_or.reduce(bits, axis=1)) / points.span
    assert union == pytest.approx(edge_rate(windows).rate)


def test_drawn_points_weigh_what_is_counted() -> None:
    """Also those learnt later, and dense classes beside rare ones."""
    windows = [
        Shape(7, 7),
        Shape(31_000, 10_007),
        Shape(5_000_003, 1_000_003),
        Shape(70_001, 70_000),
        Shape(14, 3),
    ]
    rows = [(c, n) for n, w in enumerate(windows) for c in classes_of(w)]
    classes = columns([c for c, _ in rows], [n for _, n in rows])
    first = columns([c for c, n in rows if n < 2])
    points = SampledPoints(first, 512)
    points.learn(classes)
    bits = points.mark(classes, len(windows))
    weighed = points.weight @ np.bitwise_count(bits)
    assert weighed.tolist() == pytest.approx([edge_rate([w]).rate for w in windows], rel=0.1)
    union = points.weight @ np.bitwise_count(np.bitwise_or.reduce(bits, axis=1))
    assert union == pytest.approx(edge_rate(windows).rate, rel=0.05)


@pytest.mark.parametrize(
    "args", [(0, 1), (1, 0), (-1, 1), (1 << 62, 1), (1, 1 << 62), (1, 1, 1 << 62)]
)
def test_shapes_are_checked(args: tuple[int, ...]) -> None:
    with pytest.raises(PlanError):
        Shape(*args)
