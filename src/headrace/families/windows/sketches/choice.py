"""Forest, single tree or dyadic table: what each would cost for some windows, and which is
cheapest.  Pure.

A *row* of Weave Share is here the sketch of a pane, and a tree takes it in once; a window merges
every fragment of its tree between its edges.  The table makes about one run a pane, of two halves,
and a window merges the runs it has.

Costs are a second and group, in sketches of a pane that are merged into another.  Registers are as
dear to merge in a fragment as in a pane.  Sorted values grow with the panes they are of, thinned
ones up to a size: k parts that hold n panes are merged in n·log2(k).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from headrace.families.windows.sketches.trees import dyadic_runs, grain_of
from headrace.families.windows.weave.edges import Shape, classes_of, edge_rate
from headrace.families.windows.weave.weave import Weights, plan_of, weave
from headrace.values import US_PER_S

FOREST, TREE, TABLE = "trees", "one tree", "dyadic table"
SAMPLE = 32  # windows of a shape whose runs are counted
# What Weave Share is told: taking in the sketch of a pane, and merging a fragment into an answer
# (fitted to what `headrace bench sketches` measures).  It knows nothing of sizes; what comes out is
# weighed by `trees_cost`.
WEIGHTS: Mapping[str, Weights] = {
    "hll": Weights(1.0, 1.0),
    "points": Weights(1.0, 5.0),
    "values": Weights(1.0, 2.0),
    "distinct": Weights(1.0, 2.0),
}
PANES_MAX = {
    "points": 10.0,
    "values": math.inf,
    "distinct": math.inf,
}  # as many panes a fragment is as large as
RUN = 4.0  # registers: making a run takes two merges, and as long again to find and keep it


@dataclass(frozen=True, slots=True)
class Costs:
    """Of Weave Share's trees (numbers of shapes), of one tree and of the table."""

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


@lru_cache(maxsize=1_000)
def costs_of(shapes: tuple[Shape, ...], kind: str, density: float = 1.0) -> Costs:
    """What these windows cost, where `density` of the panes have rows."""
    rate = density / grain_of(shapes)
    trees = tuple(tree.queries for tree in weave(shapes, rate, WEIGHTS[kind]).trees)
    forest = trees_cost([[shapes[n] for n in tree] for tree in trees], kind, rate)
    tree = forest if len(trees) == 1 else trees_cost([shapes], kind, rate)
    table = table_cost(shapes, kind, density)
    if tree < forest:  # possible where sketches grow
        forest, trees = tree, (tuple(range(len(shapes))),)
    return Costs(forest, tree, table, trees)


def trees_cost(trees: Sequence[Sequence[Shape]], kind: str, rate: float) -> float:
    """Of trees of these windows, with `rate` panes a microsecond."""
    if kind in PANES_MAX:
        return sum(_sorted_cost(tree, rate, PANES_MAX[kind]) for tree in trees) * US_PER_S
    places = [range(a, b) for a, b in pairwise([0, *accumulate(map(len, trees))])]
    return plan_of(places, [s for tree in trees for s in tree], rate, WEIGHTS[kind]).cost * US_PER_S


def _sorted_cost(shapes: Sequence[Shape], rate: float, panes_max: float) -> float:
    """The panes of a fragment are merged once, the fragments of a window in each of its answers."""
    edges = edge_rate(shapes).rate
    size = min(rate / edges, panes_max)
    answers = sum(
        edges * s.range_us * size * _levels(edges * s.range_us) / s.slide_us for s in shapes
    )
    return rate * _levels(rate / edges) + answers


def table_cost(shapes: Sequence[Shape], kind: str, density: float) -> float:
    """Of the table of these windows, where `density` of the panes have rows.  Its runs are not
    thinned."""
    grain = grain_of(shapes)
    rate = density / grain
    if kind in PANES_MAX:
        answers = sum(rate * s.range_us * _levels(_runs(s, grain)) / s.slide_us for s in shapes)
        return (rate * _levels(max(s.range_us for s in shapes) / grain) + answers) * US_PER_S
    answers = sum(_runs(s, grain) / s.slide_us for s in shapes)
    return (RUN * rate + answers) * WEIGHTS[kind].merge * US_PER_S


def held_most(shapes: Sequence[Shape], trees: Sequence[Sequence[Shape]], is_table: bool) -> int:
    """Sketches kept of a group at most, when every pane has rows: in the table fewer runs than
    panes beside the panes, in a tree its fragments and the panes of the open one.  Panes that are
    not closed come on top."""
    grain = grain_of(shapes)
    if is_table:
        panes = max(s.range_us for s in shapes) // grain
        return 2 * panes + panes.bit_length()
    return sum(_fragments_most(tree, grain) for tree in trees)


def _fragments_most(shapes: Sequence[Shape], grain: int) -> int:
    """Fragments from edge to edge of the longest window, and panes that no window has asked for
    yet: the first window that ends after a pane does, unless there are gaps between them."""
    longest = max(s.range_us for s in shapes)
    classes = {c for s in shapes for c in classes_of(s)}
    edges = sum(longest // c.modulus + 1 for c in classes)
    waiting = min((s.slide_us for s in shapes if s.slide_us <= s.range_us), default=longest)
    return min(longest // grain, edges) + -(-min(longest, waiting) // grain)


def _levels(parts: float) -> float:
    """How often a value is moved while so many parts are merged, and once to be read."""
    return math.log2(max(1.0, parts)) + 1


def _runs(shape: Shape, grain: int) -> float:
    """How many runs a window is made of, on average over some."""
    starts = [(shape.offset_us + k * shape.slide_us) // grain for k in range(SAMPLE)]
    return sum(len(dyadic_runs(s, s + shape.range_us // grain)) for s in starts) / SAMPLE
