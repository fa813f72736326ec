"""Figures 4.7, 4.8 and 4.10: events a second by number of queries and of stabbing groups, by how
many queries have the a of an event and how many rows its b; kernels alone, one thread.

A method is given a batch of events in order of b; what it takes is divided by them.  All are
compiled.  Slow ones get fewer events.  Output is left out, as in the thesis: ours gives the counts
of its prefixes, a rival counts the queries it has found.  With output, ours and the rival that is
best at it write every answer (a query, its first and its last row).

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from headrace.bench.joins import band_rivals
from headrace.bench.joins.workload import (
    draw_bands,
    draw_events,
    draw_keyed_events,
    draw_keyed_rows,
    draw_rectangles,
    draw_rows,
)
from headrace.families.joins.bands.index import BandIndex
from headrace.families.joins.bands.kernels import Runs
from headrace.families.joins.selects import ungrouped as select_rivals
from headrace.families.joins.selects.index import Events, Rectangles, Rows, SelectIndex
from headrace.families.joins.selects.kernels import write_runs
from headrace.families.joins.selects.methods import Methods
from headrace.families.joins.selects.ungrouped import Boxes, Marks, Packed
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Ints, Ints32
from headrace.relations.kernels import joining

SEED = 4
EVENTS = 20_000
BUDGET_S = 0.5  # a method is given as many events as take about this long
REPEATS = 3
GROWTH = 4  # so many times more events at most: the first ones may be quick
OUTPUT, OUTPUT_MAX = "_with_output", 2_000_000  # answers that are written at once
SELECTIVITY, JOINING = 0.1, 1_000.0

Method = Callable[[int], object]
"""Answers the first so many events."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Events a second by method, and what they were measured on."""

    queries: int
    groups: int
    affected: float
    per_s: Mapping[str, float]

    def best_rival(self, with_output: bool = False) -> tuple[str, float]:
        rivals = {
            name: speed
            for name, speed in self.per_s.items()
            if not name.startswith("ours") and name.endswith(OUTPUT) == with_output
        }
        best = max(rivals, key=lambda name: rivals[name])
        return best, rivals[best]


