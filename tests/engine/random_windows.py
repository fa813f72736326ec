"""Random streams and window queries over them, drawn to be awkward.

Values: both zeros, NaNs of several bit patterns, infinities, the ends of every whole type, wide
decimals, text without characters or beyond the basic plane, times around 1970, where clocks change,
before year 1 and beyond 9999 (a row whose event time is such a one is a dead letter).  Every set of
queries has neighbours that group by the bare columns the others compute with: a neighbour must not
change an answer.

What Spark itself refuses, or what depends on the order of the rows in Spark too, is left out: sums
of columns that hold the ends of BIGINT (and the mean of both ends together, which Spark adds as
doubles), ±1e15 side by side, percentile_approx of NaN (Spark merges it differently with every
partitioning).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.odd_values import (
    DATES,
    DOUBLE_NANS,
    FLOAT_NANS,
    TIMES,
    YEAR_1_US,
    YEAR_10000_US,
    doubles,
    floats,
    stored,
)
from tests.streams import EPOCH_US, Stream

Draw = Callable[[Random], Any]
STRANGE = [0.0, -0.0, 1.5, -1.0, -4.0, 5e-324, float("inf"), float("-inf")]
TEXTS = ["a", "b", "c", "ü", "", "😀", "e\u0301", "é", "𐐀a", " a ", "ß", "-0.0", "a%_", "\u0000"]
DAYS = [*DATES, -141_428, 19_782]  # and 1582-10-04, 2024-02-29
STARTS_US = [EPOCH_US] * 4 + [
    -20_000_000,
    -90_000_000,
    0,
    -86_400_000_000 * 400,  # before, around and well before 1970
    1_711_846_780_000_000,
    1_729_990_780_000_000,  # 2024-03-31 00:59:40 and 2024-10-27 00:59:40 UTC: clocks change
]
BEYOND_US = [-(2**63), YEAR_1_US - 1, YEAR_10000_US, 6_250_000_000_000_000_000, 2**63 - 1]


def _double(r: Random) -> float | int:
    """A whole number is a bit pattern: Python's floats do not keep those of a NaN."""
    return r.choice(DOUBLE_NANS) if r.random() < 0.25 else r.choice(STRANGE)


def _float(r: Random) -> float | int:
    if r.random() < 0.2:
        return r.choice(FLOAT_NANS) if r.random() < 0.6 else r.choice(STRANGE)
    return r.randint(-64, 64) / 8


def _whole(bits: int) -> Draw:
    ends = [-(1 << bits), (1 << bits) - 1, 0, -1, 1]
    return lambda r: (
        r.choice(ends) if r.random() < 0.6 else r.randint(-(1 << bits), (1 << bits) - 1)
    )


FIELDS: dict[str, tuple[str, pa.DataType, Draw]] = {
    "k": ("STRING", pa.string(), lambda r: r.choice(TEXTS)),
    "side": ("STRING", pa.string(), lambda r: r.choice(["buy", "sell"])),
    "x": (
        "DOUBLE",
        pa.float64(),
        lambda r: (
            r.choice([0.0, -0.0, 1e6, -1e6, float("nan"), float("inf")])
            if r.random() < 0.1
            else round(r.uniform(-1000, 1000), 3)
        ),
    ),
    "d": ("DOUBLE", pa.float64(), _double),
    "f": ("FLOAT", pa.float32(), _float),
    "n": ("INT", pa.int32(), lambda r: r.randint(-50, 50)),
    "big": ("BIGINT", pa.int64(), lambda r: r.randint(-(2**40), 2**40)),
    "tiny": ("TINYINT", pa.int8(), _whole(7)),
    "small": ("SMALLINT", pa.int16(), _whole(15)),
    "whole": ("INT", pa.int32(), _whole(31)),
    "huge": ("BIGINT", pa.int64(), _whole(63)),
    "flag": ("BOOLEAN", pa.bool_(), lambda r: r.random() < 0.5),
    "day": (
        "DATE",
        pa.date32(),
        lambda r: r.choice(DAYS) if r.random() < 0.3 else r.randint(18_262, 18_266),
    ),
    "dec": ("DECIMAL(9,2)", pa.decimal128(9, 2), lambda r: Decimal(r.randint(-9900, 9900)) / 100),
    "wide": (
        "DECIMAL(38,6)",
        pa.decimal128(38, 6),
        lambda r: Decimal(
            f"{r.choice(['-', ''])}{r.choice(['9' * 32, '0', '1'])}.{r.choice(['9' * 6, '000001', '000000'])}"
        ),
    ),
    "at": (
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        lambda r: (
            r.choice(TIMES)
            if r.random() < 0.3
            else r.choice(STARTS_US) + r.choice([0, -1, 1, r.randint(-(10**12), 10**12)])
        ),
    ),
}
DDL = ", ".join(f"{n} {t}" for n, (t, _, _) in FIELDS.items()) + ", ts TIMESTAMP"
SCHEMA = pa.schema(
    [*((n, t) for n, (_, t, _) in FIELDS.items()), ("ts", pa.timestamp("us", "UTC"))]
)

