"""Typing rules of Spark 4 in ANSI mode, for the types we accept.

Where Spark would quietly cast a string to a number, or a number to a string, we refuse and ask for
a CAST: such a cast fails at run time on the first odd row, and would take every query of the round
with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sql.tree import Expr, Literal
from headrace.values import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    Type,
    decimal,
)

DIGITS_MAX = 38
DIVISION_SCALE_MIN = 6
_LADDER = (TINYINT, SMALLINT, INT, BIGINT)
_AS_DECIMAL = {
    "tinyint": decimal(3, 0),
    "smallint": decimal(5, 0),
    "int": decimal(10, 0),
    "bigint": decimal(20, 0),
}
_NAMES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "BYTE": TINYINT,
    "SMALLINT": SMALLINT,
    "SHORT": SMALLINT,
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "FLOAT": FLOAT,
    "REAL": FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "BINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}
DECIMAL_WORDS = ("DECIMAL", "DEC", "NUMERIC")
TYPE_NAMES = (*_NAMES, *DECIMAL_WORDS)


class MismatchError(Exception):
    """A type rule that does not hold; the binder adds where.  `arg` is the argument at fault, if it
    is one."""

    def __init__(
        self,
        what: str,
        *,
        arg: int | None = None,
        value: object = None,
        hint: str = "",
        choices: Sequence[str] = (),
    ) -> None:
        super().__init__(what)
        self.what, self.arg, self.value, self.hint, self.choices = (
            what,
            arg,
            value,
            hint,
            tuple(choices),
        )


def atomic(word: str, params: Sequence[int] = ()) -> Type | None:
    """The type of a name in a schema or a CAST; None if there is no such type."""
    name = word.upper()
    if name in DECIMAL_WORDS:
        precision, scale = (*params, 10, 0)[:2] if not params else (*params, 0)[:2]
        valid = len(params) <= 2 and 0 < precision <= DIGITS_MAX and 0 <= scale <= precision
        return decimal(precision, scale) if valid else None
    return None if params else _NAMES.get(name)


def require(args: Sequence[Expr], index: int, fits: bool, wanted: str, hint: str = "") -> None:
    if not fits and args[index].type != VOID:
        found = args[index].type
        raise MismatchError(f"expected {wanted}, found {found}", arg=index, value=found, hint=hint)


def require_numeric(args: Sequence[Expr]) -> None:
    for index, arg in enumerate(args):
        hint = "write CAST(… AS DOUBLE) if the text holds numbers" if arg.type == STRING else ""
        require(args, index, arg.type.is_numeric, "a number", hint)


def require_all(args: Sequence[Expr], wanted: Type) -> None:
    hint = "write CAST(… AS STRING)" if wanted == STRING else ""
    for index, arg in enumerate(args):
        require(args, index, arg.type == wanted, f"a {wanted}", hint)


def as_decimal(expr: Expr) -> Type:
    """The decimal an integer becomes beside a decimal; a literal only takes the digits it has."""
    if isinstance(expr, Literal) and isinstance(expr.value, int) and expr.type.is_integral:
        return decimal(len(str(abs(expr.value))), 0)
    return _AS_DECIMAL.get(expr.type.name, expr.type)


def bounded(precision: int, scale: int) -> Type:
    return decimal(min(precision, DIGITS_MAX), min(scale, DIGITS_MAX))


def adjusted(precision: int, scale: int) -> Type:
    """Keep the digits before the point; give up those after it down to six."""
    if precision <= DIGITS_MAX:
        return decimal(precision, scale)
    return decimal(
        DIGITS_MAX, max(DIGITS_MAX - (precision - scale), min(scale, DIVISION_SCALE_MIN))
    )


def arithmetic(op: str, args: Sequence[Expr]) -> Type:
    """The type of + - * % of two numbers (and of pmod)."""
    require_numeric(args)
    left, right = args
    if "decimal" in (left.type.name, right.type.name):
        if left.type.is_fractional or right.type.is_fractional:
            return DOUBLE
        return _decimal_arithmetic(
            op, as_decimal(_beside(left, right)), as_decimal(_beside(right, left))
        )
    common = common_type(left.type, right.type)
    return DOUBLE if common is None or common == VOID else common


def _beside(expr: Expr, other: Expr) -> Expr:
    """An untyped NULL takes the type of its neighbour."""
    return other if expr.type == VOID else expr


def _decimal_arithmetic(op: str, a: Type, b: Type) -> Type:
    whole_a, whole_b, scale = a.precision - a.scale, b.precision - b.scale, max(a.scale, b.scale)
    if op in ("+", "-"):
        return adjusted(max(whole_a, whole_b) + scale + 1, scale)
    if op == "*":
        return adjusted(a.precision + b.precision + 1, a.scale + b.scale)
    if op == "/":
        digits = max(DIVISION_SCALE_MIN, a.scale + b.precision + 1)
        return adjusted(whole_a + b.scale + digits, digits)
    return adjusted(min(whole_a, whole_b) + scale, scale)


def division(args: Sequence[Expr]) -> Type:
    """A bare NULL that is divided is a double."""
    require_numeric(args)
    left, right = args
    types = (left.type, right.type)
    if (
        left.type != VOID
        and "decimal" in (t.name for t in types)
        and not any(t.is_fractional for t in types)
    ):
        return _decimal_arithmetic(
            "/", as_decimal(_beside(left, right)), as_decimal(_beside(right, left))
        )
    return DOUBLE


def common_type(a: Type, b: Type) -> Type | None:
    """The least type both fit in without a cast that may fail; None if there is none."""
    if b in (a, VOID):
        return a
    if a == VOID:
        return b
    if a.is_numeric and b.is_numeric:
        return _common_number(a, b)
    if a.is_time and b.is_time:
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    return None


def _common_number(a: Type, b: Type) -> Type:
    if a.is_fractional or b.is_fractional:
        return DOUBLE  # a float beside an integer becomes a double, as in Spark
    if a.is_integral and b.is_integral:
        return max(a, b, key=_LADDER.index)
    a, b = _AS_DECIMAL.get(a.name, a), _AS_DECIMAL.get(b.name, b)
    scale = max(a.scale, b.scale)
    return widened(max(a.precision - a.scale, b.precision - b.scale), scale)


def widened(whole: int, scale: int) -> Type:
    """Spark keeps the digits before the point when both do not fit."""
    if whole + scale <= DIGITS_MAX:
        return decimal(whole + scale, scale)
    return decimal(DIGITS_MAX, max(0, DIGITS_MAX - whole))


def common_of(args: Sequence[Expr], start: int = 0) -> Type:
    """The common type of args[start:]; points at the first that does not fit the ones before."""
    common = args[start].type
    for index in range(start + 1, len(args)):
        wider = common_type(common, args[index].type)
        if wider is None:
            raise MismatchError(
                f"{args[index].type} does not go with {common}",
                arg=index,
                value=args[index].type,
                hint="write a CAST so that both have one type",
            )
        common = wider
    return common


def require_comparable(args: Sequence[Expr]) -> Type:
    """All args have one type that can be compared; which."""
    common = common_of(args)
    require_ordered(args)
    return common


def require_ordered(args: Sequence[Expr]) -> None:
    for index, arg in enumerate(args):
        require(args, index, is_ordered(arg.type), "a value that can be compared")


def is_ordered(kind: Type) -> bool:
    return kind.is_numeric or kind.is_time or kind in (BOOLEAN, STRING, BINARY, INTERVAL, VOID)
