"""Shapes in words: as EXPLAIN shows them, and as rounds name them in what they measure."""

from __future__ import annotations

from headrace.families.joins.plan import BAND, FILTER, JoinShape
from headrace.sql.emit import emit
from headrace.sql.tree import Expr


def meets(shape: JoinShape) -> str:
    """In words, how rows come together."""
    ranged = [_sql(shape, e) for e in shape.ranged if e is not None]
    if shape.kind == FILTER:
        return f"rows of {shape.relations[0]} by {ranged[0]}"
    names = " with ".join(shape.relations)
    pairs = [(_sql(shape, a), _sql(shape, b)) for a, b in zip(*shape.meets, strict=True)]
    if shape.kind == BAND:
        return f"{names} by {pairs[0][1]} - {pairs[0][0]}"
    equal = f"where {' and '.join(f'{a} = {b}' for a, b in pairs)}" if pairs else "in all pairs"
    return f"{names} {equal}" + (f", ranges of {' and '.join(ranged)}" if ranged else "")


def _sql(shape: JoinShape, expr: Expr) -> str:
    left, right = shape.relations
    sides = ("left.", "right.") if left == right else (f"{left}.", f"{right}.")
    return emit(expr, sides=("", "") if shape.kind == FILTER else sides)


def look_name(shape: JoinShape, side: int) -> str:
    """A shape, seen from the side its events are on."""
    return f"{meets(shape)} (side {side})"