def events_per_s(method: Method, events: int) -> float:
    """The median of some runs, each long enough to be measured."""
    method(1)  # compiled, if it was not
    count, took = 1, _seconds(method, 1)
    while count < events and took < BUDGET_S / 8:
        count = min(events, max(2, min(GROWTH, int(BUDGET_S / 8 / max(took, 1e-6)))) * count)
        took = _seconds(method, count)
    return count / sorted(_seconds(method, count) for _ in range(REPEATS))[REPEATS // 2]


def _seconds(method: Method, events: int) -> float:
    began = perf_counter()
    method(events)
    return perf_counter() - began


# -- bands -----------------------------------------------------------------------------------------


def band_speeds(queries: int, length: float, rivals: bool = True) -> Speeds:
    rng = np.random.default_rng([SEED, queries])
    bands, rows, events = draw_bands(rng, queries, length), draw_rows(rng), draw_events(rng, EVENTS)
    found = canonical(bands.lo, bands.hi)
    index = BandIndex.build(np.arange(queries), bands.lo, bands.hi, found.group)
    affected = float(index.count(index.probe(rows, _some(events, 200))).mean())
    few = max(1, int(OUTPUT_MAX / max(affected, 1)))
    methods: dict[str, tuple[Method, int]] = {
        "ours": (lambda n: index.probe(rows, _some(events, n)), EVENTS),
        "ours_with_output": (lambda n: _band_runs(index, rows, _some(events, n)), few),
    }
    if rivals:
        methods |= {
            name: (method, few if name.endswith(OUTPUT) else EVENTS)
            for name, method in _band_rivals(bands.lo, bands.hi, rows, events).items()
        }
    return Speeds(
        queries, found.lo.size, affected, {m: events_per_s(*own) for m, own in methods.items()}
    )


def _some(events: Ints, count: int) -> Ints:
    """So many of them, from all of the domain."""
    return (
        events[np.linspace(0, events.size - 1, count).astype(np.int64)]
        if count < events.size
        else events
    )


def _band_runs(index: BandIndex, rows: Ints, events: Ints) -> object:
    return index.runs(rows, events, index.probe(rows, events))


def _band_rivals(lo: Ints, hi: Ints, rows: Ints, events: Ints) -> dict[str, Method]:
    order = np.argsort(lo, kind="stable")
    lo, hi = lo[order], hi[order]
    most = np.maximum.accumulate(hi)
    marks = np.full(lo.size, -1, np.int32)

    def rival(kernel: Callable[..., None], *more: Ints) -> Method:
        def method(count: int) -> None:
            marks[:] = -1
            kernel(lo, hi, *more, rows, _some(events, count), marks, np.empty(count, np.int64))

        return method

    def merge_with_output(count: int) -> int:
        some = _some(events, count)
        band_rivals.merge(lo, hi, rows, some, marks, counts := np.empty(count, np.int64))
        return band_rivals.merge_runs(lo, hi, rows, some, _room(counts))

    return {
        "query_outer": rival(band_rivals.query_outer),
        "merge": rival(band_rivals.merge),
        "merge_with_output": merge_with_output,
        "data_outer": rival(band_rivals.data_outer, most),
    }


def _room(counts: Ints) -> Runs:
    """Empty columns for so many answers, given how many each event has."""
    return Runs(*(np.empty(int(counts.sum()), np.int64) for _ in range(4)))


# -- select-joins ----------------------------------------------------------------------------------


def select_speeds(
    queries: int,
    length: float,
    rivals: bool = True,
    selectivity: float = SELECTIVITY,
    joined: float = JOINING,
) -> Speeds:
    """`selectivity`: the share of queries that have the a of an event; so many rows have its b."""
    rng = np.random.default_rng([SEED, queries])
    made, rows = draw_rectangles(rng, queries, length, selectivity), draw_keyed_rows(rng, joined)
    events = draw_keyed_events(rng, rows, EVENTS)
    found = canonical(made.c_lo, made.c_hi)
    index = SelectIndex.build(made, found.group)
    affected = float(index.count(index.probe(rows, _first(events, 200)), 200).mean())
    few = max(1, int(OUTPUT_MAX / max(affected, 1)))

    def ours_with_output(count: int) -> Runs:
        some = _first(events, count)
        ends, ids = index.affected(index.probe(rows, some), count)
        return _select_runs(made, rows, some, np.append(0, ends), ids)

    methods: dict[str, tuple[Method, int]] = {
        "ours": (lambda n: index.probe(rows, _first(events, n)), EVENTS),
        "ours_with_output": (ours_with_output, few),
    }
    if rivals:
        methods |= {
            name: (method, EVENTS) for name, method in _select_rivals(made, rows, events).items()
        }
        methods["select_first_with_output"] = (
            _select_first_with_output(made, found.group, rows, events),
            few,
        )
    return Speeds(
        queries, found.lo.size, affected, {m: events_per_s(*own) for m, own in methods.items()}
    )


def _first(events: Events, count: int) -> Events:
    if count >= events.b.size:
        return events
    chosen = np.linspace(0, events.b.size - 1, count).astype(np.int64)
    return Events(events.a[chosen], events.b[chosen])


def _joined(rows: Rows, events: Events) -> tuple[Ints, Ints]:
    first, last = np.empty(events.b.size, np.int64), np.empty(events.b.size, np.int64)
    joining(rows.b, events.b, first, last)
    return first, last


def _select_runs(made: Rectangles, rows: Rows, events: Events, at: Ints, queries: Ints) -> Runs:
    out = Runs(*(np.empty(queries.size, np.int64) for _ in range(4)))
    write_runs(made.c_lo, made.c_hi, at, queries, rows.c, *_joined(rows, events), out)
    return out


def _select_first_with_output(
    made: Rectangles, group: Ints32, rows: Rows, events: Events
) -> Method:
    methods = Methods(made, group)

    def method(count: int) -> Runs:
        some = _first(events, count)
        found = methods.run("select_first", rows.c, methods.meet(rows, some)).lists
        assert found is not None
        return _select_runs(
            made, rows, some, np.append(0, np.cumsum(found.counts)), found.ids.astype(np.int64)
        )

    return method


def _select_rivals(made: Rectangles, rows: Rows, events: Events) -> dict[str, Method]:
    order = np.argsort(made.a_lo, kind="stable")
    boxes = Boxes(*(side[order] for side in (made.a_lo, made.a_hi, made.c_lo, made.c_hi)))
    most, marks = np.maximum.accumulate(boxes.a_hi), np.full(order.size, -1, np.int32)

    def rival(kernel: Callable[..., None], *more: Ints) -> Method:
        def method(count: int) -> None:
            some = _first(events, count)
            marks[:] = -1
            kernel(
                boxes,
                *more,
                rows.c,
                *_joined(rows, some),
                some.a,
                Marks(marks, np.empty(count, np.int64)),
            )

        return method

    packed, ids = Packed.of(made), np.empty(order.size, np.int32)

    def join_first(count: int) -> None:
        some = _first(events, count)
        marks[:] = -1
        at = np.zeros(count + 1, np.int64)  # every list is written over the one before
        select_rivals.join_first(
            packed.boxes,
            packed.nodes,
            packed.levels,
            rows.c,
            *_joined(rows, some),
            some.a,
            Marks(marks, np.empty(count, np.int64)),
            at,
            ids,
        )

    return {
        "naive": rival(select_rivals.naive),
        "select_first": rival(select_rivals.select_first, most),
        "join_first": join_first,
    }
