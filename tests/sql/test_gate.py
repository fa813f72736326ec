"""The gate: what a standing query may not say is refused, with a place and a next step."""

from __future__ import annotations

import pytest

from headrace.errors import SQLError
from headrace.sql.bind import bind
from tests.sql.refusals import RELATIONS, bound, refused


@pytest.mark.parametrize(
    "call",
    [
        "reflect('java.lang.System', 'exit', 0)",
        "java_method('java.lang.Runtime', 'x')",
        "`reflect`('a', 'b')",
        "IDENTIFIER('x')",
        "input_file_name()",
        "current_user()",
        "now()",
        "current_timestamp()",
        "rand()",
        "uuid()",
        "raise_error('x')",
        "assert_true(false)",
        "secret('x')",
        "my_udf(price)",
        "explode(array(1))",
        "repeat('x', 9)",
        "sequence(1, 9)",
        "from_json('x', 'y')",
        "version()",
        "spark_partition_id()",
        "session_user()",
        "try_reflect(1)",
        "`upper`(symbol)",
        "case_of(1)",
        "negate(1)",
        "field(1)",
        "not_a_function()",
        "transform(a, 1)",
        "plus(1)",
    ],
)
def test_functions_off_the_list_are_refused(call: str) -> None:
    refused(f"SELECT {call} FROM trades")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TRANSFORM(symbol) USING 'cat' AS (x) FROM trades",
        "SELECT TRANSFORM symbol USING 'cat' FROM trades",
        "SELECT MAP symbol USING 'cat' FROM trades",
        "FROM trades SELECT symbol",
        "SELECT symbol FROM text.`/etc/passwd`",
        "SELECT symbol FROM parquet.`x`",
        "SELECT symbol FROM `text.``/etc/passwd```",
        "SELECT symbol FROM default.trades",
        "SELECT symbol FROM spark_catalog.default.trades",
        "SELECT symbol FROM IDENTIFIER('trades')",
        "SELECT symbol FROM range(10)",
        "SELECT symbol FROM VALUES (1)",
        "SELECT symbol FROM (SELECT symbol FROM trades)",
        "SELECT symbol FROM trades, stock",
        "SELECT symbol FROM trades VERSION AS OF 1",
        "SELECT symbol FROM trades TIMESTAMP AS OF '2024-01-01'",
        "SELECT symbol FROM trades FOR SYSTEM_TIME AS OF '2024-01-01'",
        "SELECT symbol FROM trades t (a, b)",
        "SELECT symbol FROM trades TABLESAMPLE (10 PERCENT)",
        "SELECT symbol FROM trades LATERAL VIEW explode(x) t AS y",
        "SELECT symbol FROM trades PIVOT (sum(price) FOR symbol IN ('a'))",
        "SELECT symbol FROM trades LEFT JOIN stock USING (symbol)",
        "SELECT symbol FROM trades NATURAL JOIN stock",
        "SELECT DISTINCT symbol FROM trades",
        "SELECT ALL symbol FROM trades",
        "SELECT symbol FROM trades ORDER BY symbol",
        "SELECT symbol FROM trades SORT BY symbol",
        "SELECT symbol FROM trades LIMIT 1",
        "SELECT symbol FROM trades OFFSET 1",
        "SELECT symbol FROM trades UNION SELECT symbol FROM stock",
        "SELECT symbol FROM trades EXCEPT SELECT symbol FROM stock",
        "SELECT symbol FROM trades QUALIFY true",
        "SELECT symbol FROM trades WINDOW w AS (PARTITION BY symbol)",
        "SELECT count(*) OVER () FROM trades",
        "SELECT count(*) OVER w FROM trades",
        "SELECT rank() OVER (ORDER BY price) FROM trades",
        "SELECT percentile(price, 0.5) WITHIN GROUP (ORDER BY price) FROM trades",
        "SELECT first(price) IGNORE NULLS FROM trades",
        "SELECT first(price IGNORE NULLS) FROM trades",
        "SELECT collect_list(price ORDER BY price) FROM trades",
        "SELECT upper(DISTINCT symbol) FROM trades",
        "SELECT upper(symbol) FILTER (WHERE ok) FROM trades",
        "SELECT symbol FROM trades WHERE symbol IN (SELECT symbol FROM stock)",
        "SELECT symbol FROM trades WHERE EXISTS (SELECT 1 FROM stock)",
        "SELECT (SELECT max(price) FROM trades) FROM trades",
        "SELECT symbol FROM trades WHERE (symbol, qty) IN (('a', 1))",
        "SELECT transform(x, y -> y + 1) FROM trades",
        "SELECT aggregate(x, 0, (a, b) -> a + b) FROM trades",
        "WITH x AS (SELECT 1) SELECT symbol FROM trades",
        "SELECT symbol FROM trades GROUP BY ALL",
        "SELECT symbol FROM trades GROUP BY ROLLUP (symbol)",
        "SELECT symbol FROM trades GROUP BY CUBE (symbol)",
        "SELECT symbol FROM trades GROUP BY symbol WITH ROLLUP",
        "SELECT symbol FROM trades GROUP BY GROUPING SETS ((symbol))",
        "SELECT symbol FROM trades GROUP BY symbol GROUPING SETS ((symbol))",
        "SELECT symbol FROM trades GROUP BY ()",
        "SELECT symbol FROM trades GROUP BY symbol AS s",
        "SELECT symbol AS (a, b) FROM trades",
        "SELECT symbol AS 'x' FROM trades",
        "SELECT symbol 'x' FROM trades",
        "SELECT * EXCEPT (symbol) FROM trades",
        "SELECT STRUCT(symbol) FROM trades",
        "SELECT named_struct('a', 1) FROM trades",
        "SELECT CAST(symbol AS ARRAY<INT>) FROM trades",
        "SELECT CAST(symbol AS STRUCT<a: INT>) FROM trades",
        "SELECT CAST(symbol AS VARCHAR(3)) FROM trades",
        "SELECT symbol COLLATE utf8_lcase FROM trades",
        "SELECT symbol LIKE ANY ('a', 'b') FROM trades",
        "SELECT qty IS NULL IS NULL FROM trades",
        "SELECT qty = NOT ok FROM trades",
        "SELECT trim(BOTH 'x' FROM symbol) FROM trades",
        "SELECT extract(YEAR FROM ts) FROM trades",
        "SELECT symbol,, qty FROM trades",
        "SELECT FROM trades",
        "SELECT symbol, FROM trades",
        "SELECT symbol",
        "SELECT upper(symbol,) FROM trades",
        "SELECT upper(symbol FROM trades",
        "SELECT (symbol FROM trades",
        "SELECT symbol) FROM trades",
        "SELECT symbol FROM trades WHERE",
        "SELECT symbol FROM trades GROUP symbol",
        "SELECT CASE END FROM trades",
        "SELECT CASE WHEN ok THEN 1 FROM trades",
        "INSERT INTO trades VALUES (1)",
        "DROP TABLE trades",
        "CREATE TABLE x AS SELECT 1",
        "SET spark.sql.x = 1",
        "ADD JAR '/tmp/x.jar'",
        "EXPLAIN SELECT symbol FROM trades",
        "DESCRIBE trades",
        "VALUES (1)",
        "TABLE trades",
    ],
)
def test_shapes_off_the_grammar_are_refused(sql: str) -> None:
    error = refused(sql)
    assert error.at is not None
    assert 0 <= error.at <= len(sql)


