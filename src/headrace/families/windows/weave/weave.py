"""Weave Share: which windows share one tree of partial aggregates.

A tree takes every row once and cuts at the edges of all its windows.  With λ rows and E edges a
unit of time, and Ω = Σ r/s of its windows, it costs λ + E·Ω: each window examines the edges of the
whole tree.  Merging two trees saves one λ and costs what each must examine of the other's edges.
Weave Share starts with a tree a query and merges the cheapest pair while that is below λ.  One tree
for all (Shared) and one each (No Share) are tried too: the plan is never dearer than either.

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011, sections 4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headrace.errors import PlanError
from headrace.families.windows.weave.blocks import NODES_EXACT, weave_nodes
from headrace.families.windows.weave.edge_kernels import Ints
from headrace.families.windows.weave.edge_union import EdgeClass, density
from headrace.families.windows.weave.edges import EdgeRate, Shape, classes_of, edge_rate
from headrace.families.windows.weave.nodes import Nodes, nodes_of

ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Weights:
    """What taking a row into a partial, and merging one partial, cost."""

    row: float = 1.0
    merge: float = 1.0

    def __post_init__(self) -> None:
        if not (self.row > 0 and self.merge > 0):
            raise PlanError("weights of costs must be positive", value=self)


EVEN = Weights()


@dataclass(frozen=True, slots=True)
class Tree:
    """Queries that share partial aggregates: their numbers, E and Ω."""

    queries: tuple[int, ...]
    edges: EdgeRate
    overlap: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Trees by their first query, and what all of them cost a unit of time.

    `sampled` says that trees were compared by drawn times; the edges of each were counted
    afterwards.
    """

    trees: tuple[Tree, ...]
    cost: float
    sampled: bool = False

    @property
    def is_estimated(self) -> bool:
        return any(tree.edges.is_estimated for tree in self.trees)


def weave(
    shapes: Sequence[Shape], rate: float, weights: Weights = EVEN, exact_max: int = NODES_EXACT
) -> Plan:
    """The plan for these windows and `rate` rows a unit of time; the same for the same input.

    Above `exact_max` windows with different edges, blocks of them are woven apart first.
    """
    if not 0 <= rate < math.inf:
        raise PlanError("a rate must be a number of rows a unit of time", value=rate)
    if not shapes:
        return Plan((), 0.0)
    nodes, node_of = nodes_of(shapes)
    tree_of, sampled = weave_nodes(nodes, rate * weights.row / weights.merge, exact_max)
    woven = _assembled(nodes, node_of, tree_of, rate, weights, sampled)
    return _cheapest(woven, shapes, rate, weights)


def plan_of(
    groups: Iterable[Iterable[int]], shapes: Sequence[Shape], rate: float, weights: Weights = EVEN
) -> Plan:
    """The plan that shares exactly within these groups of query numbers."""
    ordered = sorted(tuple(sorted(group)) for group in groups)
    trees = tuple(
        Tree(
            group,
            edge_rate((shapes[q] for q in group), 1 / len(ordered)),
            sum(shapes[q].overlap for q in group),
        )
        for group in ordered
    )
    return Plan(trees, cost_of(trees, rate, weights))


def cost_of(trees: Iterable[Tree], rate: float, weights: Weights = EVEN) -> float:
    """Operations a unit of time that m trees take: m·row·λ + merge·Σ E·Ω."""
    return sum(
        weights.row * rate + weights.merge * tree.edges.rate * tree.overlap for tree in trees
    )


def weaveability(some: Iterable[Shape], others: Iterable[Shape]) -> float:
    """Common edges of two trees, of all their edges: 1 if they cut at the same times, 0 if
    never."""
    x, y = tuple(some), tuple(others)
    alone, other, both = edge_rate(x), edge_rate(y), edge_rate(x + y)
    if alone.fraction is not None and other.fraction is not None and both.fraction:
        return float((alone.fraction + other.fraction) / both.fraction - 1)
    return max(0.0, (alone.rate + other.rate) / both.rate - 1)


def _assembled(
    nodes: Nodes, node_of: Ints, tree_of: Ints, rate: float, weights: Weights, sampled: bool
) -> Plan:
    """Nodes in trees as a plan of queries, every tree's edges counted."""
    count = int(tree_of.max()) + 1
    merged = nodes.merged(tree_of)
    order = np.argsort(tree_of[node_of], kind="stable")
    queries = np.split(order, np.cumsum(np.bincount(tree_of[node_of], minlength=count))[:-1])
    starts = np.searchsorted(merged.classes.owners, np.arange(count + 1)).tolist()
    classes = list(map(EdgeClass, merged.classes.residues.tolist(), merged.classes.moduli.tolist()))
    rates = [EdgeRate(*density(classes[a:b], 1 / count)) for a, b in pairwise(starts)]
    trees = tuple(
        Tree(tuple(queries[t].tolist()), rates[t], float(merged.overlap[t])) for t in range(count)
    )
    return Plan(trees, cost_of(trees, rate, weights), sampled)


def _cheapest(woven: Plan, shapes: Sequence[Shape], rate: float, weights: Weights) -> Plan:
    """`woven`, unless Shared or No Share is cheaper.  Neither is built where it cannot be."""
    best = woven
    most = max(tree.edges.rate for tree in woven.trees)  # one tree for all has at least these edges
    overlap = sum(tree.overlap for tree in woven.trees)
    if len(woven.trees) > 1 and weights.row * rate + weights.merge * most * overlap < best.cost:
        best = min(
            best, plan_of([range(len(shapes))], shapes, rate, weights), key=lambda plan: plan.cost
        )
    alone = sum(weights.row * rate + weights.merge * alone_cost(shape) for shape in shapes)
    if alone < best.cost * (1 - ROUNDING):
        return plan_of(([q] for q in range(len(shapes))), shapes, rate, weights)
    return best


def alone_cost(shape: Shape) -> float:
    """E·Ω of a tree of one window."""
    return sum(1 / c.modulus for c in classes_of(shape)) * shape.overlap
