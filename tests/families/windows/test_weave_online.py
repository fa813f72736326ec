"""Queries come and go: trees stay a partition, costs stay those of a count, and a rebuild takes
over in between."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bench.weave.workload import Workload
from headrace.errors import PlanError
from headrace.families.windows.weave import forest
from headrace.families.windows.weave.edges import Shape
from headrace.families.windows.weave.forest import COLUMNS_MIN
from headrace.families.windows.weave.online import CostCurve, OnlineWeave, rebuild
from headrace.families.windows.weave.weave import Weights, plan_of, weave

SLIDES = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 18, 20, 24, 30)
shapes = st.builds(
    Shape, st.integers(1, 60), st.sampled_from(SLIDES), st.sampled_from((0, 0, 0, 1, 7, -3))
)
steps = st.lists(st.one_of(shapes, st.integers(0, 30)), min_size=1, max_size=40)
rates = st.sampled_from((0.1, 1.0, 5.0, 20.0))
WEIGHTS = Weights(row=2.0, merge=3.0)


def assert_counted(
    online: OnlineWeave, live: dict[int, Shape], rate: float, rel: float = 1e-9
) -> None:
    found = online.trees()
    assert sorted(q for tree in found for q in tree) == sorted(live) and len(online) == len(live)
    assert all(found)
    at = {query: n for n, query in enumerate(live)}
    plan = plan_of([[at[q] for q in tree] for tree in found], list(live.values()), rate, WEIGHTS)
    assert online.cost == pytest.approx(plan.cost, rel=rel)


@settings(max_examples=150, deadline=None)
@given(steps, rates, st.sampled_from((1, 4, 64)))
def test_costs_are_counted_whatever_comes_and_goes(
    done: list[Shape | int], rate: float, taken_in: int
) -> None:
    """In a forest of more queries than are `taken_in` at once, windows of new edges stray until a
    rebuild."""
    online, live = OnlineWeave(rate, WEIGHTS), dict[int, Shape]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "REPOINTED_MAX", taken_in)
        for number, step in enumerate(done):
            if isinstance(step, Shape):
                online.add(number, step)
                live[number] = step
            elif live:
                gone = list(live)[step % len(live)]
                online.drop(gone)
                del live[gone]
            assert_counted(online, live, rate)
            if number % 7 == 6:
                online.swap(rebuild(online.snapshot()))
                assert_counted(online, live, rate)


@settings(max_examples=30, deadline=None)
@given(st.lists(shapes, min_size=2, max_size=12), rates)
def test_no_merge_is_left_undone(windows: list[Shape], rate: float) -> None:
    """Of the tree that was touched last with any other."""
    online = OnlineWeave(rate)
    for number, window in enumerate(windows):
        online.add(number, window)
    found = [list(tree) for tree in online.trees()]
    last = next(tree for tree in found if len(windows) - 1 in tree)
    for other in found:
        if other is not last:
            merged = [tree for tree in found if tree not in (last, other)] + [last + other]
            assert plan_of(merged, windows, rate).cost >= online.cost * (1 - 1e-9)


def test_names_are_checked() -> None:
    online = OnlineWeave(1.0)
    online.add(1, Shape(4, 2))
    with pytest.raises(PlanError):
        online.add(1, Shape(4, 2))
    with pytest.raises(PlanError):
        online.drop(2)
    online.drop(1)
    assert online.trees() == () and online.cost == 0.0 and not online.is_due()
    with pytest.raises(PlanError):
        OnlineWeave(-1.0)


def test_a_rebuild_takes_over_what_came_meanwhile() -> None:
    windows = Workload(200).shapes()
    online, live = OnlineWeave(40.0, WEIGHTS), dict[int, Shape]()
    for query, window in enumerate(windows[:150]):
        online.add(query, window)
        live[query] = window
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(rebuild, online.snapshot())
        for query in (3, 77, 12):
            online.drop(query)
            del live[query]
        for query, window in [*enumerate(windows[150:], 150), (3, Shape(90, 40))]:
            online.add(query, window)
            live[query] = window
        online.swap(made.result())
    assert_counted(online, live, 40.0)
    from_scratch = weave(list(live.values()), 40.0, WEIGHTS)
    assert online.cost <= 1.2 * from_scratch.cost


def test_a_plan_from_scratch_goes_on_as_one_that_grew() -> None:
    live = dict(enumerate(Workload(60).shapes()))
    online = OnlineWeave.of(live, 5.0, WEIGHTS)
    assert_counted(online, live, 5.0)
    assert online.cost == pytest.approx(weave(list(live.values()), 5.0, WEIGHTS).cost)
    assert not online.is_due()
    online.add(99, Shape(7, 7))
    online.drop(0)
    assert_counted(online, {**{q: s for q, s in live.items() if q}, 99: Shape(7, 7)}, 5.0)


def test_a_rebuild_is_due_when_the_plan_has_drifted() -> None:
    windows = Workload(300).shapes()
    never, always = OnlineWeave(40.0, tolerance=math.inf), OnlineWeave(40.0, tolerance=0.0)
    rebuilds = 0
    for query, window in enumerate(windows):
        for online in (never, always):
            online.add(query, window)
        if always.is_due():
            always.swap(rebuild(always.snapshot()))
            rebuilds += 1
    print(
        f"{rebuilds} rebuilds, {always.cost / weave(windows, 40.0).cost:.3f} of the cost from scratch"
    )
    assert rebuilds >= 8
    assert not OnlineWeave(1.0).is_due()
    assert never.is_due()  # nothing is known about plans of this size
    never.swap(rebuild(never.snapshot()))
    assert not never.is_due() and never.deviation() == pytest.approx(0.0, abs=1e-9)
    assert always.cost <= 1.1 * weave(windows, 40.0).cost


def test_costs_are_extrapolated_along_the_last_two_rebuilds() -> None:
    curve = CostCurve(0, 10.0)
    curve.learn(100, 30.0)
    assert curve.expected(150) == pytest.approx(40.0)
    curve.learn(200, 40.0)
    assert curve.expected(300) == pytest.approx(50.0) and curve.expected(150) == pytest.approx(35.0)
    assert curve.reaches(400, 2.0) and curve.reaches(100, 2.0)
    assert not curve.reaches(401, 2.0) and not curve.reaches(99, 2.0) and not curve.reaches(0, 2.0)
    curve.learn(200, 41.0)
    assert curve.slope == pytest.approx(0.1) and curve.expected(200) == 41.0
    curve.learn(100, 50.0)
    assert curve.slope == 0.0


def test_long_periods_are_learnt() -> None:
    """Slides without a common period: points are drawn, and learn what comes."""
    random = np.random.default_rng(5)
    slides = random.integers(1_000, 100_000, 80).tolist()
    windows = [Shape(int(w * s), s) for s, w in zip(slides, random.uniform(1, 20, 80), strict=True)]
    online, live = OnlineWeave(0.02, WEIGHTS), dict[int, Shape]()
    for query, window in enumerate(windows):
        online.add(query, window)
        live[query] = window
    for query in range(0, 80, 3):
        online.drop(query)
        del live[query]
    assert 1 < len(online.trees()) < len(live)
    assert_counted(online, live, 0.02, rel=0.1)
    online.swap(rebuild(online.snapshot()))
    assert_counted(online, live, 0.02, rel=0.02)
    assert not online.is_due()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.families.windows.weave.forest.DRAWN_WORDS_MAX", 16)
        assert online.is_due()  # points had better be drawn anew


def test_too_many_trees_for_their_bits_are_compared_by_samples() -> None:
    """Counted while the bits fit, drawn from the query on that made them too many."""
    windows = Workload(90, skew=0.0).shapes()
    online, live = OnlineWeave(1e-7, WEIGHTS), dict[int, Shape]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.families.windows.weave.forest.BITS_MAX", 1 << 17)
        for query, window in enumerate(windows):
            online.add(query, window)
            live[query] = window
            assert_counted(
                online, live, 1e-7, rel=1e-9 if len(online.trees()) <= COLUMNS_MIN else 0.1
            )
    assert len(online.trees()) > COLUMNS_MIN


@pytest.mark.parametrize(
    "slides", [(7_919, 104_729), tuple(range(7_919, 7_999))], ids=["few", "many"]
)
def test_a_slide_of_no_use_to_others_strays_until_a_rebuild(slides: tuple[int, ...]) -> None:
    """At once, where all bits would have to be made anew; more than a few are reason for a
    rebuild."""
    live = dict(enumerate(Workload(2_000).shapes()))
    online = OnlineWeave.of(live, 50.0, WEIGHTS)
    trees, cost, took_s = len(online.trees()), online.cost, 0.0
    for query, slide in enumerate(slides, 2_000):
        live[query] = Shape(3 * slide, slide)
        began = perf_counter()
        online.add(query, live[query])
        took_s = max(took_s, perf_counter() - began)
    assert took_s < 5 * 0.01
    assert len(online.trees()) == trees + len(slides) and online.cost > cost
    assert online.is_due() == (len(slides) > 20)
    assert_counted(online, live, 50.0)
    with pytest.raises(PlanError):
        online.add(2_000, live[2_000])
    online.drop(2_001)
    del live[2_001]
    made = rebuild(online.snapshot())
    online.drop(2_000)
    del live[2_000]
    online.swap(made)
    assert_counted(online, live, 50.0, rel=0.1)
    assert not online.is_due()


@pytest.mark.parametrize("rate", [50.0, 10_000.0])
def test_one_of_two_thousand_comes_and_goes_in_milliseconds(rate: float) -> None:
    windows = Workload(2_100).shapes()
    online = OnlineWeave(rate)
    for query, window in enumerate(windows[:50]):
        online.add(query, window)
    made = rebuild(online.snapshot_of(dict(enumerate(windows[:2_000]))))
    for query, window in enumerate(windows[50:2_000], 50):
        online.add(query, window)
    online.swap(made)
    added, dropped = [], []
    for query, window in enumerate(windows[2_000:], 2_000):
        began = perf_counter()
        online.add(query, window)
        added.append(perf_counter() - began)
        began = perf_counter()
        online.drop(query - 1_000)
        dropped.append(perf_counter() - began)
    assert median(added) < 5 * 0.01 and median(dropped) < 5 * 0.01
