"""Forest, single tree or dyadic table: what each would cost for some windows, and which is cheapest.  Pure.

Counted in merges of one sketch a second and group.  A *row* of Weave Share is here the sketch of a pane, and a tree
takes it in once; a window merges every fragment of its tree between its edges.  The table makes about one run a pane,
and a window merges the runs it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headrace.families.windows.sketches.trees import dyadic_runs
from headrace.families.windows.weave.edges import Shape
from headrace.families.windows.weave.weave import Plan, Weights, plan_of, weave
from headrace.values import US_PER_S

FOREST, TREE, TABLE = "trees", "one tree", "dyadic table"
SAMPLE = 32  # windows of a shape whose runs are counted
# Measured (`headrace bench sketches`): taking in the sketch of a pane against merging a fragment into an answer.
# Fragments of lists hold the values of all their panes, and are that much dearer to merge.
WEIGHTS: Mapping[str, Weights] = {
    "hll": Weights(1.0, 1.0), "points": Weights(1.0, 2.0), "values": Weights(1.0, 2.0), "distinct": Weights(1.0, 2.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Costs:
    """Merges a second and group, and the trees of the cheapest forest (numbers of shapes)."""

    forest: float
    tree: float
    table: float
    trees: tuple[tuple[int, ...], ...]

    @property
    def best(self) -> str:
        """The table only where it is cheaper, one tree where the forest is one."""
        if self.table < self.forest:
            return TABLE
        return TREE if len(self.trees) == 1 else FOREST

    @property
    def least(self) -> float:
        return min(self.forest, self.table)


def grain_of(shapes: Sequence[Shape]) -> int:
    """The width of the widest panes that have all edges of these windows."""
    return math.gcd(*(t for s in shapes for t in (s.range_us, s.slide_us, s.offset_us)))


@lru_cache(maxsize=1_000)
def costs_of(shapes: tuple[Shape, ...], kind: str, density: float = 1.0) -> Costs:
    """What these windows cost, where `density` of the panes have rows."""
    weights, grain = WEIGHTS[kind], grain_of(shapes)
    rate = density / grain
    forest = weave(shapes, rate, weights)
    one = plan_of([range(len(shapes))], shapes, rate, weights)
    trees = tuple(tree.queries for tree in forest.trees)
    return Costs(_a_second(forest), _a_second(one), table_cost(shapes, kind, density), trees)


def table_cost(shapes: Sequence[Shape], kind: str, density: float) -> float:
    """One run a pane, of two halves, and for each answer the runs it is made of."""
    grain = grain_of(shapes)
    answers = sum(_runs(s, grain) / s.slide_us for s in shapes)
    return (2 * density / grain + answers) * WEIGHTS[kind].merge * US_PER_S


def _runs(shape: Shape, grain: int) -> float:
    """How many runs a window is made of, on average over some."""
    starts = [(shape.offset_us + k * shape.slide_us) // grain for k in range(SAMPLE)]
    return sum(len(dyadic_runs(s, s + shape.range_us // grain)) for s in starts) / SAMPLE


def _a_second(plan: Plan) -> float:
    return plan.cost * US_PER_S
