"""Local Search, compiled: the best move of one query from a tree to another, again and again.

How often each tree holds each point is counted, so that leaving a tree is as cheap to price as
entering one.  A move changes two trees; only what it costs to enter or leave these is priced again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def price(
    t: int,
    found: Ints,
    starts: Ints,
    node_of: Ints,
    weight: Floats,
    overlap: Floats,
    limit: float,
    tree_of: Ints,
    held: NDArray[np.uint16],
    edges: Floats,
    total: Floats,
    size: Ints,
    enter: Floats,
    leave: Floats,
) -> None:
    """What it costs that a query enters tree t or, if it is in there, leaves it."""
    now = edges[t] * total[t]
    for q in range(node_of.size):
        inside, changed = tree_of[q] == t, 0.0
        for at in found[starts[node_of[q]] : starts[node_of[q] + 1]]:
            if held[t, at] == (1 if inside else 0):
                changed += weight[at]
        if inside:
            leave[q] = (
                (edges[t] - changed) * (total[t] - overlap[q])
                - now
                - (limit if size[t] == 1 else 0.0)
            )
        enter[q, t] = (
            (edges[t] + changed) * (total[t] + overlap[q]) - now + (limit if size[t] == 0 else 0.0)
        )


@numba.njit(cache=True, nogil=True)
def search(
    found: Ints,
    starts: Ints,
    node_of: Ints,
    weight: Floats,
    overlap: Floats,
    limit: float,
    moves_max: int,
) -> Ints:
    """The points of node n are `found[starts[n] : starts[n + 1]]`; how often a tree holds each
    point is counted."""
    queries = node_of.size
    tree_of = np.arange(queries)
    held = np.zeros((queries, weight.size), np.uint16)
    edges, total, size = np.zeros(queries), overlap.copy(), np.ones(queries, np.int64)
    for q in range(queries):
        for at in found[starts[node_of[q]] : starts[node_of[q] + 1]]:
            held[q, at] = 1
            edges[q] += weight[at]
    enter, leave = np.empty((queries, queries)), np.empty(queries)
    for t in range(queries):
        price(
            t,
            found,
            starts,
            node_of,
            weight,
            overlap,
            limit,
            tree_of,
            held,
            edges,
            total,
            size,
            enter,
            leave,
        )
    for _ in range(moves_max):
        best, who, where = -1e-9 * limit, -1, -1
        for q in range(queries):
            for t in range(queries):
                if t != tree_of[q] and leave[q] + enter[q, t] < best:
                    best, who, where = leave[q] + enter[q, t], q, t
        if who < 0:
            break
        source = tree_of[who]
        for at in found[starts[node_of[who]] : starts[node_of[who] + 1]]:
            held[source, at] -= 1
            edges[source] -= weight[at] if held[source, at] == 0 else 0.0
            edges[where] += weight[at] if held[where, at] == 0 else 0.0
            held[where, at] += 1
        total[source] -= overlap[who]
        total[where] += overlap[who]
        size[source] -= 1
        size[where] += 1
        tree_of[who] = where
        for t in (source, where):
            price(
                t,
                found,
                starts,
                node_of,
                weight,
                overlap,
                limit,
                tree_of,
                held,
                edges,
                total,
                size,
                enter,
                leave,
            )
    return tree_of
