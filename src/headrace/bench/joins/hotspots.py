"""Figure 4.9: events a second as more and more queries are in hotspots, one thread.

As published: 500,000 queries, of which the 500 largest stabbing groups hold 10% to 100%, and α of
each workload such that those are the hotspots.  That 500 groups hold 10% is read as 5,000 groups of
one size, the number section 4.2.2 argues with; the 500 get larger at the expense of the others.
How often an event's a is within a query's range is not told: 10%, as for figure 4.7.  Ranges of a
and events are those of `routing.py`, rows 100,000 as in table 4.1. A workload without
hotspots is added, and so are methods that the thesis leaves out of this figure.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.bench.joins.routing import Case, alone, check
from headrace.bench.joins.workload import (
    draw_joined_events,
    draw_joined_rows,
    draw_popular,
    hot_shares,
)
from headrace.bench.report import Figure, Report, machine
from headrace.families.joins.selects.methods import METHODS, Methods
from headrace.families.joins.selects.routing import RATES, Router
from headrace.families.joins.stabbing.partition import canonical

Tell = Callable[[str], None]
SEED = 9
ROWS, EVENTS = 100_000, 4_096
HOT_SHARE = 10  # one in so many groups is hot


@dataclass(frozen=True, slots=True)
class Extent:
    queries: int
    groups: int
    shares: tuple[float, ...]  # of queries, in hotspots


EXTENTS = {
    True: Extent(20_000, 500, (0.1, 0.5, 1.0)),
    False: Extent(500_000, 5_000, (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)),
}


def run(quick: bool, tell: Tell) -> Report:
    extent, figures = EXTENTS[quick], list[Figure]()
    for share in extent.shares:
        case = workload(extent, share)
        speeds = {method: 1 / alone(case, method) for method in METHODS}
        figures += figures_of(share, case, speeds)
        tell(
            "; ".join(
                f"{figure.name} {figure.value:,.2f}" for figure in figures[-1 - len(speeds) :]
            )
        )
    title = (
        f"{extent.queries:,} standing select-joins, by the share of them in hotspots, one thread"
    )
    return Report(title, tuple(figures), None, machine(0, SEED))


def workload(extent: Extent, share: float) -> Case:
    rng = np.random.default_rng([SEED, extent.queries])
    hot = extent.groups // HOT_SHARE
    queries = draw_popular(rng, extent.queries, hot_shares(extent.groups, hot, share))
    group = canonical(queries.c_lo, queries.c_hi).group
    largest = np.sort(np.bincount(group))[::-1]
    alpha = float(largest[: hot + 1][-1] + 1) / extent.queries if share else 1.0
    methods, rows = Methods(queries, group, alpha), draw_joined_rows(rng, ROWS)
    router = Router({"groups": (0.0,) * RATES["groups"]})
    case = Case(f"{share:.0%}", methods, router, rows, draw_joined_events(rng, EVENTS))
    check(case)
    return case


def figures_of(share: float, case: Case, speeds: Mapping[str, float]) -> list[Figure]:
    name, shape = f"hotspots_{100 * share:.0f}", case.methods.shape
    note = f"{shape.hot_groups} of {shape.groups} groups hot, {shape.scattered:,} queries scattered"
    return [
        *(
            Figure(f"{name}_{method}_per_s", speed, "events/s", note=note)
            for method, speed in speeds.items()
        ),
        Figure(
            f"{name}_ratio",
            speeds["hotspots"] / speeds["select_first"],
            "×",
            "rises with the share in hotspots",
            "to select first",
        ),
    ]
