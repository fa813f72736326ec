"""Stabbing intervals against a line of Python, for every shape of set that could be slow or
wrong."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.intervals.index import IntervalIndex
from headrace.families.joins.intervals.kernels import LEAST, SHARE
from headrace.relations.arrays import Numbers

LOWEST, HIGHEST = -(2**63), 2**63 - 1
INTS = [
    LOWEST,
    LOWEST + 1,
    -(2**53) - 1,
    -2,
    -1,
    0,
    1,
    2,
    3,
    2**53,
    2**53 + 1,
    HIGHEST - 1,
    HIGHEST,
]
FLOATS = [-math.inf, -1e308, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 0.3, 1.5, 2.0, 1e308, math.inf]
NUMBERS: dict[Any, st.SearchStrategy[Any]] = {
    np.int64: st.one_of(st.sampled_from(INTS), st.integers(-20, 20)),
    np.float64: st.one_of(st.sampled_from(FLOATS), st.integers(-20, 20).map(lambda x: x / 2)),
}
SHAPES = (
    "short",
    "wide",
    "few whole",
    "nested",
    "equal",
    "disjoint",
    "points",
    "piles",
    "rising",
    "falling",
    "ties",
    "stairs",
)


def stabbed(ids: Numbers, lo: Numbers, hi: Numbers, value: Any) -> list[int]:
    """The twin."""
    return sorted(
        i for i, a, b in zip(ids.tolist(), lo.tolist(), hi.tolist(), strict=True) if a <= value <= b
    )


def shaped(shape: str, n: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """n intervals within 0 … 1,000 · n, whole numbers."""
    line, x = 1_000 * n, np.arange(n) * 1_000
    drawn = rng.integers(0, line, n)
    pile = drawn * 5 // line * line // 5
    if shape == "wide":
        return drawn, drawn + np.exp(rng.normal(7, 2.5, n)).astype(np.int64)
    if shape == "few whole":
        return np.where(np.arange(n) % 50, drawn, 0), np.where(
            np.arange(n) % 50, drawn + 1_500, line
        )
    made = {
        "short": (drawn, drawn + rng.integers(0, 5_000, n)),
        "nested": (x // 2, line - x // 2),
        "equal": (np.full(n, line // 3), np.full(n, line // 2)),
        "disjoint": (x, x + 900),
        "points": (drawn // 5_000 * 5_000, drawn // 5_000 * 5_000),
        "rising": (x, np.full(n, HIGHEST)),
        "falling": (np.full(n, LOWEST), x),
        "ties": (
            drawn // (line // 7 + 1) * 100,
            drawn // (line // 7 + 1) * 100 + rng.integers(0, 4, n) * 100,
        ),
        "piles": (np.where(x % 3_000, drawn, pile), np.where(x % 3_000, drawn + 900, pile)),
        "stairs": (np.where(np.arange(n) % 2, x, -5), x + 500),
    }
    return made[shape]


def check(ids: Numbers, lo: Numbers, hi: Numbers, values: Numbers) -> IntervalIndex:
    index = IntervalIndex.build(ids, lo, hi)
    offsets, found = index.stab(values)
    expected = [stabbed(ids, lo, hi, value) for value in values.tolist()]
    assert [sorted(found[a:b].tolist()) for a, b in pairwise(offsets)] == expected
    assert index.count(values).tolist() == [len(each) for each in expected]
    assert offsets[-1] == found.size
    return index


@pytest.mark.parametrize("kind", NUMBERS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_intervals(kind: Any, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(NUMBERS[kind], NUMBERS[kind]).map(sorted), max_size=80))
    ids = data.draw(
        st.lists(st.integers(-(2**31), 2**31 - 1), min_size=len(pairs), max_size=len(pairs))
    )
    values = data.draw(st.lists(NUMBERS[kind], max_size=40))
    ends = np.array(pairs, kind).reshape(-1, 2)
    check(np.array(ids, np.int32), ends[:, 0], ends[:, 1], np.array(values, kind))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 17, 400])
def test_shapes(shape: str, kind: Any, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lo, hi = (ends.astype(kind) for ends in shaped(shape, n, rng))
    near = np.concatenate([lo, hi, rng.integers(-10, 1_000 * n + 10, 100).astype(kind)])
    nudged = (
        near[:, None] + np.array([-1, 0, 1], kind)
    ).ravel()  # whole numbers wrap round: any value will do
    values = rng.permutation(nudged)[:333]
    check(rng.permutation(n).astype(np.int32), lo, hi, values)


@settings(deadline=None, max_examples=60)
@given(shape=st.sampled_from(SHAPES), n=st.integers(1, 3_000), seed=st.integers(0, 9))
def test_what_is_looked_at_is_bounded(shape: str, n: int, seed: int) -> None:
    """O(1 + k) entries for k stabbed, and O(n) covers: the promises that no set of intervals
    breaks."""
    rng = np.random.default_rng(seed)
    lo, hi = shaped(shape, n, rng)
    index = IntervalIndex.build(np.arange(n, dtype=np.int32), lo, hi)
    windows, values = (
        index.windows,
        rng.permutation(np.concatenate([lo, hi, rng.integers(0, 1_000 * n, 50)]))[:300],
    )
    found = index.locate(values)
    inside = found.window >= 0
    window, begun, ended = found.window[inside], found.begun[inside], found.ended[inside]
    stabs = begun - ended
    covers = windows.cover_at[window + 1] - windows.cover_at[window]
    looked = covers + begun - windows.begun[window] + windows.ended[window + 1] - ended
    assert np.all(looked <= stabs + 2 * np.maximum(LEAST, stabs))
    assert windows.covers.size <= 3 * SHARE * n + windows.edges.size
    assert windows.edges.size <= 4 * n // LEAST + 2


def test_a_window_is_cut_for_many_ends_only() -> None:
    """Windows hold several ends each: else the search would be over all of them."""
    lo, hi = shaped("short", 10_000, np.random.default_rng(1))
    index = IntervalIndex.build(np.arange(10_000, dtype=np.int32), lo, hi)
    assert 10_000 / LEAST < index.windows.edges.size < 4 * 10_000 / LEAST
    assert sum(array.nbytes for array in index.windows) < 40 * len(index)


def test_no_intervals_and_no_values() -> None:
    none = np.empty(0)
    empty = IntervalIndex.build(none.astype(np.int32), none, none)
    assert len(empty) == 0 and empty.count(np.array([1.0, math.inf])).tolist() == [0, 0]
    offsets, ids = IntervalIndex.build(np.array([7], np.int32), np.zeros(1), np.ones(1)).stab(none)
    assert offsets.tolist() == [0] and ids.size == 0


def test_nan_stabs_nothing() -> None:
    index = IntervalIndex.build(
        np.array([7], np.int32), np.array([-math.inf]), np.array([math.inf])
    )
    assert index.count(np.array([math.nan, 1.0, math.nan])).tolist() == [0, 1, 0]
    assert index.stab(np.array([math.nan, 1.0]))[1].tolist() == [7]


def test_it_is_sent_as_it_is() -> None:
    lo, hi = shaped("wide", 300, np.random.default_rng(3))
    index = IntervalIndex.build(np.arange(300, dtype=np.int32), lo, hi)
    sent = pickle.dumps(index)
    assert len(sent) < sum(array.nbytes for array in index.windows) + 2_000
    values = np.arange(0, 300_000, 777)
    offsets, found = pickle.loads(sent).stab(values)
    assert np.array_equal(offsets, index.stab(values)[0]) and np.array_equal(
        found, index.stab(values)[1]
    )


def test_other_dtypes_are_refused() -> None:
    """A whole number beyond 2^53 would be compared as the nearest double."""
    index = IntervalIndex.build(np.array([7], np.int32), np.zeros(1), np.ones(1))
    with pytest.raises(AssertionError):
        index.count(np.array([1]))
    with pytest.raises(TypeError):
        IntervalIndex.build(np.array([7]), np.zeros(1), np.ones(1))
