"""How two rows become one: ⊕, column by column, and the empty row that changes nothing.

Each function is compiled for one signature: int64 and float64 arrays, contiguous, `[row, column,
group]`.
"""

from __future__ import annotations

import numpy as np

from headrace.families.windows.rings.arrays import (
    ADD,
    INT_MAX,
    INT_MIN,
    MAX,
    MIN,
    MOMENTS_N,
    Columns,
    Floats,
    Ints,
    Ops,
    Rows,
)
from headrace.kernel_cache import numba


@numba.njit(cache=True, nogil=True)
def join_ints(ops: Ints, left: Ints, right: Ints, out: Ints, groups: int) -> None:
    """out = left ⊕ right, column by column; `out` may be `left` or `right`."""
    for c in range(ops.size):
        if ops[c] == ADD:
            for g in range(groups):
                out[c, g] = left[c, g] + right[c, g]
        elif ops[c] == MIN:
            for g in range(groups):
                out[c, g] = min(left[c, g], right[c, g])
        else:
            for g in range(groups):
                out[c, g] = max(left[c, g], right[c, g])


@numba.njit(cache=True, nogil=True)
def min_nan_last(x: float, y: float) -> float:
    """Spark's order: NaN is above every number.  NaN is also the identity."""
    if np.isnan(x):
        return y
    return y if y < x else x


@numba.njit(cache=True, nogil=True)
def max_nan_last(x: float, y: float) -> float:
    if np.isnan(x):
        return x
    return x if y <= x else y


@numba.njit(cache=True, nogil=True)
def join_moments(
    n1: float, mean1: float, m21: float, n2: float, mean2: float, m22: float
) -> tuple[float, float, float]:
    """Count, mean and sum of squared deviations of two sets of values taken together, in the order
    of operations of Spark's CentralMomentAgg; n = 0 is neutral to the bit.

    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for
    Computing Sample Variances", COMPSTAT 1982."""
    if n2 == 0.0:
        return n1, mean1, m21
    if n1 == 0.0:
        return n2, mean2, m22
    n = n1 + n2
    delta = mean2 - mean1
    share = delta / n
    return n, mean1 + share * n2, m21 + m22 + delta * share * n1 * n2


@numba.njit(cache=True, nogil=True)
def join_floats(ops: Ints, left: Floats, right: Floats, out: Floats, groups: int) -> None:
    for c in range(ops.size):
        if ops[c] == ADD:
            for g in range(groups):
                out[c, g] = left[c, g] + right[c, g]
        elif ops[c] == MIN:
            for g in range(groups):
                out[c, g] = min_nan_last(left[c, g], right[c, g])
        elif ops[c] == MAX:
            for g in range(groups):
                out[c, g] = max_nan_last(left[c, g], right[c, g])
        elif ops[c] == MOMENTS_N:
            for g in range(groups):
                out[c, g], out[c + 1, g], out[c + 2, g] = join_moments(
                    left[c, g],
                    left[c + 1, g],
                    left[c + 2, g],
                    right[c, g],
                    right[c + 1, g],
                    right[c + 2, g],
                )


@numba.njit(cache=True, nogil=True)
def clear(ops: Ops, ints: Ints, floats: Floats, start: int, stop: int) -> None:
    """Make these groups of a row empty: every column its identity."""
    for c in range(ops.ints.size):
        ints[c, start:stop] = (
            0 if ops.ints[c] == ADD else (INT_MAX if ops.ints[c] == MIN else INT_MIN)
        )
    for c in range(ops.floats.size):
        floats[c, start:stop] = (
            np.nan if ops.floats[c] == MIN else (-np.inf if ops.floats[c] == MAX else 0.0)
        )


@numba.njit(cache=True, nogil=True)
def clear_groups(ops: Ops, rows: Rows, start: int, stop: int) -> None:
    """Make new groups empty in all rows."""
    for row in range(rows.live.size):
        clear(ops, rows.ints[row], rows.floats[row], start, stop)


@numba.njit(cache=True, nogil=True)
def clear_rows(ops: Ops, rows: Rows, groups: int) -> None:
    clear_groups(ops, rows, 0, groups)
    rows.live[:] = 0


@numba.njit(cache=True, nogil=True)
def keep_groups(rows: Rows, kept: Ints) -> None:
    """Group g becomes what `kept[g]` was."""
    for row in range(rows.live.size):
        for c in range(rows.ints.shape[1]):
            rows.ints[row, c, : kept.size] = rows.ints[row, c][kept]
        for c in range(rows.floats.shape[1]):
            rows.floats[row, c, : kept.size] = rows.floats[row, c][kept]


@numba.njit(cache=True, nogil=True)
def merge(
    ops: Ops, ints: Ints, floats: Floats, g: int, parts: Columns, p: int, places: Ops
) -> None:
    """Join partial p into group g of a row; column c of the row is at `places` among those of the
    partials."""
    for c in range(ops.ints.size):
        new = parts.ints[places.ints[c], p]
        if ops.ints[c] == ADD:
            ints[c, g] += new
        elif ops.ints[c] == MIN:
            ints[c, g] = min(ints[c, g], new)
        else:
            ints[c, g] = max(ints[c, g], new)
    for c in range(ops.floats.size):
        x = parts.floats[places.floats[c], p]
        if ops.floats[c] == ADD:
            floats[c, g] += x
        elif ops.floats[c] == MIN:
            floats[c, g] = min_nan_last(floats[c, g], x)
        elif ops.floats[c] == MAX:
            floats[c, g] = max_nan_last(floats[c, g], x)
        elif ops.floats[c] == MOMENTS_N:
            mean, m2 = parts.floats[places.floats[c + 1], p], parts.floats[places.floats[c + 2], p]
            floats[c, g], floats[c + 1, g], floats[c + 2, g] = join_moments(
                floats[c, g], floats[c + 1, g], floats[c + 2, g], x, mean, m2
            )
