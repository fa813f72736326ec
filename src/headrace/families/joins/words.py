"""Joints in words: as EXPLAIN shows them, and as rounds name them in what they measure."""

from __future__ import annotations

from headrace.families.joins.plan import BAND, FILTER, Joint
from headrace.sql.emit import emit
from headrace.sql.tree import Expr


def meets(joint: Joint) -> str:
    """In words, how rows come together."""
    ranged = [_sql(joint, e) for e in joint.ranged if e is not None]
    if joint.kind == FILTER:
        return f"rows of {joint.relations[0]} by {ranged[0]}"
    names = " with ".join(joint.relations)
    pairs = [(_sql(joint, a), _sql(joint, b)) for a, b in zip(*joint.meets, strict=True)]
    if joint.kind == BAND:
        return f"{names} by {pairs[0][1]} - {pairs[0][0]}"
    equal = f"where {' and '.join(f'{a} = {b}' for a, b in pairs)}" if pairs else "in all pairs"
    return f"{names} {equal}" + (f", ranges of {' and '.join(ranged)}" if ranged else "")


def _sql(joint: Joint, expr: Expr) -> str:
    left, right = joint.relations
    sides = ("left.", "right.") if left == right else (f"{left}.", f"{right}.")
    return emit(expr, sides=("", "") if joint.kind == FILTER else sides)


def look_name(joint: Joint, side: int) -> str:
    """A joint, seen from the side its events are on."""
    return f"{meets(joint)} (side {side})"
