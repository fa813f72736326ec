"""Histograms of intervals: kernels against all partitions there are, histograms against counting by
hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.bench.joins.histogram import (
    LITERAL,
    READINGS,
    Reading,
    equal_width,
    error,
    figure,
    intervals,
)
from headrace.bench.joins.histogram_rivals import EqualWidth, Optimal
from headrace.families.joins.intervals.histogram import Shares, allot, stabbing
from headrace.families.joins.intervals.histogram_kernels import cluster, fit
from headrace.families.joins.intervals.stab_counts import Counts, Density, Steps
from headrace.families.joins.intervals.step_fitting import cells_of, trace

Array = NDArray[Any]
Pair = tuple[Any, Any]

LEAST, MOST = -(1 << 63), (1 << 63) - 1
NEAR = 1e-9
"""Pieces without values weigh a little, which may cost that much."""


def spans(ends: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Pair]]:
    pair = st.tuples(ends, ends).map(lambda two: (min(two), max(two)))
    return st.lists(pair, max_size=12)


small = spans(st.integers(0, 9))
whole = spans(st.integers(-20, 20) | st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))
doubles = spans(
    st.sampled_from([-np.inf, -1e308, -2.5, -0.0, 0.0, 5e-324, 0.1, 2.5, 3.0, 1e308, np.inf])
    | st.floats(-9, 9)
)
weighed = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from([0.0, 1e-9, 0.1, 1.0, 5.0])),
    min_size=1,
    max_size=7,
)


def arrays(pairs: Sequence[Pair], dtype: type = np.int64) -> tuple[Array, Array]:
    return np.array([lo for lo, _ in pairs], dtype), np.array([hi for _, hi in pairs], dtype)


def stabbed(pairs: Sequence[Pair], values: Sequence[Any]) -> list[int]:
    return [sum(lo <= value <= hi for lo, hi in pairs) for value in values]


def squares(points: Sequence[tuple[float, float]]) -> float:
    """Around the weighted mean."""
    weight = sum(w for _, w in points)
    mean = sum(y * w for y, w in points) / weight if weight else 0.0
    return sum(w * (y - mean) ** 2 for y, w in points)


def cut(points: Sequence[Any], buckets: int) -> Iterator[list[Sequence[Any]]]:
    """All ways to cut a sequence into so many runs."""
    for cuts in combinations(range(1, len(points)), buckets - 1):
        yield [points[a:b] for a, b in pairwise([0, *cuts, len(points)])]


def least_by_runs(points: Sequence[tuple[float, float]], buckets: int) -> float:
    return min(sum(map(squares, runs)) for runs in cut(points, min(buckets, len(points))))


def columns(points: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
    return np.array([y for y, _ in points], np.float64), np.array(
        [w for _, w in points], np.float64
    )


def cost_of(points: Sequence[tuple[float, float]], starts: Array) -> float:
    return sum(squares(points[a:b]) for a, b in pairwise([*starts.tolist(), len(points)]))


def mean_squared_error(
    histogram: Steps | EqualWidth, pairs: Sequence[Pair], values: Sequence[int]
) -> float:
    true = np.array(stabbed(pairs, values))
    return float(
        np.mean((histogram.estimate(np.array(values)) - true) ** 2 / np.maximum(true, 1) ** 2)
    )


# -- kernels ---------------------------------------------------------------------------------------


@given(weighed, st.integers(1, 8))
def test_clusters_are_the_best_of_all_cuts(points: list[tuple[int, float]], most: int) -> None:
    points.sort(reverse=True)
    costs, back = cluster(*columns(points), most)
    assert costs.size == min(most, len(points))
    for k in range(1, costs.size + 1):
        least = least_by_runs(points, k)
        starts = trace(back, k)
        assert [costs[k - 1], cost_of(points, starts)] == pytest.approx([least, least], abs=NEAR)
        assert starts[0] == 0 and starts.size <= k


@given(weighed.filter(lambda points: len(points) < 6), st.integers(1, 3))
def test_clusters_are_the_best_of_all_assignments(
    points: list[tuple[int, float]], buckets: int
) -> None:
    """Even those that do not keep neighbours together."""
    points.sort(reverse=True)
    costs, _ = cluster(*columns(points), buckets)
    least = min(
        sum(
            squares([p for p, at in zip(points, places, strict=True) if at == b])
            for b in range(buckets)
        )
        for places in product(range(buckets), repeat=len(points))
    )
    assert costs[-1] == pytest.approx(least, abs=NEAR)


def test_clusters_of_many_heights_are_those_of_the_full_program() -> None:
    rng = np.random.default_rng(3)
    heights = np.arange(700.0, 0, -1)
    for weights in (rng.random(700) / heights**2, rng.random(700), np.ones(700)):
        costs, back = cluster(heights, weights, 12)
        full, _ = fit(heights, weights, 12)
        np.testing.assert_allclose(costs, full, rtol=1e-8)
        points = list(zip(heights.tolist(), weights.tolist(), strict=True))
        assert cost_of(points, trace(back, 12)) == pytest.approx(full[-1], rel=1e-8)


@given(weighed.map(lambda points: [(y, w + 1e-12) for y, w in points]), st.integers(1, 8))
def test_the_full_program_finds_the_best_of_all_cuts(
    points: list[tuple[int, float]], most: int
) -> None:
    costs, back = fit(*columns(points), most)
    for k in range(1, costs.size + 1):
        least = least_by_runs(points, k)
        assert [costs[k - 1], cost_of(points, trace(back, k))] == pytest.approx(
            [least, least], abs=NEAR
        )


@given(
    st.lists(st.lists(st.integers(1, 9).map(float), max_size=4), min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_buckets_go_where_they_are_worth_most(gains: list[list[float]], more: int) -> None:
    gains = [sorted(gain, reverse=True) for gain in gains]
    given_out = allot(len(gains) + more, [np.array(gain) for gain in gains])
    worth = sum(sum(gain[: got - 1]) for gain, got in zip(gains, given_out, strict=True))
    assert worth == sum(sorted((x for gain in gains for x in gain), reverse=True)[:more])
    assert sum(given_out) <= len(gains) + more and min(given_out) >= 1


# -- histograms ------------------------------------------------------------------------------------

BUILDERS: dict[str, Callable[..., Steps]] = {
    "size": lambda lo, hi, buckets, density=None: stabbing(lo, hi, buckets, density, Shares.SIZE),
    "error": stabbing,
    "optimal": lambda lo, hi, buckets, density=None: Optimal(lo, hi, buckets, density).steps(
        buckets
    ),
    "cells": lambda lo, hi, buckets, density=None: Optimal(lo, hi, buckets, density, 4).steps(
        buckets
    ),
}
each_builder = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


@each_builder
@given(whole, st.integers(0, 3))
def test_enough_buckets_are_exact_for_whole_numbers(
    build: Callable[..., Steps], pairs: list[Pair], more: int
) -> None:
    found = build(*arrays(pairs), 2 * len(pairs) + 1 + more)
    ends = {end for pair in pairs for end in pair} | {LEAST, -3, 0, MOST}
    values = sorted({v + d for v in ends for d in (-1, 0, 1) if LEAST <= v + d <= MOST})
    np.testing.assert_allclose(found.estimate(np.array(values)), stabbed(pairs, values), atol=NEAR)


@each_builder
@given(doubles)
def test_enough_buckets_are_exact_for_doubles(
    build: Callable[..., Steps], pairs: list[Pair]
) -> None:
    found = build(*arrays(pairs, np.float64), 2 * len(pairs) + 1)
    ends = np.array([end for pair in pairs for end in pair] + [0.0, np.inf, -np.inf])
    values = np.concatenate((ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)))
    np.testing.assert_allclose(found.estimate(values), stabbed(pairs, values.tolist()), atol=NEAR)


@given(small.filter(bool), st.integers(1, 6))
def test_the_optimal_one_is_the_best_of_all(pairs: list[Pair], buckets: int) -> None:
    """Against every way to cut the values of the domain into buckets; errors are measured one value
    at a time."""
    lo, hi = arrays(pairs)
    values = list(range(int(lo.min()), int(hi.max()) + 1))
    counts = stabbed(pairs, values)
    weight = [1 / len(values) / max(count, 1) ** 2 for count in counts]
    least = least_by_runs(list(zip(counts, weight, strict=True)), buckets)
    optimal = Optimal(lo, hi, buckets)
    assert optimal.costs[-1] == pytest.approx(least, abs=NEAR)
    assert mean_squared_error(optimal.steps(buckets), pairs, values) == pytest.approx(
        least, abs=NEAR
    )


@given(small.filter(bool), st.integers(1, 12))
def test_ours_is_between_the_optimal_ones(pairs: list[Pair], buckets: int) -> None:
    """With as many buckets it does no worse, and no better than one that may use as many steps as
    it takes."""
    lo, hi = arrays(pairs)
    values = list(range(int(lo.min()), int(hi.max()) + 1))
    costs = Optimal(lo, hi, 60).costs
    for shares in Shares:
        found = stabbing(lo, hi, buckets, shares=shares)
        steps = found.rise_at.size + found.fall_at.size + 1
        assert steps <= 2 * buckets + 1, "every bucket has a beginning, every group an end"
        measured = mean_squared_error(found, pairs, values)
        assert measured >= costs[min(steps, costs.size) - 1] - NEAR
        if shares is Shares.ERROR:
            assert measured <= costs[min(buckets, costs.size) - 1] + NEAR


def test_a_large_group_has_sides_and_small_ones_share_the_rest() -> None:
    """By size, three buckets of four belong to the group of 30; where the others are, there is one
    level."""
    pairs = [(40 - i, 41 + i) for i in range(30)] + [(80 + 5 * i, 82 + 5 * i) for i in range(10)]
    found = stabbing(*arrays(pairs), 4, shares=Shares.SIZE)
    left, right, others = np.arange(11, 42), np.arange(42, 71), np.arange(71, 128)
    assert [np.unique(found.estimate(part)).size for part in (left, right, others)] == [2, 1, 1]
    lone = stabbing(*arrays(pairs), 1, shares=Shares.SIZE)
    assert lone.rise_at.size + lone.fall_at.size == 0, "one bucket is one level"


def sides_of(pairs: Sequence[Pair], values: Sequence[int]) -> list[list[tuple[float, float]]]:
    """Heights and weights of one group, value by value, up to its last common point and behind
    it."""
    point, counts = min(hi for _, hi in pairs), stabbed(pairs, values)
    weighed = [(v, (float(c), 1 / c**2 / len(values))) for v, c in zip(values, counts, strict=True)]
    return [[one for v, one in weighed if v <= point], [one for v, one in weighed if v > point]]


def least_of_sides(sides: Sequence[list[tuple[float, float]]], buckets: Sequence[int]) -> float:
    return sum(least_by_runs(side, k) for side, k in zip(sides, buckets, strict=True) if side)


one_group = st.lists(st.tuples(st.integers(0, 9), st.integers(9, 18)), min_size=1, max_size=12)


@given(one_group, st.integers(2, 9))
def test_sides_of_one_group_are_the_best_of_all(pairs: list[Pair], buckets: int) -> None:
    """All hold 9.  Both sides have as many buckets, the left one that is left over, and none more
    than steps."""
    lo, hi = arrays(pairs)
    values = list(range(int(lo.min()), int(hi.max()) + 1))
    sides = sides_of(pairs, values)
    most = [len(set(side)) for side in sides]
    left = min(most[0], max(-(-buckets // 2), buckets - most[1]))
    least = least_of_sides(sides, [left, min(most[1], buckets - left)])
    found = stabbing(lo, hi, buckets, shares=Shares.SIZE)
    assert mean_squared_error(found, pairs, values) == pytest.approx(least, abs=NEAR)


@given(one_group.filter(lambda pairs: len({hi for _, hi in pairs}) > 1), st.integers(2, 5))
def test_buckets_by_error_are_the_best_split(pairs: list[Pair], buckets: int) -> None:
    """With cells too coarse for the plain histogram, sides have to do it."""
    lo, hi = arrays(pairs)
    values = list(range(int(lo.min()), int(hi.max()) + 1))
    sides = sides_of(pairs, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.families.joins.intervals.histogram.CELLS", 4)
        found = stabbing(lo, hi, buckets)
    least = min(least_of_sides(sides, [left, buckets - left]) for left in range(1, buckets))
    assert mean_squared_error(found, pairs, values) <= least + NEAR


@each_builder
def test_nothing_and_everything_alike(build: Callable[..., Steps]) -> None:
    for dtype in (np.int64, np.float64):
        assert build(*arrays([], dtype), 5).estimate(np.array([-1, 0, 7], dtype)).tolist() == [
            0,
            0,
            0,
        ]
        alike = build(*arrays([(3, 8)] * 50, dtype), 5, Density.uniform(0, 10))
        assert alike.estimate(np.array([2, 3, 5, 8, 9], dtype)) == pytest.approx(
            [0, 50, 50, 50, 0], abs=NEAR
        )
    one_sided = build(*arrays([(-np.inf, 5)] * 3 + [(2, np.inf)] * 4, np.float64), 7)
    assert one_sided.estimate(np.array([-np.inf, 1, 2, 5, 6, np.inf])) == pytest.approx(
        [3, 3, 7, 7, 4, 4], abs=NEAR
    )


def test_buckets_are_where_values_are_expected() -> None:
    lo, hi = intervals(5, 400)
    counts, edges = np.histogram(
        np.random.default_rng(5).normal(3_000, 300, 5_000), 50, (0, 10_000)
    )
    density = Density.of_histogram(counts, edges)
    assert density.mass_below(np.array([-np.inf, edges[7], np.inf])) == pytest.approx(
        [0, counts[:7].sum() / 5_000, 1]
    )
    probes = np.random.default_rng(6).normal(3_000, 300, 5_000)
    for build in (BUILDERS["error"], BUILDERS["optimal"]):
        aimed, even = (
            error(build(lo, hi, 12, d), lo, hi, probes)
            for d in (density, Density.uniform(0, 10_000))
        )
        assert aimed < even / 2


def test_cells_are_as_many_as_asked_for_and_hold_little() -> None:
    lo, hi = intervals(2, 5_000)
    counts = Counts(lo, hi, Density.uniform(0, 10_000))
    starts = cells_of(counts, 300)
    assert starts[0] == 0 and 150 < starts.size <= 300 and np.all(np.diff(starts) > 0)
    assert np.add.reduceat(counts.mass, starts).max() <= 2 / 299 + counts.mass.max()
    exact, coarse = (
        Optimal(lo, hi, 20, Density.uniform(0, 10_000), cells).costs[-1] for cells in (None, 300)
    )
    assert exact <= coarse <= 1.05 * exact


# -- equal width -----------------------------------------------------------------------------------


def covered(
    first: float, last: float, buckets: int, pairs: Sequence[Pair], unit: int
) -> list[float]:
    """Each interval adds the covered part of each bucket (4.6.7)."""
    width = (last + unit - first) / buckets
    edges = [first + i * width for i in range(buckets + 1)]
    return [
        sum(max(0.0, min(hi + unit, b) - max(lo, a)) / width for lo, hi in pairs)
        for a, b in pairwise(edges)
    ]


@given(whole, st.integers(1, 9), st.integers(-5, 5), st.integers(0, 20))
def test_equal_width_is_what_is_covered(
    pairs: list[Pair], buckets: int, first: int, length: int
) -> None:
    found = EqualWidth(first, first + length, buckets, unit=1)
    found.add(*arrays(pairs))
    np.testing.assert_allclose(
        found.levels, covered(first, first + length, buckets, pairs, 1), atol=NEAR
    )


@given(doubles, st.integers(1, 9))
def test_equal_width_of_doubles(pairs: list[Pair], buckets: int) -> None:
    found = EqualWidth(-4.0, 6.0, buckets)
    for lo, hi in pairs:
        found.add(lo, hi)
    wanted = covered(-4.0, 6.0, buckets, pairs, 0)
    np.testing.assert_allclose(found.levels, wanted, atol=NEAR)
    middles = np.array([-4 + (i + 0.5) * 10 / buckets for i in range(buckets)])
    np.testing.assert_allclose(found.estimate(middles), wanted, atol=NEAR)
    assert found.estimate(np.array([-np.inf, np.inf])) == pytest.approx(
        [wanted[0], wanted[-1]], abs=NEAR
    )


@given(small.filter(bool))
def test_a_bucket_for_each_whole_number_is_exact(pairs: list[Pair]) -> None:
    found = EqualWidth(0, 9, 10, unit=1)
    found.add(*arrays(pairs))
    np.testing.assert_allclose(found.estimate(np.arange(10)), stabbed(pairs, range(10)), atol=NEAR)


# -- the paper's figure ----------------------------------------------------------------------------


def errors_of_twenty(seed: int, reading: Reading) -> tuple[float, float]:
    """Of ours and of equal width."""
    lo, hi = intervals(seed, reading=reading)
    probes = np.random.default_rng([seed, 1]).uniform(0, 10_000, 5_000)
    ours = stabbing(lo, hi, 20, Density.uniform(0, 10_000))
    return error(ours, lo, hi, probes), error(equal_width(lo, hi, 20), lo, hi, probes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_error_with_twenty_buckets(seed: int) -> None:
    """Published: 14.9 %."""
    ours, equal = errors_of_twenty(seed, LITERAL)
    assert ours <= 0.15 and ours < equal


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_ours_is_better_than_equal_width_however_the_paper_is_read(reading: Reading) -> None:
    ours, equal = errors_of_twenty(4, reading)
    assert ours < 0.9 * equal


def test_figure_has_a_row_for_each_number_of_buckets() -> None:
    rows = figure(4, buckets=(10, 20))
    assert [row.buckets for row in rows] == [10, 20]
    for row in rows:
        assert row.ours <= row.by_size + NEAR and row.ours < row.equal_width
        assert row.optimal == pytest.approx(row.ours, rel=0.2)
