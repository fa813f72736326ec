"""What Weave Share is measured against: the other plans of the paper's section 6, and the best plan
there is.

No Share and Shared are the two ends; Random knows nothing.  Insert-then-Weave takes queries in the
order given, each into the tree with the largest weaveability if that pays, and then merges trees.
Local Search starts from No Share and moves one query at a time, always the best move.  Exhaustive
tries all partitions of a few queries.

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import PlanError
from headrace.families.windows.weave.edge_kernels import Ints
from headrace.families.windows.weave.edges import Shape, edge_rate
from headrace.families.windows.weave.kernels import add_common
from headrace.families.windows.weave.move_kernels import search
from headrace.families.windows.weave.nodes import (
    WORDS_EXACT,
    Nodes,
    compared,
    nodes_of,
    weave_pairs,
)
from headrace.families.windows.weave.weave import EVEN, Plan, Weights, plan_of

EXHAUSTIVE_MAX = 8


def no_share(shapes: Sequence[Shape], rate: float, weights: Weights = EVEN) -> Plan:
    return plan_of(([q] for q in range(len(shapes))), shapes, rate, weights)


def shared(shapes: Sequence[Shape], rate: float, weights: Weights = EVEN) -> Plan:
    return plan_of([range(len(shapes))], shapes, rate, weights)


def random_share(
    shapes: Sequence[Shape], rate: float, random: np.random.Generator, weights: Weights = EVEN
) -> Plan:
    """As many trees as a die says, and a die for each query."""
    trees = int(random.integers(1, len(shapes) + 1))
    return _by_label(random.integers(0, trees, len(shapes)), shapes, rate, weights)


def insert_then_weave(shapes: Sequence[Shape], rate: float, weights: Weights = EVEN) -> Plan:
    nodes, node_of = nodes_of(shapes)
    limit = rate * weights.row / weights.merge
    inserted = _inserted(nodes, limit)
    woven = weave_pairs(nodes.merged(inserted), limit)
    return _by_label(woven.tree_of[inserted][node_of], shapes, rate, weights)


def _inserted(nodes: Nodes, limit: float) -> Ints:
    """The tree of each node after it joined the one it shares the largest part of its edges
    with."""
    points, bits, common = compared(nodes, WORDS_EXACT)
    trees = np.zeros_like(bits)
    edges, overlap, tree_of, count = (
        np.zeros(nodes.count),
        np.zeros(nodes.count),
        np.zeros(nodes.count, np.int64),
        0,
    )
    for n in range(nodes.count):
        words = np.flatnonzero(bits[:, n])
        met = np.zeros(nodes.count)
        add_common(trees, points.weight, words, bits[words, n], 0, met)
        own = common[n, n]
        tree = int(np.argmax((met / (edges + own - met))[:count])) if count else 0
        penalty = (edges[tree] - met[tree]) * nodes.overlap[n] + (own - met[tree]) * overlap[tree]
        if not count or not penalty < limit * points.span:
            tree, count = count, count + 1
        edges[tree] += own - met[tree]
        overlap[tree] += nodes.overlap[n]
        trees[words, tree] |= bits[words, n]
        tree_of[n] = tree
    return tree_of


def local_search(
    shapes: Sequence[Shape], rate: float, moves_max: int, weights: Weights = EVEN
) -> Plan:
    """From No Share the best move of one query, at most `moves_max` times or until none pays."""
    nodes, node_of = nodes_of(shapes)
    points, bits, _ = compared(nodes, WORDS_EXACT)
    columns = np.unpackbits(np.ascontiguousarray(bits.T).view(np.uint8), axis=1, bitorder="little")
    held, found = np.nonzero(columns)
    starts = np.searchsorted(held, np.arange(nodes.count + 1))
    overlap = np.array([s.overlap for s in shapes])
    limit = rate * weights.row / weights.merge * points.span
    tree_of = search(
        found, starts, node_of, np.repeat(points.weight, 64), overlap, limit, moves_max
    )
    return _by_label(tree_of, shapes, rate, weights)


def exhaustive(shapes: Sequence[Shape], rate: float, weights: Weights = EVEN) -> Plan:
    """The cheapest of all partitions."""
    count = len(shapes)
    if count > EXHAUSTIVE_MAX:
        raise PlanError(
            "too many queries to try all partitions",
            value=count,
            hint=f"use at most {EXHAUSTIVE_MAX}, or weave them",
        )
    chosen = [[shapes[q] for q in range(count) if mask >> q & 1] for mask in range(1 << count)]
    costs = [
        weights.row * rate + weights.merge * edge_rate(c).rate * sum(s.overlap for s in c)
        for c in chosen
    ]
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for mask in range(1, 1 << count):
        low = mask & -mask  # the tree of the first query, and the best of the others
        rest = mask ^ low
        parts = [low | sub for sub in range(rest + 1) if sub & rest == sub]
        best.append(
            min(
                (costs[part] + best[mask ^ part][0], (*best[mask ^ part][1], part))
                for part in parts
            )
        )
    groups = ([q for q in range(count) if part >> q & 1] for part in best[-1][1])
    return plan_of(groups, shapes, rate, weights)


def _by_label(labels: Ints, shapes: Sequence[Shape], rate: float, weights: Weights) -> Plan:
    groups: dict[int, list[int]] = {}
    for query, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(query)
    return plan_of(groups.values(), shapes, rate, weights)
