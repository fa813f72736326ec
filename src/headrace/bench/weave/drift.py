"""What going on with a plan costs in quality (figure 11), and what planning costs in time
(figure 14).

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import mean, median
from time import perf_counter

from headrace.bench.weave.naive import FIRST, NAIVE, SECOND, THIRD, weave_naively
from headrace.bench.weave.workload import Workload
from headrace.families.windows.weave.edges import Shape
from headrace.families.windows.weave.online import OnlineWeave, rebuild
from headrace.families.windows.weave.weave import weave

CHECK_EVERY = 10
VARIANTS = {"naive": NAIVE, "I": FIRST, "I+II": SECOND, "I+II+III": THIRD}
VARIANT_RATE = 100.0
ODD_SLIDE = 100_801  # one more than what slides of the workload divide


@dataclass(frozen=True, slots=True)
class Drift:
    """At one tolerance: mean excess over plans from scratch, pairs of trees compared, rebuilds."""

    tolerance: float
    deviation: float
    comparisons: int
    rebuilds: int


def drift(
    shapes: Sequence[Shape],
    first: int,
    rate: float,
    tolerance: float,
    reach: float,
    scratch: Sequence[float],
) -> Drift:
    """A plan of the first queries, then the others one by one; `scratch` is what `from_scratch`
    gives for them."""
    online = OnlineWeave(rate, tolerance=tolerance, reach=reach)
    for query, shape in enumerate(shapes[:first]):
        online.add(query, shape)
    online.swap(rebuild(online.snapshot()))
    began, compared, rebuilds, excess = online.comparisons, 0, 0, []
    for query, shape in enumerate(shapes[first:], first):
        online.add(query, shape)
        if online.is_due():
            made = rebuild(online.snapshot())
            compared += pairs_compared(query + 1, len(made.plan.trees))
            online.swap(made)
            rebuilds += 1
        if (query + 1) % CHECK_EVERY == 0:
            excess.append(online.cost / scratch[(query + 1) // CHECK_EVERY] - 1)
    return Drift(tolerance, mean(excess), compared + online.comparisons - began, rebuilds)


def from_scratch(shapes: Sequence[Shape], rate: float) -> list[float]:
    """What a plan of the first 0, CHECK_EVERY, … queries costs."""
    return [weave(shapes[:n], rate).cost for n in range(0, len(shapes) + 1, CHECK_EVERY)]


def pairs_compared(queries: int, trees: int) -> int:
    """By Weave Share with a table of pairs: all of them once, and those of each merged tree
    again."""
    return queries * (queries - 1) // 2 + sum(range(trees, queries))


def variant_seconds(queries: int, variants: Collection[str]) -> dict[str, float]:
    """Figure 14: λ = 100, skew 0.7, Ω_max 10; the variants asked for, and ours."""
    shapes = Workload(queries, overlap_max=10.0, skew=0.7).shapes()
    weave_naively(shapes[:5], VARIANT_RATE, variant=THIRD)  # compiles
    found = {}
    for name in variants:
        began = perf_counter()
        weave_naively(shapes, VARIANT_RATE, variant=VARIANTS[name])
        found[name] = perf_counter() - began
    began = perf_counter()
    weave(shapes, VARIANT_RATE)
    return found | {"ours": perf_counter() - began}


def plan_seconds(queries: int, rate: float, templates: tuple[int, ...]) -> tuple[float, int]:
    """To plan so many windows; and the trees."""
    shapes = Workload(queries, templates=templates).shapes()
    began = perf_counter()
    plan = weave(shapes, rate)
    return perf_counter() - began, len(plan.trees)


def change_ms(queries: int, rate: float, changes: int = 200) -> tuple[float, float, float]:
    """Milliseconds to add one query to a plan of so many and to drop one, medians, and to add one
    whose slide is new to the plan, at worst."""
    shapes = Workload(queries + changes).shapes()
    online = OnlineWeave.of(dict(enumerate(shapes[:queries])), rate)
    added, dropped, odd = list[float](), list[float](), list[float]()
    for query, shape in enumerate(shapes[queries:], queries):
        added.append(_seconds(online.add, query, shape))
        dropped.append(_seconds(online.drop, (query * 31) % queries))
    for query, slide in enumerate(range(ODD_SLIDE, ODD_SLIDE + changes), queries + changes):
        odd.append(_seconds(online.add, query, Shape(3 * slide, slide)))
    return 1000 * median(added), 1000 * median(dropped), 1000 * max(odd)


def _seconds(change: Callable[..., None], *args: object) -> float:
    began = perf_counter()
    change(*args)
    return perf_counter() - began
