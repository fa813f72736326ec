"""Band joins: every method gives the answer of a page of Python."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.bench.joins import band_rivals
from headrace.families.joins.bands.index import BandIndex
from headrace.families.joins.bands.kernels import Runs
from headrace.families.joins.bands.scattered import Scattered

Ranges = list[tuple[Any, Any]]


def draw_ranges(r: Random, is_float: bool, count: int) -> Ranges:
    found: Ranges = []
    for _ in range(count):
        lo: float
        hi: float
        lo, hi = sorted(r.choice([r.randint(-9, 9), r.randint(-2, 2)]) for _ in range(2))
        if is_float:
            lo, hi = lo + r.choice([0, 0.5, 0.1]), hi + r.choice([0.5, 0.75])
        least, most = (
            (-np.inf, np.inf) if is_float else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        )
        found.append((r.choice([lo] * 8 + [least]), r.choice([hi] * 8 + [most])))
    return found


def draw_numbers(r: Random, is_float: bool, count: int) -> NDArray[Any]:
    values = [r.randint(-12, 12) for _ in range(count)]
    if is_float:
        return np.sort(np.array([v + r.choice([0.0, 0.1, 0.5, 1e-9]) for v in values]))
    return np.sort(np.array(values, np.int64))


def groups_of(ranges: Ranges) -> NDArray[np.int32]:
    """Some stabbing partition, not the smallest."""
    groups: list[tuple[Any, Any]] = []
    found: list[int] = []
    for lo, hi in ranges:
        for g, (a, b) in enumerate(groups):
            if max(a, lo) <= min(b, hi):
                groups[g] = (max(a, lo), min(b, hi))
                found.append(g)
                break
        else:
            found.append(len(groups))
            groups.append((lo, hi))
    return np.array(found, np.int32)


def brute_force(
    ranges: Ranges, rows: NDArray[Any], events: NDArray[Any]
) -> list[tuple[int, int, int, int]]:
    """(event, query, first row, last row) of all answers."""
    found: list[tuple[int, int, int, int]] = []
    for e, b in enumerate(events):
        for q, (lo, hi) in enumerate(ranges):
            inside = [i for i, row in enumerate(rows) if lo <= row - b <= hi]
            if inside:
                assert inside == list(range(inside[0], inside[-1] + 1)), "a run"
                found.append((e, q, inside[0], inside[-1]))
    return found


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_every_answer_and_no_other(seed: int) -> None:
    r = Random(seed)
    is_float = r.random() < 0.5
    ranges = draw_ranges(r, is_float, r.choice([1, 3, 20]))
    rows, events = (
        draw_numbers(r, is_float, r.choice([0, 1, 30])),
        draw_numbers(r, is_float, r.choice([1, 12])),
    )
    kind = np.float64 if is_float else np.int64
    lo, hi = (np.array([own[i] for own in ranges], kind) for i in (0, 1))
    wanted = brute_force(ranges, rows, events)
    names = np.arange(lo.size) * 10
    index = BandIndex.build(names, lo, hi, groups_of(ranges))
    prefixes = index.probe(rows, events)
    runs = index.runs(rows, events, prefixes)
    got = sorted(
        zip(
            runs.event.tolist(),
            (runs.query // 10).tolist(),
            runs.first.tolist(),
            runs.last.tolist(),
            strict=True,
        )
    )
    assert got == wanted
    order = np.argsort(lo, kind="stable")
    out = Runs(*(np.empty(len(wanted), np.int64) for _ in range(4)))
    assert band_rivals.merge_runs(lo[order], hi[order], rows, events, out) == len(wanted)
    assert (
        sorted(zip(*(c.tolist() for c in out._replace(query=order[out.query])), strict=True))
        == wanted
    )
    scattered = Scattered.of(lo[order], hi[order], order)
    listed = [
        (int(e), int(q))
        for _, event, query, _ in scattered.affected(rows, events)
        for e, q in zip(event, query, strict=True)
    ]
    assert sorted(listed) == [own[:2] for own in wanted]
    counts = np.bincount([own[0] for own in wanted], minlength=events.size).tolist()
    assert index.count(prefixes).tolist() == counts
    for method in ("query_outer", "merge", "data_outer"):
        marks, found = np.full(lo.size, -1, np.int32), np.empty(events.size, np.int64)
        most = (np.maximum.accumulate(hi[order]),) if method == "data_outer" else ()
        getattr(band_rivals, method)(lo[order], hi[order], *most, rows, events, marks, found)
        assert found.tolist() == counts, method
        for place, q in enumerate(order.tolist()):
            assert marks[place] == max((own[0] for own in wanted if own[1] == q), default=-1), (
                method
            )


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_nothing_is_affected_without_rows_or_events(kind: type[Any]) -> None:
    index = BandIndex.build(
        np.arange(2), np.array([1, 2], kind), np.array([5, 6], kind), np.zeros(2, np.int32)
    )
    none, some = np.empty(0, kind), np.array([1, 2, 3], kind)
    assert index.runs(none, some, index.probe(none, some)).query.size == 0
    assert index.runs(some, none, index.probe(some, none)).query.size == 0
