"""Operators and functions, with the semantics of Spark 4 in ANSI mode.

Every function here is strict: it is given operands of one type and where any of them is null, and
says what the values are elsewhere.  What decides whether an operand is evaluated at all (CASE, AND,
…) is in `finish.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from headrace.evaluation.vectors import BITS, FinishError, Mask, Values, Vector
from headrace.values import Type

Strict = Callable[[Type, Mask, Values, Values], Values]
POWERS_EXACT = 22  # 10²² is the last power of ten a double holds exactly


def fail_if(bad: Mask, code: str, what: str) -> None:
    if bad.any():
        raise FinishError(what, code=code)


def _in_range(kind: Type, valid: Mask, values: Values) -> Values:
    limit = 1 << BITS[kind.name]
    fail_if(
        valid & ((values < -limit) | (values >= limit)),
        "ARITHMETIC_OVERFLOW",
        f"a result does not fit a {kind}",
    )
    return values


def _overflow(bad: Mask, kind: Type) -> None:
    fail_if(bad, "ARITHMETIC_OVERFLOW", f"a result does not fit a {kind}")


def add(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    total = a + b
    if kind.is_integral:
        _overflow(valid & (((a ^ total) & (b ^ total)) < 0), kind)
        return _in_range(kind, valid, total) if kind.name != "bigint" else total
    return total


def subtract(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    rest = a - b
    if kind.is_integral:
        _overflow(valid & (((a ^ b) & (a ^ rest)) < 0), kind)
        return _in_range(kind, valid, rest) if kind.name != "bigint" else rest
    return rest


def multiply(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    product = a * b
    if kind.name == "bigint":
        # A double tells products far below 2⁶³ from others; the rest is few and settled in exact
        # integers.
        unsure = np.flatnonzero(
            valid & (np.abs(a.astype(np.float64) * b.astype(np.float64)) >= 2.0**62)
        )
        limit = 1 << BITS["bigint"]
        exact = [int(a[i]) * int(b[i]) for i in unsure]
        _overflow(np.array([not -limit <= x < limit for x in exact], np.bool_), kind)
    elif kind.is_integral:
        return _in_range(kind, valid, product)
    return product


def divide(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    fail_if(valid & (b == 0), "DIVIDE_BY_ZERO", "division by zero")
    quotient: Values = a / b
    return quotient


def divide_whole(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    fail_if(valid & (b == 0), "DIVIDE_BY_ZERO", "division by zero")
    _overflow(valid & (a == np.iinfo(np.int64).min) & (b == -1), kind)
    divisor = np.where(b == 0, 1, b)
    quotient: Values = (a - np.fmod(a, divisor)) // divisor
    return quotient


def remainder(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    fail_if(valid & (b == 0), "REMAINDER_BY_ZERO", "remainder by zero")
    if kind.is_integral:
        rest: Values = np.fmod(a, np.where((b == 0) | (b == -1), 1, b))
        return rest
    return np.asarray(np.fmod(a, b))


def power(kind: Type, valid: Mask, a: Values, b: Values) -> Values:
    """Java's: unlike C's, 1 to the power of NaN is NaN, and so is ±1 to an infinite power."""
    result = np.power(a, b)
    odd = (np.isnan(b) & (a == 1)) | (np.isinf(b) & (np.abs(a) == 1))
    return np.where(odd, np.nan, result)


def equal(a: Values, b: Values) -> Mask:
    same = np.asarray(a == b, np.bool_)
    return same | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else same


def less(a: Values, b: Values) -> Mask:
    """NaN is above every number."""
    below = np.asarray(a < b, np.bool_)
    return below | (~np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else below


COMPARISONS: dict[str, Callable[[Values, Values], Mask]] = {
    "=": equal,
    "<>": lambda a, b: ~equal(a, b),
    "<": less,
    ">": lambda a, b: less(b, a),
    "<=": lambda a, b: ~less(b, a),
    ">=": lambda a, b: ~less(a, b),
}
ARITHMETIC: dict[str, Strict] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "%": remainder,
    "/": divide,
    "div": divide_whole,
    "power": power,
}
# Spark looks at the divisor before it evaluates the dividend
RIGHT_FIRST = frozenset({"/", "div", "%"})


def negate(kind: Type, vector: Vector) -> Vector:
    if kind.is_integral:
        _overflow(vector.valid & (vector.values == -(1 << BITS[kind.name])), kind)
    return Vector(-vector.values, vector.nulls)


def absolute(kind: Type, vector: Vector) -> Vector:
    if kind.is_integral:
        _overflow(vector.valid & (vector.values == -(1 << BITS[kind.name])), kind)
    return Vector(np.abs(vector.values), vector.nulls)


def _to_long(kind: Type, vector: Vector, values: Values) -> Vector:
    """Spark lets NaN become 0 here; 2⁶³ it does not, other than a cast."""
    _overflow(vector.valid & ((values >= 2.0**63) | (values < -(2.0**63))), kind)
    return Vector(saturate(np.where(np.isnan(values), 0.0, values)), vector.nulls)


def saturate(values: Values) -> Values:
    """Doubles within ±2⁶³ as int64."""
    top = values >= 2.0**63
    return np.where(top, np.iinfo(np.int64).max, np.where(top, 0.0, values).astype(np.int64))


def floor(kind: Type, vector: Vector) -> Vector:
    return (
        vector
        if vector.values.dtype.kind == "i"
        else _to_long(kind, vector, np.floor(vector.values))
    )


def ceil(kind: Type, vector: Vector) -> Vector:
    return (
        vector
        if vector.values.dtype.kind == "i"
        else _to_long(kind, vector, np.ceil(vector.values))
    )


def sign(kind: Type, vector: Vector) -> Vector:
    x = vector.values
    return Vector(np.where((x == 0) | np.isnan(x), x, np.copysign(1.0, x)), vector.nulls)


def square_root(kind: Type, vector: Vector) -> Vector:
    return Vector(np.sqrt(vector.values), vector.nulls)


def exponential(kind: Type, vector: Vector) -> Vector:
    return Vector(np.exp(vector.values), vector.nulls)


def _logarithm(log: Callable[[Values], Values]) -> Callable[[Type, Vector], Vector]:
    def apply(kind: Type, vector: Vector) -> Vector:
        """Null, not NaN, where there is no logarithm."""
        none = vector.values <= 0
        nulls = none if vector.nulls is None else none | vector.nulls
        return Vector(np.where(none, 0.0, log(vector.values)), nulls if nulls.any() else None)

    return apply


UNARY: dict[str, Callable[[Type, Vector], Vector]] = {
    "negate": negate,
    "abs": absolute,
    "floor": floor,
    "ceil": ceil,
    "sign": sign,
    "sqrt": square_root,
    "exp": exponential,
    "ln": _logarithm(np.log),
    "log10": _logarithm(np.log10),
}


def round_half_up(values: Values, digits: int) -> Values:
    """Spark's round of a double: of its shortest decimal, ties away from zero, and no negative
    zero.  `digits` ≥ 0.

    x·10ⁿ in doubles is off by at most two roundings, so it decides all but what is that close to a
    tie; the decision is an integer below 2⁵⁰, and that divided by 10ⁿ is the double nearest to the
    decimal result.
    """
    if digits > POWERS_EXACT:
        return np.array([_round_exactly(x, digits) for x in values.tolist()], np.float64)
    scale = 10.0**digits
    scaled = np.abs(values) * scale
    whole = np.floor(scaled)
    unsure = (np.abs(scaled - whole - 0.5) <= scaled * 2.0**-51) | ~(scaled < 2.0**50)
    result = np.copysign(np.floor(scaled + 0.5) / scale, values) + 0.0
    for i in np.flatnonzero(unsure):
        result[i] = _round_exactly(float(values[i]), digits)
    return result


def _round_exactly(x: float, digits: int) -> float:
    if not np.isfinite(x) or x == 0:
        return x + 0.0
    shortest = Decimal(repr(x))
    _, units, exponent = shortest.as_tuple()
    assert isinstance(exponent, int)
    drop = -digits - exponent
    if drop <= 0:
        return x
    if drop > len(units):
        return 0.0
    whole, rest = divmod(int("".join(map(str, units))), 10**drop)
    rounded = Decimal(whole + (2 * rest >= 10**drop)).scaleb(-digits)
    return math.copysign(float(rounded), x) if rounded else 0.0
