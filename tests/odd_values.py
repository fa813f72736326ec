"""Values at the edges of each type, as Arrow arrays: what random oracles draw from beside ordinary
ones.

Doubles and floats are drawn as bit patterns: NaN has many, and Spark must not tell them apart where
it compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

DAY_US = 86_400_000_000
YEAR_1_US, YEAR_10000_US = -62_135_596_800_000_000, 253_402_300_800_000_000
DOUBLE_NANS = (
    0x7FF8000000000000,
    0xFFF8000000000000,
    0x7FF0000000000001,
    0xFFFFFFFFFFFFFFFF,
    0x7FF8000000000007,
)
FLOAT_NANS = (0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF)
DOUBLE_BITS = (
    *DOUBLE_NANS,
    0x0000000000000000,
    0x8000000000000000,  # both zeros
    0x7FF0000000000000,
    0xFFF0000000000000,  # both infinities
    0x0000000000000001,
    0x8000000000000001,
    0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF,  # least, greatest
)
FLOAT_BITS = (*FLOAT_NANS, 0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x00000001, 0x7F7FFFFF)
TEXTS = (
    "",
    " ",
    "a",
    "A",
    "ab",
    "ß",
    "é",
    "e\u0301",
    "😀",
    "a😀b",
    "\U0010ffff",
    "\ufffd",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "`",
    "\n",
    "0",
    "-0.0",
    "NaN",
)
DECIMALS = tuple(
    Decimal(f"{sign * n}E-10") for sign in (1, -1) for n in (0, 1, 5, 10**10, 10**38 - 1, 10**37)
)
# 1970, years 1 and 9999 and a day beyond each
DATES = (
    0,
    -1,
    1,
    -719_162,
    2_932_896,
    10_957,
    -719_163,
    2_932_897,
)
# DST changes in Europe and America, leap days, years 1 and 9999 and a microsecond beyond each
TIMES = (
    0,
    -1,
    1,
    1_711_846_800_000_000,
    1_710_054_000_000_000,
    951_782_400_000_000,
    YEAR_1_US,
    YEAR_1_US - 1,
    YEAR_10000_US - 1,
    YEAR_10000_US,
)
Draw = Callable[[Random], Any]


def doubles(values: Sequence[float | int | None]) -> pa.Array:
    """Floats as they are; whole numbers are bit patterns."""
    bits = [v if isinstance(v, int) else _bits(v, "<f8", "<u8") for v in values]
    return _masked(np.array([b or 0 for b in bits], np.uint64).view(np.float64), values)


def floats(values: Sequence[float | int | None]) -> pa.Array:
    bits = [v if isinstance(v, int) else _bits(v, "<f4", "<u4") for v in values]
    return _masked(np.array([b or 0 for b in bits], np.uint32).view(np.float32), values)


def _bits(value: float | None, kind: str, whole: str) -> int:
    return 0 if value is None else int(np.array([value], kind).view(whole)[0])


def _masked(values: Any, drawn: Sequence[float | int | None]) -> pa.Array:
    return pa.array(values, mask=np.array([v is None for v in drawn], np.bool_))


def whole(bits: int) -> Draw:
    """A whole number of so many bits: often small, sometimes at the edges."""
    top = 1 << (bits - 1)
    edges = (top - 1, -top, top - 2, 1 - top, 0)
    return lambda r: r.choice(edges) if r.random() < 0.15 else r.randint(-9, 9)


DRAWS: dict[str, tuple[str, pa.DataType, Draw]] = {
    "t": ("TINYINT", pa.int8(), whole(8)),
    "s": ("SMALLINT", pa.int16(), whole(16)),
    "i": ("INT", pa.int32(), whole(32)),
    "n": ("BIGINT", pa.int64(), whole(64)),
    "d": (
        "DOUBLE",
        pa.float64(),
        lambda r: r.choice(DOUBLE_BITS) if r.random() < 0.4 else r.randint(-40, 40) / 8,
    ),
    "f": (
        "FLOAT",
        pa.float32(),
        lambda r: r.choice(FLOAT_BITS) if r.random() < 0.4 else r.randint(-40, 40) / 8,
    ),
    "m": (
        "DECIMAL(38,10)",
        pa.decimal128(38, 10),
        lambda r: r.choice(DECIMALS) if r.random() < 0.4 else Decimal(r.randint(-40, 40)) / 8,
    ),
    "k": ("STRING", pa.string(), lambda r: r.choice(TEXTS)),
    "b": ("BOOLEAN", pa.bool_(), lambda r: r.random() < 0.5),
    "day": (
        "DATE",
        pa.date32(),
        lambda r: r.choice(DATES) if r.random() < 0.3 else r.randint(19_000, 19_005),
    ),
    "at": (
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        lambda r: (
            r.choice(TIMES)
            if r.random() < 0.3
            else 1_700_000_000_000_000 + r.randint(0, 20) * 1_000_000
        ),
    ),
}


def draw_column(name: str, r: Random, count: int, nulls: float = 0.1) -> pa.Array:
    """So many values of a column of `DRAWS`."""
    _, kind, draw = DRAWS[name]
    values = [None if r.random() < nulls else draw(r) for _ in range(count)]
    if name == "d":
        return doubles(values)
    return floats(values) if name == "f" else pa.array(values, stored(kind)).cast(kind)


def stored(kind: pa.DataType) -> pa.DataType:
    """Times and dates are drawn as numbers: Python's own have fewer years."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date(kind) else kind


def exact_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows to be counted and compared: every value hashable, NaN one value, the sign of a zero
    told."""
    columns = [_exact(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _exact(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(kind):
        return [None if v is None else repr(v) for v in column.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]
