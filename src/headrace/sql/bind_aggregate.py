"""Aggregates: DISTINCT where it matters, FILTER folded into the arguments, and the many ways to
write count(*)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sql.bands import conjunction
from headrace.sql.functions import AGGREGATES, INDIFFERENT, ORDERED, PARAMETRIC, Function
from headrace.sql.sketch_parameters import check_parameters
from headrace.sql.syntax import Apply, Star
from headrace.sql.tree import COUNT_ROWS, FILTERED, Aggregate, Call, Expr, Literal
from headrace.values import BOOLEAN, INT, VOID

if TYPE_CHECKING:
    from headrace.sql.bind_expr import ExpressionBinder

_NULL = Literal(None, VOID)
_ONE = Literal(1, INT)


def bind_aggregate(binder: ExpressionBinder, node: Apply, function: Function) -> Expr:
    """An aggregate call where aggregates are allowed, outside any other."""
    _enter(binder, node)
    rows = len(node.args) == 1 and isinstance(node.args[0], Star)
    if rows and (function.name != "count" or node.distinct):
        raise binder.error("* goes with count(*) only", node.args[0], value=node.op)
    args = () if rows else tuple([binder.bind(arg) for arg in node.args])
    kind = COUNT_ROWS.type if rows else binder.typed(function, node, args).type
    check_parameters(binder, node, function.name, args)
    condition = None if node.filter is None else binder.condition(node.filter)
    binder.inside = ""
    if condition is not None and function.name in ORDERED:
        raise binder.error(f"FILTER does not go with {node.op}", node, value=node.op)
    if function is AGGREGATES["count"] and not node.distinct:
        return _count(args, condition)
    if condition is not None:
        measured = 1 if function.name in PARAMETRIC else len(args)
        args = (*[_filtered(condition, arg) for arg in args[:measured]], *args[measured:])
    return Aggregate(function.name, args, kind, node.distinct and function.name not in INDIFFERENT)


def bind_count_if(binder: ExpressionBinder, node: Apply) -> Expr:
    """count_if(c) is count(*) FILTER (WHERE c)."""
    if len(node.args) != 1 or node.distinct:
        raise binder.error(
            "count_if takes one condition", node, value=f"{len(node.args)} arguments"
        )
    _enter(binder, node)
    condition = binder.condition(node.args[0])
    if node.filter is not None:
        condition = Call("and", (binder.condition(node.filter), condition), BOOLEAN)
    binder.inside = ""
    return _count((), condition)


def _enter(binder: ExpressionBinder, node: Apply) -> None:
    if binder.inside:
        raise binder.error(
            "an aggregate cannot be inside an aggregate",
            node,
            value=f"{binder.inside}({node.op}(…))",
        )
    if not binder.aggregates:
        hint = "use HAVING to filter groups" if binder.clause == "WHERE" else ""
        raise binder.error(
            f"aggregates are not allowed in {binder.clause}", node, value=node.op, hint=hint
        )
    binder.inside = node.op


def _count(args: tuple[Expr, ...], condition: Expr | None) -> Expr:
    """Rows that pass the condition and have no NULL in the args."""
    args = tuple([arg for arg in args if not isinstance(arg, Literal) or arg.value is None])
    *others, last = args or (_ONE,)
    tests = [Call("is_not_null", (arg,), BOOLEAN) for arg in others]
    counted = Call("case", (conjunction(tests), last, _NULL), last.type) if tests else last
    if condition is not None:
        return Aggregate("count", (_filtered(condition, counted),), COUNT_ROWS.type)
    return COUNT_ROWS if counted is _ONE else Aggregate("count", (counted,), COUNT_ROWS.type)


def _filtered(condition: Expr, value: Expr) -> Expr:
    return Call(FILTERED, (condition, value), value.type)
