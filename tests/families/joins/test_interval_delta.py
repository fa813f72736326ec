"""Intervals that come and go, against a dictionary; small layers, so that folds and merges happen all the time."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from itertools import pairwise
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins import interval_delta
from headrace.families.joins.interval_delta import DeltaIndex
from headrace.families.joins.interval_patches import Patched
from headrace.families.joins.intervals import IntervalIndex

LOWEST, HIGHEST = -(2**63), 2**63 - 1
NUMBERS: dict[Any, st.SearchStrategy[Any]] = {
    np.int64: st.one_of(st.sampled_from([LOWEST, 2**53 + 1, HIGHEST]), st.integers(-9, 9)),
    np.float64: st.one_of(st.sampled_from([-math.inf, -0.0, 5e-324, math.inf]), st.integers(-9, 9).map(float)),
}
Standing = dict[int, tuple[Any, Any]]


@pytest.fixture(autouse=True, scope="module")
def small_layers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_delta, "TAIL", 4)
        patch.setattr(interval_delta, "LEAST", 11)
        yield


def base_of(standing: Standing, kind: Any) -> IntervalIndex:
    ends = np.array(list(standing.values()), kind).reshape(-1, 2)
    return IntervalIndex.build(np.array(list(standing), np.int32), ends[:, 0], ends[:, 1])


def check(view: Patched, standing: Standing, values: np.ndarray[Any, Any]) -> None:
    expected = [sorted(i for i, (lo, hi) in standing.items() if lo <= v <= hi) for v in values.tolist()]
    offsets, ids = view.stab(values)
    assert [sorted(ids[a:b].tolist()) for a, b in pairwise(offsets)] == expected
    assert view.count(values).tolist() == [len(each) for each in expected]
    assert len(view) == len(standing)
    kept, lo, hi = (column.tolist() for column in view.intervals())
    assert dict(zip(kept, zip(lo, hi, strict=True), strict=True)) == standing and len(kept) == len(standing)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("merges", [True, False])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_changes(kind: Any, merges: bool, data: st.DataObject) -> None:
    """An id that stands is removed, one that does not is added: also those of the base, again and again."""
    ends = st.tuples(NUMBERS[kind], NUMBERS[kind]).map(lambda pair: (min(pair), max(pair)))
    standing: Standing = data.draw(st.dictionaries(st.integers(0, 25), ends, max_size=25))
    values = np.array(data.draw(st.lists(NUMBERS[kind], min_size=1, max_size=8)), kind)
    delta = DeltaIndex(base_of(standing, kind), merges=merges)
    seen: list[tuple[Patched, Standing]] = []
    for id, pair in data.draw(st.lists(st.tuples(st.integers(0, 30), ends), max_size=60)):
        if id in standing:
            delta.remove(id)
            del standing[id]
        else:
            delta.add(id, *pair)
            standing[id] = pair
        assert len(delta) == len(standing)
        seen.append((delta.view(), dict(standing)))
    for view, then in seen:  # views are of their moment, whatever came after
        check(view, then, values)
    assert not (merges and delta.is_due)
    delta.merge()
    check(delta.view(), standing, values)
    assert len(delta.view().base.index) == len(standing)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), begin=st.integers(0, 40), adopt=st.integers(0, 40))
def test_changes_while_a_merge_is_under_way(seed: int, begin: int, adopt: int) -> None:
    rng = np.random.default_rng(seed)
    standing: Standing = {i: (i, i + 3) for i in range(20)}
    delta = DeltaIndex(base_of(standing, np.int64), merges=bool(seed % 2))
    frozen: Patched | None = None
    for step in range(begin + adopt + 1):
        if step == begin:
            frozen = delta.begin_merge()
        id, lo = int(rng.integers(0, 30)), int(rng.integers(0, 20))
        if standing.pop(id, None) is not None:
            delta.remove(id)
        else:
            delta.add(id, lo, lo + 4)
            standing[id] = (lo, lo + 4)
    check(delta.view(), standing, np.arange(-1, 30))
    assert frozen is not None
    delta.adopt(pickle.loads(pickle.dumps(frozen)).merged())  # as another process would
    check(delta.view(), standing, np.arange(-1, 30))


def test_a_merge_in_another_thread() -> None:
    delta = DeltaIndex(base_of({i: (i, i + 3) for i in range(50)}, np.int64), merges=False)
    frozen, made = delta.begin_merge(), []
    thread = Thread(target=lambda: made.append(frozen.merged()))
    thread.start()
    for i in range(50, 90):
        delta.add(i, i, i + 3)
    thread.join()
    delta.adopt(made[0])
    check(delta.view(), {i: (i, i + 3) for i in range(90)}, np.arange(-2, 99))


def test_a_merge_is_due_at_a_share() -> None:
    delta = DeltaIndex(base_of({i: (i, i) for i in range(3_200)}, np.int64), merges=False)
    for i in range(50):
        delta.add(5_000 + i, i, i)
        delta.remove(i)
    assert not delta.is_due
    delta.remove(51)
    assert delta.is_due


def test_only_changes_that_make_sense() -> None:
    delta = DeltaIndex(base_of({3: (1, 2)}, np.int64))
    with pytest.raises(AssertionError):
        delta.add(3, 5, 6)
    with pytest.raises(AssertionError):
        delta.add(4, 6, 5)
    with pytest.raises(AssertionError):
        delta.add(4, 1.5, 5)
    with pytest.raises(AssertionError):
        delta.remove(4)
    check(delta.view(), {3: (1, 2)}, np.arange(4))
