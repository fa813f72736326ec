"""Lengths of time as Spark writes them: '1 hour', '90 minutes', 'interval 1 hour 30 minutes'."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError, near

UNIT_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHOWN = {
    "day": "d",
    "hour": "h",
    "minute": "min",
    "second": "s",
    "millisecond": "ms",
    "microsecond": "µs",
}
_CALENDAR = ("month", "quarter", "year")
_DIGITS_MAX, _FRACTION_DIGITS_MAX = 19, 9
_PART = re.compile(r"\s*(?:([+-])\s*)?(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)", re.IGNORECASE | re.ASCII)
# Ten thousand years: longer than from year 1 to 9999, and short enough that a time moved by it fits
# 64 bits.
US_MAX = 10_000 * 366 * UNIT_US["day"]


def parse_duration_us(text: str) -> int:
    """Microseconds in a length of time; negative ones are for the caller to judge."""
    rest = text.strip()
    if rest[:8].lower() == "interval" and not rest[8:9].isalpha():
        rest = rest[8:]
    total, at = 0, 0
    while match := _PART.match(rest, at):
        sign, number, word = match.groups()
        total += (-1 if sign == "-" else 1) * _part_us(number, word, text)
        at = match.end()
    if rest[at:].strip() or at == 0:
        raise HeadraceError(
            "not a length of time",
            value=repr(text),
            hint="write a number and a unit, such as '90 minutes'",
            code="DURATION",
        )
    if abs(total) > US_MAX:
        raise _too_long(text)
    return total


def _part_us(number: str, word: str, text: str) -> int:
    unit = word.lower().removesuffix("s")
    if unit in _CALENDAR:
        raise HeadraceError(
            f"a {unit} has no fixed length",
            value=repr(text),
            choices=tuple(UNIT_US),
            hint="use days or weeks",
            code="DURATION",
        )
    if unit not in UNIT_US:
        raise HeadraceError(
            "unknown unit of time", value=word, choices=near(unit, UNIT_US, 7), code="DURATION"
        )
    digits, point, fraction = number.partition(".")
    if len(digits) > _DIGITS_MAX:
        raise _too_long(text)
    whole = int(digits or "0") * UNIT_US[unit]
    if not point:
        return whole
    if unit != "second" or len(fraction) > _FRACTION_DIGITS_MAX:
        raise HeadraceError(
            f"only seconds may have a fraction, of {_FRACTION_DIGITS_MAX} digits at most",
            value=repr(text),
            hint="use a smaller unit, such as '90 minutes'",
            code="DURATION",
        )
    # digits past the microsecond are cut off, as Spark does
    return whole + int(fraction[:6].ljust(6, "0"))


def _too_long(text: str) -> HeadraceError:
    return HeadraceError(
        "the length of time is too long",
        value=repr(text),
        hint="it may be 10,000 years at most",
        code="DURATION",
    )


def span(us: int) -> str:
    """A duration in its largest whole unit."""
    if us == 0:
        return "0"
    unit = next(unit for unit in _SHOWN if us % UNIT_US[unit] == 0)
    return f"{us // UNIT_US[unit]:,} {_SHOWN[unit]}"