PREDICATES = [
    "n > 0",
    "n > 10",
    "x > 0.5",
    "x <= 100",
    "k = 'a'",
    "k IN ('a', 'b')",
    "k LIKE '%a%'",
    "side = 'buy' AND n >= -5",
    "flag",
    "NOT flag",
    "x IS NULL",
    "n BETWEEN -10 AND 10",
    "n % 3 = 0",
    "x * 2 + n > 3",
    "k <> 'a' OR flag",
    "CASE WHEN flag THEN n > 0 ELSE x > 0 END",
    "day > DATE '2020-01-02'",
    "coalesce(n, 0) <> 0",
    "n <> 0 AND 10 / n > 1",
    "big > 1000",
    "dec > 1.5",
    "length(k) = 1",
    "n NOT IN (1, 2, 3)",
    "f < 2",
    "upper(side) = 'SELL'",
    "d = 0",
    "d >= -0.0D",
    "d < 0",
    "d IN (0, 1.5, -4)",
    "isnan(d)",
    "NOT isnan(f) AND f > 1",
    "d > 1e308",
    "d <> d + 1",
    "CAST(d AS STRING) = '-0.0'",
    "power(d, -1) < 0",
    "sqrt(d) >= 0",
    "d <=> 0",
    "f BETWEEN -0.0F AND 1.5F",
    "f <> 0",
    "CAST(f AS STRING) LIKE '-%'",
    "hash(d) % 2 = 0",
    "huge = 9223372036854775807",
    "tiny < -100",
    "whole >= 2147483647",
    "small <> -32768",
    "wide > 0",
    "wide = 99999999999999999999999999999999.999999",
    "k = '😀'",
    "length(k) = 0",
    "at < TIMESTAMP '1970-01-01 00:00:00'",
    "hour(at) = 1",
    "year(day) < 1970",
    "d > f",
    "d = x OR f = d",
    "ts >= TIMESTAMP '1970-01-01 00:00:00'",
    "greatest(d, f) > 1",
    "nullif(d, 0) IS NULL",
    "k > 'z'",
    "huge > whole",
]
ZEROS = [
    "d = 0",
    "d <=> 0",
    "NOT (d <> 0)",
    "NOT (f <> d)",
    "-0.0D = d",
    "d IN (0)",
    "NOT d <> 0",
    "f = 0",
    "d = f",
    "CAST(f AS DOUBLE) = d",
    "x <=> d",
    "CAST(d AS STRING) = '-0.0'",
    "CAST(f AS STRING) LIKE '-%'",
    "power(d, -1) < 0",
    "power(f, -1) > 0",
    "d * 2 >= 0",
    "abs(f) < 1",
    "sqrt(d) >= 0",
    "hash(d) % 2 = 0",
    "concat(CAST(d AS STRING), k) > '0'",
    "d <> 0 OR power(d, -1) > 0",
]  # conditions of which one may take 0.0 for the other's -0.0
KEYS = [
    "k",
    "side",
    "flag",
    "n % 4",
    "upper(k)",
    "day",
    "n",
    "CASE WHEN n > 0 THEN 'up' ELSE 'down' END",
    "f",
    "dec",
    "x",
    "d",
    "tiny",
    "small",
    "whole",
    "huge",
    "wide",
    "at",
    "CAST(d AS STRING)",
    "power(d, -1)",
    "sqrt(d)",
    "- d",
    "abs(f)",
    "CASE WHEN d = 0 THEN 0 ELSE 1 / d END",
    "hash(d)",
    "CAST(f AS STRING)",
    "CAST(f AS DOUBLE)",
    "d > 0",
    "d * 0",
    "coalesce(d, f)",
    "year(at)",
    "CAST(at AS DATE)",
    "date_trunc('HOUR', at)",
    "lower(k)",
    "length(k)",
    "d + f",
    "substring(k, 1, 1)",
    "concat(k, '😀')",
    "isnan(f)",
    "CASE WHEN d IN (0, 1.5) THEN k ELSE 'no' END",
    "round(d, 1)",
    "CASE WHEN isnan(d) THEN d ELSE f END",
    "exp(d)",
    "ln(d)",
    "sign(d)",
    "try_divide(1, d)",
    "unix_timestamp(at)",
]
BARE = ["d", "f", "x", "k", "n", "huge", "tiny", "wide", "at", "day", "whole"]
AGGREGATES = [
    "count(*)",
    "count(x)",
    "count(k)",
    "sum(n)",
    "sum(x)",
    "sum(big)",
    "sum(f)",
    "avg(x)",
    "avg(n)",
    "min(x)",
    "max(x)",
    "min(n)",
    "max(n)",
    "min(day)",
    "max(at)",
    "min(f)",
    "max(flag)",
    "stddev(x)",
    "stddev_pop(n)",
    "variance(n)",
    "var_pop(f)",
    "avg(x) * 2 + 1",
    "sum(n) + count(*)",
    "max(n) - min(n)",
    "sum(x) / count(*)",
    "sum(n * 2)",
    "avg(CASE WHEN flag THEN x END)",
    "CASE WHEN count(x) > 1 THEN avg(x) ELSE -1 END",
    "count(*) FILTER (WHERE flag)",
    "sum(if(n > 0, n, 0))",
    "coalesce(sum(x), 0)",
    "avg(dec)",
    "sum(dec)",
    "count(DISTINCT k)",
    "min(k)",
    "round(avg(n), 2)",
    "sum(n) > 10",
    "percentile(n, 0.5)",
    "abs(min(n))",
    "sum(100 / (n * n + 1))",
    "median(x)",
    "count(DISTINCT x)",
    "count(DISTINCT day)",
    "percentile_approx(big, 0.9)",
    "count(DISTINCT dec) + 1",
    "percentile(f, 0.25) FILTER (WHERE flag)",
    "approx_count_distinct(side)",
    "count(DISTINCT at)",
    "count(DISTINCT f)",
    "sum(d)",
    "avg(d)",
    "min(d)",
    "max(d)",
    "stddev(d)",
    "count(DISTINCT d)",
    "max(d) > 0",
    "median(d)",
    "avg(f)",
    "min(huge)",
    "max(huge)",
    "avg(CASE WHEN huge > 0 THEN huge END)",
    "count(DISTINCT huge)",
    "sum(tiny)",
    "sum(small)",
    "sum(whole)",
    "min(whole)",
    "max(tiny)",
    "min(wide)",
    "max(wide)",
    "count(DISTINCT wide)",
    "max(k)",
    "min(at)",
    "count(DISTINCT CAST(d AS STRING))",
    "sum(power(d, 2))",
    "max(power(d, -1))",
    "isnan(sum(d))",
    "sum(whole) / count(*)",
    "max(huge) > min(huge)",
    "avg(tiny)",
    "stddev(whole)",
    "percentile(huge, 0.5)",
    "percentile_approx(CASE WHEN NOT isnan(d) THEN d END, 0.5)",
    "count(*) FILTER (WHERE CAST(d AS STRING) = '-0.0')",
    "min(CASE WHEN d <> 0 THEN d END)",
    "count(nullif(d, 0))",
]
HAVINGS = [
    "count(*) > 1",
    "avg(x) > 0",
    "max(n) > 0 AND min(n) < 0",
    "sum(n) IS NOT NULL",
    "count(x) BETWEEN 1 AND 3",
    "min(d) >= 0",
    "NOT isnan(sum(d))",
    "max(huge) > 0 OR count(d) = 0",
]
EDGES = [
    "-1e308D",
    "-4",
    "-1.5",
    "-1",
    "-0.5",
    "-0.0D",
    "0",
    "0.0D",
    "5e-324D",
    "0.25",
    "0.5",
    "1",
    "1.5",
    "2",
    "3",
    "1e300D",
    "-100",
    "7",
    "-7",
    "100",
]


