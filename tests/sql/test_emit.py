"""Emission: constants that cannot be misread, names in backquotes, and the text of whole
queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import Config
from headrace.quoting import quote_name, quote_text
from headrace.sql.emit import emit, emit_query
from headrace.sql.text import tokenize
from headrace.sql.tree import Column, Key, Literal, Value
from headrace.values import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    Type,
    decimal,
)
from tests.sql.oracle import compare, make_view
from tests.sql.refusals import TRADES, bound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("value", "kind", "sql"),
    [
        (1, INT, "1"),
        (-1, BIGINT, "-1L"),
        (-(2**63), BIGINT, "-9223372036854775808L"),
        (-128, TINYINT, "-128Y"),
        (1.5, DOUBLE, "1.5D"),
        (1e300, DOUBLE, "1e+300D"),
        (float("nan"), DOUBLE, "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), FLOAT, "CAST('-Infinity' AS FLOAT)"),
        ("2.50", decimal(3, 2), "2.50BD"),
        (True, BOOLEAN, "TRUE"),
        (None, VOID, "NULL"),
        (None, INT, "CAST(NULL AS int)"),
        ("2024-01-01", DATE, "DATE '2024-01-01'"),
        ("2024-01-01 00:00:00.5", TIMESTAMP, "TIMESTAMP '2024-01-01 00:00:00.5'"),
        (-90_000_001, INTERVAL, "INTERVAL '-0 00:01:30.000001' DAY TO SECOND"),
        ("it's \\ \n ${x}", STRING, "'it\\'s \\\\ \\n \\u0024{x}'"),
        ("\x00\u2028😀", STRING, "'\\u0000\\u2028😀'"),
    ],
)
def test_literals(value: Value, kind: Type, sql: str) -> None:
    assert emit(Literal(value, kind)) == sql


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_text_is_one_string_or_name_again(text: str) -> None:
    (string, _) = tokenize(quote_text(text), Config())
    assert (string.kind, string.text) == ("string", text)
    assert "${" not in quote_text(text)
    printable = "".join(c for c in text if c.isprintable())
    (name, _) = tokenize(quote_name(printable), Config())
    assert (name.kind, name.text) == ("quoted", printable)


def test_columns_and_keys() -> None:
    assert emit(Column("a`b", INT)) == "`a``b`"
    assert emit(Key(1, INT), keys=("x", "upper(y)")) == "upper(y)"


def test_a_whole_query() -> None:
    query = bound(
        "SELECT upper(symbol) s, avg(price)*2 FROM trades WHERE qty BETWEEN 1 AND 5 GROUP BY 1, "
        "window(ts, '1 hour', '10 minutes') HAVING count(*) > 3"
    )
    assert emit_query(query, TRADES, "batch") == (
        "SELECT upper(`symbol`) AS `s`, (avg(`price`) * 2) AS `(avg(price) * 2)`, window.start AS window_start, "
        "window.end AS window_end FROM `batch` WHERE ((`qty` >= 1) AND (`qty` <= 5)) GROUP BY upper(`symbol`), "
        "window(`ts`, '3600000000 microseconds', '600000000 microseconds', '0 microseconds') HAVING (count(*) > 3)"
    )


def test_named_bounds_are_not_added_again() -> None:
    query = bound(
        "SELECT window.start AS window_start, count(*) AS n FROM trades GROUP BY window(ts, '1 hour')"
    )
    assert (
        emit_query(query, TRADES, "v").count("AS window_start")
        + emit_query(query, TRADES, "v").count("window_end")
        == 1
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(100.00) FILTER (WHERE 7 = 0.05) AS c0, max(pmod(2, ratio)) AS c1 FROM trades HAVING c0 IS NOT NULL",
        "SELECT avg(qty) FILTER (WHERE 1 > 2) AS c0, min(1 / ratio) AS c1 FROM trades GROUP BY symbol HAVING c0 > 0",
        "SELECT count(*) FILTER (WHERE FALSE) AS c0, sum(qty % small) AS c1 FROM trades GROUP BY ok HAVING c0 > 0",
    ],
)
def test_spark_sees_that_no_row_passes_a_filter(spark: SparkSession, sql: str) -> None:
    """It leaves the aggregate out, then the groups, and so never divides by zero."""
    make_view(spark)
    assert compare(spark, sql) == []
