"""Each event by the method that is cheapest for it: the answer is that of a page of Python,
whatever is chosen."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bench.joins.workload import (
    draw_joined_events,
    draw_joined_rows,
    draw_keyed_events,
    draw_keyed_rows,
    draw_popular,
    draw_rectangles,
    zipf_shares,
)
from headrace.errors import CatalogError
from headrace.families.joins.selects import methods as select_methods
from headrace.families.joins.selects import routing
from headrace.families.joins.selects.index import Events, Rectangles, Rows
from headrace.families.joins.selects.methods import METHODS, Met, Methods
from headrace.families.joins.selects.routing import RATES, Router, features, like
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Ints32
from tests.families.joins.test_bands import draw_ranges, groups_of
from tests.families.joins.test_selects import draw_events, draw_rows

NOTHING = {method: (0.0,) * count for method, count in RATES.items()}


def draw_queries(r: Random, is_float: bool) -> tuple[Rectangles, Ints32]:
    size = r.choice([1, 3, 40, 300])
    kind = np.float64 if is_float else np.int64
    a, c = draw_ranges(r, is_float, size), draw_ranges(r, is_float, size)
    sides = [np.array([own[i] for own in ranges], kind) for ranges in (a, c) for i in (0, 1)]
    return Rectangles(np.arange(size) * 10, *sides), groups_of(c)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_any_choice_gives_every_affected_query(seed: int) -> None:
    r = Random(seed)
    is_float = r.random() < 0.5
    queries, group = draw_queries(r, is_float)
    rows, events = draw_rows(r, is_float), draw_events(r, is_float)
    methods = Methods(queries, group, r.choice([0.001, 0.05, 0.3, 1.0]))
    router = Router({m: tuple(r.random() for _ in range(count)) for m, count in RATES.items()})
    wanted = brute_force(queries, rows, events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select_methods, "ROOM", r.choice([1, 7, 1_000]))
        patch.setattr(routing, "ASKED", r.choice([2, 16]))
        patch.setattr(routing, "ALL_ASKED", r.choice([16, 1_024]))
        patch.setattr(routing, "SAVED_MIN", r.choice([0.0, 0.1, 1.0]))
        routed = router.run(methods, rows, events)
    found: dict[int, list[int]] = {}
    for _, places, own in routed:
        lists = methods.affected(own, places.size)
        found |= {int(e): sorted(ids.tolist()) for e, ids in zip(places, lists, strict=True)}
    assert [found[e] for e in range(events.b.size)] == wanted
    assert sum(places.size for _, places, _ in routed) == events.b.size
    met = methods.meet(rows, events)
    for method in METHODS:
        lists = methods.affected(methods.run(method, rows.c, met), events.b.size)
        assert [sorted(ids.tolist()) for ids in lists] == wanted, method
    chosen = np.array([e for e in range(events.b.size) if r.random() < 0.4], np.int64)
    for method in METHODS:
        lists = methods.affected(methods.run(method, rows.c, met.take(chosen)), chosen.size)
        assert [sorted(ids.tolist()) for ids in lists] == [wanted[e] for e in chosen], method


def brute_force(queries: Rectangles, rows: Rows, events: Events) -> list[list[int]]:
    found = []
    for a, b in zip(events.a, events.b, strict=True):
        c = rows.c[rows.b == b]
        meets = [
            bool(np.any((lo <= c) & (c <= hi)))
            for lo, hi in zip(queries.c_lo, queries.c_hi, strict=True)
        ]
        has = (queries.a_lo <= a) & (a <= queries.a_hi)
        found.append(sorted(queries.ids[has & np.array(meets, np.bool_)].tolist()))
    return found


def test_the_cheapest_line_is_chosen() -> None:
    rng = np.random.default_rng(3)
    queries, rows = draw_rectangles(rng, 2_000, 600.0, 0.1), draw_keyed_rows(rng, 50, 5_000)
    events = draw_keyed_events(rng, rows, 500)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    met = methods.meet(rows, events)
    assert methods.shape.groups == 24 and "hotspots" not in methods.shape.ways
    router = Router(
        {
            "groups": (0, 8 / 24, 0, 0),
            "hotspots": NOTHING["hotspots"],
            "select_first": (0, 1, 0, 0.01),
            "join_first": (0, 1, 0, 0.2, 0),
        }
    )
    costs = np.array(
        [router.seconds(m, met) if m != "hotspots" else np.full(500, np.inf) for m in METHODS]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "SAVED_MIN", 0.0)
        chosen = router.choose(met)
    assert np.array_equal(costs[chosen, np.arange(500)], costs.min(axis=0)) and set(
        chosen.tolist()
    ) == {0, 2, 3}
    alike = Router(
        {
            "groups": (0, 8 / 24, 0, 0),
            "select_first": (0, 7.5, 0, 0),
            "join_first": (0, 7, 0, 0.01, 0),
        }
    )
    assert len(set(alike.choose(met).tolist())) == 1, "not worth it"
    alone = Events(events.a[:3], np.full(3, -1, np.int64))
    assert router.choose(methods.meet(rows, alone)).tolist() == [0, 0, 0], "nothing joins"


def test_lines_are_fitted_to_what_is_measured() -> None:
    """Time grows with what the features count, so an event that has much of it is told from one
    that has none."""
    rng = np.random.default_rng(4)
    queries, rows = draw_rectangles(rng, 5_000, 600.0, 0.1), draw_keyed_rows(rng, 200, 20_000)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group, 0.03)
    met = methods.meet(rows, draw_keyed_events(rng, rows, 640))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "BATCH", 64)
        router = Router.fit(methods, rows.c, met)
    assert set(router.rates) == set(METHODS) and all(
        r >= 0 for own in router.rates.values() for r in own
    )
    for method in METHODS:
        assert 1e-8 < float(router.seconds(method, met).mean()) < 1e-1
        assert features(method, met).shape == (640, RATES[method] - 1)
    assert sum(router.rates["join_first"][3:]) > 0 and sum(router.rates["select_first"][2:]) > 0


def test_rates_that_are_known_are_found_again() -> None:
    rng = np.random.default_rng(5)
    columns, rates = rng.uniform(1, 100, (40, 4)), np.array([3e-6, 0.0, 2e-9, 5e-7])
    found = routing._least_squares(columns / (columns @ rates)[:, None])
    assert found == pytest.approx(rates, abs=1e-12)
    noisy = columns @ rates * rng.uniform(0.9, 1.1, 40)
    assert np.all(routing._least_squares(columns / noisy[:, None]) >= 0)
    assert routing._least_squares(np.array([[0.0, 2.0], [0.0, 2.0]])) == pytest.approx(
        [0.0, 0.5]
    ), "a feature of 0"


def test_rates_are_kept_and_read() -> None:
    router = Router({"groups": (1e-8, 0.0, 2.5e-9, 1.0), "join_first": (0.0, 1.0, 2.0, 3.0, 4.0)})
    assert Router.from_json(json.loads(json.dumps(router.to_json()))) == router
    for wrong in (
        {},
        {"hotspots": [1.0] * 6},
        {"groups": [1.0]},
        {"merge": [1.0, 2.0]},
        {"groups": [1.0, -1.0, 0.0, 1.0]},
        {"groups": [1.0, float("nan"), 0.0, 1.0]},
        {"groups": [0.0] * 4},
    ):
        with pytest.raises(CatalogError):
            Router.from_json(wrong)


def test_a_method_without_rates_is_not_chosen() -> None:
    rng = np.random.default_rng(6)
    queries, rows = draw_rectangles(rng, 500, 600.0, 0.1), draw_keyed_rows(rng, 50, 5_000)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    met = methods.meet(rows, draw_keyed_events(rng, rows, 100))
    assert set(Router({"select_first": (1.0, 1.0, 1.0, 1.0)}).choose(met).tolist()) == {2}


def test_a_second_method_must_be_worth_its_call() -> None:
    """It is not for few events, and it is for many of the same."""
    rng = np.random.default_rng(6)
    queries, rows = draw_rectangles(rng, 500, 600.0, 0.1), draw_keyed_rows(rng, 50, 5_000)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    met = methods.meet(rows, draw_keyed_events(rng, rows, 100))
    middle = float(np.median(met.having))
    groups = methods.shape.groups
    router = Router(
        {
            "groups": (3_000.0 / groups, middle / groups, 0.0, 0.0),
            "select_first": (0.0, 0.0, 1.0, 0.0),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "SAVED_MIN", 0.0)
        assert router.ways(met) == (2,) and router.ways(met, 1_000) == (0, 2)
        assert set(router.choose(met).tolist()) == {2}
        patch.setattr(routing, "SAVED_MIN", 0.9)
        assert router.ways(met, 1_000) == (0,)


def test_hotspots_are_the_large_groups() -> None:
    rng = np.random.default_rng(7)
    queries = draw_popular(rng, 20_000, zipf_shares(500))
    group = canonical(queries.c_lo, queries.c_hi).group
    sizes = np.bincount(group)
    for alpha in (0.002, 0.02):
        shape = Methods(queries, group, alpha).shape
        assert shape.groups == sizes.size == 499 and shape.ways == METHODS
        assert shape.hot_groups == np.sum(sizes >= alpha * 20_000)
        assert shape.scattered == np.sum(sizes[sizes < alpha * 20_000])
    assert Methods(queries, group, 1e-6).shape.scattered == 0, "all are hot"
    nothing_hot = Methods(queries, group, 1.0).shape
    assert nothing_hot.hot_groups == 0 and "hotspots" not in nothing_hot.ways


def test_ranges_of_c_without_an_end_crowd_the_tree() -> None:
    ids, a, c = np.arange(1_000), np.zeros(1_000), np.arange(1_000.0)
    apart = Methods(Rectangles(ids, a, a + 1, c, c + 0.5), np.arange(1_000, dtype=np.int32)).shape
    one = np.zeros(1_000, np.int32)
    open_ended = Methods(Rectangles(ids, a, a + 1, c - 1_000, np.full(1_000, np.inf)), one).shape
    whole = Methods(
        Rectangles(ids, a, a + 1, np.full(1_000, -np.inf), np.full(1_000, np.inf)), one
    ).shape
    assert 0 < apart.crowding < 0.25 < open_ended.crowding < whole.crowding == 1.0


def test_like_events_are_together() -> None:
    rng = np.random.default_rng(8)
    queries, rows = draw_popular(rng, 2_000, zipf_shares(50)), draw_joined_rows(rng, 50_000)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    met = methods.meet(rows, draw_joined_events(rng, 2_000))
    batches = like(met, 50)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.flatnonzero(met.rows > 0))
    assert all(np.all(np.diff(places) > 0) for places in batches), "in order of b still"
    for own in (met.rows, met.having):
        assert np.mean([own[places].std() for places in batches]) < 0.5 * own[met.rows > 0].std()


def test_few_events_tell_that_one_method_is_for_all() -> None:
    """Then nothing is looked up that it does not need."""
    rng = np.random.default_rng(9)
    queries, rows = draw_popular(rng, 2_000, zipf_shares(50)), draw_joined_rows(rng, 5_000)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    events, met_sizes = draw_joined_events(rng, 4_000), list[tuple[int, bool]]()
    meet = Methods.meet

    def watched(self: Methods, rows: Rows, events: Events, *, counts: bool = True) -> Met:
        met_sizes.append((events.b.size, counts))
        return meet(self, rows, events, counts=counts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Methods, "meet", watched)
        (only,) = Router({"groups": (0.0,) * 4, "select_first": (0.0, 1.0, 0.0, 0.0)}).run(
            methods, rows, events
        )
    none = Events(events.a[:0], events.b[:0])
    ((_, places, found),) = Router(NOTHING).run(methods, rows, none)
    assert places.size == 0 and methods.affected(found, 0) == []
    assert only[0] == "groups" and only[1].size == 4_000 and only[2].lists is None
    assert met_sizes == [(200, True), (4_000, False)]
