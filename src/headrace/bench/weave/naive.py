"""Weave Share as printed (figure 2 of the paper), and its three optimisations of section 8, each on
its own switch.

Kept beside `weave.py` for two reasons: plans must be the same with and without all that is clever
there, and figure 14 asks what each optimisation is worth.  A tree is a set of edges in its own
composite slide, the lcm of its slides.

I    a table of pairs: only those of the tree just merged are computed again
II   edges as flags over the composite slide; common edges are counted by probing instead of sorting
III  the tree with fewer edges probes the other

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import PlanError
from headrace.families.windows.weave.edge_kernels import Ints
from headrace.families.windows.weave.edge_union import FLAGS_MAX, EdgeClass, bounded_lcm
from headrace.families.windows.weave.edges import Shape, classes_of
from headrace.families.windows.weave.weave import EVEN, Weights
from headrace.kernel_cache import numba

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Variant:
    """Which optimisations are on.  The third needs the second."""

    table: bool = False
    flags: bool = False
    reorder: bool = False


NAIVE, FIRST, SECOND, THIRD = (
    Variant(),
    Variant(True),
    Variant(True, True),
    Variant(True, True, True),
)


@dataclass(frozen=True, slots=True)
class NaiveTree:
    queries: tuple[int, ...]
    classes: frozenset[EdgeClass]
    overlap: float
    slide: int
    edges: Ints
    flags: Flags


def weave_naively(
    shapes: Sequence[Shape], rate: float, weights: Weights = EVEN, variant: Variant = NAIVE
) -> tuple[tuple[int, ...], ...]:
    """The queries of each tree: the pair with the largest reduction is merged, the first of equals,
    while positive."""
    period = bounded_lcm({c.modulus for s in shapes for c in classes_of(s)}, FLAGS_MAX)
    if not period:
        raise PlanError(
            "the slides have too long a period for the naive loop",
            value=f"{len(shapes)} windows",
            hint=f"an lcm of at most {FLAGS_MAX}, or headrace.families.windows.weave.weave",
        )
    limit = rate * weights.row / weights.merge * period
    trees: list[NaiveTree | None] = [_tree(q, s) for q, s in enumerate(shapes)]
    table: dict[tuple[int, int], float] = {}
    while True:
        alive = [n for n, tree in enumerate(trees) if tree is not None]
        best, pair = limit, None
        for at, i in enumerate(alive):
            for j in alive[at + 1 :]:
                cost = table.get((i, j))
                if cost is None:
                    cost = _penalty(trees[i], trees[j], period, variant)
                    if variant.table:
                        table[i, j] = cost
                if cost < best:
                    best, pair = cost, (i, j)
        if pair is None:
            return tuple(tree.queries for tree in trees if tree is not None)
        i, j = pair
        trees[i], trees[j] = _merged(trees[i], trees[j]), None
        table = {key: cost for key, cost in table.items() if i not in key and j not in key}


def _tree(query: int, shape: Shape) -> NaiveTree:
    classes = frozenset(classes_of(shape))
    slide = math.lcm(*(c.modulus for c in classes))
    edges = _enumerated(classes, slide)
    flags = np.zeros(slide, np.bool_)
    flags[edges] = True
    return NaiveTree((query,), classes, shape.overlap, slide, edges, flags)


def _merged(x: NaiveTree | None, y: NaiveTree | None) -> NaiveTree:
    """Flags are repeated through the new composite slide."""
    assert x is not None and y is not None
    slide = math.lcm(x.slide, y.slide)
    flags = np.tile(x.flags, slide // x.slide) | np.tile(y.flags, slide // y.slide)
    queries = tuple(sorted(x.queries + y.queries))
    return NaiveTree(
        queries, x.classes | y.classes, x.overlap + y.overlap, slide, np.flatnonzero(flags), flags
    )


def _enumerated(classes: frozenset[EdgeClass], slide: int) -> Ints:
    """Every edge of every class in the composite slide, once."""
    return np.unique(np.concatenate([np.arange(c.residue, slide, c.modulus) for c in classes]))


def _penalty(x: NaiveTree | None, y: NaiveTree | None, period: int, variant: Variant) -> float:
    """What merging costs, in edges examined in the period of all windows."""
    assert x is not None and y is not None
    slide = math.lcm(x.slide, y.slide)
    edges_x, edges_y = x.edges.size * (slide // x.slide), y.edges.size * (slide // y.slide)
    if not variant.flags:
        common = edges_x + edges_y - _enumerated(x.classes | y.classes, slide).size
    elif variant.reorder and edges_y < edges_x:
        common = _probe(y.edges, y.slide, x.flags, slide)
    else:
        common = _probe(x.edges, x.slide, y.flags, slide)
    times = float(period // slide)
    return times * (edges_y - common) * x.overlap + times * (edges_x - common) * y.overlap


@numba.njit(cache=True, nogil=True)
def _probe(edges: Ints, own_slide: int, flags: Flags, slide: int) -> int:
    """Edges, repeated through the composite slide, that the other tree has too."""
    common = 0
    for start in range(0, slide, own_slide):
        for edge in edges:
            common += flags[(start + edge) % flags.size]
    return common
