"""Which way for this row: each event of a select-join by the method that is cheapest for it (thesis 4.5).

What decides is known before any query is looked at: how many rows of S join the event, which the look-up of its b
tells, and how many queries have its a, which are two binary searches.  Both are exact, so nothing is estimated but
seconds: each method's (`select_methods.py`) are a line through what it was measured to take.

What the lines are in, for an event that r rows join and whose a h queries have, c of them scattered, is the work of the
kernels, so that rates are of the machine and not of the queries:

- *groups*: in each of g groups, a look-up; then about log(1 + h/g) nodes of its tree hold somebody, and each is halved
  as often, the deeper the more rows there are.
- *select_first*: h queries, each of which is asked for one of r rows by halving.
- *join_first*: r walks down a tree of rectangles, whose leaves are in √leaves slabs of c: as many at a time as slabs
  hold a c, to as many rectangles as have both.
- *hotspots*: groups of h - c queries, select first of c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np

from headrace.errors import CatalogError
from headrace.families.joins.arrays import Floats, Ints, Numbers
from headrace.families.joins.select_index import Events, Rows
from headrace.families.joins.select_methods import METHODS, Found, Met, Methods

BATCH = 512  # events that are timed together: in fewer, what a group has is in no cache yet
BUDGET_S = 0.005  # a method gets as many of them as take about this long
REPEATS = 2
SAVED_MIN = 0.1  # of the time, by telling events apart
ASKED, ASKED_MIN = 16, 64  # one in so many events tells whether it is worth it to ask all, if those are enough


def features(method: str, met: Met) -> Floats:
    """What the method's seconds are linear in: a line for each event."""
    shape, having = met.shape, met.having.astype(np.float64)
    rows = met.rows.astype(np.float64)
    halving = np.log2(rows + 2)
    if method == "groups":
        return np.stack(_in_groups(shape.groups, having, halving), axis=1)
    if method == "hotspots":
        cold = met.cold.astype(np.float64)
        return np.stack((*_in_groups(shape.hot_groups, having - cold, halving), cold, cold * halving), axis=1)
    ones = np.ones(rows.size)
    if method == "select_first":
        return np.stack((ones, having, having * halving), axis=1)
    walks, pairs = 1 + shape.crowding * shape.leaves**0.5, shape.crowding * having
    return np.stack((ones, having, rows * walks, rows * pairs), axis=1)


def _in_groups(groups: int, having: Floats, halving: Floats) -> tuple[Floats, Floats, Floats]:
    nodes = groups * np.log2(1 + having / max(1, groups)) ** 2
    return np.full(having.size, float(groups)), nodes, nodes * halving


RATES: Mapping[str, int] = {"groups": 3, "hotspots": 5, "select_first": 3, "join_first": 4}
"""How many features each method has."""


