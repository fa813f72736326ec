"""Which trees are not evaluated here, and why."""

from __future__ import annotations

from headrace.evaluation.arrow import ARROW
from headrace.evaluation.casts import can_cast
from headrace.evaluation.exact import as_whole_comparison
from headrace.evaluation.operand_types import operand_types
from headrace.evaluation.steps import BUILDERS
from headrace.sql.tree import Call, Expr, Literal
from headrace.values import DOUBLE, Type

WHOLE_AS_FLOAT = "whole numbers as FLOAT and then as DOUBLE"


def refusal(expr: Expr, wanted: Type) -> str | None:
    """Why this tree, evaluated as `wanted`, might not give what Spark gives; None if it does."""
    if wanted.name not in ARROW or not _castable(expr, wanted):
        kind = expr.type if expr.type.name == "decimal" else wanted
        return f"{'' if kind == expr.type else f'{expr.type} as '}{kind} arithmetic"
    if not isinstance(expr, Call):
        return None
    if wanted == DOUBLE and _is_whole_as_float(expr):
        return WHOLE_AS_FLOAT
    call = as_whole_comparison(expr)
    return _call_refusal(call) or next(
        (r for a, t in zip(call.args, operand_types(call), strict=True) if (r := refusal(a, t))),
        None,
    )


def _castable(expr: Expr, to: Type) -> bool:
    if expr.type.name == "decimal":
        return isinstance(expr, Literal) and to == DOUBLE
    return can_cast(expr.type, to)


def _call_refusal(call: Call) -> str | None:
    if call.op not in BUILDERS:
        return f"function {call.op}"
    if call.op in ("+", "-", "*", "%", "/", "try_divide") and not (
        call.type.is_integral or call.type.is_fractional
    ):
        return f"{call.type} arithmetic"
    if call.op in ("cast", "try_cast") and not _castable(call.args[0], call.type):
        return f"cast from {call.args[0].type} to {call.type}"
    if call.op in ("cast", "try_cast") and call.type == DOUBLE and _is_whole_as_float(call.args[0]):
        return WHOLE_AS_FLOAT
    if call.op == "round":
        digits = (
            call.args[1].value if len(call.args) == 2 and isinstance(call.args[1], Literal) else 0
        )
        if not (call.type.is_integral or call.type == DOUBLE):
            return f"round of a {call.type}"
        # Java 17 writes doubles above 2⁵³ with more digits than Java 19
        if not isinstance(digits, int) or digits < 0:
            return "round to tens or more"
    return None


def _is_whole_as_float(expr: Expr) -> bool:
    """Whether a whole number may be what becomes a FLOAT here.  Where that becomes a DOUBLE, Spark's
    optimizer leaves the FLOAT out, and so does not round: also inside CASE and COALESCE, as far as it
    sees which branch is taken."""
    if not isinstance(expr, Call) or expr.type.name != "float":
        return False
    if expr.op in ("cast", "try_cast"):
        return expr.args[0].type.is_integral
    return expr.op in ("case", "coalesce", "nullif") and any(map(_is_whole_as_float, expr.args))
