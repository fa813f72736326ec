"""Weave Share for many nodes: blocks of similar ones woven apart, until few trees are left to weave
together.

Comparing all pairs costs more than the square of the nodes.  The cheapest merges are among windows
of like slides and low overlap, so nodes are ordered by their finest slide, then by edges and
overlap, and cut into blocks; each block is woven down to a quarter, and what is left is ordered and
cut again.  Every merge still pays by itself.  Where merges stop paying before few trees are left,
another order is tried, so that trees meet others.
"""

from __future__ import annotations

import numpy as np

from headrace.families.windows.weave.edge_kernels import Ints
from headrace.families.windows.weave.nodes import (
    WORDS_EXACT,
    WORDS_FAST,
    Nodes,
    numbered,
    weave_pairs,
)

NODES_EXACT = 2048
BLOCK_NODES = 1024
BLOCK_SHRINK = 4
SMALL_STEP = 0.98
SMALL_STEPS = 2


def weave_nodes(nodes: Nodes, limit: float, exact_max: int = NODES_EXACT) -> tuple[Ints, bool]:
    """The tree of each node, and whether some trees were compared by samples.  Merges cost less
    than `limit` each."""
    tree_of, current, sampled = np.arange(nodes.count), nodes, False
    small = turn = 0
    while current.count > exact_max and small < SMALL_STEPS:
        into, left, by_samples = _weave_blocks(current, limit, turn % 2 == 0)
        small = small + 1 if left.count > SMALL_STEP * current.count else 0
        tree_of, current, sampled = into[tree_of], left, sampled or by_samples
        turn += 1
    if current.count <= exact_max:
        woven = weave_pairs(current, limit, words_max=WORDS_EXACT if turn == 0 else WORDS_FAST)
        tree_of, sampled = woven.tree_of[tree_of], sampled or woven.sampled
    return tree_of, sampled


def _weave_blocks(nodes: Nodes, limit: float, finest_first: bool) -> tuple[Ints, Nodes, bool]:
    """Each block by itself: the tree of each node, the trees as nodes, and whether by samples."""
    tree_of, trees, sampled = np.empty(nodes.count, np.int64), 0, False
    for block in np.array_split(_ordered(nodes, finest_first), -(-nodes.count // BLOCK_NODES)):
        woven = weave_pairs(
            nodes.chosen(block), limit, max(1, block.size // BLOCK_SHRINK), WORDS_FAST
        )
        tree_of[block] = trees + woven.tree_of
        trees += int(woven.tree_of.max()) + 1
        sampled = sampled or woven.sampled
    tree_of = numbered(tree_of)[0]
    return tree_of, nodes.merged(tree_of), sampled


def _ordered(nodes: Nodes, finest_first: bool) -> Ints:
    owners, moduli = nodes.classes.owners, nodes.classes.moduli
    edges = np.bincount(owners, 1.0 / moduli, nodes.count)
    finest = np.full(nodes.count, np.iinfo(np.int64).max)
    np.minimum.at(finest, owners, moduli)
    return np.lexsort(
        (nodes.overlap, edges, finest) if finest_first else (finest, nodes.overlap, edges)
    )
