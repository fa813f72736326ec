"""What rows of one group agree on, although their keys are not the same to the bit.  Pure.

GROUP BY takes 0.0 and -0.0 for one value, and every NaN.  Comparisons do so too; what else is made
of a DOUBLE or FLOAT (its text, a power of it) may tell them apart, so it has a value for a row, not
for a group.
"""

from __future__ import annotations

from headrace.sql.bands import conjuncts
from headrace.sql.tree import Aggregate, Call, Column, Expr, Key, walk
from headrace.sql.zeros import COMPARING, swaps_zeros


def is_same_in_a_group(expr: Expr) -> bool:
    """Whether columns that are equal for GROUP BY give the same value."""
    if isinstance(expr, Column | Key):
        return not expr.type.is_fractional
    if isinstance(expr, Call):
        compares = expr.op in COMPARING
        return all(
            (compares and isinstance(arg, Column | Key)) or is_same_in_a_group(arg)
            for arg in expr.args
        )
    return True


def having_of_rows(having: Expr | None) -> bool:
    """Whether HAVING asks of rows what is written of groups: Spark filters by conditions on keys
    alone before it groups, so they see the value of the row, not the key."""
    return any(not is_same_in_a_group(part) for part in _of_keys(having))


def swaps_zeros_of_rows(where: Expr | None, having: Expr | None) -> bool:
    """Whether Spark may take one zero for the other in WHERE, to which it adds HAVING's conditions
    on keys alone."""
    return where is not None and swaps_zeros([where, *_of_keys(having)])


def _of_keys(having: Expr | None) -> list[Expr]:
    parts = [] if having is None else conjuncts(having)
    return [part for part in parts if not any(isinstance(node, Aggregate) for node in walk(part))]
