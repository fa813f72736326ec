"""Figures 4.13 to 4.21: each event by its own method, beside every method alone and beside OPT, one
thread.

OPT knows: like events are timed together by every method, and each gets the one that was the
fastest; choosing costs it nothing.  The router has its lines from other events, uniform ones, of
the same queries, and pays for all it does to choose; where events are no longer uniform, its lines
are the same.

As published: 100,000 to 500,000 queries beside as many rows of S, a and b of events uniform, b of S
normal (4.13 to 4.15); then, at the largest size, b of events near values that few or many rows have
(4.16, 4.17, 4.20) and a near values that few or many queries have (4.18, 4.19, 4.21).  Left open by
the thesis, and chosen here:

- ranges of a: middles normal(5000, 1500), lengths normal(1000, 200), so that an event's a is within
  10% of them;
- ranges of c, of which neither lengths nor groups are told: once *spread* (middles uniform, lengths
  normal(600, 120), in the way of table 4.1: some 50 groups, all of them hot), and once *popular*
  (5,000 groups by Zipf's law, as section 4.2.2 argues: about 110 of them hot, with 58% of the
  queries);
- which values are "near": normal around one, with a deviation of 200.

Of SJ-JoinFirst-S, which the thesis's router never chose, there is nothing here.  Output is left
out, as in the thesis.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log, sqrt
from time import thread_time_ns

import numpy as np

from headrace.bench.joins.workload import (
    DOMAIN,
    draw_joined_events,
    draw_joined_rows,
    draw_popular,
    draw_spread,
    zipf_shares,
)
from headrace.bench.report import Figure, Report, machine, verdict
from headrace.families.joins.selects.index import Events, Rectangles, Rows
from headrace.families.joins.selects.methods import METHODS, Met, Methods
from headrace.families.joins.selects.routing import Router, like
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Floats, Ints

Tell = Callable[[str], None]
SEED = 4
GROUPS = 5_000
EVENTS_MIN, EVENTS, SAMPLE = 1_024, 32_768, 8_192  # a batch of a worker has up to 200,000
# events are as many as the fastest method answers in about this time
BATCH_S, QUICK_BATCH_S = (
    0.4,
    0.05,
)
BUDGET_S = 0.1  # a slow method gets fewer
# events that OPT tells apart from others; times slower that it does not look at
LIKE, GROUPS_LIKE, FAR = (
    16,
    256,
    20,
)
REPEATS, TURNS, OPT_REPEATS = 5, 11, 2
TO_BEST_WANTED, TO_OPT_WANTED = 1.0, 1.5


@dataclass(frozen=True, slots=True)
class Extent:
    sizes: tuple[int, ...]
    joining: tuple[
        float, ...
    ]  # rows that have the b of an event, as shares of the most frequent one's
    having: tuple[
        float, ...
    ]  # the a of events: queries have it the more, the nearer it is to the middle
    batch_s: float = BATCH_S


EXTENTS = {
    True: Extent((20_000,), (0.05,), (1_500.0,), QUICK_BATCH_S),
    False: Extent((100_000, 300_000, 500_000), (0.005, 0.1, 0.9), (500.0, 2_000.0, 5_000.0)),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, and the methods and the router of its queries."""

    name: str
    methods: Methods
    router: Router
    rows: Rows
    events: Events
    batch_s: float = BATCH_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds that one event takes: by each method alone (`fixed`), by the router, and by OPT."""

    fixed: Mapping[str, float]
    router: float
    opt: float
    shares: Mapping[str, float]
    agreed: float  # share of events that router and OPT send the same way
    to_best: float  # times as fast as the best fixed method, run after run
    to_itself: float  # the same of that method beside itself: what chance does to such a figure
    asking: float  # of the router's time, to ask some events which methods are worth it

    @property
    def best(self) -> str:
        return min(self.fixed, key=lambda method: self.fixed[method])

    @property
    def to_opt(self) -> float:
        return self.router / self.opt


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
            router = Router.fit(
                methods, rows.c, methods.meet(rows, draw_joined_events(rng, SAMPLE))
            )
            near: dict[str, tuple[float | None, float | None]] = {str(size): (None, None)}
            if size == extent.sizes[-1]:
                near |= {f"joining_{share:g}": (None, b_with(share)) for share in extent.joining}
                near |= {f"having_{a:g}": (a, None) for a in extent.having}
            for name, (a, b) in near.items():
                events = draw_joined_events(rng, EVENTS, a, b)
                yield Case(f"{kind}_{name}", methods, router, rows, events, extent.batch_s)


def b_with(share: float) -> float:
    """The b that so many rows have, as a share of the most frequent one's."""
    return DOMAIN / 2 - DOMAIN / 10 * sqrt(-2 * log(share))