def draw_set(r: Random, count: int | None = None) -> list[str]:
    """Queries of one engine: so many of all kinds, neighbours that group by bare columns, and
    perhaps a crowd."""
    queries = [draw_query(r) for _ in range(count or r.randint(3, 7))]
    queries += [draw_query(r, [key]) for key in r.sample(BARE, r.randint(1, 3))]
    if r.random() < 0.15:
        queries += _crowd(r)
    return list(dict.fromkeys(queries))


def _crowd(r: Random) -> list[str]:
    """As many constants for one attribute as make it one of cells."""
    attribute, op, key = (
        r.choice(["d", "x", "huge"]),
        r.choice([">", "<=", "=", "<>"]),
        r.choice(["k", "flag", "d"]),
    )
    aggregates = r.sample(["count(*)", "sum(n)", "min(d)", "max(x)", "avg(n)"], 2)
    return [
        f"SELECT {key} AS k0, {aggregates[0]} AS a0, {aggregates[1]} AS a1, window.start AS ws, window.end AS we "
        f"FROM s WHERE {attribute} {op} {edge} GROUP BY {key}, window(ts, '10 seconds')"
        for edge in EDGES
    ]


def draw_query(r: Random, keys: list[str] | None = None) -> str:
    keys = r.sample(KEYS, r.choice([0, 1, 1, 2])) if keys is None else keys
    aggregates = r.sample(AGGREGATES, r.randint(1, 4))
    columns = [f"{k} AS k{i}" for i, k in enumerate(keys)] + [
        f"{a} AS a{i}" for i, a in enumerate(aggregates)
    ]
    sql = f"SELECT {', '.join(columns)}, window.start AS ws, window.end AS we FROM s"
    where = r.sample(r.choice([PREDICATES, PREDICATES, ZEROS]), r.choice([0, 1, 1, 2]))
    # one condition stays bare: Spark reads FROM s WHERE (flag) as an alias `WHERE` with a column
    # list
    sql += (
        f" WHERE {where[0] if len(where) == 1 else ' AND '.join(f'({p})' for p in where)}"
        if where
        else ""
    )
    sql += f" GROUP BY {', '.join([*keys, _draw_window(r)])}"
    return sql + (f" HAVING {r.choice(HAVINGS)}" if r.random() < 0.3 else "")


