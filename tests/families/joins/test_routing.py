"""Each event by the method that is cheapest for it: the answer is that of a page of Python, whatever is chosen."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bench.joins_workload import draw_keyed_events, draw_keyed_rows, draw_rectangles
from headrace.families.joins import routing
from headrace.families.joins.arrays import Ints32
from headrace.families.joins.partition import canonical
from headrace.families.joins.routing import METHODS, Methods, Router
from headrace.families.joins.select_index import Events, Rectangles, Rows
from tests.families.joins.test_bands import draw_ranges, groups_of
from tests.families.joins.test_selects import draw_events, draw_rows


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
    methods = Methods(queries, group)
    met = methods.meet(rows, events)
    router = Router({m: tuple(r.random() for _ in range(met.features(m).shape[1])) for m in METHODS})
    wanted = brute_force(queries, rows, events)
    found: dict[int, list[int]] = {}
    for places, own in router.run(methods, rows.c, met):
        lists = methods.affected(own, places.size)
        found |= {int(e): sorted(ids.tolist()) for e, ids in zip(places, lists, strict=True)}
    assert [found[e] for e in range(events.b.size)] == wanted
    for method in METHODS:
        lists = methods.affected(methods.run(method, rows.c, met), events.b.size)
        assert [sorted(ids.tolist()) for ids in lists] == wanted, method


def brute_force(queries: Rectangles, rows: Rows, events: Events) -> list[list[int]]:
    found = []
    for a, b in zip(events.a, events.b, strict=True):
        c = rows.c[rows.b == b]
        meets = [bool(np.any((lo <= c) & (c <= hi))) for lo, hi in zip(queries.c_lo, queries.c_hi, strict=True)]
        has = (queries.a_lo <= a) & (a <= queries.a_hi)
        found.append(sorted(queries.ids[has & np.array(meets, np.bool_)].tolist()))
    return found


def test_the_cheapest_line_is_chosen() -> None:
    rng = np.random.default_rng(3)
    queries, rows = draw_rectangles(rng, 2_000, 600.0, 0.1), draw_keyed_rows(rng, 50, 5_000)
    events = draw_keyed_events(rng, rows, 500)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    met = methods.meet(rows, events)
    router = Router({"groups": (8.0,), "select_first": (1.0, 0.01), "join_first": (1.0, 1.0, 0.0)})
    costs = np.array([router.seconds(m, met) for m in METHODS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "SAVED_MIN", 0.0)
        chosen = router.choose(met)
    assert np.array_equal(costs[chosen, np.arange(500)], costs.min(axis=0)) and set(chosen.tolist()) == {0, 1, 2}
    alike = Router({"groups": (8.0,), "select_first": (7.5, 0.0), "join_first": (7.0, 0.02, 0.0)})
    assert len(set(alike.choose(met).tolist())) == 1, "not worth it"
    alone = Events(events.a[:3], np.full(3, -1, np.int64))
    assert router.choose(methods.meet(rows, alone)).tolist() == [0, 0, 0], "nothing joins"


def test_lines_are_fitted_to_what_is_measured() -> None:
    """Time grows with what the features count, so an event that has much of it is told from one that has none."""
    rng = np.random.default_rng(4)
    queries, rows = draw_rectangles(rng, 5_000, 600.0, 0.1), draw_keyed_rows(rng, 200, 20_000)
    methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
    met = methods.meet(rows, draw_keyed_events(rng, rows, 640))
    router = Router.fit(methods, rows.c, met)
    assert set(router.rates) == set(METHODS) and all(r >= 0 for own in router.rates.values() for r in own)
    for method in METHODS:
        assert 1e-8 < float(router.seconds(method, met).mean()) < 1e-1
    assert sum(router.rates["join_first"][1:]) > 0 and router.rates["select_first"][1] > 0
