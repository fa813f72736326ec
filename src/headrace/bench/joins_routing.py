"""Figures 4.13 to 4.21: each event by its own method, beside every method alone and beside OPT, one thread.

OPT knows: like events are timed together by every method, and each gets the one that was the fastest; choosing costs it
nothing.  The router fits its lines on other events of the same kind, and pays for all it does to choose.

As published: 100,000 to 500,000 queries beside as many rows of S, a and b of events uniform, b of S normal (4.13 to
4.15); then, at the largest size, b of events near values that few or many rows have (4.16, 4.17, 4.20) and a near values
that few or many queries have (4.18, 4.19, 4.21).  Left open by the thesis, and chosen here:

- ranges of a: middles normal(5000, 1500), lengths normal(1000, 200), so that an event's a is within 10% of them;
- ranges of c, of which neither lengths nor groups are told: once *spread* (middles uniform, lengths normal(600, 120),
  as table 4.1 has it: some 50 groups, all of them hot), and once *popular* (5,000 groups by Zipf's law, as section 4.2.2
  argues: about 110 of them hot, with 58% of the queries);
- which values are "near": normal around one, with a deviation of 200.

Output is left out, as in the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from time import thread_time_ns

import numpy as np

from headrace.bench.joins_workload import (
    DOMAIN,
    draw_joined_events,
    draw_joined_rows,
    draw_popular,
    draw_spread,
    zipf_shares,
)
from headrace.bench.report import Figure
from headrace.families.joins.arrays import Ints
from headrace.families.joins.partition import canonical
from headrace.families.joins.routing import Router, like
from headrace.families.joins.select_index import Events, Rectangles, Rows
from headrace.families.joins.select_methods import METHODS, Met, Methods

Tell = Callable[[str], None]
SEED = 4
GROUPS = 5_000
EVENTS_MIN, EVENTS, SAMPLE = 512, 16_384, 8_192
BATCH_S = 0.3  # events are as many as the fastest method answers in about this time
LIKE = 16  # events that OPT tells apart from others
REPEATS, OPT_REPEATS = 5, 2
BUDGET_S = 0.1  # a method alone gets as many events as take about this long
TOLD = 4
SLOW = 8  # one in so many of like events tells whether a method may be the fastest of them


@dataclass(frozen=True, slots=True)
class Extent:
    sizes: tuple[int, ...]
    joining: tuple[float, ...]  # rows that have the b of an event, as shares of the most frequent one's
    having: tuple[float, ...]  # queries that have the a of an event, by how far it is from the middle

EXTENTS = {
    True: Extent((50_000,), (0.05,), (4_000.0,)),
    False: Extent((100_000, 200_000, 300_000, 400_000, 500_000), (0.005, 0.05, 0.25, 0.9), (4_500.0, 3_500.0, 2_500.0, 0.0)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, and the methods over its queries."""

    name: str
    methods: Methods
    rows: Rows
    events: Events
    sample: Events


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds an event."""

    fixed: Mapping[str, float]
    router: float
    opt: float
    shares: Mapping[str, float]
    agreed: float  # share of events that router and OPT send the same way
    repeated: float  # the best fixed method once more: how far apart two runs of the same are

    @property
    def best(self) -> str:
        return min(self.fixed, key=lambda method: self.fixed[method])


def cases(extent: Extent) -> Iterator[Case]:
    kinds: Mapping[str, Callable[[np.random.Generator, int], Rectangles]] = {
        "spread": draw_spread,
        "popular": lambda rng, count: draw_popular(rng, count, zipf_shares(GROUPS)),
    }
    for kind, draw in kinds.items():
        for size in extent.sizes:
            rng = np.random.default_rng([SEED, size])
            queries, rows = draw(rng, size), draw_joined_rows(rng, size)
            methods = Methods(queries, canonical(queries.c_lo, queries.c_hi).group)
            places: dict[str, tuple[float | None, float | None]] = {str(size): (None, None)}
            if size == extent.sizes[-1]:
                places |= {f"joining_{share:g}": (None, b_with(share)) for share in extent.joining}
                places |= {f"having_{DOMAIN / 2 - away:g}": (DOMAIN / 2 - away, None) for away in extent.having}
            for name, (a, b) in places.items():
                events, sample = (draw_joined_events(rng, count, a, b) for count in (EVENTS, SAMPLE))
                yield Case(f"{kind}_{name}", methods, rows, events, sample)


def b_with(share: float) -> float:
    """The b that so many rows have, as a share of the most frequent one's."""
    return DOMAIN / 2 - DOMAIN / 10 * sqrt(-2 * log(share))


# -- measuring --------------------------------------------------------------------------------------