def test_a_refusal_names_what_is_near() -> None:
    assert refused("SELECT sume(qty) FROM trades", at="sume").choices[0] == "sum"
    assert refused("SELECT prise FROM trades", at="prise").choices == ("price",)
    assert refused("SELECT 1 FROM trade", at="trade").choices == ("trades",)
    assert "sort them" in refused("SELECT qty FROM trades ORDER BY 1", at="ORDER").hint


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT DISTINCT symbol, qty FROM trades WHERE qty IN (1, 2)", "write GROUP BY with"),
        ("SELECT symbol, qty FROM trades LIMIT 1", "filter with WHERE or HAVING"),
        (
            "SELECT symbol FROM trades WHERE symbol IN (SELECT symbol FROM stock)",
            "write it as a join, FROM r JOIN s ON",
        ),
        (
            "SELECT symbol FROM trades WHERE NOT EXISTS (SELECT 1 FROM stock)",
            "NOT EXISTS have no such form",
        ),
        (
            "SELECT (SELECT max(price) FROM stock) FROM trades",
            "one SELECT over one stream or table",
        ),
        ("SELECT DOUBLE(qty) FROM trades", "write CAST(… AS double)"),
        ("SELECT bigint(qty) FROM trades", "write CAST(… AS bigint)"),
        ("SELECT CAST(ts AS TIMESTAMP_NTZ) - seen AS x FROM trades", "CAST(… AS timestamp_ntz)"),
        ("SELECT day - ts AS x FROM trades", "datediff"),
        ("SELECT DATE '0000-01-01' AS x FROM trades", "from '0001-01-01' to '9999-12-31'"),
        ("SELECT DATE '99999-01-01' AS x FROM trades", "from '0001-01-01' to '9999-12-31'"),
        ("SELECT TIMESTAMP '2024-01-01 00:00:00Z' AS x FROM trades", "without a time zone"),
        ("SELECT qty FROM trades WHERE ts > '12024-01-01'", "from '0001-01-01' to '9999-12-31'"),
    ],
)
def test_the_next_step_is_one_that_can_be_taken(sql: str, hint: str) -> None:
    assert hint in refused(sql).hint


def test_what_resembles_nothing_is_told_the_closest() -> None:
    assert "date_trunc" in refused("SELECT dtrn(ts) FROM trades").choices


def test_session_windows_are_refused_with_the_reason() -> None:
    refused(
        "SELECT count(*) FROM trades GROUP BY session_window(ts, '5 minutes')",
        "depend on the rows of one query",
    )


def test_an_empty_catalog_says_what_to_do() -> None:
    with pytest.raises(SQLError, match="CREATE STREAM"):
        bind("SELECT 1 FROM trades", {}, name="q")


def test_hints_are_kept_and_not_passed_on() -> None:
    query = bound("SELECT /*+ WITHIN(80) */ qty FROM trades")
    assert query.hints == ("WITHIN(80)",)
    assert RELATIONS["trades"].name == query.source
