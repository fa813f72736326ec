"""Steps that evaluate some of their operands only on the rows that need them: CASE, COALESCE, IN,
and the extremes.  `compile_step` compiles an operand (`steps.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.evaluation import operators
from headrace.evaluation.frames import Compile, Frame, Step, on_rows
from headrace.evaluation.operand_types import operand_types
from headrace.evaluation.vectors import Mask, Vector, all_null
from headrace.sql.tree import Call, Literal
from headrace.values import BOOLEAN, Type


def case_step(call: Call, compile_step: Compile) -> Step:
    *arms, otherwise = [
        compile_step(a, t) for a, t in zip(call.args, operand_types(call), strict=True)
    ]
    kind = call.type

    def step(frame: Frame) -> Vector:
        open_rows = np.ones(frame.size, np.bool_)
        result = all_null(kind, frame.size)
        for when, then in zip(arms[::2], arms[1::2], strict=True):
            condition = on_rows(frame, open_rows, when, BOOLEAN)
            taken = open_rows & condition.valid & condition.values
            _fill(result, taken, on_rows(frame, taken, then, kind))
            open_rows &= ~taken
        _fill(result, open_rows, on_rows(frame, open_rows, otherwise, kind))
        return without_no_nulls(result)

    return step


def coalesce_step(call: Call, compile_step: Compile) -> Step:
    args, kind = (
        [compile_step(a, t) for a, t in zip(call.args, operand_types(call), strict=True)],
        call.type,
    )

    def step(frame: Frame) -> Vector:
        result = all_null(kind, frame.size)
        for arg in args:
            assert result.nulls is not None
            if result.nulls.any():
                _fill(result, result.nulls.copy(), on_rows(frame, result.nulls, arg, kind))
        return without_no_nulls(result)

    return step


def _fill(result: Vector, where: Mask, source: Vector) -> None:
    assert result.nulls is not None
    result.values[where] = source.values[where]
    result.nulls[where] = False if source.nulls is None else source.nulls[where]


def without_no_nulls(result: Vector) -> Vector:
    """A vector in which nothing is null has no nulls."""
    return (
        result if result.nulls is not None and result.nulls.any() else Vector(result.values, None)
    )


def extreme_step(call: Call, compile_step: Compile) -> Step:
    """Nulls are passed over; the first of equals stays."""
    args, kind, greatest = (
        [compile_step(a, t) for a, t in zip(call.args, operand_types(call), strict=True)],
        call.type,
        call.op == "greatest",
    )

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
        return without_no_nulls(result)

    return step


def in_step(call: Call, compile_step: Compile) -> Step:
    needle, *choices = [
        compile_step(a, t) for a, t in zip(call.args, operand_types(call), strict=True)
    ]
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
            y = on_rows(frame, looking, choice, kind)
            unknown = unknown | (looking & ~y.valid)
            found = found | (looking & y.valid & operators.equal(x.values, y.values))
        nulls = unknown & ~found
        return Vector(found, nulls if nulls.any() else None)

    return step
