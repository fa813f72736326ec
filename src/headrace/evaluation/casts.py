"""CAST, explicit and implied, between the types that expressions may have (ANSI mode, UTC)."""

from __future__ import annotations

import numpy as np

from headrace.evaluation.arrow import ARROW
from headrace.evaluation.operators import saturate
from headrace.evaluation.vectors import BITS, FinishError, Mask, Values, Vector, all_null
from headrace.values import Type

US_PER_DAY = 86_400_000_000


def can_cast(source: Type, to: Type) -> bool:
    """Whether `cast` gives exactly what Spark gives."""
    if to.name not in ARROW:
        return False
    if source == to or source.name == "void":
        return True
    if source.is_fractional:
        return to.is_fractional or to.name in ("int", "bigint", "boolean")
    if source.is_integral or source.name == "boolean":
        return to.is_integral or to.is_fractional or to.name == "boolean"
    return source.is_time and to.is_time


def cast(vector: Vector, source: Type, to: Type, *, lenient: bool = False) -> Vector:
    """`lenient` is TRY_CAST: null where the value does not fit."""
    if source == to:
        return vector
    if source.name == "void":
        return all_null(to, vector.values.size)
    with np.errstate(all="ignore"):  # infinities, and NaNs that signal: they are values as others
        values, bad = _cast(vector.values, source, to)
    bad = bad & vector.valid
    if not bad.any():
        return Vector(values, vector.nulls)
    if not lenient:
        raise FinishError(f"a value of type {source} does not fit {to}", code="CAST_OVERFLOW")
    return Vector(np.where(bad, 0, values), bad if vector.nulls is None else bad | vector.nulls)


def _cast(values: Values, source: Type, to: Type) -> tuple[Values, Mask]:
    """The values, and where they do not fit."""
    fine = np.zeros(values.size, np.bool_)
    if to.name == "boolean":
        return values != 0, fine
    if to.is_fractional:
        return values.astype(np.float32 if to.name == "float" else np.float64), fine
    if to.is_time:
        return _shift_time(values, source, to), fine
    limit = 1 << BITS[to.name]
    if source.is_fractional:
        return _truncate(
            values.astype(np.float64),
            float(-limit),
            float(limit if to.name == "bigint" else limit - 1),
        )
    values = values.astype(np.int64)
    return values, (values < -limit) | (values > limit - 1)


def _truncate(values: Values, low: float, high: float) -> tuple[Values, Mask]:
    bad = ~((np.floor(values) <= high) & (np.ceil(values) >= low))
    return saturate(np.trunc(np.where(bad, 0.0, values))), bad


def _shift_time(values: Values, source: Type, to: Type) -> Values:
    if source.name == "date":
        return values * US_PER_DAY
    return values // US_PER_DAY if to.name == "date" else values
