"""From a bound tree to a closure over vectors, as lazy as Spark.

A branch of CASE, the right side of AND, the next argument of COALESCE, or the other operand of a
null is evaluated only on the rows that need it, so that what raises there raises for the same rows
as in Spark.  Types are settled when compiling: every operand is cast to the type Spark would cast
it to, and a decimal only ever appears as a constant where Spark makes a double of it.

Trees are evaluated as written.  Spark's optimizer may also leave out an operand it can see is not
needed (beside a constant NULL, say), or evaluate a shared one early; that changes what raises,
never a value.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import numpy as np

from headrace.evaluation import operators
from headrace.evaluation.casts import cast
from headrace.evaluation.conditional_steps import (
    case_step,
    coalesce_step,
    extreme_step,
    in_step,
    without_no_nulls,
)
from headrace.evaluation.exact import as_whole_comparison
from headrace.evaluation.frames import Frame, Step, on_rows, pair_of
from headrace.evaluation.operand_types import operand_types
from headrace.evaluation.vectors import (
    Values,
    Vector,
    all_null,
    blank,
    merge_nulls,
)
from headrace.sql.tree import Call, Expr, Literal
from headrace.values import BOOLEAN, DOUBLE, Type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def compile_step(expr: Expr, to: Type) -> Step:
    """A step that gives `expr` as type `to`.  The tree must be supported."""
    if isinstance(expr, Literal):
        return _literal(expr, to)
    if isinstance(expr, Call):
        call = as_whole_comparison(expr)
        step = BUILDERS[call.op](call)
    else:
        step = _leaf(expr)
    source = expr.type
    if source == to:
        return step
    return lambda frame: cast(step(frame), source, to)


def _leaf(expr: Expr) -> Step:
    return lambda frame: frame.leaf(expr)


def _literal(literal: Literal, to: Type) -> Step:
    if literal.value is None:
        return lambda frame: all_null(to, frame.size)
    if literal.type.name == "decimal":
        one = Vector(np.array([float(str(literal.value))]), None)
    else:
        one = cast(Vector(_one(literal), None), literal.type, to)
    return lambda frame: Vector(np.repeat(one.values, frame.size), None)


def _one(literal: Literal) -> Values:
    values = blank(literal.type, 1)
    value = literal.value
    if literal.type.is_time:
        values[0] = _time(str(value), literal.type)
    else:
        values[0] = str(value).encode() if values.dtype == np.object_ else value
    return values


def _time(text: str, kind: Type) -> int:
    """Days or microseconds since the epoch, in UTC, as Spark keeps them."""
    if kind.name == "date":
        return (date.fromisoformat(text) - EPOCH.date()).days
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def _operands(call: Call) -> list[Step]:
    return [compile_step(a, t) for a, t in zip(call.args, operand_types(call), strict=True)]


def _arithmetic(call: Call) -> Step:
    left, right = _operands(call)
    apply, kind, other = operators.ARITHMETIC[call.op], call.type, operand_types(call)[0]
    right_first = call.op in operators.RIGHT_FIRST

    def step(frame: Frame) -> Vector:
        a, b = (
            pair_of(frame, right, left, other)
            if right_first
            else pair_of(frame, left, right, other)
        )
        a, b = (b, a) if right_first else (a, b)
        nulls = merge_nulls(a.nulls, b.nulls)
        valid = np.ones(frame.size, np.bool_) if nulls is None else ~nulls
        with np.errstate(all="ignore"):
            return Vector(apply(kind, valid, a.values, b.values), nulls)

    return step


def _try_divide(call: Call) -> Step:
    left, right = _operands(call)

    def step(frame: Frame) -> Vector:
        b = right(frame)
        zero = b.values == 0
        # by zero: not asked
        a = on_rows(frame, ~zero if b.nulls is None else ~(zero | b.nulls), left, DOUBLE)
        nulls = merge_nulls(a.nulls, b.nulls, zero)
        with np.errstate(all="ignore"):
            return Vector(np.where(zero, 0.0, a.values / b.values), nulls)

    return step


def _comparison(call: Call) -> Step:
    left, right = _operands(call)
    compare, kind = operators.COMPARISONS[call.op], operand_types(call)[0]

    def step(frame: Frame) -> Vector:
        a, b = pair_of(frame, left, right, kind)
        return Vector(compare(a.values, b.values), merge_nulls(a.nulls, b.nulls))

    return step


def _null_safe_equal(call: Call) -> Step:
    left, right = _operands(call)

    def step(frame: Frame) -> Vector:
        a, b = left(frame), right(frame)
        both, neither = a.valid & b.valid, ~a.valid & ~b.valid
        return Vector((both & operators.equal(a.values, b.values)) | neither, None)

    return step


def _unary(call: Call) -> Step:
    (arg,) = _operands(call)
    apply, kind = operators.UNARY[call.op], call.type

    def step(frame: Frame) -> Vector:
        with np.errstate(all="ignore"):
            return apply(kind, arg(frame))

    return step


def _round(call: Call) -> Step:
    arg = compile_step(call.args[0], call.type)
    digits = call.args[1].value if len(call.args) == 2 and isinstance(call.args[1], Literal) else 0
    if call.type.is_integral:
        return arg
    assert isinstance(digits, int)

    def step(frame: Frame) -> Vector:
        x = arg(frame)
        with np.errstate(all="ignore"):
            return Vector(operators.round_half_up(x.values, digits), x.nulls)

    return step


def _not(call: Call) -> Step:
    (arg,) = _operands(call)

    def step(frame: Frame) -> Vector:
        x = arg(frame)
        return Vector(~x.values, x.nulls)

    return step


def _logic(call: Call) -> Step:
    """`decides` is the value of one side that settles the result: false for AND, true for OR."""
    left, right = _operands(call)
    decides = call.op == "or"

    def step(frame: Frame) -> Vector:
        a = left(frame)
        settled = a.valid & (a.values == decides)
        b = on_rows(frame, ~settled, right, BOOLEAN)
        settled = settled | (~settled & b.valid & (b.values == decides))
        nulls = merge_nulls(a.nulls, b.nulls)
        return Vector(settled == decides, None if nulls is None else nulls & ~settled)

    return step


def _is_null(call: Call) -> Step:
    (arg,) = _operands(call)
    wanted = call.op == "is_null"
    return lambda frame: Vector(arg(frame).valid != wanted, None)


def _is_nan(call: Call) -> Step:
    (arg,) = _operands(call)

    def step(frame: Frame) -> Vector:
        x = arg(frame)
        return Vector(np.isnan(x.values) & x.valid, None)

    return step


def _nullif(call: Call) -> Step:
    value = compile_step(call.args[0], call.type)
    same = _comparison(Call("=", call.args, BOOLEAN))

    def step(frame: Frame) -> Vector:
        equal = same(frame)
        x = value(frame)
        nulls = equal.values & equal.valid
        return without_no_nulls(Vector(x.values, nulls if x.nulls is None else nulls | x.nulls))

    return step


def _cast(call: Call) -> Step:
    (source,) = call.args
    if source.type.name in ("decimal", "void"):
        return compile_step(source, call.type)
    arg, kind, lenient = compile_step(source, source.type), call.type, call.op == "try_cast"
    return lambda frame: cast(arg(frame), source.type, kind, lenient=lenient)


BUILDERS: dict[str, Callable[[Call], Step]] = {
    **dict.fromkeys(operators.ARITHMETIC, _arithmetic),
    **dict.fromkeys(operators.COMPARISONS, _comparison),
    **dict.fromkeys(operators.UNARY, _unary),
    "<=>": _null_safe_equal,
    "and": _logic,
    "or": _logic,
    "not": _not,
    "is_null": _is_null,
    "is_not_null": _is_null,
    "isnan": _is_nan,
    "in": lambda call: in_step(call, compile_step),
    "case": lambda call: case_step(call, compile_step),
    "coalesce": lambda call: coalesce_step(call, compile_step),
    "greatest": lambda call: extreme_step(call, compile_step),
    "least": lambda call: extreme_step(call, compile_step),
    "nullif": _nullif,
    "round": _round,
    "cast": _cast,
    "try_cast": _cast,
    "try_divide": _try_divide,
}
