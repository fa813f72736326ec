"""Equality joins with local selections: every method gives the answer of a page of Python."""

from __future__ import annotations

import tracemalloc
from random import Random
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.bands.kernels import Runs
from headrace.families.joins.selects import index as select_index
from headrace.families.joins.selects import ungrouped as select_rivals
from headrace.families.joins.selects.index import Events, Rectangles, Rows, SelectIndex
from headrace.families.joins.selects.kernels import write_runs
from headrace.families.joins.selects.ungrouped import Boxes, Marks, Packed
from headrace.relations.arrays import Ints, Numbers
from headrace.relations.kernels import joining
from tests.families.joins.test_bands import draw_numbers, draw_ranges, groups_of


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_every_affected_query_and_no_other(seed: int) -> None:
    r = Random(seed)
    is_float = r.random() < 0.5
    kind = np.float64 if is_float else np.int64
    size = r.choice([1, 3, 40, 300])
    a_ranges, c_ranges = draw_ranges(r, is_float, size), draw_ranges(r, is_float, size)
    rows, events = draw_rows(r, is_float), draw_events(r, is_float)
    sides = [
        np.array([own[i] for own in ranges], kind)
        for ranges in (a_ranges, c_ranges)
        for i in (0, 1)
    ]
    pairs = list(zip(a_ranges, c_ranges, strict=True))
    wanted = [
        {
            q
            for q, (own_a, own_c) in enumerate(pairs)
            if own_a[0] <= a <= own_a[1]
            and any(
                b == row_b and own_c[0] <= c <= own_c[1]
                for row_b, c in zip(rows.b, rows.c, strict=True)
            )
        }
        for a, b in zip(events.a, events.b, strict=True)
    ]
    index = SelectIndex.build(Rectangles(np.arange(size) * 10, *sides), groups_of(c_ranges))
    ends, found = index.affected(index.probe(rows, events), events.b.size)
    starts = np.append(0, ends[:-1])
    assert [sorted(found[s:e] // 10) for s, e in zip(starts, ends, strict=True)] == [
        sorted(own) for own in wanted
    ]
    check_runs(sides, rows, events, np.append(0, ends), found // 10)
    check_rivals(sides, rows, events, wanted)


def check_runs(sides: list[Numbers], rows: Rows, events: Events, at: Ints, queries: Ints) -> None:
    first, last = np.empty(events.b.size, np.int64), np.empty(events.b.size, np.int64)
    joining(rows.b, events.b, first, last)
    out = Runs(*(np.empty(queries.size, np.int64) for _ in range(4)))
    write_runs(sides[2], sides[3], at, queries, rows.c, first, last, out)
    assert out.query.tolist() == queries.tolist()
    for event, q, begin, end in zip(*(column.tolist() for column in out), strict=True):
        has = (rows.b == events.b[event]) & (sides[2][q] <= rows.c) & (rows.c <= sides[3][q])
        assert np.flatnonzero(has).tolist() == list(range(begin, end + 1))


def draw_rows(r: Random, is_float: bool) -> Rows:
    size = r.choice([0, 1, 30])
    b, values = (
        np.array([r.randint(0, 3) for _ in range(size)], np.int64),
        draw_numbers(r, is_float, size),
    )
    values = values[r.sample(range(size), size)]
    order = np.lexsort((values, b))
    return Rows(b[order], values[order])


def draw_events(r: Random, is_float: bool) -> Events:
    size = r.choice([1, 12])
    a = draw_numbers(r, is_float, size)
    return Events(
        a[r.sample(range(size), size)],
        np.sort(np.array([r.randint(-1, 4) for _ in range(size)], np.int64)),
    )


def check_rivals(sides: list[Numbers], rows: Rows, events: Events, wanted: list[set[int]]) -> None:
    order = np.argsort(sides[0], kind="stable")
    boxes, most = Boxes(*(side[order] for side in sides)), np.maximum.accumulate(sides[1][order])
    first, last = np.empty(events.b.size, np.int64), np.empty(events.b.size, np.int64)
    joining(rows.b, events.b, first, last)
    packed = Packed.of(Rectangles(np.arange(order.size), *sides))
    marks = Marks(np.full(order.size, -1, np.int32), np.empty(events.b.size, np.int64))
    at = np.arange(events.b.size + 1) * order.size
    ids = np.empty(at[-1], np.int32)
    select_rivals.join_first(
        packed.boxes, packed.nodes, packed.levels, rows.c, first, last, events.a, marks, at, ids
    )
    check_marks(marks, packed.order, wanted)
    for method, more in (("naive", ()), ("select_first", (most,))):
        marks = Marks(np.full(order.size, -1, np.int32), np.empty(events.b.size, np.int64))
        getattr(select_rivals, method)(boxes, *more, rows.c, first, last, events.a, marks)
        check_marks(marks, order, wanted)


def check_marks(marks: Marks, order: Ints, wanted: list[set[int]]) -> None:
    """Queries are in this order."""
    assert marks.counts.tolist() == [len(own) for own in wanted]
    for place, q in enumerate(order.tolist()):
        assert marks.event[place] == max(
            (e for e, own in enumerate(wanted) if q in own), default=-1
        )


def test_many_groups_take_no_more_room() -> None:
    """Events go through them in small parts, with the same records."""
    rng = np.random.default_rng(9)
    sides = [
        side for _ in range(2) for lo in [rng.integers(0, 10**6, 300)] for side in (lo, lo + 20_000)
    ]
    index = SelectIndex.build(Rectangles(np.arange(300), *sides), np.arange(300, dtype=np.int32))
    rows = Rows(np.zeros(40, np.int64), np.sort(rng.integers(0, 10**6, 40)))
    events = Events(rng.integers(0, 10**6, 500), np.zeros(500, np.int64))
    wanted = [ids.tolist() for ids in index.affected(index.probe(rows, events), 500)]
    tracemalloc.start()
    with patch.object(select_index, "ROOM", 100 * index.depth):
        found = index.probe_met(rows.c, np.zeros(500, np.int64), np.full(500, 40), events.a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 250 * index.depth * 16
    assert [ids.tolist() for ids in index.affected(found, 500)] == wanted and len(wanted[1]) > 0
