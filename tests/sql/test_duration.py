"""Lengths of time: Spark's own answer to the text is the judge, signs and fractions included."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, SQLError
from headrace.sql.bind import DEFAULTS
from headrace.sql.duration import UNIT_US, parse_duration_us
from headrace.sql.parse_expr import ExpressionParser
from headrace.sql.syntax import Constant
from headrace.sql.text import tokenize
from headrace.values import INTERVAL, Window
from tests.sql.oracle import bound
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
# Spark takes these; we do not: lengths of months differ, and nothing is ten thousand years long.
NOT_OURS = ("no fixed length", "too long")
WRITTEN = (
    "INTERVAL '1' SECOND",
    "- INTERVAL '1' SECOND",
    "-INTERVAL '1' SECOND",
    "- - INTERVAL '1' SECOND",
    "+ INTERVAL '1' SECOND",
    "-(INTERVAL '1' SECOND)",
    "-(-INTERVAL 3 HOURS)",
    "INTERVAL -'1' SECOND",
    "INTERVAL '-1' SECOND",
    "INTERVAL -'-1' SECOND",
    "INTERVAL -'+1' SECOND",
    "INTERVAL '- 1' SECOND",
    "INTERVAL - 1 SECOND",
    "INTERVAL + 1 HOUR",
    "INTERVAL - - 1 HOUR",
    "INTERVAL -1 HOUR 30 MINUTES",
    "INTERVAL 1 HOUR -30 MINUTES",
    "INTERVAL 1 HOUR + 30 MINUTES",
    "INTERVAL '1' DAY '-25' HOUR",
    "INTERVAL -'1' HOUR 30 MINUTES",
    "INTERVAL -'1' HOUR -'-30' MINUTES",
    "INTERVAL '1 hour -30 minutes'",
    "INTERVAL '-1 hour 30 minutes'",
    "INTERVAL -'1 hour 30 minutes'",
    "INTERVAL - '1 hour'",
    "-INTERVAL '1 day -30 hours'",
    "INTERVAL 'interval -1 hour'",
    "INTERVAL '1.5' SECOND",
    "INTERVAL -1.5 SECONDS",
    "INTERVAL .5 SECOND",
    "INTERVAL 1. SECOND",
    "INTERVAL '-.5' SECOND",
    "INTERVAL '- .25 second'",
    "INTERVAL '1.1234567 seconds'",
    "INTERVAL -1.123456789 SECONDS",
    "INTERVAL 1.1234567890 SECONDS",
    "INTERVAL '1.5' HOUR",
    "INTERVAL 5 3 SECOND",
    "INTERVAL '1 hour' SECOND",
    "INTERVAL '' SECOND",
    "INTERVAL '10 11' DAY",
    "INTERVAL 5L SECONDS",
    "INTERVAL 5D SECONDS",
    "INTERVAL 1e3 SECONDS",
    "INTERVAL 5BD SECONDS",
    "INTERVAL '\u22121' SECOND",
    "INTERVAL '1\u00a0second'",
    "INTERVAL '--1' SECOND",
    "INTERVAL 1 WEEK -1 DAY",
    "INTERVAL '1' MONTH",
    "INTERVAL 9223372036854775807 MICROSECONDS",
    "INTERVAL 9223372036854775808 MICROSECONDS",
    "INTERVAL -9223372036854775808 MICROSECONDS",
    "INTERVAL 106751992 DAYS",
    "INTERVAL 99999999999999999999 SECONDS",
    "INTERVAL 3660000 DAYS",
    "INTERVAL '-3660000' DAY",
    "INTERVAL 3660001 DAYS",
)
STRINGS = (
    "1 second",
    "-1 second",
    "- 1 second",
    "+1 second",
    "interval -1 second",
    "INTERVAL 1 second",
    "-interval 1 second",
    "- interval 1 second",
    "1 second -2 seconds",
    "-1 minute 59 seconds",
    "1 day -86401 seconds",
    "1.5 seconds",
    "-1.5 seconds",
    "-.5 second",
    "1. second",
    "- 0.5 seconds",
    "1 second 1 second",
    "--1 second",
    "-+1 second",
    "\u22121 second",
    "1 sec",
    "0 s",
    "1 second 1",
    "1 nanosecond",
    "1\tsecond",
    " 1 second ",
    "1\u00a0second",
    "\u0661 second",
    "",
    "-",
    "1",
    "second",
    "1 .5 second",
    ". second",
    "0 seconds",
    "-0 seconds",
)


def ours(text: str) -> int | str:
    """Microseconds of a constant as the gate reads it, or why it does not."""
    try:
        parser = ExpressionParser(text, tokenize(text, DEFAULTS), DEFAULTS)
        node = parser.expression()
        parser.expect_end()
    except SQLError as error:
        return error.what
    if not isinstance(node, Constant) or node.type != INTERVAL or not isinstance(node.value, int):
        return "not a constant"
    return node.value


def sparks(spark: SparkSession, text: str) -> int | None:
    """Microseconds as Spark reads the constant; None where it does not, or it is one of months."""
    try:
        ((found,),) = spark.sql(f"SELECT {text} AS x").collect()
    except PySparkException:
        return None
    return found // timedelta(microseconds=1) if isinstance(found, timedelta) else None


def check(spark: SparkSession, text: str) -> None:
    found, wanted = ours(text), sparks(spark, text)
    if wanted is None:
        assert isinstance(found, str), f"{text}: Spark refuses it, we read {found}"
    elif not (isinstance(found, str) and any(reason in found for reason in NOT_OURS)):
        assert found == wanted, text


@pytest.mark.parametrize("text", WRITTEN)
def test_intervals_are_as_long_as_spark_says(spark: SparkSession, text: str) -> None:
    check(spark, text)


def test_random_intervals(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        check(spark, _interval(draw))


def _interval(draw: random.Random) -> str:
    parts = []
    for _ in range(draw.randint(1, 3)):
        unit = draw.choice([*UNIT_US])
        fraction = ".5" if unit == "second" and draw.random() < 0.5 else ""
        number = draw.choice(["0", "1", "25", "61", "1000"]) + fraction
        parts.append((draw.choice(["", "", "-", "+", "- "]), number, unit + draw.choice(["", "s"])))
    signs = draw.choice(["", "", "-", "- ", "- -", "+"])
    if draw.random() < 0.4:
        return f"{signs}INTERVAL '{' '.join(f'{sign}{number} {unit}' for sign, number, unit in parts)}'"
    texts = [
        f"{sign}'{draw.choice(['', '-'])}{number}' {unit}"
        if draw.random() < 0.5
        else f"{sign}{number} {unit}"
        for sign, number, unit in parts
    ]
    return f"{signs}INTERVAL {' '.join(texts)}"


@pytest.mark.parametrize("text", STRINGS)
def test_lengths_in_a_string_are_read_as_spark_reads_them(spark: SparkSession, text: str) -> None:
    try:
        found: int | None = parse_duration_us(text)
    except HeadraceError as error:
        assert error.code == "DURATION"
        found = None
    assert found == _window_offset(spark, text)


def _window_offset(spark: SparkSession, text: str) -> int | None:
    """What Spark takes an offset of a window for, by where the window of the epoch begins."""
    try:
        ((start,),) = spark.sql(
            f"SELECT window.start FROM VALUES (TIMESTAMP '1970-01-01') AS t(ts) "
            f"GROUP BY window(ts, '1 hour', '1 hour', '{text}')"
        ).collect()
    except PySparkException:
        return None
    begin: int = (start.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    return begin if begin >= -1800 * SECOND else begin + 3600 * SECOND


@pytest.mark.parametrize(
    ("offset", "seconds"),
    [
        ("- INTERVAL '1' SECOND", 9),
        ("-INTERVAL 1 SECOND", 9),
        ("INTERVAL '-1' SECOND", 9),
        ("'-1 second'", 9),
        ("INTERVAL -'1' SECOND", 9),
        ("- - INTERVAL '1' SECOND", 1),
        ("-(INTERVAL 3 SECONDS)", 7),
        ("INTERVAL '1' SECOND -4 SECONDS", 7),
        ("-INTERVAL '1 second -4 seconds'", 3),
        ("+INTERVAL 2 SECONDS", 2),
        ("INTERVAL -'-2' SECOND", 2),
        ("'1 minute -62 seconds'", 8),
    ],
)
def test_an_offset_keeps_its_sign(offset: str, seconds: int) -> None:
    query = bound(
        f"SELECT count(*) FROM trades GROUP BY window(ts, '10 seconds', '10 seconds', {offset})"
    )
    assert query.window == Window(10 * SECOND, 10 * SECOND, seconds * SECOND)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("- INTERVAL '10' SECOND", "range of a window must be longer"),
        ("INTERVAL '-10' SECOND", "range of a window must be longer"),
        ("-(INTERVAL 10 SECONDS)", "range of a window must be longer"),
        ("INTERVAL 1 HOUR -60 MINUTES", "range of a window must be longer"),
        ("'10 seconds', -INTERVAL 5 SECONDS", "slide of a window must be longer"),
        ("'10 seconds', '1 second -1 second'", "slide of a window must be longer"),
        ("-'10 seconds'", "constant"),
        ("'10 seconds', '10 seconds', -'1 second'", "constant"),
        ("'10 seconds', '10 seconds', 1 - INTERVAL '1' SECOND", "constant"),
    ],
)
def test_lengths_below_nothing_are_refused(arguments: str, words: str) -> None:
    refused(f"SELECT count(*) FROM trades GROUP BY window(ts, {arguments})", words)


def test_a_column_may_be_called_interval(spark: SparkSession) -> None:
    assert ours("interval - 5") == ours("interval + x") == "not a constant"
    assert ours("INTERVAL 1 HOUR - interval") == "not a constant"
    assert ours("INTERVAL 1 HOUR - x") == "not a constant"


@pytest.mark.parametrize("text", ["INTERVAL '5' '3' SECOND", "INTERVAL '1 hour' '30 minutes'"])
def test_strings_are_not_joined(text: str) -> None:
    assert isinstance(ours(text), str)


def test_a_long_text_that_is_no_length() -> None:
    """Not by the square of its length."""
    began = perf_counter()
    with pytest.raises(HeadraceError, match="DURATION"):
        parse_duration_us("1 day" + " " * 100_000 + "x")
    assert perf_counter() - began < 2
