"""Comparisons of a whole number with a decimal constant, as comparisons of whole numbers.

Spark compares both as decimals, exactly: count(*) > 2.5 is count(*) > 2, and sum(n) >= 99.5 is
sum(n) >= 100.
"""

from __future__ import annotations

import math
from decimal import Decimal

from headrace.sql.tree import Call, Expr, Literal
from headrace.values import BIGINT, BOOLEAN

MIRRORED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
LIMIT = 1 << 63


def as_whole_comparison(call: Call) -> Call:
    """The same comparison without decimals, if it is of this kind; else the call itself."""
    if call.op not in MIRRORED:
        return call
    left, right = call.args
    if _is_decimal(left) and right.type.is_integral:
        return as_whole_comparison(Call(MIRRORED[call.op], (right, left), call.type))
    if not (left.type.is_integral and _is_decimal(right)):
        return call
    assert isinstance(right, Literal)
    return _rewritten(call, left, Decimal(str(right.value)))


def _is_decimal(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.type.name == "decimal" and expr.value is not None


def _rewritten(call: Call, left: Expr, limit: Decimal) -> Call:
    low, high = math.floor(limit), math.ceil(limit)
    if low < -LIMIT or high >= LIMIT:
        return call
    if call.op in ("=", "<>", "<=>") and low != high:
        # Never equal: false or true, and null beside a null unless the comparison is null-safe.
        if call.op == "<=>":
            return Call("is_null", (Literal(0, BIGINT),), BOOLEAN)
        return Call("<>" if call.op == "=" else "=", (left, left), BOOLEAN)
    return Call(call.op, (left, Literal(low if call.op in (">", "<=") else high, BIGINT)), BOOLEAN)
