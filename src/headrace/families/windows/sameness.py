"""What rows of one group agree on, although their keys are not the same to the bit.  Pure.

GROUP BY takes 0.0 and -0.0 for one value, and every NaN.  Comparisons do so too; what else is made of a DOUBLE or FLOAT
(its text, a power of it) may tell them apart, so it has a value for a row, not for a group.
"""

from __future__ import annotations

from headrace.sql.bands import conjuncts
from headrace.sql.tree import Aggregate, Call, Column, Expr, Key, walk

COMPARING = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "in", "is_null", "is_not_null", "isnan"})


def is_same_in_a_group(expr: Expr) -> bool:
    """Whether columns that are equal for GROUP BY give the same value."""
    if isinstance(expr, Column | Key):
        return not expr.type.is_fractional
    if isinstance(expr, Call):
        compares = expr.op in COMPARING
        return all((compares and isinstance(arg, Column | Key)) or is_same_in_a_group(arg) for arg in expr.args)
    return True


def having_of_rows(having: Expr | None) -> bool:
    """Whether HAVING asks of rows what is written of groups: Spark filters by conditions on keys alone before it
    groups, so they see the value of the row, not the key."""
    return having is not None and any(
        not is_same_in_a_group(part) and not any(isinstance(node, Aggregate) for node in walk(part))
        for part in conjuncts(having)
    )