# -- measuring -------------------------------------------------------------------------------------


def outcome(case: Case) -> Outcome:
    check(case)
    methods, router = case.methods, case.router
    fixed = {method: alone(case, method) for method in methods.shape.ways}
    by_speed = sorted(fixed, key=lambda method: fixed[method])
    best = by_speed[0]
    case = replace(case, events=part(case.events, max(EVENTS_MIN, int(case.batch_s / fixed[best]))))
    met = methods.meet(case.rows, case.events)
    known = optimal(case, met, by_speed)
    one = partial(run_alone, case, best, case.events)
    given = methods, case.rows, case.events
    calls = (
        one,
        partial(router.run, *given),
        partial(by_method, case, known),
        one,
        partial(router.ask, *given),
    )
    took = turns(calls)
    one_s, routed, opt, again, asking = np.median(took, axis=0) / case.events.b.size
    fixed[best] = float(one_s)
    to_best, to_itself = (float(np.median(took[:, 0] / took[:, other])) for other in (1, 3))
    chosen, joined = router.choose(met), met.rows > 0
    shares = {m: float(np.mean(chosen[joined] == i)) for i, m in enumerate(METHODS)}
    agreed = float(np.mean((chosen == known)[joined]))
    least = float(min(opt, again, *fixed.values()))
    return Outcome(
        fixed, float(routed), least, shares, agreed, to_best, to_itself, float(asking / routed)
    )


def check(case: Case, events: int = 16) -> None:
    """All ways give the same answer."""
    methods, rows, some = case.methods, case.rows, part(case.events, events)
    met = methods.meet(rows, some)
    answers = [
        methods.affected(methods.run(method, rows.c, met), events) for method in methods.shape.ways
    ]
    for _, places, found in case.router.run(methods, rows, some):
        for place, ids in zip(places.tolist(), methods.affected(found, places.size), strict=True):
            assert all(np.array_equal(np.sort(own[place]), np.sort(ids)) for own in answers)


def run_alone(case: Case, method: str, events: Events) -> object:
    """With no more look-ups than it needs."""
    met = case.methods.meet(case.rows, events, counts=method != "groups")
    return case.methods.run(method, case.rows.c, met)


def alone(case: Case, method: str) -> float:
    """Seconds an event, of so many that it can be measured."""
    few = part(case.events, 1)
    run_alone(case, method, few)  # compiled, if it was not
    while (
        seconds(partial(run_alone, case, method, few)) < BUDGET_S / 4
        and few.b.size < case.events.b.size
    ):
        few = part(case.events, 4 * few.b.size)
    return min(seconds(partial(run_alone, case, method, few)) for _ in range(REPEATS)) / few.b.size


def optimal(case: Case, met: Met, methods: Sequence[str]) -> Ints:
    """The fastest method of each event, by its number: of all that were timed on like ones.

    Groups are dear for few events, and timed on more."""
    known, by_groups = np.zeros(met.first.size, np.int64), np.zeros(met.first.size)
    for places in like(met, GROUPS_LIKE):
        by_groups[places] = _if_faster(case, met, "groups", places, np.inf) / places.size
    for places in like(met, LIKE):
        took = {"groups": float(by_groups[places].sum())}
        for method in methods:
            if method != "groups":
                took[method] = _if_faster(case, met, method, places, min(took.values()))
        known[places] = METHODS.index(min(took, key=lambda method: took[method]))
    return known


