"""The workload of the Weave Share paper (`docs/papers.md`), and the published points it comes near
to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.bench.weave.costs import costs_of, mean_costs, policies
from headrace.bench.weave.drift import CHECK_EVERY, drift, from_scratch, pairs_compared
from headrace.bench.weave.workload import TEMPLATES, Workload
from headrace.families.windows.weave.edges import Shape


def gain(queries: int, rate: float) -> float:
    return 100 * mean_costs((Workload(queries, seed=seed) for seed in (7, 8)), rate).gain


def test_windows_are_within_the_limits_of_table_1() -> None:
    shapes = Workload(1_000, overlap_max=20.0).shapes()
    assert shapes == Workload(1_000, overlap_max=20.0).shapes()
    assert {s.slide_us for s in shapes} == set(TEMPLATES)
    assert all(0.5 <= s.overlap <= 20.5 for s in shapes)
    whole = Workload(1_000, whole=True).shapes()
    assert all(s.range_us % s.slide_us == 0 for s in whole)


def test_skew_is_towards_large_slides() -> None:
    means = [
        sum(s.slide_us for s in replace(Workload(1_000), skew=skew).shapes())
        for skew in (0.0, 0.6, 2.0)
    ]
    assert means == sorted(means)


@pytest.mark.parametrize(
    ("queries", "rate", "published"),
    [
        (250, 50.0, 80),
        (250, 2_000.0, 24),
        (250, 3_000.0, 6),
        (1_000, 10_000.0, 12),
        (2_000, 10_000.0, 24),
    ],
)
def test_gains_are_near_the_published_ones(queries: int, rate: float, published: float) -> None:
    assert gain(queries, rate) == pytest.approx(published, abs=6)


def test_three_ways_to_execute() -> None:
    """Two windows of no common edge but 0, in one tree each."""
    shapes = [Shape(8, 4), Shape(10, 5)]
    costs, plan = costs_of(shapes, 0.1)
    assert [tree.queries for tree in plan.trees] == [(0,), (1,)]
    expected = [0.1 + 0.4 * 4, 0.2 + 0.5 + 0.4, 0.2 + 0.9, 0.1 + 0.4 + 0.45]
    assert [costs.shared, costs.paper, costs.constant, costs.ours] == pytest.approx(expected)
    assert costs.trees == 2 and costs.gain == pytest.approx(1 - 1.1 / 1.7)


def test_policies_are_ordered() -> None:
    found = policies(Workload(60), 50.0, with_search=True)
    assert found["ours"] <= found["its trees, O(1)"] <= found["Weave Share"]
    assert found["Weave Share"] <= min(found["Shared"], found["No Share"], found["Random"])


def test_drift_is_counted() -> None:
    shapes = Workload(60).shapes()
    scratch = from_scratch(shapes, 50.0)
    assert len(scratch) == 1 + 60 // CHECK_EVERY and scratch[0] == 0.0
    lazy, keen = (drift(shapes, 10, 50.0, tolerance, 2.0, scratch) for tolerance in (1e9, 0.0))
    assert lazy.rebuilds == 2 and keen.rebuilds >= lazy.rebuilds
    assert pairs_compared(4, 2) == 6 + 2 + 3
