"""Scripts: each statement, and errors that point into the script."""

from __future__ import annotations

import pytest

from headrace.config import Config
from headrace.errors import SQLError
from headrace.sql.schema import parse_schema
from headrace.sql.statements import (
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    Explain,
    Select,
    ShowQueries,
    Statement,
    parse_script,
)

COLUMNS = "symbol STRING, ts TIMESTAMP"
DELETIONS = "k BOOLEAN, n INT, gone BOOLEAN, PRIMARY KEY (k)"


def parse(text: str) -> tuple[Statement, ...]:
    return parse_script(text, Config())


def stream(using: str) -> str:
    (found,) = parse(f"CREATE STREAM trades ({COLUMNS}) USING {using}")
    assert isinstance(found, CreateStream)
    return found.source


def test_a_script() -> None:
    script = """
    -- trades; and more
    CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) USING parquet
        OPTIONS (path 'data/trades', time 'ts', late '10 seconds', maxFilesPerTrigger '1');
    CREATE QUERY hourly AS SELECT symbol || ';' AS s, count(*) FROM trades /* ; */ GROUP BY 1;;
    EXPLAIN hourly; explain; SHOW QUERIES; DROP QUERY hourly;
    SELECT * FROM trades
    """
    created, query, *rest = parse(script)
    assert isinstance(created, CreateStream)
    assert parse_schema(created.schema) == parse_schema("symbol STRING, price DOUBLE, ts TIMESTAMP")
    assert (created.name, created.time, created.late) == ("trades", "ts", "10 seconds")
    assert created.source == "parquet:data/trades?maxFilesPerTrigger=1"
    assert query == CreateQuery(
        "hourly", "SELECT symbol || ';' AS s, count(*) FROM trades /* ; */ GROUP BY 1"
    )
    assert rest == [
        Explain("hourly"),
        Explain(),
        ShowQueries(),
        DropQuery("hourly"),
        Select("SELECT * FROM trades"),
    ]


@pytest.mark.parametrize(
    ("using", "source"),
    [
        ("json OPTIONS (path 'x', time 'ts')", "json:x"),
        (
            "csv OPTIONS (path = 'x', time = 'TS', header TRUE, sep ';')",
            "csv:x?header=TRUE&sep=%3B",
        ),
        ("rate OPTIONS (rowsPerSecond 1000, time 'ts')", "rate://1000"),
        (
            "kafka OPTIONS (path 'h:9092/topic', time 'ts', kafka.group.id 'g')",
            "kafka://h:9092/topic?kafka.group.id=g",
        ),
        (
            "kafka OPTIONS ('kafka.bootstrap.servers' 'h:1', subscribe 't', time 'ts')",
            "kafka://h:1/t",
        ),
        ("'parquet:data/x?a=1' OPTIONS (time 'ts', b '2')", "parquet:data/x?a=1&b=2"),
    ],
)
def test_sources(using: str, source: str) -> None:
    assert stream(using) == source


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE stock (symbol STRING, n INT, PRIMARY KEY (symbol, n)) USING 'parquet:x'",
        "CREATE TABLE stock (symbol STRING, n INT) PRIMARY KEY (symbol, n) USING parquet OPTIONS (path 'x')",
    ],
)
def test_tables(text: str) -> None:
    (table,) = parse(text)
    assert isinstance(table, CreateTable)
    assert (table.name, table.source, table.key, table.deleted) == (
        "stock",
        "parquet:x",
        "symbol, n",
        None,
    )


@pytest.mark.parametrize("option", ["deleted 'gone'", "DELETED = 'Gone'", "'deleted' 'gone'"])
def test_a_table_with_deletions(option: str) -> None:
    (table,) = parse(
        "CREATE TABLE stock (symbol STRING, gone BOOLEAN, PRIMARY KEY (symbol)) "
        f"USING parquet OPTIONS (path 'x', {option}, maxFilesPerTrigger '1')"
    )
    assert isinstance(table, CreateTable)
    assert (table.source, table.key) == ("parquet:x?maxFilesPerTrigger=1", "symbol")
    assert table.deleted is not None and table.deleted.lower() == "gone"


