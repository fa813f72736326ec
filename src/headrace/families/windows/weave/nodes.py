"""What Weave Share merges: nodes of edges and overlap; and the greedy over all pairs of them.

Queries whose windows have the same edges are one node from the start: merging them costs nothing,
so the greedy would do it first.  What a merge of x and y costs is (E_y − C)·Ω_x + (E_x − C)·Ω_y
with C common edges; of equal costs, the pair with the lowest numbers is merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.families.windows.weave.edge_kernels import Ints, Words
from headrace.families.windows.weave.edge_points import Classes, Floats, Points, period_points
from headrace.families.windows.weave.edge_samples import SampledPoints
from headrace.families.windows.weave.edges import Shape
from headrace.families.windows.weave.kernels import common_of_pairs, common_of_trees, weave_greedily

WORDS_EXACT = 1 << 13  # of one tree: time is spent for an exact plan
WORDS_FAST = 1 << 11  # of one tree: points are drawn rather than have more


@dataclass(frozen=True, slots=True)
class Nodes:
    """Classes, each owned by a node, and Ω of each node.  `are_single`: each has the edges of one
    window."""

    classes: Classes
    overlap: Floats
    are_single: bool

    @property
    def count(self) -> int:
        return self.overlap.size

    def chosen(self, chosen: Ints) -> Nodes:
        """Some of the nodes, in this order."""
        into = np.full(self.count, -1)
        into[chosen] = np.arange(chosen.size)
        owners = into[self.classes.owners]
        kept = owners >= 0
        classes = Classes(self.classes.residues[kept], self.classes.moduli[kept], owners[kept])
        return Nodes(classes, self.overlap[chosen], self.are_single)

    def merged(self, tree_of: Ints) -> Nodes:
        """One node for each tree, which has the edges and the overlap of its nodes."""
        classes = Classes(self.classes.residues, self.classes.moduli, tree_of[self.classes.owners])
        return Nodes(classes.distinct_by_owner(), summed(tree_of, self.overlap), False)


class Woven(NamedTuple):
    """The tree of each node, numbered by their first nodes; the merges in order, by the first nodes
    of two trees."""

    tree_of: Ints
    pairs: Ints
    sampled: bool


def nodes_of(shapes: Sequence[Shape]) -> tuple[Nodes, Ints]:
    """Nodes by their first query, and the node of each query."""
    slides = np.array([s.slide_us for s in shapes], np.int64)
    ranges = np.array([s.range_us for s in shapes], np.int64)
    begins = np.array([s.offset_us for s in shapes], np.int64) % slides
    ends = (begins + ranges) % slides
    low, high = np.minimum(begins, ends), np.maximum(begins, ends)
    halves = high - low == slides - (high - low)
    high[halves | (low == high)] = -1
    moduli = np.where(halves, slides // 2, slides)
    node_of, first = numbered(moduli, low, high)
    low, high, moduli = low[first], high[first], moduli[first]
    two = np.flatnonzero(high >= 0)
    owners = np.append(np.arange(first.size), two)
    classes = Classes(np.append(low, high[two]), np.append(moduli, moduli[two]), owners)
    return Nodes(classes, summed(node_of, ranges / slides), True), node_of


def summed(places: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(places, values), np.float64)


def numbered(*columns: Ints) -> tuple[Ints, Ints]:
    """Equal rows get one number, in order of first appearance; the number of each row, and the
    first row of each."""
    order = np.lexsort(columns)
    new = np.append(True, np.any([c[order][1:] != c[order][:-1] for c in columns], axis=0))
    first = order[new]  # lexsort is stable
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    numbers = np.empty(order.size, np.int64)
    numbers[order] = rank[np.cumsum(new) - 1]
    return numbers, np.sort(first)


def weave_pairs(nodes: Nodes, limit: float, keep: int = 1, words_max: int = WORDS_EXACT) -> Woven:
    """Merge the cheapest pair while it costs less than `limit` and more than `keep` trees are
    left."""
    points, bits, common = compared(nodes, words_max)
    edges, overlap, number = np.diag(common).copy(), nodes.overlap.copy(), np.arange(nodes.count)
    pairs, done = np.empty((nodes.count, 2), np.int64), 0
    while True:
        alive = np.ones(number.size, np.bool_)
        # then without the dead ones: what is left is nearer to the processor
        least = max(keep, number.size // 2)
        more = weave_greedily(
            bits,
            points.weight,
            common,
            edges,
            overlap,
            alive,
            limit * points.span,
            least,
            pairs[done:],
        )
        pairs[done : done + more] = number[pairs[done : done + more]]
        done += more
        if number.size - more > least or least == keep:
            return Woven(_tree_of(pairs[:done], nodes.count), pairs[:done], points.are_sampled)
        bits, common = np.ascontiguousarray(bits[:, alive]), common[np.ix_(alive, alive)]
        edges, overlap, number = edges[alive], overlap[alive], number[alive]


def compared(nodes: Nodes, words_max: int) -> tuple[Points, Words, Floats]:
    """Points, the bits of each node, and common edges of every two: on the diagonal, edges of
    each."""
    exact = period_points(nodes.classes, words_max)
    points = exact or SampledPoints(nodes.classes, words_max)
    bits = points.mark(nodes.classes, nodes.count)
    if exact and nodes.are_single:
        return points, bits, _common_of_windows(nodes, points.span)
    return points, bits, common_of_trees(bits, points.weight)


def _common_of_windows(nodes: Nodes, span: float) -> Floats:
    """In closed form, of every two nodes of one window each."""
    owners = nodes.classes.owners
    order = np.argsort(owners, kind="stable")
    second = np.append(False, owners[order][1:] == owners[order][:-1])
    residues, moduli = np.full((nodes.count, 2), -1, np.int64), np.zeros(nodes.count, np.int64)
    residues[owners[order], second.astype(np.int64)] = nodes.classes.residues[order]
    moduli[owners] = nodes.classes.moduli
    distinct, group = np.unique(moduli, return_inverse=True)
    divisor = np.gcd.outer(distinct, distinct)
    worth = np.rint(divisor * (span / distinct[:, None] / distinct[None, :]))
    return common_of_pairs(residues, group, divisor, worth)


def _tree_of(pairs: Ints, count: int) -> Ints:
    root = np.arange(count)
    for i, j in pairs[::-1].tolist():  # the last merges are at the root
        root[j] = root[i]
    return np.unique(root, return_inverse=True)[1]
