"""The queries of a shape as they come and go: every live range is in one level, levels are few,
work is bounded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.cost import build_s, groups_s
from headrace.families.joins.levels.level import Level, grouping, level_of
from headrace.families.joins.levels.standing import GONE_MAX, RATIO, Standing
from headrace.families.joins.plan import BAND, SELECT, Box, JoinShape
from headrace.families.joins.stabbing.tracking import ALPHA, EPSILON
from headrace.sql.tree import Column
from headrace.values import BIGINT, DOUBLE, Type

JOINTS = {
    kind.name: JoinShape(("r", "s"), BAND, ((Column("b", kind),), (Column("b", kind, 1),)))
    for kind in (BIGINT, DOUBLE)
} | {
    "select": JoinShape(("r", "s"), SELECT, ((), ()), (Column("a", BIGINT), Column("c", BIGINT, 1)))
}
FAR = 1 << 62
ENDS = [(lo, lo + length) for lo in range(-9, 9) for length in range(5)]
STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.floats(0, 1), st.integers(1, 5)), min_size=1, max_size=30
)


def boxes(shape: JoinShape, ends: Sequence[tuple[int, int]]) -> tuple[Box, ...]:
    if shape.kind == BAND:
        return tuple((lo, hi, lo, hi) for lo, hi in ends)
    return tuple((lo, hi, -hi, -lo) for lo, hi in ends)


def ranges(level: Level) -> list[tuple[int, Box]]:
    columns = level.lo[0], level.hi[0], level.lo[1], level.hi[1]
    return list(
        zip(level.ids.tolist(), zip(*(c.tolist() for c in columns), strict=True), strict=True)
    )


def check(standing: Standing, live: Mapping[int, Sequence[Box]]) -> None:
    found = Counter(r for level in standing.levels for r in ranges(level))
    expected = Counter((i, box) for i, own in live.items() for box in own)
    assert len(standing) == len(live)
    assert +(found - expected) == Counter({r: n for r, n in found.items() if r[0] not in live})
    assert {r: n for r, n in found.items() if r[0] in live} == expected
    total = sum(found.values())
    assert total - sum(expected.values()) <= GONE_MAX * total
    sizes = [len(level) for level in standing.levels]
    assert all(size > RATIO * after for size, after in pairwise(sizes)) and 0 not in sizes
    for level in standing.levels:
        for side in (0, 1):
            check_groups(level, side)


def check_groups(level: Level, side: int) -> None:
    """For rows of a side the ranges of the other: those of a group have a point in common."""
    lo, hi, group = level.lo[1 - side], level.hi[1 - side], level.group[side]
    assert sorted(set(group.tolist())) == list(range(level.groups(side)))
    for g in range(level.groups(side)):
        assert lo[group == g].max() <= hi[group == g].min()


@pytest.mark.parametrize("name", JOINTS)
@settings(max_examples=60)
@given(steps=STEPS, seed=st.integers(0, 99))
def test_every_live_range_is_in_one_level(
    name: str, steps: list[tuple[int, float, int]], seed: int
) -> None:
    shape, chance = JOINTS[name], Random(seed)
    standing, live, next_id = Standing(shape), dict[int, tuple[Box, ...]](), 1
    inserted = dropped = 0
    built: list[int] = []
    build = Level.build

    def counted(*args: object) -> Level:
        built.append(args[1].size)  # type: ignore[attr-defined]
        return build(*args)  # type: ignore[arg-type]

    with patch.object(Level, "build", counted):
        for come, share, many in steps:
            gone = [i for i in live if chance.random() < share**3]
            dropped += sum(len(live.pop(i)) for i in gone)
            new = {next_id + i: boxes(shape, chance.choices(ENDS, k=many)) for i in range(come)}
            inserted += many * come
            next_id += come
            live |= new
            standing.update(new, gone)
            before = list(standing.levels)
            standing.update({}, [])
            assert standing.levels == before
            check(standing, live)
    assert sum(built) <= inserted * (1 + math.log(max(2, inserted), 1 + 1 / RATIO)) + 7 * dropped


def one_by_one(shape: JoinShape, count: int) -> tuple[Standing, dict[int, tuple[Box, ...]]]:
    chance, standing = Random(7), Standing(shape)
    live = {i: boxes(shape, chance.choices(ENDS, k=1 + i % 2)) for i in range(count)}
    for i, own in live.items():
        standing.update({i: own}, [])
    return standing, live


@pytest.mark.parametrize("name", JOINTS)
def test_levels_become_one_when_they_have_cost_as_much(name: str) -> None:
    standing, live = one_by_one(JOINTS[name], 300)
    many = list(standing.levels)
    assert len(many) > 2
    standing.expect(0, 0)
    assert standing.levels == many
    rounds = 0
    while len(standing.levels) > 1:
        more = sum(level.groups(0) for level in standing.levels) - standing._tracked.groups(0)
        standing.expect(0, 10)
        rounds += 1
        paid = rounds * 10 * groups_s(standing.shape.kind, more)
        due = build_s(standing.shape.kind, sum(len(level) for level in many))
        assert (paid > due) == (len(standing.levels) == 1)
    check(standing, live)
    (one,) = standing.levels
    standing.expect(0, 10**9)
    assert standing.levels == [one]


@pytest.mark.parametrize("name", JOINTS)
@settings(max_examples=60)
@given(steps=STEPS, seed=st.integers(0, 99))
def test_groups_of_one_index_are_known_without_it(
    name: str, steps: list[tuple[int, float, int]], seed: int
) -> None:
    shape, chance = JOINTS[name], Random(seed)
    standing, live, next_id = Standing(shape), dict[int, tuple[Box, ...]](), 1
    ends = [*ENDS, (-FAR, 3), (-2, FAR), (-FAR, FAR)]
    for come, share, many in steps:
        gone = [i for i in live if chance.random() < share**3]
        new = {next_id + i: boxes(shape, chance.choices(ends, k=many)) for i in range(come)}
        next_id += come
        live = {i: own for i, own in live.items() if i not in gone} | new
        standing.update(new, gone)
        if chance.random() < 0.3:
            standing.expect(chance.choice([0, 1]), chance.choice([1, 1_000_000]))
        check(standing, live)
        for side in (0, 1):
            fewest = level_of(shape, live).groups(side) if live else 0
            groups = standing._tracked.groups(grouping(shape, side))
            assert fewest <= groups <= (1 + EPSILON) * fewest + 2 / ALPHA
            tally, ranges_there = standing.tally(side), sum(map(len, live.values()))
            assert (tally["fewest"], tally["ranges"]) == (groups, ranges_there) and 0 <= tally[
                "hot"
            ] <= ranges_there


def test_a_level_is_what_it_was_when_it_is_read_again() -> None:
    standing = Standing(JOINTS["double"])
    open_ended = (1.0, 2.0, 1.0, 2.0), (5.0, math.inf, 5.0, math.inf)
    standing.update({3: ((-math.inf, 0.5, -math.inf, 0.5),), 4: open_ended}, [])
    (level,) = standing.levels
    again = Level.unpack(level.pack())
    assert ranges(again) == ranges(level) and again.pack() == level.pack()
    for side in (0, 1):
        assert (
            np.array_equal(again.group[side], level.group[side])
            and again.group[side].dtype == np.int32
        )


@pytest.mark.parametrize("kind", [BIGINT, DOUBLE])
def test_ends_of_a_band_are_of_its_type(kind: Type) -> None:
    standing = Standing(JOINTS[kind.name])
    standing.update({1: ((1, 2, 1, 2),)}, [])
    assert standing.levels[0].lo[0].dtype == (np.float64 if kind == DOUBLE else np.int64)
