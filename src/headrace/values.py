"""Words everybody may use: types, columns, relations, windows of time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.quoting import quote_name

US_PER_MS = 1_000
US_PER_S = 1_000_000
# before every row, 146,000 years before 1970; sums with ranges and grains stay within 64 bits
ALWAYS_US = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Type:
    """A Spark SQL type we accept: atomic ones only."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def is_integral(self) -> bool:
        return self.name in ("tinyint", "smallint", "int", "bigint")

    @property
    def is_fractional(self) -> bool:
        return self.name in ("float", "double")

    @property
    def is_numeric(self) -> bool:
        return self.is_integral or self.is_fractional or self.name == "decimal"

    @property
    def is_time(self) -> bool:
        return self.name in ("date", "timestamp", "timestamp_ntz")


BOOLEAN = Type("boolean")
TINYINT = Type("tinyint")
SMALLINT = Type("smallint")
INT = Type("int")
BIGINT = Type("bigint")
FLOAT = Type("float")
DOUBLE = Type("double")
STRING = Type("string")
BINARY = Type("binary")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
TIMESTAMP_NTZ = Type("timestamp_ntz")
INTERVAL = Type("interval")
VOID = Type("void")
WINDOW = Type("window")  # struct<start: timestamp, end: timestamp>


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision, scale)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a stream or table."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream (append-only rows with an event time) or a table (upserts; latest row per key).

    A row of a table whose column `deleted` is true takes its key out."""

    name: str
    source: str
    fields: tuple[Field, ...]
    time: str | None = None
    late_us: int = 0
    key: tuple[str, ...] = ()
    deleted: str | None = None

    @property
    def is_table(self) -> bool:
        return bool(self.key)

    def ddl(self) -> str:
        return ", ".join(f"{quote_name(f.name)} {str(f.type).upper()}" for f in self.fields)


@dataclass(frozen=True, slots=True)
class Window:
    """Spark's window: [k·slide + offset, k·slide + offset + range) from the epoch, in
    microseconds."""

    range_us: int
    slide_us: int
    offset_us: int = 0

    @property
    def grain_us(self) -> int:
        """Width of the widest panes whose edges include every start and end of this window."""
        return math.gcd(self.range_us, self.slide_us, self.offset_us)


def watermark(newest_us: int | None, late_us: int) -> int | None:
    """How far the event time of a stream is known to be: rows older than this are late, windows
    that end at or before it are closed.  None before the first row."""
    return None if newest_us is None else newest_us - late_us
