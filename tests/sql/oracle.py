"""Spark as the judge: what it answers to the text of a query, and to the SQL we emit for it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.errors import SQLError
from headrace.quoting import quote_name
from headrace.runtime.versions import lacking
from headrace.sql.bind import bind
from headrace.sql.emit import emit_query
from headrace.sql.functions import may_raise
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import WINDOW, Relation

DDL = (
    "symbol STRING, price DOUBLE, qty INT, big BIGINT, dec DECIMAL(10,2), ok BOOLEAN, ts TIMESTAMP, day DATE, "
    "small SMALLINT, ratio FLOAT, `odd name` INT, tiny TINYINT, wide DECIMAL(38,10), seen TIMESTAMP, born DATE"
)
TRADES = Relation("trades", "parquet:trades", parse_schema(DDL), time="ts")
_DAY = (2024, 1, 1)
Row = tuple[Any, ...]
ROWS: list[Row] = [
    (
        "ab",
        1.5,
        3,
        10,
        Decimal("1.25"),
        True,
        datetime(*_DAY, 0, 5, tzinfo=UTC),
        date(*_DAY),
        3,
        0.5,
        1,
    ),
    (
        "Abc",
        -2.5,
        -4,
        2**40,
        Decimal("-0.75"),
        False,
        datetime(*_DAY, 0, 59, 59, tzinfo=UTC),
        date(2023, 12, 31),
        -3,
        1.25,
        2,
    ),
    (
        "b%_\\",
        0.0,
        0,
        0,
        Decimal("0.00"),
        None,
        datetime(*_DAY, 1, 0, tzinfo=UTC),
        date(2024, 2, 29),
        0,
        0.0,
        3,
    ),
    (
        "",
        1e10,
        100,
        -5,
        Decimal("99999.99"),
        True,
        datetime(*_DAY, 2, 30, 0, 500, tzinfo=UTC),
        None,
        7,
        -1.5,
        None,
    ),
    (None, None, None, None, None, None, None, None, None, None, None),
    (
        "ab",
        float("nan"),
        7,
        7,
        Decimal("7.00"),
        True,
        datetime(*_DAY, 0, 30, tzinfo=UTC),
        date(*_DAY),
        1,
        2.0,
        5,
    ),
    (
        " x'y\n",
        2.0,
        3,
        3,
        Decimal("2.50"),
        False,
        datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
        date(1969, 7, 20),
        2,
        3.0,
        6,
    ),
]


EDGE = (2**31 - 1, 2**63 - 1, Decimal("99999999.99"))
MOMENTS = (
    "0001-01-01 00:00:00",
    "-0044-03-15 12:00:00",
    "+12024-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "1969-12-31 23:59:59.999999",
    "1582-10-10 00:00:00",
    None,
    "1970-01-01 00:00:00",
    "2024-02-29 23:59:59",
)
# What the columns above take at their ends: extremes of each type, both zeros, NaN, infinities, odd
# characters.
EDGES: list[Row] = [
    (
        "😀é\u0301",
        float("inf"),
        EDGE[0],
        EDGE[1],
        EDGE[2],
        True,
        ROWS[0][6],
        date(1, 1, 1),
        32767,
        3.4028234663852886e38,
        7,
    ),
    (
        "\x00A\u2028",
        float("-inf"),
        -EDGE[0] - 1,
        -EDGE[1] - 1,
        -EDGE[2],
        False,
        ROWS[1][6],
        date(9999, 12, 31),
        -32768,
        -0.0,
        8,
    ),
    (
        "ab" * 40,
        -0.0,
        0,
        1,
        Decimal("0.01"),
        None,
        ROWS[2][6],
        date(1970, 1, 1),
        -1,
        float("nan"),
        9,
    ),
]
TINY = (0, 1, -1, 3, None, 7, 5)
DECIMALS = (
    Decimal(0),
    Decimal("12.5"),
    Decimal("-0.0000000001"),
    None,
    Decimal("-1.5"),
    Decimal(7),
    Decimal("1e9"),
)
TINY_EDGES = (127, -128, 0)
WIDE = Decimal("9" * 28 + "." + "9" * 10)
DECIMAL_EDGES = (WIDE, WIDE.copy_negate(), Decimal("0.0000000001"))


def make_view(spark: SparkSession, edges: bool = False) -> None:
    """A local relation: Spark answers queries without groups on it without a job, which is ten
    times as fast. With `edges`, of rows over which much arithmetic fails."""
    spark.conf.set("spark.sql.variable.substitute", "false")  # as in the engine's own session
    sources = (EDGES, TINY_EDGES, DECIMAL_EDGES) if edges else (ROWS, TINY, DECIMALS)
    rows = [
        (*row, tiny, wide, seen) for row, tiny, wide, seen in zip(*sources, MOMENTS, strict=False)
    ]
    texts = (
        ", ".join(f"{quote_name(f.name)} {f.type}" for f in TRADES.fields[:-2]) + ", seen STRING"
    )
    # Python has no year below 1 or above 9999
    frame = spark.createDataFrame(rows, texts).selectExpr(
        "* EXCEPT (seen)", "CAST(seen AS TIMESTAMP) AS seen", "CAST(seen AS DATE) AS born"
    )
    spark.createDataFrame(frame.toArrow()).createOrReplaceTempView("trades")


def bound(sql: str) -> Query:
    return bind(sql, {"trades": TRADES}, name="q")


def _answer(frame: DataFrame) -> list[str] | str:
    """The rows in some fixed order, or the kind of error Spark raised while computing them."""
    try:
        return sorted(repr(tuple(row)) for row in _readable(frame).collect())
    except PySparkException as error:
        return f"raises {error.getCondition()}"


def _readable(frame: DataFrame) -> DataFrame:
    """Times as texts."""
    fields = frame.schema.fields
    names = [quote_name(field.name) for field in fields]
    if len({name.lower() for name in names}) < len(names):
        return frame
    times = [
        any(word in field.dataType.simpleString() for word in ("date", "timestamp"))
        for field in fields
    ]
    pairs = zip(names, times, strict=True)
    return frame.selectExpr(
        *(f"CAST({name} AS STRING) AS {name}" if is_time else name for name, is_time in pairs)
    )


def compare_if_taken(spark: SparkSession, sql: str) -> None:
    """The same of a drawn text, which may be refused: the error then says where."""
    if "''" in sql and any("'a''b'" in lack.what for lack in lacking(spark.version)):
        return  # this Spark reads it otherwise, as `headrace doctor` says
    try:
        compare(spark, sql)
    except SQLError as error:
        assert error.at is not None, sql


def compare(spark: SparkSession, sql: str) -> list[str] | str:
    """Spark's answer to the text, having checked that ours is the same: names, types and rows."""
    query = bound(sql)
    theirs = spark.sql(sql)
    extra = [c for c in ("window_start", "window_end") if c not in {o.name for o in query.outputs}]
    ours = spark.sql(emit_query(query, TRADES, "trades")).drop(*extra)
    assert ours.columns == theirs.columns, sql
    types = [field.dataType.simpleString() for field in theirs.schema.fields]
    assert [field.dataType.simpleString() for field in ours.schema.fields] == types, sql
    struct = "struct<start:timestamp,end:timestamp>"
    assert [
        struct if o.expr.type == WINDOW else str(o.expr.type) for o in query.outputs
    ] == types, sql
    wanted = _answer(theirs)
    assert _answer(ours) == wanted, f"{sql}\n{emit_query(query, TRADES, 'trades')}"
    if isinstance(wanted, str):
        parts = [*(o.expr for o in query.outputs), query.where, query.having, *query.keys]
        assert any(may_raise(part) for part in parts if part is not None), sql
    return wanted
