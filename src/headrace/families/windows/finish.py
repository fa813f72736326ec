"""SELECT and HAVING over finished aggregates, evaluated for all answers of a window at once, as Spark would.

`supports` refuses every tree whose value here might differ from Spark's; such queries run as plain Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.families.windows.steps import Frame, Step, compile_step, is_leaf, refusal
from headrace.families.windows.vectors import FinishError, Vector, to_arrow
from headrace.sql.tree import Call, Expr, walk
from headrace.values import BOOLEAN

__all__ = ["Finish", "FinishError", "Finished", "compile_finish", "supports"]


class Finished(NamedTuple):
    """`kept` are the positions of the rows that passed HAVING, None for all; `outputs` hold those rows only."""

    kept: NDArray[np.int64] | None
    outputs: tuple[pa.Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """A compiled SELECT list and HAVING; made once, run on the answers of every window."""

    outputs: tuple[Expr, ...]
    having: Expr | None
    _outputs: tuple[Step | None, ...]  # None for a bare key, bound or aggregate: its array is the output
    _having: Step | None

    def run(self, inputs: Mapping[Expr, pa.Array], rows: int) -> Finished:
        """`inputs` has an array of `rows` values for every Key, Bound and Aggregate of the trees.

        Raises FinishError where Spark would raise, with the class of Spark's error as `code`.
        """
        frame = Frame(inputs, rows)
        kept = None if self._having is None else _passed(self._having(frame))
        if kept is not None and kept.size == rows:
            kept = None
        if kept is not None:
            frame = frame.at(kept)
        arrays = (_output(e, s, inputs, kept, frame) for e, s in zip(self.outputs, self._outputs, strict=True))
        return Finished(kept, tuple(arrays))


def compile_finish(outputs: tuple[Expr, ...], having: Expr | None) -> Finish:
    """All trees must be supported."""
    steps = tuple(None if is_leaf(e) else compile_step(e, e.type) for e in outputs)
    return Finish(outputs, having, steps, None if having is None else compile_step(having, BOOLEAN))


def supports(expr: Expr) -> str | None:
    """None if the whole tree is evaluated here exactly as Spark would; else why not."""
    if is_leaf(expr):
        return None
    return refusal(expr, expr.type) or _doomed(expr)


def _doomed(expr: Expr) -> str | None:
    """Spark evaluates constants before it runs; a failing one fails the query even without rows."""
    if not isinstance(expr, Call):
        return None
    if any(is_leaf(node) for node in walk(expr)):
        return next((reason for arg in expr.args if (reason := _doomed(arg))), None)
    try:
        compile_step(expr, expr.type)(Frame({}, 1))
    except FinishError as error:
        return f"a constant expression that fails ({error.code})"
    return None


def _passed(condition: Vector) -> NDArray[np.int64]:
    true = condition.values if condition.nulls is None else condition.values & ~condition.nulls
    return np.flatnonzero(true)


def _output(
    expr: Expr, step: Step | None, inputs: Mapping[Expr, pa.Array], kept: NDArray[np.int64] | None, frame: Frame
) -> pa.Array:
    if step is not None:
        return to_arrow(step(frame), expr.type)
    return inputs[expr] if kept is None else inputs[expr].take(pa.array(kept))
