"""Which way for this row: each event of a select-join by the method that is cheapest for it.

What decides is known before any query is looked at: how many rows of S join the event, which the
look-up of its b tells, and how many queries have its a, which are two binary searches.  Both are
exact, so nothing is estimated but seconds: each method's (`selects/methods.py`) are a line through
what it was measured to take.

What the lines are in, for an event that r rows join and whose a h queries have, c of them
scattered, is the work of the kernels, so that rates are of the machine and not of the queries:

- *groups*: in each of g groups, a look-up; then about log(1 + h/g) nodes of its tree hold somebody,
  and each is halved as often, the deeper the more rows there are.
- *select_first*: h queries, each of which is asked for one of r rows by halving.
- *join_first*: r walks down a tree of rectangles, whose leaves are in √leaves slabs of c: as many
  at a time as slabs hold a c, to as many rectangles as have both.
- *hotspots*: groups of h - c queries, select first of c.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from time import thread_time

import numpy as np

from headrace.errors import CatalogError
from headrace.families.joins.selects.index import Events, Rows
from headrace.families.joins.selects.methods import METHODS, Found, Met, Methods, Shape
from headrace.relations.arrays import Floats, Ints, Numbers

BATCH, FEW = 512, 8  # events that are timed together, and which part of them once more
# a method gets as many as take so long; groups are dear for few events
BUDGET_S, GROUPS_BUDGET_S = (
    0.02,
    0.3,
)
REPEATS = 2
SAVED_MIN = 0.1  # of the time, by telling events apart
# so many events tell whether it is worth it to ask all, if there are more than so many
ASKED, ALL_ASKED = (
    192,
    1_024,
)


def features(method: str, met: Met) -> Floats:
    """What the method's seconds are linear in, besides `per_call`: a line for each event."""
    shape, having = met.shape, met.having.astype(np.float64)
    rows = met.rows.astype(np.float64)
    halving = np.log2(rows + 2)
    if method == "groups":
        return np.stack(_in_groups(shape.groups, having, halving), axis=1)
    if method == "hotspots":
        cold = met.cold.astype(np.float64)
        return np.stack(
            (*_in_groups(shape.hot_groups, having - cold, halving), cold, cold * halving), axis=1
        )
    ones = np.ones(rows.size)
    if method == "select_first":
        return np.stack((ones, having, having * halving), axis=1)
    walks, pairs = 1 + shape.crowding * shape.leaves**0.5, shape.crowding * having
    return np.stack((ones, having, rows * walks, rows * pairs), axis=1)


def _in_groups(groups: int, having: Floats, halving: Floats) -> tuple[Floats, Floats, Floats]:
    nodes = groups * np.log2(1 + having / max(1, groups)) ** 2
    return np.full(having.size, float(groups)), nodes, nodes * halving


def per_call(method: str, shape: Shape) -> float:
    """What is there to do however many events come together: to fetch groups into the cache."""
    return float({"groups": shape.groups, "hotspots": shape.hot_groups}.get(method, 1))


RATES: Mapping[str, int] = {"groups": 4, "hotspots": 6, "select_first": 4, "join_first": 5}
"""How many rates each method has: of a call, and of the features."""