def outcome(case: Case) -> Outcome:
    methods, rows = case.methods, case.rows
    router = Router.fit(methods, rows.c, methods.meet(rows, case.sample))
    check(case, router)
    fixed = {method: alone(case, method) for method in methods.shape.ways}
    best = min(fixed, key=lambda method: fixed[method])
    case = replace(case, events=part(case.events, max(EVENTS_MIN, int(BATCH_S / fixed[best]))))
    met = methods.meet(rows, case.events)
    known = optimal(case, met, sorted(fixed, key=lambda method: fixed[method]))
    one = lambda: run_alone(case, best, case.events)  # noqa: E731
    calls = (one, lambda: router.run(methods, rows, case.events), lambda: by_method(case, known), one)
    fixed[best], routed, opt, repeated = turns(calls, case.events.b.size)
    chosen, joined = router.choose(met), met.rows > 0
    shares = {m: float(np.mean(chosen[joined] == i)) for i, m in enumerate(METHODS)}
    agreed = float(np.mean((chosen == known)[joined]))
    return Outcome(fixed, routed, min(opt, fixed[best], repeated), shares, agreed, repeated)


def check(case: Case, router: Router) -> None:
    """All ways give the same answer."""
    some = case.methods.meet(case.rows, part(case.events, 16))
    answers = {m: case.methods.affected(case.methods.run(m, case.rows.c, some), 16) for m in case.methods.shape.ways}
    for places, found in router.run(case.methods, case.rows, some.events):
        own = dict(zip(places.tolist(), case.methods.affected(found, places.size), strict=True))
        for lists in answers.values():
            assert all(np.array_equal(np.sort(lists[e]), np.sort(ids)) for e, ids in own.items())


def run_alone(case: Case, method: str, events: Events) -> object:
    """With no more look-ups than it needs."""
    met = case.methods.meet(case.rows, events, counts=method != "groups")
    return case.methods.run(method, case.rows.c, met)


def alone(case: Case, method: str) -> float:
    """Seconds an event, of so many that it can be measured."""
    count, took = 8, 0.0
    while took < BUDGET_S / 4 and count < case.events.b.size:
        count = min(4 * count, case.events.b.size)
        (took,) = turns((lambda: run_alone(case, method, part(case.events, count)),), 1, 1)
    (found,) = turns((lambda: run_alone(case, method, part(case.events, count)),), count)
    return found


def optimal(case: Case, met: Met, methods: Sequence[str]) -> Ints:
    """The fastest method of each event, by its number: of all that were timed on like ones.

    What is far slower on a few of them is not given the rest."""
    known = np.zeros(met.first.size, np.int64)
    for places in like(met, LIKE):
        least = np.inf
        for method in methods:
            for some in (places[::SLOW], places):
                own = met.take(some)
                (took,) = turns((lambda: case.methods.run(method, case.rows.c, own),), some.size, OPT_REPEATS)
                if took > 2 * least:
                    break
            if took < least:
                least = took
                known[places] = METHODS.index(method)
    return known


def by_method(case: Case, known: Ints) -> None:
    for number in np.unique(known):
        chosen = np.flatnonzero(known == number)
        run_alone(case, METHODS[number], case.events.take(chosen))


def turns(calls: Sequence[Callable[[], object]], events: int, repeats: int = REPEATS) -> list[float]:
    """Seconds an event, of the processor: the best of some rounds in which all take turns."""
    best = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            began = thread_time_ns()
            call()
            best[i] = min(best[i], (thread_time_ns() - began) / 1e9 / events)
    return best


def part(events: Events, count: int) -> Events:
    """So many of them, from all of the domain."""
    return events.take(np.linspace(0, events.b.size - 1, count).astype(np.int64)) if count < events.b.size else events


# -- telling ----------------------------------------------------------------------------------------


def run(quick: bool, tell: Tell) -> list[Figure]:
    figures: list[Figure] = []
    for case in cases(EXTENTS[quick]):
        found = outcome(case)
        figures += told(case, found)
        tell("; ".join(f"{figure.name} {figure.value:,.2f}" for figure in figures[-TOLD:]) + f" ({figures[-1].note})")
    return figures


def told(case: Case, found: Outcome) -> list[Figure]:
    met = case.methods.meet(case.rows, case.events)
    shares = ", ".join(f"{method} {share:.0%}" for method, share in found.shares.items())
    note = f"{met.rows.mean():.0f} rows, {met.having.mean():,.0f} queries an event; {shares}; as OPT: {found.agreed:.0%}"
    name, best = f"routing_{case.name}", found.fixed[found.best]
    return [
        *(Figure(f"{name}_{method}_per_s", 1 / took, "events/s") for method, took in found.fixed.items()),
        Figure(f"{name}_router_per_s", 1 / found.router, "events/s"),
        Figure(f"{name}_opt_per_s", 1 / found.opt, "events/s"),
        Figure(f"{name}_to_best", best / found.router, "×", note=f"to {found.best}"),
        Figure(f"{name}_opt_to_router", found.router / found.opt, "×", note=note),
    ]
