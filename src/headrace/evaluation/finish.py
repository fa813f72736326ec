"""Expressions over columns, or over group keys and finished aggregates, evaluated for many rows as
Spark would.

`why_unsupported` refuses every tree whose value here might differ from Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.evaluation.frames import Frame, Step, is_leaf
from headrace.evaluation.refusals import refusal
from headrace.evaluation.steps import compile_step
from headrace.evaluation.vectors import FinishError, to_arrow
from headrace.sql.tree import Call, Expr, walk

__all__ = ["Finish", "FinishError", "compile_finish", "why_unsupported"]


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """A compiled expression; made once, run on the answers of every round."""

    expr: Expr
    _step: Step | None  # None for a bare column, key, bound or aggregate: its array is the value

    def run(self, inputs: Mapping[Expr, pa.Array], rows: int) -> pa.Array:
        """`inputs` has an array of `rows` values for every leaf of the tree.

        Raises FinishError where Spark would raise, with the class of Spark's error as `code`.
        """
        return (
            inputs[self.expr]
            if self._step is None
            else to_arrow(self._step(Frame(inputs, rows)), self.expr.type)
        )


def compile_finish(expr: Expr) -> Finish:
    """Make a tree ready to be evaluated; `why_unsupported` must have said nothing against it."""
    return Finish(expr, None if is_leaf(expr) else compile_step(expr, expr.type))


def why_unsupported(expr: Expr) -> str | None:
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
