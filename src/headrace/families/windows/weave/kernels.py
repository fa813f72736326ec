"""The compiled half of Weave Share: edges as bits, common edges as counts, and the greedy loop.

A tree's edges are bits over points that stand for all times (`edge_points.py`); a word of 64 of
them has one weight, what each of its points is worth.  Bits are kept by word, `[word, tree]`, so
that one pass over a word compares one tree with all the others.  Weights of neighbouring words are
mostly equal: counts stay integers until they change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_ONE, _TWO, _FOUR, _TOP = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _EACH = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@numba.njit(cache=True, nogil=True, inline="always")
def ones(word: np.uint64) -> np.int64:
    """How many bits are set; LLVM makes this one instruction."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _FOURS) + ((word >> _TWO) & _FOURS)
    word = (word + (word >> _FOUR)) & _BYTES
    return np.int64((word * _EACH) >> _TOP)


@numba.njit(cache=True, nogil=True)
def add_common(
    bits: Words, weight: Floats, words: Ints, masks: Words, first: int, out: Floats
) -> None:
    """out[k] += what the points of `masks` are worth that tree k has too, for k ≥ first."""
    counts = np.zeros(out.size, np.int64)
    for n in range(words.size):
        row, mask = bits[words[n]], masks[n]
        for k in range(first, counts.size):
            counts[k] += ones(row[k] & mask)
        if n + 1 == words.size or weight[words[n + 1]] != weight[words[n]]:
            worth = weight[words[n]]
            for k in range(first, counts.size):
                out[k] += worth * counts[k]
                counts[k] = 0


@numba.njit(cache=True, nogil=True)
def pick(mine: Words, other: Words, how: int, words: Ints, masks: Words) -> int:
    """The words where (both, only other, only mine)[how] has bits; how many words."""
    found = 0
    for w in range(mine.size):
        mask = (
            mine[w] & other[w]
            if how == 0
            else (other[w] & ~mine[w] if how == 1 else mine[w] & ~other[w])
        )
        if mask:
            words[found] = w
            masks[found] = mask
            found += 1
    return found


@numba.njit(cache=True, nogil=True)
def common_of_trees(bits: Words, weight: Floats) -> Floats:
    """Common edges of every two trees; on the diagonal, edges of each."""
    trees = bits.shape[1]
    common = np.zeros((trees, trees))
    words, masks = np.empty(bits.shape[0], np.int64), np.empty(bits.shape[0], np.uint64)
    for i in range(trees):
        found = pick(bits[:, i], bits[:, i], 0, words, masks)
        add_common(bits, weight, words[:found], masks[:found], i, common[i])
        for k in range(i + 1, trees):
            common[k, i] = common[i, k]
    return common


@numba.njit(cache=True, nogil=True)
def common_of_pairs(residues: Ints, group: Ints, divisor: Ints, worth: Floats) -> Floats:
    """The same for trees of one window each: `residues[tree]` are one or two (else -1) on the
    modulus of `group`.

    Two classes meet iff their residues agree modulo the greatest common `divisor`; then once in the
    lcm (`worth`).
    """
    trees = group.size
    common = np.empty((trees, trees))
    for i in range(trees):
        for k in range(i, trees):
            g = divisor[group[i], group[k]]
            met = 0
            for a in range(2):
                for b in range(2):
                    if residues[i, a] >= 0 and residues[k, b] >= 0:
                        met += (residues[i, a] - residues[k, b]) % g == 0
            common[i, k] = common[k, i] = met * worth[group[i], group[k]]
    return common


@numba.njit(cache=True, nogil=True, inline="always")
def penalty(
    edges_x: float, edges_y: float, common: float, overlap_x: float, overlap_y: float
) -> float:
    """What merging x and y adds to the final aggregation: each examines the edges only the other
    has."""
    return (edges_y - common) * overlap_x + (edges_x - common) * overlap_y