def _if_faster(case: Case, met: Met, method: str, places: Ints, least: float) -> float:
    """Seconds, or infinitely many: a method is stopped once it has taken longer for some of the
    events than another one for all, and not tried if by its line it is FAR slower."""
    if float(case.router.seconds(method, met.take(places)).sum()) > FAR * least:
        return np.inf
    for some in (places[:1], places[::4]):
        if seconds(partial(case.methods.run, method, case.rows.c, met.take(some))) > least:
            return np.inf
    call = partial(case.methods.run, method, case.rows.c, met.take(places))
    return min(seconds(call) for _ in range(OPT_REPEATS))


def by_method(case: Case, known: Ints) -> None:
    for number in np.unique(known):
        chosen = np.flatnonzero(known == number)
        run_alone(case, METHODS[number], case.events.take(chosen))


def turns(calls: Sequence[Callable[[], object]]) -> Floats:
    """Seconds of each call in each of some rounds, in which all take turns and each is the first as
    often."""
    took = np.empty((TURNS, len(calls)))
    for turn in range(TURNS):
        for place in range(len(calls)):
            own = (turn + place) % len(calls)
            took[turn, own] = seconds(calls[own])
    return took


def seconds(call: Callable[[], object]) -> float:
    """Processor time that a call takes."""
    began = thread_time_ns()
    call()
    return (thread_time_ns() - began) / 1e9


def part(events: Events, count: int) -> Events:
    """So many of them, from all of the domain."""
    return (
        events.take(np.linspace(0, events.b.size - 1, count).astype(np.int64))
        if count < events.b.size
        else events
    )


# -- telling ---------------------------------------------------------------------------------------


def run(quick: bool, tell: Tell) -> Report:
    extent, figures, found = EXTENTS[quick], list[Figure](), list[Outcome]()
    for case in cases(extent):
        found.append(outcome(case))
        own = figures_of(case, found[-1])
        tell(
            "; ".join(f"{figure.name} {figure.value:,.2f}" for figure in own) + f" ({own[-1].note})"
        )
        figures += own
    title = f"{extent.sizes[-1]:,} standing select-joins at the most, each event by its own method, one thread"
    return Report(title, (*figures, *worst(found)), None, machine(0, SEED))


def figures_of(case: Case, found: Outcome) -> list[Figure]:
    met = case.methods.meet(case.rows, case.events)
    shares = ", ".join(f"{method} {share:.0%}" for method, share in found.shares.items())
    note = f"{met.rows.mean():.0f} rows, {met.having.mean():,.0f} queries an event; {shares}; "
    note += f"as OPT: {found.agreed:.0%}"
    name = f"routing_{case.name}"
    took = {**found.fixed, "router": found.router, "opt": found.opt}
    return [
        *(Figure(f"{name}_{way}_per_s", 1 / own, "events/s") for way, own in took.items()),
        Figure(
            f"{name}_to_best",
            found.to_best,
            "×",
            note=f"to {found.best}, {found.to_itself:.3f} to itself",
        ),
        Figure(f"{name}_opt_ratio", found.to_opt, "×", note=note),
    ]


def worst(found: Sequence[Outcome]) -> list[Figure]:
    """Over all workloads.  Where one method is for all, the router is that method and the asking:
    then it cannot be faster, and whether the figure is above 1 is chance.  How much of it is, the
    method beside itself tells."""
    slowest, most = min(own.to_best for own in found), max(own.to_best for own in found)
    asking, to_opt = max(own.asking for own in found), max(own.to_opt for own in found)
    below = [own for own in found if own.to_best < TO_BEST_WANTED]
    alike = sum(own.shares.get(own.best, 0.0) == 1 for own in below)
    note = (
        f"want ≥ {TO_BEST_WANTED:g}; less in {len(below)} of {len(found)}, of which in {alike} it takes that "
        "method for all: "
    )
    return [
        Figure(
            "routing_to_best",
            slowest,
            "×",
            "more than 1 always",
            note + verdict(slowest >= TO_BEST_WANTED),
        ),
        Figure(
            "routing_best_to_itself",
            min(own.to_itself for own in found),
            "×",
            note="the best method beside itself, measured the same way: chance",
        ),
        Figure("routing_asking", asking, "", note="of the router's time, at the most"),
        Figure("routing_gained", most, "×", "up to 1.5 over hotspots alone"),
        Figure(
            "routing_opt_ratio", to_opt, "×", note=f"want ≤ 1.5: {verdict(to_opt <= TO_OPT_WANTED)}"
        ),
    ]
