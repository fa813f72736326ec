"""`approx_count_distinct` is Spark's own answer to the last digit: every type, few and many values,
several errors."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from pyspark.sql import SparkSession

from headrace.families.windows.aggregation.columns import (
    NO_LIMITS,
    asked_for,
    part_names,
    part_sql,
    parts_of,
)
from headrace.families.windows.measures import measures_for
from headrace.families.windows.sketches import hll_kernels
from headrace.families.windows.sketches.arriving import arrive
from headrace.families.windows.sketches.kinds import argument_sql
from headrace.runtime.hll_tables import hll_tables
from headrace.sql.sketch_parameters import precision_of
from headrace.sql.tree import Aggregate, Column, Literal
from headrace.values import BIGINT, DOUBLE, Type, decimal

TYPES = {
    "v": BIGINT,
    "CAST(v AS TINYINT)": Type("tinyint"),
    "CAST(v AS SMALLINT)": Type("smallint"),
    "CAST(v AS INT)": Type("int"),
    "IF(v % 7 = 0, 9223372036854775807, IF(v % 7 = 1, -9223372036854775807 - 1, v))": BIGINT,
    "CASE v % 9 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D WHEN 3 THEN double('Infinity') "
    "WHEN 4 THEN double('-Infinity') WHEN 5 THEN sqrt(-1D) WHEN 6 THEN 4.9E-324D ELSE v / 7D END": DOUBLE,
    "CASE v % 5 WHEN 0 THEN float('NaN') WHEN 1 THEN CAST(-0.0D AS FLOAT) WHEN 2 THEN float(0) "
    "ELSE CAST(v / 3D AS FLOAT) END": Type("float"),
    "CAST(v AS DECIMAL(9,2)) / 4": decimal(13, 6),
    "CAST(v AS DECIMAL(38,10)) * 1000000000000": decimal(38, 6),
    "CASE v % 4 WHEN 0 THEN '' WHEN 1 THEN '😀' || CAST(v AS STRING) ELSE CAST(v AS STRING) || 'ü' END": Type(
        "string"
    ),
    "CAST(CAST(v AS STRING) AS BINARY)": Type("binary"),
    "date_add(DATE'1970-01-01', CAST(v AS INT) - 50)": Type("date"),
    "timestamp_micros(v * 999983 - 5000000)": Type("timestamp"),
    "CAST(timestamp_micros(v * 999983 - 5000000) AS TIMESTAMP_NTZ)": Type("timestamp_ntz"),
    "v % 2 = 0": Type("boolean"),
}
ERRORS = [None, 0.39, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01]


def asked_of(kind: Type, rsd: float | None) -> Aggregate:
    return Aggregate(
        "approx_count_distinct",
        (Column("x", kind), *([] if rsd is None else [Literal(rsd, DOUBLE)])),
        BIGINT,
    )


def check(spark: SparkSession, text: str, kind: Type, rsd: float | None, rows: str) -> None:
    """`rows` is SQL with columns g and v."""
    asked = asked_of(kind, rsd)
    precision = precision_of(asked.args)
    measure = measures_for(asked)[1]
    (part,) = parts_of(measure)
    theirs = "approx_count_distinct(x)" if rsd is None else f"approx_count_distinct(x, {rsd}D)"
    limits = replace(NO_LIMITS, is_small=rsd is None)
    name = part_names((measure,))[part]
    function, arg = asked_for((measure,), limits).columns[name]
    if limits.is_small:
        function = (
            f"{function.partition(':')[0]}:{1 << 20}"  # larger cells than a round would send, too
        )
    inner = f"SELECT g, x, {argument_sql(function, arg)} AS a FROM (SELECT g, {text} AS x FROM ({rows}))"
    ours = part_sql(function, "a", limits)
    shown = f"g, {theirs} AS spark, count(1) AS m0, {ours} AS {name}"
    both = spark.sql(f"SELECT {shown} FROM ({inner}) GROUP BY g").toArrow()
    lists = (
        (arrive(both, (measure,), limits) if limits.is_small else both)
        .column(name)
        .combine_chunks()
    )
    offsets = np.append(0, np.cumsum([len(item) for item in lists])).astype(np.int64)
    threshold, raw, bias = hll_tables(spark, precision)
    found = []
    for start in range(0, both.num_rows, 10_000):
        own = offsets[start : start + 10_001]
        out = np.zeros((own.size - 1, 1 << precision), np.uint8)
        coupons = lists.flatten().to_numpy(zero_copy_only=False)
        hll_kernels.fold_coupons(coupons, own, np.arange(own.size - 1), precision, out)
        found += hll_kernels.estimates(out, threshold, np.array(raw), np.array(bias)).tolist()
    expected = both.column("spark").to_pylist()
    wrong = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
    assert not wrong, (
        f"{text} with {rsd}: {len(wrong)} of {len(found)}, (ours, Spark's): {wrong[:5]}"
    )


@pytest.mark.parametrize("text", [*TYPES], ids=[f"{t}{i}" for i, t in enumerate(TYPES.values())])
def test_every_type_is_sparks(spark: SparkSession, text: str, seed: int) -> None:
    """Groups of 1, 2, 4 … 8,192 different values and a group of nulls, with the default error and
    another."""
    rows = (
        f"SELECT g, IF(g = 14 OR id % 11 = 0, NULL, pmod(xxhash64(id, {seed}L), shiftleft(1L, g))) AS v FROM "
        "(SELECT id, CAST(log2(id + 1) AS INT) AS g FROM range(32000))"
    )
    tiny = Type("tinyint"), Type("smallint")
    limit = 100 if TYPES[text] in tiny else 1 << 20
    for rsd in (None, Random(seed).choice(ERRORS[1:])):
        check(spark, text, TYPES[text], rsd, f"SELECT g, v % {limit} AS v FROM ({rows})")


def test_a_hundred_thousand_small_groups_are_sparks(spark: SparkSession, seed: int) -> None:
    """Where two values meet in one register Spark counts one; so do we."""
    rows = f"SELECT pmod(xxhash64(id, {seed}L), 100000) AS g, xxhash64(id, 1L + {seed}L) AS v FROM range(250000)"
    check(spark, "v", BIGINT, 0.1, rows)


@pytest.mark.parametrize("rsd", ERRORS)
def test_counts_around_every_threshold_are_sparks(
    spark: SparkSession, rsd: float | None, seed: int
) -> None:
    """From linear counting through the bias tables to beyond them: half a value to eight values a
    register."""
    registers = 1 << precision_of(asked_of(BIGINT, rsd).args)
    steps = 24 if registers <= 4_096 else 8
    rows = (
        f"SELECT id % {steps} AS g, xxhash64(id div ({steps} - id % {steps}), id % {steps}, {seed}L) AS v "
        f"FROM range({8 * registers * steps})"
    )
    check(spark, "v", BIGINT, rsd, rows)
