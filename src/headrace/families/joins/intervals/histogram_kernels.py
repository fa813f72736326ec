"""Cutting sequences of heights into buckets, and intervals into groups, compiled (chapter 4.4).

A bucket holds heights that follow each other and answers with their weighted mean; its cost is the
weighted sum of squares around it.  Both programs below find the least total cost for 1 … k buckets
at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba
from headrace.relations.arrays import Floats

Cuts = NDArray[np.int32]


@numba.njit(cache=True, nogil=True)
def cluster(heights: Floats, weights: Floats, most: int) -> tuple[Floats, Cuts]:
    """Weighted k-means of heights in falling order, exact: cost[k - 1], and where the last bucket
    of a prefix begins.

    Heights are sorted, so the last bucket of a longer prefix never begins earlier: a row of the
    program is filled by halves, each between the answers of its neighbours, in O(m log m).  Falling
    order adds small weights (those of great heights) first, which keeps differences of prefix sums
    true."""
    m = heights.size
    most = min(most, m)
    w, wy, wyy = np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1)
    for i in range(m):
        w[i + 1] = w[i] + weights[i]
        wy[i + 1] = wy[i] + weights[i] * heights[i]
        wyy[i + 1] = wyy[i] + weights[i] * heights[i] * heights[i]
    cost, back = np.zeros(most), np.zeros((most, m + 1), np.int32)
    before, now = np.zeros(m + 1), np.zeros(m + 1)
    for j in range(1, m + 1):
        before[j] = spread(w[j], wy[j], wyy[j])
    cost[0] = before[m]
    for k in range(1, most):
        begins = back[k]
        step = 1
        while step <= m:
            step *= 2
        while step:
            for j in range(step, m + 1, 2 * step):
                first = begins[j - step]
                last = min(begins[j + step], j) if j + step <= m else j  # at j it is empty
                best, at = np.inf, first
                for i in range(first, last + 1):
                    c = before[i] + spread(w[j] - w[i], wy[j] - wy[i], wyy[j] - wyy[i])
                    if c < best:
                        best, at = c, i
                now[j], begins[j] = best, at
            step //= 2
        cost[k] = now[m]
        before, now = now, before
    return cost, back


@numba.njit(cache=True, nogil=True)
def spread(w: float, wy: float, wyy: float) -> float:
    """The weighted sum of squares around the mean, of sums."""
    return max(0.0, wyy - wy * wy / w) if w > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def fit(heights: Floats, weights: Floats, most: int) -> tuple[Floats, Cuts]:
    """The same for heights in any order, by the full dynamic program: O(m² · most), with a bound.

    The last bucket grows to the left one height at a time, its mean and squares joined, never
    subtracted.  Its cost only grows, so rows that already have a cheaper answer drop out: those of
    many buckets first."""
    m = heights.size
    most = min(most, m)
    best, back = np.zeros((m + 1, most)), np.zeros((m + 1, most), np.int32)
    all_w, all_mean, all_squares = 0.0, 0.0, 0.0
    for j in range(1, m + 1):
        away = heights[j - 1] - all_mean
        all_w += weights[j - 1]
        all_mean += away * weights[j - 1] / all_w
        all_squares += weights[j - 1] * away * (heights[j - 1] - all_mean)
        row, begins = best[j], back[j]
        row[0], row[1:] = all_squares, np.inf
        active = most
        w, mean, squares = 0.0, 0.0, 0.0
        for i in range(j - 1, -1, -1):
            away = heights[i] - mean
            w += weights[i]
            mean += away * weights[i] / w
            squares += weights[i] * away * (heights[i] - mean)
            while active > 1 and row[active - 1] <= squares:
                active -= 1
            earlier = best[i]
            for k in range(1, active):
                c = earlier[k - 1] + squares
                if c < row[k]:
                    row[k], begins[k] = c, i
            if active == 1:
                break
    return best[m].copy(), back.T.copy()
