"""Where Spark takes 0.0 for -0.0.  Pure.

To `=` they are one value, and Spark's optimizer puts what a condition compares a column with in
place of the column in its other parts: `d = 0 AND power(d, -1) < 0` is never true in Spark, though
a row of -0.0 passes both parts.  Which parts it rewrites is the optimizer's business, so such a
condition is left to Spark, with the query's own text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from headrace.sql.tree import Call, Expr, Literal, walk

COMPARING = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "<=>", "in", "is_null", "is_not_null", "isnan"}
)
SWAPS_ZEROS = "its condition compares a DOUBLE or FLOAT with = and tells 0.0 from -0.0, which Spark may swap there"
_EQUATING = frozenset({"=", "<=>", "<>", "in"})  # NOT (d <> 0) becomes d = 0
# What these make of the two zeros is equal too.
_ARITHMETIC = frozenset(
    {
        "+",
        "-",
        "*",
        "/",
        "%",
        "negate",
        "case",
        "filtered",
        "coalesce",
        "nullif",
        "greatest",
        "least",
        "abs",
        "ceil",
        "floor",
        "round",
        "sign",
        "sqrt",
        "exp",
        "ln",
        "log10",
        "pmod",
        "try_divide",
    }
)
_CASTS = frozenset({"cast", "try_cast"})


def swaps_zeros(conditions: Iterable[Expr]) -> bool:
    """Whether conditions that must all hold compare a DOUBLE or FLOAT column for equality with what
    may be zero, and make of such a value what tells the zeros apart."""
    parts = list(conditions)
    return any(_equates(part) for part in parts) and any(_tells_apart(part) for part in parts)


@lru_cache(maxsize=10_000)
def _equates(expr: Expr) -> bool:
    return any(
        isinstance(node, Call) and node.op in _EQUATING and _may_equate_zero(node.args)
        for node in walk(expr)
    )


def _may_equate_zero(args: Sequence[Expr]) -> bool:
    literals = [arg for arg in args if isinstance(arg, Literal)]
    has_column = any(arg.type.is_fractional for arg in args if not isinstance(arg, Literal))
    return has_column and (len(args) - len(literals) > 1 or any(map(_is_zero, literals)))


def _is_zero(literal: Literal) -> bool:
    """Or may be one: FLOAT has nothing between zero and 1.4e-45.  A decimal is kept as its
    digits."""
    if literal.value is None or not literal.type.is_numeric:
        return literal.value is not None
    return abs(float(literal.value)) < 1e-44


def _tells_apart(expr: Expr) -> bool:
    """Also what this module does not know is taken to do so."""
    return any(
        isinstance(node, Call)
        and not _keeps_equal(node)
        and any(arg.type.is_fractional and not isinstance(arg, Literal) for arg in node.args)
        for node in walk(expr)
    )


def _keeps_equal(node: Call) -> bool:
    if node.op in _CASTS:
        return node.type.is_numeric
    return node.op in COMPARING or node.op in _ARITHMETIC