@dataclass(frozen=True, slots=True)
class Router:
    """Rates of each method: its seconds are linear in what a call has to do, and in the features of
    events.  Methods without rates are not chosen."""

    rates: Mapping[str, tuple[float, ...]]

    # -- rates -------------------------------------------------------------------------------------

    @staticmethod
    def fit(methods: Methods, row_c: Numbers, met: Met) -> Router:
        """Measure all methods on some events, like ones together, and draw the lines (least squares
        of relative errors, no rate below zero).  Something joins some of them: nothing else is
        measured."""
        batches = [met.take(places) for places in like(met, BATCH)]
        return Router({method: _line(method, methods, row_c, batches) for method in met.shape.ways})

    def to_json(self) -> dict[str, list[float]]:
        return {method: list(own) for method, own in self.rates.items()}

    @staticmethod
    def from_json(kept: Mapping[str, Sequence[float]]) -> Router:
        """What `to_json` gave.  Rates of other features than ours are refused, methods that take no
        time, and rates of hotspots alone, which are not in all queries."""
        wrong = {
            method: own
            for method, own in kept.items()
            if len(own) != RATES.get(method)
            or not all(np.isfinite(own))
            or min(own) < 0
            or not any(own)
        }
        if wrong or not kept.keys() - {"hotspots"}:
            raise CatalogError(
                "these are no rates of the methods of joins",
                value=wrong or dict(kept),
                choices=RATES,
                hint="measure them again",
            )
        return Router({method: tuple(float(rate) for rate in own) for method, own in kept.items()})

    # -- the choice --------------------------------------------------------------------------------

    def seconds(self, method: str, met: Met) -> Floats:
        """What each event adds to a call."""
        found: Floats = features(method, met) @ np.array(self.rates[method][1:])
        return found

    def costs(self, met: Met) -> Floats:
        """The seconds of each method for each event; where nothing joins, none takes any."""
        costs = np.full((len(METHODS), met.first.size), np.inf)
        for number in self._able(met.shape):
            costs[number] = self.seconds(METHODS[number], met)
        costs[:, met.first == met.last] = 0.0
        return costs

    def ways(self, met: Met, times: float = 1.0) -> tuple[int, ...]:
        """Numbers of the methods that answer so many times these events in the least time, if each
        event goes to its cheapest: of one method, unless more of them save a good part of the
        time."""
        costs = self.costs(met)
        calls = {
            n: per_call(METHODS[n], met.shape) * self.rates[METHODS[n]][0]
            for n in self._able(met.shape)
        }

        def total(ways: tuple[int, ...]) -> float:
            return sum(calls[n] for n in ways) + times * float(costs[list(ways)].min(axis=0).sum())

        one = min(combinations(calls, 1), key=total)
        wanted = (1 - SAVED_MIN) * total(one)
        if times * float(costs[list(calls)].min(axis=0).sum()) > wanted:
            return one  # as no others can do
        more = [ways for size in range(2, len(calls) + 1) for ways in combinations(calls, size)]
        best = min(more, key=total, default=one)
        return best if total(best) < wanted else one

    def choose(self, met: Met) -> Ints:
        """The number of the method for each event."""
        return self._among(self.ways(met), met)

    def run(
        self, methods: Methods, rows: Rows, events: Events, ways: tuple[int, ...] | None = None
    ) -> list[tuple[str, Ints, Found]]:
        """Each event by its method: that, the places of events, and who they affect.  If one method
        is for all, nothing is looked up that it does not need.  `ways`, if it was asked which are
        worth it, of more events than these."""
        every, ways = np.arange(events.b.size), ways or self.ask(methods, rows, events)
        if len(ways) == 1:
            method = METHODS[ways[0]]
            return [
                (
                    method,
                    every,
                    methods.run(
                        method, rows.c, methods.meet(rows, events, counts=method != "groups")
                    ),
                )
            ]
        met = methods.meet(rows, events)
        chosen = self._among(ways, met)
        parts = [(METHODS[n], np.flatnonzero(chosen == n)) for n in ways]
        return [
            (method, own, methods.run(method, rows.c, met.take(own)))
            for method, own in parts
            if own.size
        ]

    def ask(self, methods: Methods, rows: Rows, events: Events) -> tuple[int, ...]:
        """Numbers of the methods that are worth it, as some of the events tell."""
        every = np.arange(events.b.size)
        some = every[:: every.size // ASKED] if every.size > ALL_ASKED else every
        return self.ways(methods.meet(rows, events.take(some)), every.size / max(1, some.size))

    def _able(self, shape: Shape) -> list[int]:
        return [
            number
            for number, method in enumerate(METHODS)
            if method in self.rates and method in shape.ways
        ]

    def _among(self, ways: tuple[int, ...], met: Met) -> Ints:
        found: Ints = np.array(ways)[np.argmin(self.costs(met)[list(ways)], axis=0)]
        return found


def like(met: Met, size: int) -> list[Ints]:
    """The places of events that something joins, so many together: of like numbers of rows, then of
    queries."""
    rows, having = met.rows, met.having
    joined = np.flatnonzero(rows > 0)
    batches = max(1, joined.size // size)
    strips = np.array_split(joined[np.argsort(rows[joined], kind="stable")], round(batches**0.5))
    by_having = [strip[np.argsort(having[strip], kind="stable")] for strip in strips]
    each = max(1, round(batches / len(strips)))
    return [
        np.sort(part) for strip in by_having for part in np.array_split(strip, each) if part.size
    ]


# -- measuring -------------------------------------------------------------------------------------


def _line(
    method: str, methods: Methods, row_c: Numbers, batches: Sequence[Met]
) -> tuple[float, ...]:
    points = [point for met in batches for point in _timed(method, methods, row_c, met)]
    assert points, "no event joins anything"
    return tuple(_least_squares(np.array(points)).tolist())


def _timed(method: str, methods: Methods, row_c: Numbers, met: Met) -> Iterator[Floats]:
    """What a call and its events are by a second, of as many events as the budget is for, and of a
    few of those."""
    budget_s = GROUPS_BUDGET_S if method == "groups" else BUDGET_S
    some = met.take(np.arange(min(1, met.first.size)))
    methods.run(method, row_c, some)  # compiled, if it was not
    while (
        took := _seconds(method, methods, row_c, some)
    ) < budget_s / 2 and some.first.size < met.first.size:
        some = _spread(met, max(4 * some.first.size, int(some.first.size * budget_s / took / 2)))
    yield _point(method, some, took)
    if some.first.size >= FEW:
        few = _spread(some, some.first.size // FEW)
        yield _point(method, few, _seconds(method, methods, row_c, few))


def _spread(met: Met, count: int) -> Met:
    """So many of the events, from all of them."""
    return (
        met.take(np.linspace(0, met.first.size - 1, count).astype(np.int64))
        if count < met.first.size
        else met
    )


def _point(method: str, met: Met, took: float) -> Floats:
    return np.append(per_call(method, met.shape), features(method, met).sum(axis=0)) / took


def _seconds(method: str, methods: Methods, row_c: Numbers, met: Met) -> float:
    """The least of some runs: what is slower was disturbed."""
    found = []
    for _ in range(REPEATS):
        began = thread_time()
        methods.run(method, row_c, met)
        found.append(thread_time() - began)
    return max(min(found), 1e-6)


def _least_squares(lines: Floats) -> Floats:
    """The rates that make each line nearest to 1; what would be below zero is left out."""
    scale = np.linalg.norm(lines, axis=0)
    kept = scale > 0
    while True:
        rates = np.zeros(scale.size)
        rates[kept] = np.linalg.lstsq(
            lines[:, kept] / scale[kept], np.ones(len(lines)), rcond=None
        )[0]
        if np.all(rates >= 0):
            return rates / np.where(scale > 0, scale, 1)
        kept[int(np.argmin(rates))] = False
