"""Which way for this row: each event of a select-join by the method that is cheapest for it (thesis 4.5).

What decides is known before any query is looked at: how many rows of S join the event, which the look-up of its b
tells, and how many queries have its a, which are two binary searches.  Both are exact, so nothing is estimated but
seconds: each method's are a line through what it was measured to take.

- *groups*: stabbing groups (`select_kernels.py`), whatever joins and however many queries have the a.
- *select_first*: find the queries that have the a, ask each for a row.
- *join_first*: for each row that joins, find the queries that have the pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from headrace.families.joins.arrays import Floats, Ints, Ints32, Numbers
from headrace.families.joins.intervals import IntervalIndex
from headrace.families.joins.select_index import Events, Rectangles, Rows, SelectIndex
from headrace.families.joins.select_kernels import Nodes, joining
from headrace.families.joins.select_rivals import Boxes, Marks, Packed, join_first, select_stabbed

METHODS = ("groups", "select_first", "join_first")
BATCH = 64  # events that are timed together
REPEATS = 3
SAVED_MIN = 0.2  # of the time, by telling events apart


@dataclass(frozen=True, slots=True)
class Met:
    """Events, the rows `first` … `last` - 1 that join each, and how many queries have its a."""

    events: Events
    first: Ints
    last: Ints
    having: Ints

    def take(self, chosen: Ints) -> Met:
        events = Events(self.events.a[chosen], self.events.b[chosen])
        return Met(events, self.first[chosen], self.last[chosen], self.having[chosen])

    def features(self, method: str) -> Floats:
        """What a method's time is linear in."""
        ones, rows = np.ones(self.having.size), (self.last - self.first).astype(np.float64)
        if method == "groups":
            return ones[:, None]
        if method == "select_first":
            return np.stack((ones, self.having * np.log2(rows + 2)), axis=1)
        return np.stack((ones, rows, rows * self.having), axis=1)


@dataclass(frozen=True, slots=True)
class Lists:
    """Queries by place: those of event e are `ids[at[e]]` …, `counts[e]` of them."""

    at: Ints
    counts: Ints
    ids: Ints32


class Methods:
    """The indexes of all methods over the same queries."""

    def __init__(self, queries: Rectangles, group: Ints32) -> None:
        self.groups = SelectIndex.build(queries, group)
        self._stabs = IntervalIndex.build(np.arange(queries.ids.size, dtype=np.int32), queries.a_lo, queries.a_hi)
        self._boxes = Boxes(queries.a_lo, queries.a_hi, queries.c_lo, queries.c_hi)
        self._packed, self._ids = Packed.of(queries), queries.ids
        self._marked: Ints32 = np.empty(queries.ids.size, np.int32)

    def meet(self, rows: Rows, events: Events) -> Met:
        first, last = np.empty(events.b.size, np.int64), np.empty(events.b.size, np.int64)
        joining(rows.b, events.b, first, last)
        return Met(events, first, last, self._stabs.count(events.a).astype(np.int64))

    def run(self, method: str, row_c: Numbers, met: Met) -> Nodes | Lists:
        if method == "groups":
            return self.groups.probe_met(row_c, met.first, met.last, met.events.a)
        return self._select_first(row_c, met) if method == "select_first" else self._join_first(row_c, met)

    def _select_first(self, row_c: Numbers, met: Met) -> Lists:
        at, ids = self._stabs.stab(met.events.a)
        counts = np.empty(met.having.size, np.int64)
        select_stabbed(self._boxes, at, ids, row_c, met.first, met.last, counts)
        return Lists(at, counts, ids)

    def _join_first(self, row_c: Numbers, met: Met) -> Lists:
        at = np.append(0, np.cumsum(met.having))
        ids, marks = np.zeros(at[-1], np.int32), Marks(self._marked, np.empty(met.having.size, np.int64))
        marks.event[:] = -1
        packed = self._packed
        join_first(packed.boxes, packed.nodes, packed.levels, row_c, met.first, met.last, met.events.a, marks, at, ids)
        return Lists(at, marks.counts, packed.order[ids].astype(np.int32))

    def affected(self, found: Nodes | Lists, events: int) -> list[Ints]:
        """The ids of the queries each event affects."""
        if isinstance(found, Nodes):
            ends, ids = self.groups.affected(found, events)
            return np.split(ids, ends[:-1])
        spans = zip(found.at[:-1].tolist(), found.counts.tolist(), strict=True)
        return [self._ids[found.ids[start : start + count]] for start, count in spans]


# -- the choice -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Router:
    """Seconds of each method, linear in its features."""

    rates: Mapping[str, tuple[float, ...]]

    @staticmethod
    def fit(methods: Methods, row_c: Numbers, met: Met) -> Router:
        """Measure all methods on some events, like ones together, and draw the lines (least squares of relative errors,
        no rate below zero)."""
        order = np.lexsort((met.having, met.last - met.first))
        batches = [met.take(np.sort(part)) for part in np.array_split(order, max(1, order.size // BATCH))]
        return Router({method: _line(method, methods, row_c, batches) for method in METHODS})

    def seconds(self, method: str, met: Met) -> Floats:
        found: Floats = met.features(method) @ np.array(self.rates[method])
        return found

    def choose(self, met: Met) -> Ints:
        """The number of the method for each event: of the cheapest, or of the one that is cheapest for all, unless
        telling events apart saves a good part of the time."""
        costs = np.where(met.first == met.last, 0.0, [self.seconds(method, met) for method in METHODS])
        totals = costs.sum(axis=1)
        if (1 - SAVED_MIN) * totals.min() <= costs.min(axis=0).sum():
            return np.full(met.having.size, int(np.argmin(totals)))
        found: Ints = np.argmin(costs, axis=0)
        return found

    def run(self, methods: Methods, row_c: Numbers, met: Met) -> list[tuple[Ints, Nodes | Lists]]:
        """Each event by its method: the places of events, and who they affect."""
        chosen = self.choose(met)
        found: list[tuple[Ints, Nodes | Lists]] = []
        for number, method in enumerate(METHODS):
            places = np.flatnonzero(chosen == number)
            if places.size:
                found.append((places, methods.run(method, row_c, met.take(places))))
        return found


def _line(method: str, methods: Methods, row_c: Numbers, batches: Sequence[Met]) -> tuple[float, ...]:
    methods.run(method, row_c, batches[0])  # compiled, if it was not
    took = np.array([_seconds(method, methods, row_c, met) for met in batches])
    features = np.array([met.features(method).sum(axis=0) for met in batches])
    return tuple(_least_squares(features / took[:, None]).tolist())


def _least_squares(features: Floats) -> Floats:
    """The rates that make each line nearest to 1; what would be below zero is left out."""
    rates, kept = np.zeros(features.shape[1]), np.ones(features.shape[1], np.bool_)
    while True:
        rates[kept] = np.linalg.lstsq(features[:, kept], np.ones(len(features)), rcond=None)[0]
        rates[~kept] = 0.0
        if np.all(rates >= 0):
            return rates
        kept[int(np.argmin(rates))] = False


def _seconds(method: str, methods: Methods, row_c: Numbers, met: Met) -> float:
    """The least of some runs: what is slower was disturbed."""
    found = []
    for _ in range(REPEATS):
        began = perf_counter()
        methods.run(method, row_c, met)
        found.append(perf_counter() - began)
    return min(found)
