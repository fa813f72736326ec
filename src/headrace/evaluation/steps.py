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

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.evaluation import operators
from headrace.evaluation.arrow import ARROW
from headrace.evaluation.casts import can_cast, cast
from headrace.evaluation.exact import as_whole_comparison
from headrace.evaluation.vectors import (
    Mask,
    Values,
    Vector,
    all_null,
    blank,
    from_arrow,
    merge_nulls,
)
from headrace.sql.tree import Aggregate, Bound, Call, Column, Expr, Key, Literal
from headrace.sql.types import common_type
from headrace.values import BIGINT, BOOLEAN, DOUBLE, VOID, Type

Rows = NDArray[np.int64]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REAL = ("sign", "sqrt", "exp", "ln", "log10", "power")


class Frame:
    """The rows a step is evaluated on; leaves are converted from Arrow once, and only if read."""

    def __init__(self, inputs: Mapping[Expr, pa.Array], size: int) -> None:
        self._inputs = inputs
        self._read: dict[Expr, Vector] = {}
        self._rows: Rows | None = None
        self.size = size

    def leaf(self, expr: Expr) -> Vector:
        vector = self._read.get(expr)
        if vector is None:
            vector = self._read[expr] = from_arrow(self._inputs[expr], expr.type)
        return vector if self._rows is None else vector.take(self._rows)

    def at(self, rows: Rows) -> Frame:
        """Only these positions of this frame."""
        below = Frame(self._inputs, rows.size)
        below._read = self._read
        below._rows = rows if self._rows is None else self._rows[rows]
        return below


Step = Callable[[Frame], Vector]


def is_leaf(expr: Expr) -> bool:
    return isinstance(expr, Column | Key | Bound | Aggregate)


# -- types: what each operand is cast to -----------------------------------------------------------


def operand_types(call: Call) -> tuple[Type, ...]:
    """The type each argument is evaluated in."""
    op, args = call.op, call.args
    if op in (
        "+",
        "-",
        "*",
        "%",
        "/",
        "try_divide",
        "negate",
        "abs",
        "coalesce",
        "greatest",
        "least",
    ):
        return (call.type,) * len(args)
    if op in REAL:
        return (DOUBLE,) * len(args)
    if op == "div":
        return BIGINT, BIGINT
    if op in ("and", "or", "not"):
        return (BOOLEAN,) * len(args)
    if op == "case":
        return (*(BOOLEAN if i % 2 == 0 else call.type for i in range(len(args) - 1)), call.type)
    if op in operators.COMPARISONS or op in ("<=>", "in", "nullif"):
        return (_common(args),) * len(args)
    if op in ("floor", "ceil"):
        return (BIGINT if args[0].type.is_integral else DOUBLE,)
    if op in ("cast", "try_cast") and args[0].type.name in ("decimal", "void"):
        return (call.type,)
    return tuple(a.type for a in args)


def _common(args: Sequence[Expr]) -> Type:
    common: Type | None = VOID
    for arg in args:
        common = None if common is None else common_type(common, arg.type)
    return BOOLEAN if common is None or common == VOID else common


def refusal(expr: Expr, wanted: Type) -> str | None:
    """Why this tree, evaluated as `wanted`, might not give what Spark gives; None if it does."""
    if wanted.name not in ARROW or not _castable(expr, wanted):
        kind = expr.type if expr.type.name == "decimal" else wanted
        return f"{'' if kind == expr.type else f'{expr.type} as '}{kind} arithmetic"
    if not isinstance(expr, Call):
        return None
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
    if call.op not in _BUILDERS:
        return f"function {call.op}"
    if call.op in ("+", "-", "*", "%", "/", "try_divide") and not (
        call.type.is_integral or call.type.is_fractional
    ):
        return f"{call.type} arithmetic"
    if call.op in ("cast", "try_cast") and not _castable(call.args[0], call.type):
        return f"cast from {call.args[0].type} to {call.type}"
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


# -- compiling -------------------------------------------------------------------------------------


def compile_step(expr: Expr, to: Type) -> Step:
    """A step that gives `expr` as type `to`.  The tree must be supported."""
    if isinstance(expr, Literal):
        return _literal(expr, to)
    if isinstance(expr, Call):
        call = as_whole_comparison(expr)
        step = _BUILDERS[call.op](call)
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


def _on(frame: Frame, where: Mask, step: Step, kind: Type) -> Vector:
    """Evaluate on the rows in `where` only; what stands elsewhere is not to be read."""
    rows = np.flatnonzero(where)
    if rows.size == frame.size:
        return step(frame)
    values = blank(kind, frame.size)
    if not rows.size:
        return Vector(values, None)
    part = step(frame.at(rows))
    values[rows] = part.values
    if part.nulls is None:
        return Vector(values, None)
    nulls = np.zeros(frame.size, np.bool_)
    nulls[rows] = part.nulls
    return Vector(values, nulls)


def _pair(frame: Frame, first: Step, second: Step, kind: Type) -> tuple[Vector, Vector]:
    """The second only where the first is not null."""
    a = first(frame)
    return a, second(frame) if a.nulls is None else _on(frame, ~a.nulls, second, kind)


