"""Stabbing partitions: the sweep against a page of Python, and the dynamic one after every step."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.stabbing.interval_slots import IntervalSlots
from headrace.families.joins.stabbing.kernels import BASE, LOST
from headrace.families.joins.stabbing.partition import Partition, canonical
from headrace.families.joins.stabbing.sorted_blocks import (
    BLOCK,
    USED,
    SortedBlocks,
    drop,
    last_from,
    new_sorted_blocks,
    put,
    with_room,
)
from tests.families.joins.stabbing import LEAST, MOST, Interval, fewest


def intervals_of(kind: Any) -> st.SearchStrategy[Interval]:
    """Clustered, scattered, points, and one-sided ones."""
    whole = kind is np.int64
    ends: tuple[Any, Any] = (LEAST, MOST) if whole else (-math.inf, math.inf)
    value: st.SearchStrategy[Any] = (
        st.integers(0, 40) if whole else st.integers(0, 80).map(lambda x: x / 2 + 0.1)
    )
    wide: st.SearchStrategy[Any] = st.integers(LEAST, MOST) if whole else st.floats(allow_nan=False)
    return st.one_of(
        st.tuples(value, value).map(lambda pair: (min(pair), max(pair))),
        value.map(lambda x: (x, x)),
        value.map(lambda x: (x, x + 2)),
        value.map(lambda x: (ends[0], x)),
        value.map(lambda x: (x, ends[1])),
        st.just(ends),
        st.tuples(wide, wide).map(lambda pair: (min(pair), max(pair))),
    )


KINDS = st.sampled_from([np.float64, np.int64])
LISTS = KINDS.flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(intervals_of(kind), max_size=40))
)


def arrays_of(kind: Any, intervals: list[Interval]) -> tuple[Any, Any]:
    return np.array([lo for lo, _ in intervals], kind), np.array([hi for _, hi in intervals], kind)


# -- the canonical one -----------------------------------------------------------------------------


@given(LISTS)
def test_the_canonical_partition_has_the_fewest_groups(drawn: tuple[Any, list[Interval]]) -> None:
    kind, intervals = drawn
    lo, hi = arrays_of(kind, intervals)
    found = canonical(lo, hi)
    assert found.group.dtype == np.int32 and found.lo.dtype == found.hi.dtype == kind
    assert found.lo.size == found.hi.size == fewest(intervals)
    assert set(found.group.tolist()) == set(range(found.lo.size))
    for g in range(found.lo.size):
        mine = found.group == g
        assert (found.lo[g], found.hi[g]) == (lo[mine].max(), hi[mine].min())
        assert found.lo[g] <= found.hi[g]
    assert np.all(found.hi[:-1] < found.lo[1:])


def test_half_a_million_intervals_are_partitioned_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 10**9, 500_000)
    hi = lo + rng.integers(0, 10**6, lo.size)
    found = canonical(lo, hi)
    assert found.lo.size == fewest(list(zip(lo.tolist(), hi.tolist(), strict=True)))
    assert np.all(lo <= found.lo[found.group]) and np.all(found.hi[found.group] <= hi)


# -- the sorted blocks -----------------------------------------------------------------------------


def contents(sorted_blocks: SortedBlocks) -> list[tuple[Any, Any, int]]:
    found: list[tuple[Any, Any, int]] = []
    for block in sorted_blocks.order[: sorted_blocks.counts[USED]]:
        n = int(sorted_blocks.size[block])
        assert (
            0 < n <= sorted_blocks.lo.shape[1]
            and sorted_blocks.least[block] == sorted_blocks.hi[block, :n].min()
        )
        found += zip(
            sorted_blocks.lo[block, :n].tolist(),
            sorted_blocks.hi[block, :n].tolist(),
            sorted_blocks.item[block, :n].tolist(),
            strict=True,
        )
    return found


@pytest.mark.parametrize("kind", [np.float64, np.int64])
@pytest.mark.parametrize("block", [4, 8, 64])
@pytest.mark.parametrize("values", [1, 30, 10**6])
def test_a_shelf_keeps_its_entries_in_order(kind: Any, block: int, values: int, seed: int) -> None:
    random = Random(seed)
    sorted_blocks = new_sorted_blocks(np.dtype(kind), 1, block)
    twin: dict[int, tuple[Any, Any]] = {}
    for step in range(3_000):
        growing = step // 1_000 % 2 == 0
        if twin and random.random() < (0.2 if growing else 0.95):
            item = random.choice(list(twin)) if step % 50 == 0 else next(iter(twin))
            drop(sorted_blocks, kind(twin.pop(item)[0]), item)
        else:
            lo = random.randrange(values)
            hi = lo + random.randrange(20)
            sorted_blocks = with_room(sorted_blocks, 1)
            put(sorted_blocks, kind(lo), kind(hi), step)
            twin[step] = lo, hi
        if step % 97 == 0:
            held = sorted(
                ((lo, hi, item) for item, (lo, hi) in twin.items()),
                key=lambda entry: (entry[0], entry[2]),
            )
            assert contents(sorted_blocks) == held
            key = random.randrange(values)
            found, at = last_from(sorted_blocks, kind(key))
            before = max(((lo, item) for item, (lo, _) in twin.items() if lo <= key), default=None)
            assert before == (
                None if at < 0 else (sorted_blocks.lo[found, at], sorted_blocks.item[found, at])
            )


def test_an_entry_that_is_not_there_cannot_be_dropped() -> None:
    sorted_blocks = new_sorted_blocks(np.dtype(np.int64), 2)
    put(sorted_blocks, np.int64(3), np.int64(4), 7)
    with pytest.raises(AssertionError, match="not on the shelf"):
        drop(sorted_blocks, np.int64(3), 8)


def test_blocks_are_merged_when_most_entries_go() -> None:
    sorted_blocks = new_sorted_blocks(np.dtype(np.int64), 1)
    for item in range(20 * BLOCK):
        sorted_blocks = with_room(sorted_blocks, 1)
        put(sorted_blocks, np.int64(item), np.int64(item), item)
    for item in range(20 * BLOCK):
        if item % 16:
            drop(sorted_blocks, np.int64(item), item)
    assert sorted_blocks.counts[USED] <= 20 // 2
    assert len(contents(sorted_blocks)) == 20 * BLOCK // 16


# -- the dynamic one -------------------------------------------------------------------------------


class Checked:
    """A partition and a plain list of who is in it, compared after every step."""

    def __init__(self, kind: Any, epsilon: float, block: int) -> None:
        self.interval_slots = IntervalSlots(kind)
        self.partition = Partition(self.interval_slots, epsilon, block)
        self.twin: dict[int, Interval] = {}
        self.was: dict[int, int] = {}
        self.builds = 0

    def add(self, query_id: int, interval: Interval) -> None:
        self.partition.add(self.interval_slots.add(query_id, *interval))
        self.twin[query_id] = interval
        self.check(query_id)

    def remove(self, query_id: int) -> None:
        self.partition.remove(self.interval_slots.slot_of(query_id))
        self.interval_slots.remove(query_id)
        del self.twin[query_id]
        self.check(query_id)

    def add_many(self, first: int, intervals: list[Interval]) -> None:
        ids = np.arange(first, first + len(intervals))
        self.partition.add_many(
            self.interval_slots.add_many(ids, *arrays_of(self.interval_slots.kind, intervals))
        )
        self.twin |= dict(zip(ids.tolist(), intervals, strict=True))
        self.check(None)

    def take(self, wanted: list[int]) -> None:
        ranges = self.partition.ranges()
        sizes = dict(zip(ranges.number.tolist(), ranges.size.tolist(), strict=True))
        groups = {g: {i for i, own in self.was.items() if own == g} for g in wanted}
        for number, slots in zip(wanted, self.partition.take(wanted), strict=True):
            ids = self.interval_slots.ids[slots].tolist()
            assert set(ids) == groups[number] and len(ids) == sizes[number]
            for query_id in ids:
                self.interval_slots.remove(query_id)
                del self.twin[query_id]
        self.check(None)

    def check(self, touched: int | None) -> None:
        partition, interval_slots = self.partition, self.interval_slots
        groups = {
            query_id: partition.group_of(interval_slots.slot_of(query_id)) for query_id in self.twin
        }
        slots = partition.slots()
        assert set(interval_slots.ids[slots].tolist()) == groups.keys()
        assert partition.size == len(self.twin) == slots.size
        ranges = partition.ranges()
        assert (
            len(partition)
            == ranges.number.size
            <= (1 + partition.epsilon) * fewest(list(self.twin.values()))
        )
        sizes: dict[int, int] = {}
        common = dict(
            zip(
                ranges.number.tolist(),
                zip(ranges.lo.tolist(), ranges.hi.tolist(), strict=True),
                strict=True,
            )
        )
        for query_id, group in groups.items():
            sizes[group] = sizes.get(group, 0) + 1
            lo, hi = self.twin[query_id]
            assert lo <= common[group][0] <= common[group][1] <= hi
        assert dict(zip(ranges.number.tolist(), ranges.size.tolist(), strict=True)) == sizes
        most = max(sizes.values(), default=0)
        assert set(partition.with_at_least(max(most, 1))) == {
            g for g, n in sizes.items() if n == most
        }
        self.check_witnesses(set(slots.tolist()))
        self.check_only_one_group_was_touched(groups, touched)

    def check_witnesses(self, standing: set[int]) -> None:
        """No partition can have fewer groups than are counted on: so many members stand that do not
        overlap."""
        groups, interval_slots = self.partition._groups, self.interval_slots
        witness = groups.witness[: groups.counts[BASE]]
        witness = witness[witness >= 0]
        assert (
            witness.size == groups.counts[BASE] - groups.counts[LOST]
            and set(witness.tolist()) <= standing
        )
        assert np.all(interval_slots.hi[witness[:-1]] < interval_slots.lo[witness[1:]])

    def check_only_one_group_was_touched(self, groups: dict[int, int], touched: int | None) -> None:
        if self.partition.rebuilds == self.builds:
            assert all(
                self.was[i] == g for i, g in groups.items() if i != touched and i in self.was
            )
        elif touched is not None:
            assert not set(self.was.values()) & set(groups.values()), (
                "a number is of one group, ever"
            )
        self.was, self.builds = groups, self.partition.rebuilds


@st.composite
def histories(draw: st.DrawFn) -> tuple[Any, float, list[Any]]:
    kind = draw(KINDS)
    interval = intervals_of(kind)
    step = st.one_of(
        interval,
        interval,
        interval,
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.lists(interval, max_size=12),
        st.tuples(st.integers(1, 3)),
    )
    return kind, draw(st.sampled_from([0.05, 0.5, 1.0, 3.0])), draw(st.lists(step, max_size=50))


@settings(max_examples=200)
@given(histories(), st.sampled_from([4, 8, BLOCK]))
def test_a_partition_is_small_and_sound_after_every_step(
    history: tuple[Any, float, list[Any]], block: int
) -> None:
    kind, epsilon, steps = history
    checked = Checked(kind, epsilon, block)
    next_id = 0
    for step in steps:
        if isinstance(step, int):
            if checked.twin:
                checked.remove(sorted(checked.twin)[step % len(checked.twin)])
        elif isinstance(step, list):
            checked.add_many(next_id, step)
            next_id += len(step)
        elif len(step) == 1:
            checked.take(checked.partition.ranges().number[::-1][: step[0]].tolist())
        else:
            checked.add(next_id, step)
            next_id += 1


@pytest.mark.parametrize("spread", [3, 60, 10**6])
def test_many_in_few_groups_and_in_many_stay_sound(spread: int) -> None:
    """Thousands, in blocks of eight: most blocks have no cut, or all of them have."""
    random = Random(spread)

    def drawn() -> Interval:
        lo = random.randrange(spread) * 10
        return lo - random.randrange(4), lo + random.randrange(4)

    checked = Checked(np.int64, 0.2, 8)
    checked.add_many(0, [drawn() for _ in range(2_000)])
    for next_id in range(2_000, 2_060):
        checked.add(next_id, drawn())
        checked.remove(random.choice(list(checked.twin)))
    checked.take(checked.partition.ranges().number[:2].tolist())
    checked.add_many(10_000, [drawn() for _ in range(15)])


def test_a_rebuild_is_due_only_when_witnesses_leave_or_groups_come() -> None:
    """Members that end last leave: the paper's count of them would ask for a rebuild at every other
    one."""
    checked = Checked(np.int64, 0.5, 8)
    checked.add_many(
        0, [(0, 10 + i) for i in range(300)] + [(1_000, 1_010 + i) for i in range(300)]
    )
    before = checked.partition.rebuilds
    for query_id in [*range(1, 300), *range(301, 600)]:
        checked.remove(query_id)
    assert checked.partition.rebuilds == before
    checked.remove(0)
    assert checked.partition.rebuilds == before, (
        "two groups were, one witness and one group are left"
    )


def test_groups_that_come_and_go_do_not_take_memory_for_ever() -> None:
    interval_slots = IntervalSlots(np.int64)
    partition = Partition(interval_slots, 1.0)
    partition.add_many(
        interval_slots.add_many(np.arange(10), np.arange(10) * 10, np.arange(10) * 10)
    )
    for step in range(1_000):
        partition.add(interval_slots.add(100, 5, 6))
        partition.remove(interval_slots.slot_of(100))
        interval_slots.remove(100)
        assert partition._groups.size.size <= 128, step
    assert partition.rebuilds < 40


def test_what_is_not_of_the_kind_is_refused() -> None:
    with pytest.raises(AssertionError, match="int64"):
        IntervalSlots(np.int64).add(1, 2.5, 3)
    with pytest.raises(AssertionError, match="float64"):
        IntervalSlots(np.float64).add(1, 2**53 + 1, 2**60)
    with pytest.raises(AssertionError, match="interval"):
        IntervalSlots().add(1, 3, 2)
    interval_slots = IntervalSlots(np.int64)
    interval_slots.add(1, 2, 3)
    with pytest.raises(AssertionError, match="has an interval"):
        interval_slots.add(1, 2, 3)
    with pytest.raises(AssertionError, match="has an interval"):
        interval_slots.add_many(np.array([2, 1]), np.array([0, 0]), np.array([1, 1]))


def test_groups_that_only_witnesses_kept_apart_become_one() -> None:
    """Long ones in twenty groups, each with a short one; the short ones leave, and one point would
    do for the rest."""
    checked = Checked(np.int64, 0.5, 8)
    checked.add_many(
        0, [(10 * i, 10 * i + 1) for i in range(20)] + [(10 * i, 1_000) for i in range(20)]
    )
    assert len(checked.partition) == 20
    for query_id in range(20):
        checked.remove(query_id)
    assert len(checked.partition) == 1


def test_groups_that_are_taken_count_no_more() -> None:
    """Six groups where four would do, beside two apart: allowed with them, and not without."""
    checked = Checked(np.int64, 0.4, 8)
    checked.add_many(
        0, [(0, 10), (20, 30), (1_000, 1_010), (1_020, 1_030), (5_000, 5_001), (6_000, 6_001)]
    )
    for next_id, interval in enumerate([(9, 21), (22, 30), (1_009, 1_021), (1_022, 1_030)], 10):
        checked.add(next_id, interval)
    assert len(checked.partition) == 8
    checked.take([checked.was[4], checked.was[5]])
    assert len(checked.partition) == 4


@pytest.mark.parametrize("block", [4, 8, 64])
@pytest.mark.parametrize("length", [1, 20, 300, 10_000])
@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_a_rebuild_is_the_canonical_partition_and_knows_who_ends_first(
    kind: Any, length: int, block: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 1_000, 3_000).astype(kind)
    hi = lo + rng.integers(0, length, lo.size).astype(kind)
    interval_slots = IntervalSlots(kind)
    partition = Partition(interval_slots, 1.0, block)
    partition.add_many(interval_slots.add_many(np.arange(lo.size), lo, hi))
    expected, ranges = canonical(lo, hi), partition.ranges()
    assert np.array_equal(ranges.lo, expected.lo) and np.array_equal(ranges.hi, expected.hi)
    assert np.array_equal(ranges.size, np.bincount(expected.group))
    assert np.array_equal(
        interval_slots.hi[partition._groups.witness[: len(partition)]], expected.hi
    )
    slots = partition.slots()
    group = np.array([partition.group_of(slot) for slot in slots.tolist()])
    assert np.array_equal(group - group.min(), expected.group[interval_slots.ids[slots]])