@numba.njit(cache=True, nogil=True)
def scan(
    i: int,
    alive: Flags,
    common: Floats,
    edges: Floats,
    overlap: Floats,
    best: Floats,
    partner: Ints,
) -> None:
    """The cheapest partner of i among later trees, the first of equals."""
    best[i], partner[i] = np.inf, -1
    for k in range(i + 1, alive.size):
        if alive[k]:
            found = penalty(edges[i], edges[k], common[i, k], overlap[i], overlap[k])
            if found < best[i]:
                best[i], partner[i] = found, k


@numba.njit(cache=True, nogil=True)
def unite(
    i: int,
    j: int,
    bits: Words,
    trees: Words,
    weight: Floats,
    alive: Flags,
    common: Floats,
    edges: Floats,
    overlap: Floats,
) -> None:
    """Tree j goes into i.  Common edges with all others follow from those of i and j, and from few
    words.

    |(I∪J)∩K| = |I∩K| + |J∩K| − |I∩J∩K| = |I∩K| + |(J∖I)∩K| = |J∩K| + |(I∖J)∩K|: the shortest list
    of words is used. `trees` are the bits once more, by tree.
    """
    words, masks = np.empty((3, weight.size), np.int64), np.empty((3, weight.size), np.uint64)
    sizes = np.empty(3, np.int64)
    for how in range(3):
        sizes[how] = pick(trees[i], trees[j], how, words[how], masks[how])
    short = np.argmin(sizes)
    more = np.zeros(alive.size)
    add_common(bits, weight, words[short, : sizes[short]], masks[short, : sizes[short]], 0, more)
    edges[i] += edges[j] - common[i, j]
    overlap[i] += overlap[j]
    alive[j] = False
    for k in range(alive.size):
        if alive[k]:
            if short == 0:
                both = common[i, k] + common[j, k] - more[k]
            else:
                both = common[i if short == 1 else j, k] + more[k]
            common[i, k] = common[k, i] = both
    for n in range(sizes[1]):
        trees[i, words[1, n]] |= masks[1, n]
        bits[words[1, n], i] |= masks[1, n]


@numba.njit(cache=True, nogil=True)
def weave_greedily(
    bits: Words,
    weight: Floats,
    common: Floats,
    edges: Floats,
    overlap: Floats,
    alive: Flags,
    limit: float,
    keep: int,
    pairs: Ints,
) -> int:
    """Merge the cheapest pair, the first of equals, until none costs less than `limit` or `keep`
    trees are left.

    All trees come alive.  The merges go to `pairs`; returns how many.  A tree owns its pairs with
    later trees.  When its best partner is gone, its best is still a lower bound, and is looked for
    again only once it is the lowest of all.
    """
    trees, by_tree = alive.size, np.ascontiguousarray(bits.T)
    stale, best, partner = np.zeros(trees, np.bool_), np.full(trees, np.inf), np.full(trees, -1)
    for i in range(trees):
        scan(i, alive, common, edges, overlap, best, partner)
    done = 0
    while trees - done > keep:
        i = int(np.argmin(best))
        if not best[i] < limit:
            break
        if stale[i]:
            scan(i, alive, common, edges, overlap, best, partner)
            stale[i] = False
            continue
        j = partner[i]
        pairs[done, 0], pairs[done, 1] = i, j
        done += 1
        unite(i, j, bits, by_tree, weight, alive, common, edges, overlap)
        best[j] = np.inf
        scan(i, alive, common, edges, overlap, best, partner)
        for k in range(j):
            if not alive[k] or k == i:
                continue
            stale[k] |= partner[k] == i or partner[k] == j
            if k < i:
                found = penalty(edges[k], edges[i], common[k, i], overlap[k], overlap[i])
                if found < best[k] or (found == best[k] and not stale[k] and i < partner[k]):
                    best[k], partner[k], stale[k] = found, i, False
    return done
