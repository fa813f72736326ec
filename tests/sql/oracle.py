"""Spark as the judge: what it answers to the text of a query, and to the SQL we emit for it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.sql.bind import bind
from headrace.sql.emit import emit_query
from headrace.sql.functions import may_raise
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import WINDOW, Relation

DDL = (
    "symbol STRING, price DOUBLE, qty INT, big BIGINT, dec DECIMAL(10,2), ok BOOLEAN, ts TIMESTAMP, day DATE, "
    "small SMALLINT, ratio FLOAT, `odd name` INT"
)
TRADES = Relation("trades", "parquet:trades", parse_schema(DDL), time="ts")
_DAY = (2024, 1, 1)
Row = tuple[Any, ...]
ROWS: list[Row] = [
    ("ab", 1.5, 3, 10, Decimal("1.25"), True, datetime(*_DAY, 0, 5, tzinfo=UTC), date(*_DAY), 3, 0.5, 1),
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
    ("b%_\\", 0.0, 0, 0, Decimal("0.00"), None, datetime(*_DAY, 1, 0, tzinfo=UTC), date(2024, 2, 29), 0, 0.0, 3),
    ("", 1e10, 100, -5, Decimal("99999.99"), True, datetime(*_DAY, 2, 30, 0, 500, tzinfo=UTC), None, 7, -1.5, None),
    (None, None, None, None, None, None, None, None, None, None, None),
    ("ab", float("nan"), 7, 7, Decimal("7.00"), True, datetime(*_DAY, 0, 30, tzinfo=UTC), date(*_DAY), 1, 2.0, 5),
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


def make_view(spark: SparkSession) -> None:
    """A local relation: Spark answers queries without groups on it without a job, which is ten times as fast."""
    spark.conf.set("spark.sql.variable.substitute", "false")  # as in the engine's own session
    frame = spark.createDataFrame(ROWS, TRADES.ddl())
    spark.createDataFrame(frame.toArrow()).createOrReplaceTempView("trades")


def bound(sql: str) -> Query:
    return bind(sql, {"trades": TRADES}, name="q")


def _answer(frame: DataFrame) -> list[str] | str:
    """The rows in some fixed order, or the kind of error Spark raised while computing them."""
    try:
        return sorted(repr(tuple(row)) for row in frame.collect())
    except PySparkException as error:
        return f"raises {error.getCondition()}"


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
    assert [struct if o.expr.type == WINDOW else str(o.expr.type) for o in query.outputs] == types, sql
    wanted = _answer(theirs)
    assert _answer(ours) == wanted, f"{sql}\n{emit_query(query, TRADES, 'trades')}"
    if isinstance(wanted, str):
        parts = [*(o.expr for o in query.outputs), query.where, query.having, *query.keys]
        assert any(may_raise(part) for part in parts if part is not None), sql
    return wanted
