"""Constants: each form of the grammar is what Spark says, or refused with a code; no Python error
comes out."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, SQLError
from headrace.runtime.versions import lacking
from headrace.sql.emit import emit
from tests.sql.oracle import bound, make_view
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = (
    "1e39F",
    "3.4028235e38F",
    "3.4028234663852886E38F",
    "3.4028234663852887E38F",
    "-3.5e38F",
    "1e-50F",
    "16777217F",
    "16777217.000000000000000001F",
    "16777216.9999999999999999999F",
    "-16777217.00000000000000001F",
    "1.1F",
    "-0.0F",
    "1.7976931348623157e308D",
    "1.7976931348623158e308D",
    "1.7976931348623159e308",
    "1e400",
    "1e-400",
    "-0e0",
    "0D",
    "0e5BD",
    "1e5BD",
    "1e38BD",
    "1e37BD",
    "1e-38BD",
    "1e-39BD",
    "0e-40BD",
    "0.00BD",
    "-0.0BD",
    "-0BD",
    "00012BD",
    "1.50e1BD",
    "1e99999999999999999999BD",
    "1e-99999999999999999999BD",
    "1e2147483648BD",
    "1e999999999",
    "1e99999999999",
    "1e-99999999999D",
    "1e-99999999999F",
    "0e99999999999",
    "9" * 38,
    "9" * 39,
    f"0.{'0' * 37}1",
    f"0.{'0' * 38}1",
    "9" * 5_000,
    f"{'9' * 5_000}BD",
    f"1e{'9' * 5_000}",
    "0" * 60 + "5",
    "127Y",
    "128Y",
    "-128Y",
    "- 128Y",
    "-129Y",
    "32767S",
    "-32768S",
    "32768S",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807L",
    "9223372036854775808L",
    "-9223372036854775808L",
    "- 9223372036854775808",
    "9223372036854775808",
    "-(9223372036854775808)",
    "-9223372036854775809",
    "1.",
    "1.e5",
    ".5e1",
    ".5BD",
    "1.D",
    "5l",
    "5bd",
    "1.0e0F",
    "0x1F",
    "X'1F'",
    "x'1'",
    "1__0",
    "1e",
    "1eD",
    ".",
    "1E5L",
    "1.5L",
    "1e5Y",
    "\u0663",
    "1\u0663",
    "1e\u0663",
    "1L2",
    "\uff11",
)
TIMES = (
    "DATE '0001-01-01'",
    "DATE '9999-12-31'",
    "DATE '2023-02-29'",
    "DATE ''",
    "DATE '1582-10-10'",
    "DATE '0000-01-01'",
    "TIMESTAMP '0001-01-01 00:00:00'",
    "TIMESTAMP '9999-12-31 23:59:59.999999'",
    "TIMESTAMP '1969-12-31 23:59:59.5'",
    "TIMESTAMP '2024-01-01 24:00:00'",
    "TIMESTAMP '2024-01-01 23:59:60'",
    "TIMESTAMP '2024-01-01T10:00'",
    "TIMESTAMP '\uff12024-01-01'",
    "TIMESTAMP_NTZ '2024-01-01 10:00:00'",
    "TIMESTAMP_LTZ '1900-01-01 10:00:00'",
    "TIMESTAMP '2024-02-30'",
    "TIMESTAMP_NTZ '0001-01-01'",
    "DATE '\u0662024-01-01'",
)
STRINGS = (
    r"'\0'",
    r"'\u00e9'",
    r"'\101'",
    r"'\177'",
    r"'\200'",
    r"'\377'",
    r"'\400'",
    r"'\8'",
    r"'\12'",
    r"'\u12'",
    r"'\U0001F600'",
    r"'\ud83d\ude00'",
    r"'\xg'",
    r"r'\'",
    r"'\a'",
    "'a''b'",
    '"a\'b"',
    r"'\''",
    r"'\Z\%\_'",
    'r"a\'b"',
    r"R'\n'",
    r"'\x41'",
    r"'\b\t\n\r'",
    "'😀'",
    "'a\nb'",
    "'$x${y}'",
    r"'\\\''",
    r"'\u0027'",
    "''",
    '""',
    r"'\u0000'",
    "'\u2028'",
    "'é\u0301'",
    r"'\047'",
    r"'\''''",
)
# Spark takes these for characters that no encoding has; so it says ? where we say why.
HALVES = (r"'\ud83d'", r"'\U00110000'", r"'\ude00\ud83d'", r"'\UFFFFFFFF'")


@pytest.fixture(scope="module", autouse=True)
def view(spark: SparkSession) -> None:
    make_view(spark)


def sparks(spark: SparkSession, literal: str) -> tuple[str, ...] | None:
    """Type, text and hash of a constant, which tell -0.0 from 0.0 too; None where Spark refuses
    it."""
    try:
        (row,) = spark.sql(
            f"SELECT typeof({literal}), CAST({literal} AS STRING), hash({literal})"
        ).collect()
    except PySparkException:
        return None
    return tuple(map(str, row))


def emitted(literal: str) -> str | None:
    try:
        return emit(bound(f"SELECT {literal} AS x FROM trades").outputs[0].expr)
    except SQLError as error:
        assert error.code == "SQL"
        assert str(error).startswith("[SQL]")
        return None


@pytest.mark.parametrize("literal", [*NUMBERS, *TIMES, *STRINGS], ids=lambda text: ascii(text)[:40])
def test_a_constant_is_what_spark_says(spark: SparkSession, literal: str) -> None:
    ours, wanted = emitted(literal), sparks(spark, literal)
    if ours is not None:
        lacks = " ".join(lack.what for lack in lacking(spark.version))
        is_said = "''" in literal[1:-1] and "'a''b'" in lacks
        assert (sparks(spark, ours) == wanted) is not is_said, f"{literal} is emitted as {ours}"


@pytest.mark.parametrize("literal", HALVES)
def test_halves_of_characters_are_refused(literal: str) -> None:
    refused(f"SELECT {literal} AS x FROM trades", "half of a surrogate pair")


@pytest.mark.parametrize(
    ("literal", "words"),
    [
        ("1e39F", "does not fit a float"),
        ("1e400", "does not fit a double"),
        ("1e99999999999999999999BD", "exponent"),
        ("9" * 39, "more than 38 digits"),
        ("9" * 5_000, "longer than 1,000 characters"),
        ("300Y", "fit a tinyint"),
    ],
)
def test_the_refusal_says_why(literal: str, words: str) -> None:
    refused(f"SELECT {literal} AS x FROM trades", words, at=literal)


def test_random_numbers(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(150):
        literal = _number(draw)
        ours, wanted = emitted(literal), sparks(spark, literal)
        assert (ours is None) == (wanted is None), literal
        if ours is not None:
            assert sparks(spark, ours) == wanted, f"{literal} is emitted as {ours}"


def _number(draw: random.Random) -> str:
    digits = "".join(draw.choices("0123456789", k=draw.choice([1, 2, 5, 10, 19, 20, 38, 40])))
    at = draw.randint(0, len(digits))
    point = draw.choice(["", "", f"{digits[:at]}.{digits[at:]}"]) or digits
    exponent = draw.choice(["", "", "e0", "E5", "e-9", "e38", "e-40", "e300", "e-330", "e+7"])
    suffix = draw.choice(["", "", "L", "S", "Y", "D", "F", "BD"])
    if suffix in ("L", "S", "Y") and (exponent or "." in point):
        exponent, point = "", digits  # a name to Spark, if it is anything
    return draw.choice(["", "-"]) + point + exponent + suffix


PARTS = (
    *NUMBERS[:60],
    *TIMES,
    *STRINGS,
    *HALVES,
    "NULL",
    "TRUE",
    "-",
    "+",
    "INTERVAL '1' DAY",
    "INTERVAL '1e9' DAY",
    "INTERVAL 1e9 HOURS",
    "INTERVAL ''",
    "DATE 5",
    "TIMESTAMP",
    "X''",
    "1 SECOND",
    "'1 second'",
)
PLACES = (
    "SELECT {} AS x FROM trades",
    "SELECT 1 AS x FROM trades WHERE {} < {}",
    "SELECT ts + {} AS x FROM trades",
    "SELECT symbol LIKE {} ESCAPE {} AS x FROM trades",
    "SELECT symbol RLIKE {} AS x FROM trades",
    "SELECT round(price, {}) AS x FROM trades",
    "SELECT percentile_approx(price, {}, {}) AS x FROM trades GROUP BY qty",
    "SELECT approx_count_distinct(qty, {}) AS x FROM trades GROUP BY qty",
    "SELECT date_trunc({}, ts) AS x FROM trades",
    "SELECT count(*) FROM trades GROUP BY window(ts, {}, {})",
    "SELECT qty IN ({}, {}) AS x FROM trades",
    "SELECT count(*) FROM trades GROUP BY {}",
    "SELECT CAST({} AS DECIMAL({}, 1)) AS x FROM trades",
    "SELECT CASE {} WHEN {} THEN {} END AS x FROM trades",
    "SELECT substring(symbol, {}, {}) AS x FROM trades",
    "SELECT ts > {} AS x, day = {} AS y FROM trades",
    "SELECT -{} AS x FROM trades",
    "SELECT {}{} AS x FROM trades",
)


def test_no_constant_raises_but_our_own_errors(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(3_000):
        place = draw.choice(PLACES)
        text = place.format(*(draw.choice(PARTS) for _ in range(place.count("{}"))))
        try:
            for output in bound(text).outputs:
                emit(output.expr, keys=("k",) * 9)
        except HeadraceError as error:
            assert error.code == "SQL", text
            assert str(error).startswith("[SQL]"), text
