"""Constants: the value, type and shown name that Spark 4 gives to a literal."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime
from decimal import Decimal

from headrace.sql.tree import Literal
from headrace.values import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    decimal,
)

DECIMAL_DIGITS_MAX = 38
LENGTH_MAX = 1_000
EXPONENT_MAX = 2**31 - 1 - LENGTH_MAX  # Java's BigDecimal holds no larger one
# Spark compares the digits as written with the largest number: 3.4028235e38F is the largest float,
# and refused.
_LARGEST = {"double": Decimal("1.7976931348623157E308"), "float": Decimal("3.4028234663852886E38")}
BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_SUFFIX = {"L": BIGINT, "S": SMALLINT, "Y": TINYINT}
TIMES = "from '0001-01-01' to '9999-12-31', with a clock as in '2024-01-01 10:00:00.5', without a time zone"
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(\.\d{1,6})?)?", re.ASCII)


def number(text: str) -> Literal:
    """The literal of a number as written, sign included.  ValueError says what is wrong with it."""
    body = text.upper()
    if len(body) > LENGTH_MAX:
        raise ValueError(f"the number is longer than {LENGTH_MAX:,} characters")
    if body.endswith("BD"):
        return _decimal(body[:-2])
    if body[-1] in "DF":
        return _fraction(body[:-1], DOUBLE if body[-1] == "D" else FLOAT)
    if body[-1] in _SUFFIX:
        return _integer(body[:-1], _SUFFIX[body[-1]])
    if "E" in body:
        return _fraction(body, DOUBLE)
    if "." in body:
        return _decimal(body)
    for kind in (INT, BIGINT):
        if fits(int(body), kind):
            return Literal(int(body), kind)
    return _decimal(body)


def fits(value: int, kind: Type) -> bool:
    return -(1 << BITS[kind.name]) <= value < 1 << BITS[kind.name]


def _integer(text: str, kind: Type) -> Literal:
    if not re.fullmatch(r"-?\d+", text):
        raise ValueError(f"a {kind} has no fraction")
    if not fits(int(text), kind):
        raise ValueError(f"the number does not fit a {kind}")
    return Literal(int(text), kind)


def _fraction(text: str, kind: Type) -> Literal:
    exact = _exact(text)
    if exact.copy_abs() > _LARGEST[kind.name]:
        raise ValueError(f"the number does not fit a {kind}")
    value = float(text)
    if kind == FLOAT and _halfway(value) and exact != Decimal(value):
        # Rounded twice, it would go the wrong way: a step towards what was written settles it.
        value = math.nextafter(value, math.inf if exact > Decimal(value) else -math.inf)
    return Literal(value, kind)


def _halfway(value: float) -> bool:
    """Is this double just between two floats?"""
    bits = int.from_bytes(struct.pack("<d", value), "little")
    return bits & ((1 << 29) - 1) == 1 << 28


def _exact(text: str) -> Decimal:
    _, _, exponent = text.partition("E")
    if exponent and abs(int(exponent)) > EXPONENT_MAX:
        raise ValueError("the exponent is too large")
    return Decimal(text)


def _decimal(text: str) -> Literal:
    value = _exact(text)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(str(int("".join(map(str, digits))))) + max(0, exponent), scale)
    if precision > DECIMAL_DIGITS_MAX:
        raise ValueError(f"the number has more than {DECIMAL_DIGITS_MAX} digits")
    text = (
        format(value, "f")
        if value
        else f"0e{exponent}"
        if exponent > 0
        else format(value.copy_abs(), "f")
    )
    return Literal(text, decimal(precision, scale))


def timestamp(text: str, kind: Type = TIMESTAMP) -> Literal:
    """'2024-01-01', '2024-01-01 10:00', '2024-01-01 10:00:00.5' → seconds always written."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a timestamp of the form 'YYYY-MM-DD HH:MM:SS'")
    day, clock, fraction = match.groups()
    clock = clock or "00:00"
    clock = clock if len(clock) == 8 else clock + ":00"
    datetime.fromisoformat(f"{day} {clock}")
    return Literal(f"{day} {clock}{_trim(fraction)}", kind)


def _trim(fraction: str | None) -> str:
    return (fraction or "").rstrip("0").rstrip(".")


def day(text: str) -> Literal:
    """'2024-01-01'; the clock of a longer one is dropped, as Spark does when it makes a date of a
    string."""
    written = timestamp(text).value
    assert isinstance(written, str)
    return Literal(date.fromisoformat(written[:10]).isoformat(), DATE)


def as_time(text: str, kind: Type) -> Literal:
    return day(text) if kind == DATE else timestamp(text, kind)


TYPED = {
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}


def shown(literal: Literal) -> str:
    """The literal inside the name Spark gives to a column."""
    if literal.value is None:
        return "NULL"
    if isinstance(literal.value, bool):
        return str(literal.value).lower()
    if literal.type.is_time:
        word = "DATE" if literal.type == DATE else str(literal.type).upper()
        return f"{word} '{literal.value}'"
    if isinstance(literal.value, float):
        return _java_double(literal.value)
    return str(literal.value)


def _java_double(value: float) -> str:
    """Java's Double.toString: scientific outside 1e-3 … 1e7, always with a fraction."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else format(Decimal(repr(value)), "f")
    mantissa, _, exponent = format(Decimal(repr(value)), "E").partition("E")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
