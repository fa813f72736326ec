"""The type rule of each scalar function: given its arguments, the type of the result, or a
MismatchError."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sql import types
from headrace.sql.tree import Aggregate, Call, Expr, Literal
from headrace.sql.types import MismatchError, require, require_all, require_numeric
from headrace.values import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
    decimal,
)

Args = Sequence[Expr]
TRUNCATIONS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
)
_SMALL = ("tinyint", "smallint", "int")
_MOMENTS = (TIMESTAMP, TIMESTAMP_NTZ)


# operators


def add(args: Args) -> Type:
    left, right = args[0].type, args[1].type
    if left == INTERVAL and right in (*_MOMENTS, DATE):
        return add((args[1], args[0]))
    return _shifted(args) or types.arithmetic("+", args)


def subtract(args: Args) -> Type:
    left, right = args[0].type, args[1].type
    if left in _MOMENTS and left == right:
        return INTERVAL
    if left.is_time and right.is_time:
        cast = f"CAST one of them to the type of the other: CAST(… AS {left})"
        raise MismatchError(
            f"{left} - {right} is not available",
            arg=1,
            hint="use datediff(end, start) for days" if DATE in (left, right) else cast,
        )
    return _shifted(args) or types.arithmetic("-", args)


def _shifted(args: Args) -> Type | None:
    """A time moved by an interval, a date moved by days; None if this is about numbers."""
    left, right = args[0].type, args[1].type
    if left == INTERVAL and right == INTERVAL:
        return INTERVAL
    if left in _MOMENTS:
        require(args, 1, right == INTERVAL, "an interval", "write INTERVAL 5 MINUTES")
        return left
    if left == DATE:
        require(
            args,
            1,
            right.name in _SMALL,
            "a number of days",
            "CAST the date to TIMESTAMP to add an interval",
        )
        return left
    return None


def multiply(args: Args) -> Type:
    return types.arithmetic("*", args)


def remainder(args: Args) -> Type:
    return types.arithmetic("%", args)


def divide(args: Args) -> Type:
    return types.division(args)


def whole_division(args: Args) -> Type:
    require_numeric(args)
    for index, arg in enumerate(args):
        require(
            args, index, not arg.type.is_fractional, "a whole number or decimal", "use floor(a / b)"
        )
    return BIGINT


def compare(args: Args) -> Type:
    types.require_comparable(args)
    return BOOLEAN


def logic(args: Args) -> Type:
    require_all(args, BOOLEAN)
    return BOOLEAN


def test_any(args: Args) -> Type:
    types.require_ordered(args)
    return BOOLEAN


def match(args: Args) -> Type:
    require_all(args, STRING)
    return BOOLEAN


def same(args: Args) -> Type:
    return args[0].type


# choices


def common(args: Args) -> Type:
    types.require_ordered(args)
    return types.common_of(args)


def case(args: Args) -> Type:
    """The type of CASE; its arguments are when, then, …, otherwise."""
    results = [*range(1, len(args), 2), len(args) - 1]
    for index in range(0, len(args) - 1, 2):
        require(args, index, args[index].type == BOOLEAN, "a condition")
    try:
        return common([args[index] for index in results])
    except MismatchError as error:
        error.arg = None if error.arg is None else results[error.arg]
        raise


def nullif(args: Args) -> Type:
    compare(args)
    return args[0].type


def greatest(args: Args) -> Type:
    return types.require_comparable(args)


# numbers


def same_number(args: Args) -> Type:
    require_numeric(args)
    return DOUBLE if args[0].type == VOID else args[0].type


def real(args: Args) -> Type:
    require_numeric(args)
    return DOUBLE


def is_nan(args: Args) -> Type:
    require(args, 0, args[0].type.is_fractional, "a float or double")
    return BOOLEAN


def ceil(args: Args) -> Type:
    require_numeric(args)
    kind = args[0].type
    if kind.name != "decimal":
        return BIGINT
    return kind if kind.scale == 0 else types.bounded(kind.precision - kind.scale + 1, 0)


def round_to(args: Args) -> Type:
    require_numeric(args[:1])
    digits = 0
    if len(args) == 2:
        digits = constant_int(args, 1, -38, 38)
    kind = args[0].type
    if kind.name != "decimal":
        return DOUBLE if kind == VOID else kind
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        return types.bounded(max(whole, 1 - digits), 0)
    scale = min(kind.scale, digits)
    return types.bounded(whole + scale, scale)


def constant_int(args: Args, index: int, low: int, high: int) -> int:
    arg = args[index]
    if not isinstance(arg, Literal) or arg.type != INT or not isinstance(arg.value, int):
        raise MismatchError("expected a constant whole number", arg=index, value=arg.type)
    if not low <= arg.value <= high:
        raise MismatchError(
            f"expected a whole number from {low} to {high}", arg=index, value=arg.value
        )
    return arg.value


# text


def text(args: Args) -> Type:
    require_all(args, STRING)
    return STRING


def text_length(args: Args) -> Type:
    require_all(args, STRING)
    return INT


def text_test(args: Args) -> Type:
    require_all(args, STRING)
    return BOOLEAN


def text_slice(args: Args) -> Type:
    require(args, 0, args[0].type == STRING, "a string", "write CAST(… AS STRING)")
    for index in range(1, len(args)):
        require(args, index, args[index].type.name in _SMALL, "an int")
    return STRING


# time


def date_part(args: Args) -> Type:
    require(args, 0, args[0].type.is_time, "a date or timestamp")
    return INT


def clock_part(args: Args) -> Type:
    require(args, 0, args[0].type in _MOMENTS, "a timestamp")
    return INT


def date_trunc(args: Args) -> Type:
    unit = args[0]
    if not isinstance(unit, Literal) or str(unit.value).lower() not in TRUNCATIONS:
        raise MismatchError(
            "expected a unit of time", arg=0, value=value_of(unit), choices=TRUNCATIONS
        )
    require(args, 1, args[1].type in (TIMESTAMP, DATE), "a timestamp")
    return TIMESTAMP


def date_shift(args: Args) -> Type:
    require(args, 0, args[0].type == DATE, "a date", "write CAST(… AS DATE)")
    require(args, 1, args[1].type.name in _SMALL, "a number of days")
    return DATE


def date_difference(args: Args) -> Type:
    for index in range(2):
        require(args, index, args[index].type.is_time, "a date", "write CAST(… AS DATE)")
    return INT


def epoch_seconds(args: Args) -> Type:
    require(args, 0, args[0].type in (TIMESTAMP, DATE), "a timestamp")
    return BIGINT


def hashed(args: Args) -> Type:
    types.require_ordered(args)
    return INT


# aggregates


def value_of(expr: Expr) -> object:
    return expr.value if isinstance(expr, Literal) else expr.type


# casts


def can_cast(source: Type, to: Type) -> bool:
    """What Spark's ANSI mode allows between the types we know."""
    if source in (to, VOID) or (to == STRING and source != INTERVAL and types.is_ordered(source)):
        return True
    if source == STRING:
        return True
    if source.is_numeric:
        return to.is_numeric or to in (BOOLEAN, TIMESTAMP)
    if source == BOOLEAN:
        return to.is_numeric
    if source.is_time:
        return to.is_time or (source == TIMESTAMP and to.is_numeric)
    return False


def cast_may_raise(node: Call | Aggregate) -> bool:
    source, to = node.args[0].type, node.type
    if source in (to, VOID) or (to in (STRING, BOOLEAN) and source != STRING):
        return False
    if to.is_fractional or (source == BOOLEAN and to.is_integral):
        return source == STRING
    if source.is_integral and to.is_integral:
        return types.common_type(source, to) != to
    if source.is_time:
        return to.is_numeric and to != BIGINT
    if to.name == "decimal":
        return _decimal_may_overflow(
            types.as_decimal(Literal(None, source)) if source.is_integral else source, to
        )
    return True


def _decimal_may_overflow(source: Type, to: Type) -> bool:
    if source == BOOLEAN:
        source = decimal(1, 0)
    if source.name != "decimal":
        return True
    return to.precision - to.scale < source.precision - source.scale or (
        source.scale > to.scale and to.precision - to.scale == source.precision - source.scale
    )
