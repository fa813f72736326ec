"""The tables of Spark's `approx_count_distinct`, read from Spark itself.

They are constants of the class that Spark estimates with: what is read is what this Spark uses,
whatever its version.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.errors import RoundError

PRECISION_MIN, PRECISION_MAX = 4, 18  # log2 of the registers for which there are tables

Tables = tuple[float, list[float], list[float]]
"""The threshold of linear counting, raw estimates, and the bias of each."""


def hll_tables(session: SparkSession, precision: int) -> Tables:
    """The tables of 2^precision registers."""
    assert PRECISION_MIN <= precision <= PRECISION_MAX
    jvm = session._jvm
    assert jvm is not None
    try:
        spark, show = (
            jvm.org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper,
            jvm.java.util.Arrays.toString,
        )
        at = precision - PRECISION_MIN
        # as text: one call for a table, not one for each number; Java prints every double so that
        # it can be read back
        thresholds, raw, bias = (
            _numbers(text)
            for text in (
                show(spark.THRESHOLDS()),
                show(spark.RAW_ESTIMATE_DATA()[at]),
                show(spark.BIAS_DATA()[at]),
            )
        )
    except (Py4JError, TypeError, ValueError) as error:
        # raises if Spark has died, which says nothing of its tables
        jvm.java.lang.System.nanoTime()
        raise RoundError(
            "this Spark does not show the tables of its approx_count_distinct",
            value=f"Spark {session.version}",
            hint="use the Spark version that Headrace names, or drop the queries that ask for it",
        ) from error
    return thresholds[at], raw, bias


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.strip("[]").split(",")]
