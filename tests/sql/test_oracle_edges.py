"""The random queries of `test_oracle.py` over rows at the ends of each type, where much arithmetic
fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings

from tests.sql.oracle import compare_if_taken, make_view
from tests.sql.queries import stateless

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.fixture(scope="module", autouse=True)
def view(spark: SparkSession) -> None:
    make_view(spark, edges=True)


@pytest.mark.parametrize(
    "text",
    [
        "-(1234567890123456789012345678901234567)",
        "-1234567890123456789012345678901234567",
        "- - 1234567890123456789012345678901234567",
        "-(-1234567890123456789012345678901234567)",
        "-(0.12345678901234567890123456789012345678)",
        "-(9999999999999999999999999999.9999999999)",
        "abs(-1234567890123456789012345678901234567)",
        "wide - (-(1234567890123456789012345678.9012345678))",
        "big + -(9223372036854775807)",
        "qty - -(2147483648)",
        "-(0.0D)",
        "-(9223372036854775808)",
        "-(32768S - 1S)",
    ],
)
def test_a_minus_before_parentheses_is_no_part_of_a_literal(spark: SparkSession, text: str) -> None:
    """Spark negates a decimal with 34 digits; a literal has all of them."""
    compare_if_taken(spark, f"SELECT {text} AS a FROM trades")
    compare_if_taken(spark, f"SELECT wide FROM trades WHERE {text} < big OR {text} = wide")


@settings(max_examples=60, phases=PHASES)
@given(sql=stateless(1))
def test_queries_over_the_ends_of_types_mean_what_spark_means(
    spark: SparkSession, sql: str
) -> None:
    compare_if_taken(spark, sql)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=1_000, phases=PHASES)
@given(sql=stateless(1))
def test_many_queries_over_the_ends_of_types(spark: SparkSession, sql: str) -> None:
    compare_if_taken(spark, sql)
