"""The rows a step is evaluated on, and evaluating on some of them only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.evaluation.vectors import Mask, Vector, blank, from_arrow
from headrace.sql.tree import Aggregate, Bound, Column, Expr, Key
from headrace.values import Type

Rows = NDArray[np.int64]


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
Compile = Callable[[Expr, Type], Step]


def is_leaf(expr: Expr) -> bool:
    return isinstance(expr, Column | Key | Bound | Aggregate)


def on_rows(frame: Frame, where: Mask, step: Step, kind: Type) -> Vector:
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


def pair_of(frame: Frame, first: Step, second: Step, kind: Type) -> tuple[Vector, Vector]:
    """The second only where the first is not null."""
    a = first(frame)
    return a, second(frame) if a.nulls is None else on_rows(frame, ~a.nulls, second, kind)