def _arithmetic(call: Call) -> Step:
    left, right = _operands(call)
    apply, kind, other = operators.ARITHMETIC[call.op], call.type, operand_types(call)[0]
    right_first = call.op in operators.RIGHT_FIRST

    def step(frame: Frame) -> Vector:
        a, b = _pair(frame, right, left, other) if right_first else _pair(frame, left, right, other)
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
        a = _on(frame, ~zero if b.nulls is None else ~(zero | b.nulls), left, DOUBLE)
        nulls = merge_nulls(a.nulls, b.nulls, zero)
        with np.errstate(all="ignore"):
            return Vector(np.where(zero, 0.0, a.values / b.values), nulls)

    return step


def _comparison(call: Call) -> Step:
    left, right = _operands(call)
    compare, kind = operators.COMPARISONS[call.op], operand_types(call)[0]

    def step(frame: Frame) -> Vector:
        a, b = _pair(frame, left, right, kind)
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
        b = _on(frame, ~settled, right, BOOLEAN)
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


def _case(call: Call) -> Step:
    *arms, otherwise = _operands(call)
    kind = call.type

    def step(frame: Frame) -> Vector:
        open_rows = np.ones(frame.size, np.bool_)
        result = all_null(kind, frame.size)
        for when, then in zip(arms[::2], arms[1::2], strict=True):
            condition = _on(frame, open_rows, when, BOOLEAN)
            taken = open_rows & condition.valid & condition.values
            _fill(result, taken, _on(frame, taken, then, kind))
            open_rows &= ~taken
        _fill(result, open_rows, _on(frame, open_rows, otherwise, kind))
        return _tidy(result)

    return step


def _coalesce(call: Call) -> Step:
    args, kind = _operands(call), call.type

    def step(frame: Frame) -> Vector:
        result = all_null(kind, frame.size)
        for arg in args:
            assert result.nulls is not None
            if result.nulls.any():
                _fill(result, result.nulls.copy(), _on(frame, result.nulls, arg, kind))
        return _tidy(result)

    return step


def _fill(result: Vector, where: Mask, source: Vector) -> None:
    assert result.nulls is not None
    result.values[where] = source.values[where]
    result.nulls[where] = False if source.nulls is None else source.nulls[where]


def _tidy(result: Vector) -> Vector:
    return (
        result if result.nulls is not None and result.nulls.any() else Vector(result.values, None)
    )


def _extreme(call: Call) -> Step:
    """Nulls are passed over; the first of equals stays."""
    args, kind, greatest = _operands(call), call.type, call.op == "greatest"

    def step(frame: Frame) -> Vector:
        result = all_null(kind, frame.size)
        for arg in args:
            x = arg(frame)
            beyond = (
                operators.less(result.values, x.values)
                if greatest
                else operators.less(x.values, result.values)
            )
            _fill(result, x.valid & (~result.valid | beyond), x)
        return _tidy(result)

    return step


def _nullif(call: Call) -> Step:
    value = compile_step(call.args[0], call.type)
    same = _comparison(Call("=", call.args, BOOLEAN))

    def step(frame: Frame) -> Vector:
        equal = same(frame)
        x = value(frame)
        nulls = equal.values & equal.valid
        return _tidy(Vector(x.values, nulls if x.nulls is None else nulls | x.nulls))

    return step


def _in(call: Call) -> Step:
    needle, *choices = _operands(call)
    kind = operand_types(call)[0]
    constants = all(isinstance(a, Literal) and a.value is not None for a in call.args[1:])
    return _in_constants(needle, choices) if constants else _in_any(needle, choices, kind)


def _in_constants(needle: Step, choices: Sequence[Step]) -> Step:
    one = Frame({}, 1)
    known = np.concatenate([choice(one).values for choice in choices])
    members = frozenset(known.tolist())

    def step(frame: Frame) -> Vector:
        x = needle(frame)
        if x.values.dtype == np.object_:
            return Vector(np.array([v in members for v in x.values], np.bool_), x.nulls)
        return Vector(np.isin(x.values, known), x.nulls)

    return step


def _in_any(needle: Step, choices: Sequence[Step], kind: Type) -> Step:
    """A choice is evaluated only where none before it matched; a null among them leaves the rest
    unknown."""

    def step(frame: Frame) -> Vector:
        x = needle(frame)
        found = np.zeros(frame.size, np.bool_)
        unknown = ~x.valid
        for choice in choices:
            looking = x.valid & ~found
            y = _on(frame, looking, choice, kind)
            unknown = unknown | (looking & ~y.valid)
            found = found | (looking & y.valid & operators.equal(x.values, y.values))
        nulls = unknown & ~found
        return Vector(found, nulls if nulls.any() else None)

    return step


def _cast(call: Call) -> Step:
    (source,) = call.args
    if source.type.name in ("decimal", "void"):
        return compile_step(source, call.type)
    arg, kind, lenient = compile_step(source, source.type), call.type, call.op == "try_cast"
    return lambda frame: cast(arg(frame), source.type, kind, lenient=lenient)


_BUILDERS: dict[str, Callable[[Call], Step]] = {
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
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": _extreme,
    "least": _extreme,
    "nullif": _nullif,
    "round": _round,
    "cast": _cast,
    "try_cast": _cast,
    "try_divide": _try_divide,
}
