"""Schemas and lengths of time as text."""

from __future__ import annotations

import pytest

from headrace.errors import CatalogError, HeadraceError
from headrace.sql.duration import parse_duration_us
from headrace.sql.schema import parse_schema
from headrace.values import INT, STRING, TIMESTAMP, Field, decimal


def test_a_schema() -> None:
    fields = parse_schema(
        "symbol STRING NOT NULL, qty int, `odd ``name` DECIMAL(12, 3), ts: timestamp, date DATE"
    )
    assert fields[:4] == (
        Field("symbol", STRING),
        Field("qty", INT),
        Field("odd `name", decimal(12, 3)),
        Field("ts", TIMESTAMP),
    )
    assert parse_schema(" a DECIMAL ,\n b NUMERIC(5) -- five\n") == (
        Field("a", decimal(10, 0)),
        Field("b", decimal(5, 0)),
    )


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("", "empty"),
        ("a INT, A STRING", "twice"),
        ("a INT b INT", "expected the end"),
        ("a", "unknown type"),
        ("a INT,", "a column name"),
        ("a STRNG", "STRING"),
        ("a ARRAY<INT>", "not atomic"),
        ("a STRUCT<b: INT>", "not atomic"),
        ("a MAP<INT, INT>", "not atomic"),
        ("a VARCHAR(3)", "not atomic"),
        ("a INT(3)", "not atomic"),
        ("a DECIMAL(39, 1)", "not a decimal"),
        ("a DECIMAL(3, 4)", "not a decimal"),
        ("a DECIMAL(1, 2, 3)", "not a decimal"),
        ("a INTERVAL", "unknown type"),
        ("select INT", "backquotes"),
        ("`` INT", "needs a name"),
        ("a INT; DROP", "expected the end"),
    ],
)
def test_bad_schemas(ddl: str, words: str) -> None:
    with pytest.raises(CatalogError) as caught:
        parse_schema(ddl)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10 seconds", 10_000_000),
        ("1 second", 1_000_000),
        ("1.5 seconds", 1_500_000),
        ("250 milliseconds", 250_000),
        ("7 microseconds", 7),
        ("2 weeks", 1_209_600_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("INTERVAL 1 Hour", 3_600_000_000),
        ("-1 day", -86_400_000_000),
        ("  5   minutes ", 300_000_000),
        ("0 seconds", 0),
    ],
)
def test_lengths_of_time(text: str, us: int) -> None:
    assert parse_duration_us(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "seconds",
        "5 parsecs",
        "1 month",
        "1 year",
        "5 minutes x",
        "1.5 hours",
        "١ hour",
        "999999999999999999999 days",
        "300000000 weeks",
        "interval",
        "intervals 1 hour",
    ],
)
def test_bad_lengths_of_time(text: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        parse_duration_us(text)
    assert caught.value.code == "DURATION"
