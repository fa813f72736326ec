"""Prefix records against a count of each group, and the partition against the fewest points that
stab all."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.intervals import prefixes as interval_prefixes
from headrace.families.joins.intervals.prefixes import PrefixIndex, Records
from headrace.relations.arrays import Numbers

LOWEST, HIGHEST = -(2**63), 2**63 - 1
NUMBERS: dict[Any, st.SearchStrategy[Any]] = {
    np.int64: st.one_of(
        st.sampled_from([LOWEST, LOWEST + 1, 2**53 + 1, HIGHEST - 1, HIGHEST]), st.integers(-20, 20)
    ),
    np.float64: st.one_of(
        st.sampled_from([-math.inf, -1e308, -0.0, 5e-324, 1e308, math.inf]),
        st.integers(-20, 20).map(lambda x: x / 2),
    ),
}


def records_of(
    index: PrefixIndex, lo: Numbers, hi: Numbers, values: Numbers
) -> list[tuple[int, int, bool, list[int]]]:
    """The twin: per value and group, the intervals that hold the value.  Ids are the numbers of the
    intervals."""
    found = []
    for number, value in enumerate(values.tolist()):
        for group, point in enumerate(index.groups.points.tolist()):
            members = index.groups.by_lo[
                index.groups.at[group] : index.groups.at[group + 1]
            ].tolist()
            held = sorted(i for i in members if lo[i].item() <= value <= hi[i].item())
            if held:
                found.append((number, group, value > point, held))
    return found


def expanded(index: PrefixIndex, records: Records) -> list[tuple[int, int, bool, list[int]]]:
    offsets, ids = index.expand(records)
    held = [sorted(ids[a:b].tolist()) for a, b in pairwise(offsets)]
    assert [len(each) for each in held] == records.size.tolist()
    return list(
        zip(
            records.value.tolist(),
            records.group.tolist(),
            records.is_right.tolist(),
            held,
            strict=True,
        )
    )


def fewest_points(lo: Numbers, hi: Numbers) -> int:
    """By rising right end, take it wherever the last taken point does not stab."""
    taken: list[Any] = []
    for a, b in sorted(zip(lo.tolist(), hi.tolist(), strict=True), key=lambda ends: ends[1]):
        if not taken or a > taken[-1]:
            taken.append(b)
    return len(taken)


def check(lo: Numbers, hi: Numbers, values: Numbers) -> PrefixIndex:
    index = PrefixIndex.build(np.arange(lo.size, dtype=np.int32), lo, hi)
    assert sorted(index.groups.by_lo) == sorted(index.groups.by_hi) == list(range(lo.size))
    assert expanded(index, index.records(values)) == records_of(index, lo, hi, values)
    assert index.count(values).tolist() == [int(np.sum((lo <= v) & (v <= hi))) for v in values]
    assert index.groups.points.size == fewest_points(lo, hi)
    return index


@pytest.mark.parametrize("kind", NUMBERS)
@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_any_intervals(kind: Any, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(NUMBERS[kind], NUMBERS[kind]).map(sorted), max_size=60))
    values = data.draw(st.lists(NUMBERS[kind], max_size=30))
    ends = np.array(pairs, kind).reshape(-1, 2)
    check(ends[:, 0], ends[:, 1], np.array(values, kind))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("mean", [0, 30, 300])
def test_clusters(kind: Any, mean: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    middle, half = (
        rng.integers(0, 1_000, 500),
        np.abs(rng.normal(mean, mean / 4, 500)).astype(np.int64),
    )
    lo, hi = (middle - half).astype(kind), (middle + half).astype(kind)
    check(lo, hi, rng.integers(-100, 1_100, 200).astype(kind))


def test_groups_that_are_given(seed: int) -> None:
    """Not the fewest: a hotspot tracker keeps others."""
    rng = np.random.default_rng(seed)
    points = np.array([300, 100, 200])
    group = rng.integers(0, 3, 200).astype(np.int32)
    lo, hi = points[group] - rng.integers(0, 150, 200), points[group] + rng.integers(0, 150, 200)
    index = PrefixIndex.of_groups(np.arange(200, dtype=np.int32), lo, hi, group, points)
    values = np.arange(-60, 460, 3)
    assert expanded(index, index.records(values)) == records_of(index, lo, hi, values)
    with pytest.raises(AssertionError):
        PrefixIndex.of_groups(
            np.arange(200, dtype=np.int32), lo, hi, np.zeros(200, np.int32), points[1:2]
        )


def test_batches_longer_than_the_cache_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 1_000, 50)
    index = PrefixIndex.build(np.arange(50, dtype=np.int32), lo, lo + 400)
    values = rng.integers(-100, 1_500, 2 * interval_prefixes.BATCH + 5)
    found = index.records(values)
    assert np.all(
        np.diff(found.value.astype(np.int64) * index.groups.points.size + found.group) > 0
    )
    assert np.array_equal(
        index.count(values), np.sum((lo <= values[:, None]) & (values[:, None] <= lo + 400), axis=1)
    )


def test_nothing() -> None:
    none = np.empty(0)
    empty = PrefixIndex.build(none.astype(np.int32), none, none)
    assert empty.records(np.ones(3)).value.size == 0 and empty.count(np.ones(3)).tolist() == [
        0,
        0,
        0,
    ]
    one = PrefixIndex.build(np.array([9], np.int32), np.array([-math.inf]), np.array([math.inf]))
    assert one.count(np.array([math.nan, math.inf, -math.inf])).tolist() == [0, 1, 1]
    assert one.expand(one.records(none))[0].tolist() == [0]


def test_it_is_sent_as_it_is() -> None:
    lo = np.arange(2_000)
    index = PrefixIndex.build(np.arange(2_000, dtype=np.int32), lo, lo + 700)
    sent = pickle.dumps(index)
    size = sum(array.nbytes for array in index.groups)
    assert size < 25 * len(index) and len(sent) < size + 2_000
    assert np.array_equal(pickle.loads(sent).count(lo), index.count(lo))
