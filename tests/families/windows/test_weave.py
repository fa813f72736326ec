"""Weave Share against the loop as printed, against all partitions, and against its own promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bench.weave.naive import FIRST, NAIVE, SECOND, THIRD, weave_naively
from headrace.bench.weave.rivals import (
    exhaustive,
    insert_then_weave,
    local_search,
    no_share,
    random_share,
    shared,
)
from headrace.bench.weave.workload import HUMAN, TEMPLATES, Workload
from headrace.errors import PlanError
from headrace.families.windows.weave.blocks import weave_nodes
from headrace.families.windows.weave.edges import Shape, edge_rate
from headrace.families.windows.weave.nodes import nodes_of
from headrace.families.windows.weave.weave import (
    Plan,
    Weights,
    cost_of,
    plan_of,
    weave,
    weaveability,
)

A, B, C = Shape(16, 4), Shape(10, 5), Shape(8, 4)
RATE = 1.2
SLIDES = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 18, 20, 24, 30)
shapes = st.builds(
    Shape, st.integers(1, 60), st.sampled_from(SLIDES), st.sampled_from((0, 0, 0, 1, 7, -3))
)
some_shapes = st.lists(shapes, min_size=1, max_size=12)
rates = st.sampled_from((0.1, 0.5, 1.0, 2.0, 5.0, 20.0))

DAY_US = 86_400 * 10**6
PRIMES = [p for p in range(2, 104_730) if all(p % d for d in range(2, math.isqrt(p) + 1))]


def trees(plan: Plan) -> list[tuple[int, ...]]:
    return [tree.queries for tree in plan.trees]


def greedy(windows: Sequence[Shape], rate: float) -> list[tuple[int, ...]]:
    """The greedy alone, without Shared and No Share."""
    nodes, node_of = nodes_of(windows)
    tree_of = weave_nodes(nodes, rate)[0][node_of]
    return [tuple(np.flatnonzero(tree_of == t).tolist()) for t in range(int(tree_of.max()) + 1)]


def assert_partition(plan: Plan, windows: Sequence[Shape], rate: float) -> None:
    assert sorted(q for tree in plan.trees for q in tree.queries) == list(range(len(windows)))
    for tree in plan.trees:
        own = [windows[q] for q in tree.queries]
        assert tree.overlap == pytest.approx(sum(s.overlap for s in own))
        assert tree.edges.fraction == edge_rate(own).fraction
    assert plan.cost == pytest.approx(cost_of(plan.trees, rate))


def test_vectors_of_the_paper() -> None:
    plan = weave([A, B, C], RATE)
    assert trees(plan) == [(0, 2), (1,)] and plan.cost == pytest.approx(4.3)
    assert shared([A, B, C], RATE).cost == pytest.approx(4.4)
    assert no_share([A, B, C], RATE).cost == pytest.approx(5.5)
    assert weaveability([Shape(12, 9)], [Shape(10, 6)]) == pytest.approx(2 / 8)
    assert weaveability([A], [C]) == 1.0 and weaveability([Shape(4, 4)], [Shape(4, 4, 1)]) == 0.0


def test_nothing_to_weave() -> None:
    assert weave([], RATE) == Plan((), 0.0)
    assert trees(weave([A], RATE)) == [(0,)]
    assert trees(weave([A, A, C], 0.0)) in ([(0, 1, 2)], [(0,), (1,), (2,)])


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_bad_rates(rate: float) -> None:
    with pytest.raises(PlanError):
        weave([A], rate)


@pytest.mark.parametrize("weights", [(0.0, 1.0), (1.0, -1.0), (math.nan, 1.0)])
def test_bad_weights(weights: tuple[float, float]) -> None:
    with pytest.raises(PlanError):
        Weights(*weights)


@settings(max_examples=150, deadline=None)
@given(some_shapes, rates)
def test_plans_are_those_of_the_naive_loop(windows: list[Shape], rate: float) -> None:
    expected = weave_naively(windows, rate, variant=NAIVE)
    for variant in (FIRST, SECOND, THIRD):
        assert weave_naively(windows, rate, variant=variant) == expected
    assert greedy(windows, rate) == sorted(expected)


@pytest.mark.parametrize("rate", [5.0, 100.0, 2_000.0])
def test_plans_of_the_workload_are_those_of_the_naive_loop(rate: float) -> None:
    windows = Workload(120).shapes()
    assert greedy(windows, rate) == sorted(weave_naively(windows, rate, variant=THIRD))


def test_the_naive_loop_refuses_long_periods() -> None:
    with pytest.raises(PlanError):
        weave_naively([Shape(p, p) for p in PRIMES[:20]], RATE)


@settings(max_examples=100, deadline=None)
@given(some_shapes, rates)
def test_never_dearer_than_the_ends(windows: list[Shape], rate: float) -> None:
    plan = weave(windows, rate)
    assert_partition(plan, windows, rate)
    assert plan.cost <= shared(windows, rate).cost * (1 + 1e-9)
    assert plan.cost <= no_share(windows, rate).cost * (1 + 1e-9)
    assert plan == weave(windows, rate) and not plan.sampled


@settings(max_examples=50, deadline=None)
@given(some_shapes, rates)
def test_weights_are_prices(windows: list[Shape], rate: float) -> None:
    plan = weave(windows, rate, Weights(row=3.0, merge=2.0))
    same = weave(windows, 1.5 * rate)
    assert trees(plan) == trees(same) and plan.cost == pytest.approx(2 * same.cost)


@settings(max_examples=50, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=5), rates)
def test_exhaustive_is_the_best_of_all_partitions(windows: list[Shape], rate: float) -> None:
    best = min(
        plan_of(groups, windows, rate).cost for groups in _partitions(list(range(len(windows))))
    )
    assert exhaustive(windows, rate).cost == pytest.approx(best)


def _partitions(items: list[int]) -> list[list[list[int]]]:
    if not items:
        return [[]]
    rest = _partitions(items[1:])
    return [[[items[0]], *p] for p in rest] + [
        [*p[:n], [items[0], *p[n]], *p[n + 1 :]] for p in rest for n in range(len(p))
    ]


def test_exhaustive_refuses_many() -> None:
    with pytest.raises(PlanError, match="at most 8"):
        exhaustive([A] * 9, RATE)


@pytest.mark.parametrize("templates", [TEMPLATES, HUMAN])
def test_mostly_optimal(templates: tuple[int, ...]) -> None:
    """Rates around those where the best plan changes from one tree for each query to one for
    all."""
    random = np.random.default_rng(11)
    optimal, ends, cases = 0, 0, 100
    for seed in range(cases):
        windows = Workload(int(random.integers(5, 8)), seed=seed, templates=templates).shapes()
        rate = float(np.exp(random.uniform(np.log(0.5), np.log(1_000))))
        best = exhaustive(windows, rate)
        optimal += weave(windows, rate).cost <= best.cost * (1 + 1e-9)
        ends += len(best.trees) in (1, len(windows))
    print(f"optimal in {optimal} of {cases} cases; in {ends} the best plan is Shared or No Share")
    assert ends < 0.8 * cases
    assert optimal >= 0.9 * cases


@settings(max_examples=30, deadline=None)
@given(some_shapes, rates)
def test_rivals_are_plans(windows: list[Shape], rate: float) -> None:
    alone = no_share(windows, rate)
    moved = local_search(windows, rate, 10 * len(windows))
    for plan in (
        random_share(windows, rate, np.random.default_rng(1)),
        insert_then_weave(windows, rate),
        moved,
    ):
        assert_partition(plan, windows, rate)
    assert moved.cost <= alone.cost * (1 + 1e-9)
    assert trees(local_search(windows, rate, 0)) == trees(alone)


def test_local_search_stops_where_no_move_pays() -> None:
    windows = Workload(9, seed=3).shapes()
    plan = local_search(windows, 30.0, 10_000)
    groups = [set(tree.queries) for tree in plan.trees]
    for query in range(len(windows)):
        for target in [*range(len(groups)), len(groups)]:
            moved = [g - {query} for g in groups] + [set()]
            moved[target].add(query)
            assert plan_of([g for g in moved if g], windows, 30.0).cost >= plan.cost * (1 - 1e-9)


@pytest.mark.parametrize("rate", [1.0, 50.0, 10_000.0])
def test_blocks_are_nearly_as_good(rate: float) -> None:
    windows = Workload(2_000).shapes()
    exact, blocks = weave(windows, rate), weave(windows, rate, exact_max=1_024)
    print(f"rate {rate}: blocks cost {blocks.cost / exact.cost:.4f} of all pairs")
    assert blocks.cost <= 1.03 * exact.cost
    assert_partition(blocks, windows, rate)


def test_two_thousand_windows_within_a_second() -> None:
    windows = Workload(2_000).shapes()
    weave(windows[:10], 50.0)
    began = perf_counter()
    plan = weave(windows, 50.0)
    assert perf_counter() - began < 5 * 1
    assert not plan.sampled and not plan.is_estimated


def bad_input() -> dict[str, list[Shape]]:
    random = np.random.default_rng(3)
    ranges, slides = (
        random.integers(1, 30 * DAY_US, 1_000),
        random.integers(1_000, 30 * DAY_US, 1_000),
    )
    return {
        "coprime slides": [Shape(3 * p + 1, p) for p in PRIMES[:10_000]],
        "1 ms beside 30 days": [Shape(30 * DAY_US, 1_000)] * 3
        + [Shape(30 * DAY_US, 30 * DAY_US - k) for k in range(1, 200)]
        + [Shape(10**6 * k, 1_000 * k) for k in range(1, 200)],
        "any microsecond": [
            Shape(r, s) for r, s in zip(ranges.tolist(), slides.tolist(), strict=True)
        ],
        "near the limit": [Shape((1 << 62) - 1 - k, (1 << 62) - 3 - 2 * k, k) for k in range(500)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(bad_input()))
@pytest.mark.parametrize("rate", [1e-6, 0.1, 10_000.0])
def test_bad_input_is_planned_in_time(name: str, rate: float) -> None:
    windows = bad_input()[name]
    began = perf_counter()
    plan = weave(windows, rate)
    assert perf_counter() - began < 5 * 12
    assert sorted(q for tree in plan.trees for q in tree.queries) == list(range(len(windows)))
    alone = sum(rate + edge_rate([s]).rate * s.overlap for s in windows)
    assert plan.cost <= alone * (1 + 1e-6)


def test_drawn_points_plan_like_counted_ones() -> None:
    """The same windows, once with a short period and once with points drawn."""
    windows = Workload(300).shapes()
    exact = weave(windows, 20.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.families.windows.weave.edge_points.FLAGS_MAX", 1)
        drawn = weave(windows, 20.0)
    assert drawn.sampled and not exact.sampled
    assert_partition(drawn, windows, 20.0)
    assert drawn.cost <= 1.05 * exact.cost
