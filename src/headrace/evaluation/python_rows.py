"""Answers as Python's dicts, whatever value they hold.

Python's datetime ends at the years 1 and 9999, Spark's times do not.  A time or date beyond is its
ISO 8601 text, with a sign before the year: `-0044-03-15T00:00:00+00:00`, `+200000-01-01`.  Of a
text that is not UTF-8, what is not is `\N{REPLACEMENT CHARACTER}`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_S = 86_400
_ERA_DAYS = 146_097  # of 400 years
_EPOCH_DAYS = 719_468  # from the 1st of March of year 0 to 1970


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """`Table.to_pylist`, which fails as a whole where one time is beyond Python's."""
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        columns = [[_value(scalar) for scalar in column] for column in table.columns]
        names = table.column_names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(scalar.type):
        return {name: _value(part) for name, part in scalar.items()}
    if pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type):
        return [_value(part) for part in scalar.values]
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return _text(scalar)


def _text(scalar: pa.Scalar) -> str:
    kind = scalar.type
    if pa.types.is_timestamp(kind):
        return time_text(scalar.value, _PER_SECOND[kind.unit]) + ("+00:00" if kind.tz else "")
    if pa.types.is_date32(kind):
        return date_text(scalar.value)
    # Spark does not check that a text is UTF-8
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(scalar.as_buffer().to_pybytes(), "utf-8", "replace")
    return str(scalar)


def time_text(count: int, per_second: int) -> str:
    """Ticks since 1970 as ISO text."""
    seconds, part = divmod(count, per_second)
    days, seconds = divmod(seconds, _DAY_S)
    fraction = f".{part * 1_000_000 // per_second:06d}" if part else ""
    return f"{date_text(days)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def date_text(days: int) -> str:
    """Days since 1970 as ISO text, by the Gregorian calendar at all times, as in Spark."""
    era, day = divmod(days + _EPOCH_DAYS, _ERA_DAYS)
    of_era = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * of_era + of_era // 4 - of_era // 100)
    month = (5 * of_year + 2) // 153  # from March on
    year = of_era + era * 400 + (month >= 10)
    return f"{_year(year)}-{(month + 2) % 12 + 1:02d}-{of_year - (153 * month + 2) // 5 + 1:02d}"


def _year(year: int) -> str:
    if 0 <= year <= 9_999:
        return f"{year:04d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}"
