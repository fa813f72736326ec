"""Hotspots: the three invariants of the paper after every step."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.stabbing.hotspots import Hotspots
from headrace.families.joins.stabbing.partition import Partition
from tests.families.joins.stabbing import LEAST, MOST, Interval, fewest


class Checked:
    """Hotspots and a plain dictionary of who stands."""

    def __init__(self, alpha: float, epsilon: float, kind: Any, block: int = 8) -> None:
        self.alpha, self.epsilon = alpha, epsilon
        self.hotspots = Hotspots(alpha, epsilon, kind)
        self.hotspots._partition = Partition(self.hotspots._interval_slots, epsilon, block)
        self.kind = kind
        self.twin: dict[int, Interval] = {}
        self.updates = 0
        self.moved = 0
        self.was_hot: dict[int, bool] = {}

    def add(self, query_id: int, interval: Interval) -> None:
        self.hotspots.add(query_id, *interval)
        self.twin[query_id] = interval
        self.updates += 1
        self.check()

    def add_many(self, ids: list[int], intervals: list[Interval]) -> None:
        lo, hi = (np.array([interval[end] for interval in intervals], self.kind) for end in (0, 1))
        self.hotspots.add_many(np.array(ids, np.int64), lo, hi)
        self.twin |= dict(zip(ids, intervals, strict=True))
        self.updates += len(ids)
        self.check()

    def remove(self, query_id: int) -> None:
        self.hotspots.remove(query_id)
        del self.twin[query_id]
        self.updates += 1
        self.check()

    def check(self) -> None:
        hotspots, n = self.hotspots, len(self.twin)
        groups: dict[int, list[int]] = {}
        for query_id in self.twin:
            groups.setdefault(hotspots.group_of(query_id), []).append(query_id)
        hot = self.check_hot(groups)
        scattered = self.check_scattered()
        assert hot | scattered == self.twin.keys() and not hot & scattered
        assert len(hotspots) == n and hotspots.coverage == (1 - len(scattered) / n if n else 0)
        for number, members in groups.items():
            assert (number >= 0) == (members[0] in hot)
            assert number >= 0 or len(members) < self.alpha * n, (
                "(I1): a scattered group that should be hot"
            )
            assert max(self.twin[i][0] for i in members) <= min(self.twin[i][1] for i in members)
        assert hotspots.groups == len(groups)
        assert (
            len(groups) <= (1 + self.epsilon) * fewest(list(self.twin.values())) + 2 / self.alpha
        ), "(I2)"
        self.check_moves(hot)

    def check_hot(self, groups: dict[int, list[int]]) -> set[int]:
        hot: set[int] = set()
        numbers = []
        for group in self.hotspots.hot_groups():
            ids = group.ids.tolist()
            assert sorted(ids) == sorted(groups[group.number])
            assert len(ids) >= self.alpha / 2 * len(self.twin), (
                "(I1): a hot group that is too small"
            )
            for query_id, lo, hi in zip(ids, group.lo.tolist(), group.hi.tolist(), strict=True):
                assert (lo, hi) == self.twin[query_id]
                assert lo <= group.common_lo <= group.common_hi <= hi
            hot |= set(ids)
            numbers.append(group.number)
        assert len(set(numbers)) == len(numbers) <= 2 / self.alpha
        return hot

    def check_scattered(self) -> set[int]:
        scattered = self.hotspots.scattered()
        ids = scattered.ids.tolist()
        for query_id, lo, hi in zip(ids, scattered.lo.tolist(), scattered.hi.tolist(), strict=True):
            assert (lo, hi) == self.twin[query_id]
        assert np.all(scattered.lo[:-1] <= scattered.lo[1:])
        return set(ids)

    def check_moves(self, hot: set[int]) -> None:
        """(I3), of the counters; and they count no less than what can be seen from outside."""
        moves = self.hotspots.moves
        assert moves.updates == self.updates
        assert moves.promoted + moves.demoted <= 5 * self.updates
        is_hot = {query_id: query_id in hot for query_id in self.twin}
        self.moved += sum(
            self.was_hot.get(query_id, here) != here for query_id, here in is_hot.items()
        )
        self.was_hot = is_hot
        assert self.moved <= moves.promoted + moves.demoted


# -- histories -------------------------------------------------------------------------------------


def intervals_of(kind: Any) -> st.SearchStrategy[Interval]:
    """Clusters around a few points, scattered short ones, and one-sided ones."""
    whole = kind is np.int64
    ends: tuple[Any, Any] = (LEAST, MOST) if whole else (-math.inf, math.inf)
    scale = 1 if whole else 0.25
    centre = st.sampled_from([100 * scale, 200 * scale, 300 * scale])
    arm = st.integers(0, 60).map(lambda x: x * scale)
    point = st.integers(0, 2_000).map(lambda x: x * scale)
    return st.one_of(
        st.tuples(centre, arm, arm).map(lambda t: (t[0] - t[1], t[0] + t[2])),
        st.tuples(centre, arm, arm).map(lambda t: (t[0] - t[1], t[0] + t[2])),
        st.tuples(point, arm).map(lambda t: (t[0], t[0] + t[1])),
        point.map(lambda x: (x, x)),
        point.map(lambda x: (ends[0], x)),
        point.map(lambda x: (x, ends[1])),
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    kind = draw(st.sampled_from([np.float64, np.int64]))
    interval = intervals_of(kind)
    remove = st.tuples(st.just("remove"), st.integers(0, 10**6))
    step = st.one_of(
        st.tuples(st.just("add"), interval),
        st.tuples(st.just("add"), interval),
        st.tuples(st.just("add"), interval),
        remove,
        remove,
        st.tuples(st.just("replace"), st.integers(0, 10**6), interval),
        st.tuples(st.just("bulk"), st.lists(interval, max_size=25)),
        st.tuples(st.just("drain"), st.integers(1, 12)),
    )
    return kind, draw(st.lists(step, max_size=45))


def play(checked: Checked, steps: list[Any]) -> None:
    next_id = 0
    for verb, *given_ in steps:
        standing = sorted(checked.twin)
        if verb == "add":
            checked.add(next_id, given_[0])
            next_id += 1
        elif verb == "bulk":
            ids = list(range(next_id, next_id + len(given_[0])))
            checked.add_many(ids, given_[0])
            next_id += len(ids)
        elif verb == "remove" and standing:
            checked.remove(standing[given_[0] % len(standing)])
        elif verb == "replace" and standing:
            checked.remove(standing[given_[0] % len(standing)])
            checked.add(standing[given_[0] % len(standing)], given_[1])
        elif verb == "drain":
            for query_id in standing[: given_[0]]:
                checked.remove(query_id)


ALPHAS = st.sampled_from([0.05, 0.1, 0.25, 0.5, 1.0])


@settings(max_examples=120)
@given(histories(), ALPHAS, st.sampled_from([0.1, 0.5, 2.0]), st.sampled_from([8, 512]))
def test_the_invariants_hold_after_every_step(
    history: tuple[Any, list[Any]], alpha: float, epsilon: float, block: int
) -> None:
    kind, steps = history
    play(Checked(alpha, epsilon, kind, block), steps)


# -- hard cases ------------------------------------------------------------------------------------


def test_a_crowd_around_the_threshold_does_not_move_with_every_update() -> None:
    checked = Checked(0.2, 0.5, np.int64)
    checked.add_many(list(range(40)), [(10 * i, 10 * i + 1) for i in range(40)])
    checked.add_many(list(range(100, 109)), [(1_000, 1_000)] * 9)
    for _ in range(60):
        checked.add(109, (1_000, 1_000))
        checked.remove(109)
    moves = checked.hotspots.moves
    assert moves.promoted == 10 and moves.demoted == 0
    assert [group.ids.size for group in checked.hotspots.hot_groups()] == [9]


def test_a_hot_group_that_others_outgrow_is_scattered_again() -> None:
    checked = Checked(0.5, 0.5, np.float64)
    for query_id in range(10):
        checked.add(query_id, (0.0, 1.0))
    assert [group.ids.size for group in checked.hotspots.hot_groups()] == [10]
    for query_id in range(10, 41):
        checked.add(query_id, (query_id * 10.0, query_id * 10.0))
    assert not list(checked.hotspots.hot_groups())
    assert checked.hotspots.coverage == 0


def test_scattered_groups_become_hot_because_others_leave() -> None:
    checked = Checked(0.5, 0.5, np.int64)
    checked.add_many(list(range(8)), [(0, 5)] * 8)
    checked.add_many(list(range(8, 28)), [(100 * i, 100 * i) for i in range(8, 28)])
    assert checked.hotspots.coverage == 8 / 28, "not demoted yet"
    checked.add_many(list(range(28, 40)), [(100 * i, 100 * i) for i in range(28, 40)])
    assert checked.hotspots.coverage == 0
    for query_id in range(8, 32):
        checked.remove(query_id)
    assert checked.hotspots.coverage == 8 / 16


def test_groups_that_are_made_when_others_become_hot_may_be_hot_too() -> None:
    """Without the crowd at 100 too many groups are left; grouped anew, seven intervals around 25
    are one."""
    checked = Checked(1.0, 0.4, np.int64)
    checked.add_many(list(range(9)), [(0, 10)] + [(20, 30)] * 3 + [(100, 100)] * 5)
    for query_id, interval in enumerate([(9, 21)] + [(22, 30)] * 4, 10):
        checked.add(query_id, interval)
    checked.alpha = checked.hotspots.alpha = 0.39
    checked.add(20, (100, 100))
    assert sorted(group.ids.size for group in checked.hotspots.hot_groups()) == [6, 7]


def test_what_a_hot_group_shares_grows_again() -> None:
    checked = Checked(0.5, 0.5, np.int64)
    checked.add_many(list(range(10)), [(0, 100)] * 10)
    checked.add(10, (50, 100))
    checked.add(11, (0, 60))
    for query_id in (10, 11, 0, 1, 2, 3, 4):
        checked.remove(query_id)
    group = next(checked.hotspots.hot_groups())
    assert (group.common_lo, group.common_hi) == (0, 100)


def test_all_equal_and_all_apart() -> None:
    equal = Checked(0.1, 0.5, np.int64)
    equal.add_many(list(range(300)), [(LEAST, MOST)] * 300)
    assert equal.hotspots.coverage == 1 and equal.hotspots.groups == 1
    apart = Checked(0.1, 0.5, np.int64)
    apart.add_many(list(range(300)), [(2 * i, 2 * i) for i in range(300)])
    assert apart.hotspots.coverage == 0 and apart.hotspots.groups == 300
    for checked in (equal, apart):
        for query_id in range(300):
            checked.remove(query_id)


@pytest.mark.parametrize("history", range(4))
def test_long_histories(history: int, seed: int) -> None:
    """Clusters that come and go over a drifting line of scattered ones."""
    random = Random(seed)
    checked = Checked(random.choice([0.02, 0.1, 0.3]), random.choice([0.1, 1.0]), np.float64)
    crowd = 0.0
    for step in range(500):
        if step % 60 == 0:
            crowd = random.uniform(0, 500)
        if random.random() < (0.65 if step // 100 % 2 == 0 else 0.35) or not checked.twin:
            middle = crowd if random.random() < 0.6 else random.uniform(step, step + 500)
            checked.add(step, (middle - random.uniform(0, 5), middle + random.uniform(0, 5)))
        else:
            checked.remove(random.choice(list(checked.twin)))