def _draw_window(r: Random) -> str:
    slide = r.choice([1, 2, 3, 5, 7, 10, 15, 30])
    size = r.choice([slide, slide * 2, slide * 3, slide + 1, slide * 2 + 1, max(1, slide - 1)])
    if size == slide and r.random() < 0.7:
        return f"window(ts, '{size} seconds')"
    offset = r.choice([0, 0, slide - 1, 1 - slide])
    return f"window(ts, '{size} seconds', '{slide} seconds', '{offset} seconds')"


def draw_stream(r: Random) -> Stream:
    """Files of rows: mostly in order, some late, some too late, some without a time or with one
    beyond all limits."""
    files, clock_us = [], r.choice(STARTS_US)
    pace = r.choice([200_000, 1_000_000, 3_000_000])
    for _ in range(r.randint(1, 4)):
        rows = []
        for _ in range(r.choice([0, 1, 20, 40])):
            clock_us += r.choice([0, pace, r.randint(0, 3 * pace)])
            back_us = r.choice([0, 0, 0, r.randint(0, 4_000_000), r.randint(0, 40_000_000)])
            row = {n: None if r.random() < 0.12 else draw(r) for n, (_, _, draw) in FIELDS.items()}
            row["ts"] = (
                r.choice([None, None, r.choice(BEYOND_US)])
                if r.random() < 0.05
                else clock_us - back_us
            )
            rows.append(row)
        files.append(_table(rows))
        clock_us += r.choice([0, 0, 60_000_000])
    return Stream(SCHEMA, DDL, tuple(files), r.choice([0, 1_000_000, 5_000_000, 20_000_000]))


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {f.name: _column([row[f.name] for row in rows], f.type) for f in SCHEMA}
    return pa.table(columns, schema=SCHEMA)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_float64(kind):
        return doubles(values)
    return (
        floats(values) if pa.types.is_float32(kind) else pa.array(values, stored(kind)).cast(kind)
    )
