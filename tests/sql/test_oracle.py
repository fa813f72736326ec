"""Spark answers the SQL we emit as it answers the text: names, types and rows.  may_raise foresees
its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, example, given, settings

from tests.sql.oracle import compare_if_taken, make_view
from tests.sql.queries import grouped, stateless

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Shrinking asks Spark hundreds of times; the text of the first failure is small enough.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.fixture(scope="module", autouse=True)
def view(spark: SparkSession) -> None:
    make_view(spark)


@settings(max_examples=60, phases=PHASES)
@given(sql=stateless())
@example("SELECT (+ NULL) div tiny AS c0 FROM trades")
@example("SELECT + NULL AS c0 FROM trades")
def test_stateless_queries_mean_what_spark_means(spark: SparkSession, sql: str) -> None:
    compare_if_taken(spark, sql)


@settings(max_examples=20, phases=PHASES)
@given(sql=grouped())
def test_grouped_queries_mean_what_spark_means(spark: SparkSession, sql: str) -> None:
    compare_if_taken(spark, sql)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=1_000, phases=PHASES)
@given(sql=stateless())
def test_many_stateless_queries(spark: SparkSession, sql: str) -> None:
    compare_if_taken(spark, sql)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=500, phases=PHASES)
@given(sql=grouped())
def test_many_grouped_queries(spark: SparkSession, sql: str) -> None:
    compare_if_taken(spark, sql)