def test_nothing_is_an_empty_script() -> None:
    assert parse("") == parse(" -- nothing\n ;; ") == ()


def test_a_script_may_be_long() -> None:
    text = ";\n".join(
        f"CREATE QUERY q{i} AS SELECT count(*) FROM trades WHERE qty > {i}" for i in range(3_000)
    )
    assert len(text) > Config().sql_length_max
    assert len(parse(text)) == 3_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "not available yet"),
        ("CREATE VIEW v AS SELECT 1", "STREAM, TABLE, QUERY"),
        ("CREATE QUERY q SELECT 1 FROM t", "expected AS"),
        ("CREATE QUERY AS SELECT 1 FROM t", "the name of the query"),
        ("CREATE QUERY q AS INSERT INTO t", "begins with SELECT"),
        ("CREATE QUERY q AS SELECT 1 FROM t JOIN u", "expected ON"),
        ("DROP TABLE t", "DROP what"),
        ("DROP QUERY", "the name of a query"),
        ("DROP QUERY a b", "expected the end"),
        ("SHOW TABLES", "unknown statement"),
        ("SHOW QUERIES now", "expected the end"),
        ("frobnicate", "CREATE STREAM"),
        (f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (path 'x')", "event time"),
        (
            f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (path 'x', time 'symbol')",
            "choices: ts",
        ),
        (f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (time 'ts')", "no path"),
        (
            f"CREATE STREAM t ({COLUMNS}) USING orc OPTIONS (path 'x', time 'ts')",
            "unknown kind of source",
        ),
        (f"CREATE STREAM t ({COLUMNS}) USING 'parquet:x' OPTIONS (path 'x', time 'ts')", "already"),
        (
            f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (path 'x', path 'y', time 'ts')",
            "twice",
        ),
        (
            f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (path 'x', time 'ts', late 'soon')",
            "length of time",
        ),
        (
            f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (path 'x', time 'ts', late '-1 hour')",
            "negative",
        ),
        (f"CREATE STREAM t ({COLUMNS}) USING parquet OPTIONS (path x, time 'ts')", "in quotes"),
        (
            f"CREATE STREAM t ({COLUMNS}, PRIMARY KEY (symbol)) USING 'parquet:x' OPTIONS (time 'ts')",
            "CREATE TABLE",
        ),
        (f"CREATE STREAM t ({COLUMNS})", "expected USING"),
        ("CREATE STREAM t (a BLOB) USING parquet", "unknown type"),
        (f"CREATE STREAM IF NOT EXISTS t ({COLUMNS}) USING parquet", "expected ("),
        (f"CREATE TABLE t ({COLUMNS}) USING 'parquet:x'", "needs a key"),
        (f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (x)) USING 'parquet:x'", "not a column"),
        (f"CREATE TABLE t ({DELETIONS}) USING 'parquet:x' OPTIONS (deleted 'x')", "choices: gone"),
        (
            f"CREATE TABLE t ({DELETIONS}) USING 'parquet:x' OPTIONS (deleted 'n')",
            "must be BOOLEAN",
        ),
        (
            f"CREATE TABLE t ({DELETIONS}) USING 'parquet:x' OPTIONS (deleted 'K')",
            "must not be of the key",
        ),
        (f"CREATE TABLE t ({DELETIONS}) USING 'parquet:x' OPTIONS (deleted gone)", "in quotes"),
        ("SELECT 'open", "not closed"),
        ("CREATE QUERY `` AS SELECT 1 FROM t", "1 to 200"),
    ],
)
def test_bad_statements(text: str, words: str) -> None:
    with pytest.raises(SQLError) as caught:
        parse("SHOW QUERIES;\n\n" + text)
    assert words in str(caught.value)
    assert "line 3" in str(caught.value)