@dataclass(frozen=True, slots=True)
class Router:
    """Seconds of each method, linear in its features; methods without rates are not chosen."""

    rates: Mapping[str, tuple[float, ...]]

    # -- rates --------------------------------------------------------------------------------------

    @staticmethod
    def fit(methods: Methods, row_c: Numbers, met: Met) -> Router:
        """Measure all methods on some events, like ones together, and draw the lines (least squares of relative errors,
        no rate below zero)."""
        batches = [met.take(places) for places in like(met, BATCH)]
        return Router({method: _line(method, methods, row_c, batches) for method in met.shape.ways})

    def to_json(self) -> dict[str, list[float]]:
        return {method: list(own) for method, own in self.rates.items()}

    @staticmethod
    def from_json(kept: Mapping[str, Sequence[float]]) -> Router:
        """What `to_json` gave.  Rates of other features than ours are refused."""
        for method, own in kept.items():
            if len(own) != RATES.get(method) or not all(np.isfinite(own)) or min(own) < 0:
                raise CatalogError("these are no rates of a method of joins", value=f"{method}: {own}",
                                   choices=RATES, hint="measure them again")  # fmt: skip
        return Router({method: tuple(float(rate) for rate in own) for method, own in kept.items()})

    # -- the choice ---------------------------------------------------------------------------------

    def seconds(self, method: str, met: Met) -> Floats:
        found: Floats = features(method, met) @ np.array(self.rates[method])
        return found

    def costs(self, met: Met) -> Floats:
        """Seconds of each method for each event; where nothing joins, none takes any."""
        costs = np.full((len(METHODS), met.first.size), np.inf)
        for number, method in enumerate(METHODS):
            if method in self.rates and method in met.shape.ways:
                costs[number] = self.seconds(method, met)
        costs[:, met.first == met.last] = 0.0
        return costs

    def choose(self, met: Met) -> Ints:
        """The number of the method for each event: of the cheapest, or of the one that is cheapest for all, unless
        telling events apart saves a good part of the time."""
        costs = self.costs(met)
        totals = costs.sum(axis=1)
        if (1 - SAVED_MIN) * totals.min() <= costs.min(axis=0).sum():
            return np.full(met.first.size, int(np.argmin(totals)))
        found: Ints = np.argmin(costs, axis=0)
        return found

    def run(self, methods: Methods, rows: Rows, events: Events) -> list[tuple[Ints, Found]]:
        """Each event by its method: the places of events, and who they affect.

        Some events tell whether one method is for all; then the others are not asked, and nothing is looked up that
        this method does not need."""
        every = np.arange(events.b.size)
        some = every[::ASKED] if every.size > ASKED_MIN * ASKED else every
        chosen = self.choose(methods.meet(rows, events.take(some)))
        if np.all(chosen == chosen[:1]):
            method = METHODS[int(chosen[0])] if chosen.size else METHODS[0]
            return [(every, methods.run(method, rows.c, methods.meet(rows, events, counts=method != "groups")))]
        met = methods.meet(rows, events)
        cheapest = np.argmin(self.costs(met), axis=0)
        parts = [(METHODS[n], np.flatnonzero(cheapest == n)) for n in range(len(METHODS))]
        return [(own, methods.run(method, rows.c, met.take(own))) for method, own in parts if own.size]


def like(met: Met, size: int) -> list[Ints]:
    """The places of events that something joins, so many together: of like numbers of rows, then of queries."""
    rows, having = met.rows, met.having
    joined = np.flatnonzero(rows > 0)
    batches = max(1, joined.size // size)
    strips = np.array_split(joined[np.argsort(rows[joined], kind="stable")], round(batches**0.5))
    by_having = [strip[np.argsort(having[strip], kind="stable")] for strip in strips]
    each = max(1, round(batches / len(strips)))
    return [np.sort(part) for strip in by_having for part in np.array_split(strip, each) if part.size]


# -- measuring --------------------------------------------------------------------------------------


def _line(method: str, methods: Methods, row_c: Numbers, batches: Sequence[Met]) -> tuple[float, ...]:
    points = [_timed(method, methods, row_c, met) for met in batches]
    if not points:
        return (0.0,) * RATES[method]
    return tuple(_least_squares(np.array([own / took for own, took in points])).tolist())


def _timed(method: str, methods: Methods, row_c: Numbers, met: Met) -> tuple[Floats, float]:
    """Features and seconds of as many of the events as the budget is for, together."""
    count, some = 1, met.take(np.arange(1))
    methods.run(method, row_c, some)  # compiled, if it was not
    while (took := _seconds(method, methods, row_c, some)) < BUDGET_S / 2 and count < met.first.size:
        count = min(met.first.size, max(4 * count, int(count * BUDGET_S / max(took, 1e-6) / 2)))
        some = met.take(np.linspace(0, met.first.size - 1, count).astype(np.int64))
    summed: Floats = features(method, some).sum(axis=0)
    return summed, took


def _seconds(method: str, methods: Methods, row_c: Numbers, met: Met) -> float:
    """The least of some runs: what is slower was disturbed."""
    found = []
    for _ in range(REPEATS):
        began = thread_time()
        methods.run(method, row_c, met)
        found.append(thread_time() - began)
    return max(min(found), 1e-9)


def _least_squares(lines: Floats) -> Floats:
    """The rates that make each line nearest to 1; what would be below zero is left out."""
    scale = np.linalg.norm(lines, axis=0)
    kept = scale > 0
    while True:
        rates = np.zeros(scale.size)
        rates[kept] = np.linalg.lstsq(lines[:, kept] / scale[kept], np.ones(len(lines)), rcond=None)[0]
        if np.all(rates >= 0):
            return rates / np.where(scale > 0, scale, 1)
        kept[int(np.argmin(rates))] = False
