"""What a small round sends is, once it has arrived, what a larger one would have sent."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.families.windows.aggregation.columns import (
    NO_LIMITS,
    asked_for,
    part_names,
    part_sql,
    parts_of,
)
from headrace.families.windows.measures import Measure
from headrace.families.windows.sketches import kinds
from headrace.families.windows.sketches.arriving import AS_THEY_COME, arrive, came_whole
from headrace.families.windows.sketches.hll_kernels import (
    bits_of,
    coupons_of,
    hash_ints,
    hash_longs,
)
from headrace.families.windows.sketches.kinds import HLL_FORM, Limits, argument_sql
from headrace.families.windows.sketches.value_kernels import thin_runs
from headrace.sql.tree import Column
from headrace.values import BIGINT, DOUBLE, INT, STRING
from tests.odd_values import DOUBLE_BITS, doubles

SMALL = replace(NO_LIMITS, is_small=True)
RUNS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), max_size=6)
MEASURES = (
    Measure("hll", Column("n", BIGINT), (9, HLL_FORM)),
    Measure("hll", Column("x", DOUBLE), (4, HLL_FORM)),
    Measure("hll", Column("i", INT), (9, HLL_FORM)),
    Measure("hll", Column("s", STRING), (9, HLL_FORM)),
    Measure("points", Column("x", DOUBLE), (3,)),
    Measure("points", Column("n", BIGINT), (50,)),
    Measure("values", Column("x", DOUBLE), ()),
    Measure("values", Column("n", BIGINT), ()),
    Measure("distinct", Column("n", BIGINT), ()),
)


def laid_out(runs: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.append(0, np.cumsum([len(run) for run in runs])).astype(np.int64)
    return np.array([v for run in runs for v in run], np.int64), offsets


def coupon(value: int, precision: int) -> tuple[int, int]:
    """Register and rank, by the text of its bits."""
    bits = f"{value & (1 << 64) - 1:064b}"
    rest = bits[precision:]
    return int(bits[:precision], 2), len(rest) - len(rest.lstrip("0")) + 1


@settings(max_examples=100, deadline=None)
@given(runs=RUNS, precision=st.integers(4, 14))
@example(runs=[[0, -1, 1, 1 << 63 - 9, (1 << 54) - 1, -(1 << 63)], [], [0]], precision=9)
def test_hashes_become_the_highest_coupon_of_each_register(
    runs: list[list[int]], precision: int
) -> None:
    coupons, ends = coupons_of(*laid_out(runs), precision)
    for i, run in enumerate(runs):
        most: dict[int, int] = {}
        for register, rank in (coupon(value, precision) for value in run):
            most[register] = max(rank, most.get(register, 0))
        found = coupons[ends[i] : ends[i + 1]].tolist()
        assert sorted(found) == sorted(
            (rank << precision) + register for register, rank in most.items()
        )


def test_numbers_are_hashed_as_spark_does(spark: SparkSession, seed: int) -> None:
    r = Random(seed)
    longs = [0, -1, 1, 2**63 - 1, -(2**63), *(r.randint(-(2**63), 2**63 - 1) for _ in range(2_000))]
    reals = [*DOUBLE_BITS, *(r.gauss(0, 1e3) for _ in range(len(longs) - len(DOUBLE_BITS)))]
    rows = pa.table(
        {"l": longs, "i": pa.array([v >> 32 for v in longs], pa.int32()), "d": doubles(reals)}
    )
    spark.createDataFrame(rows).createOrReplaceTempView("hashed")
    theirs = spark.sql(
        "SELECT xxhash64(l) AS l, xxhash64(i) AS i, xxhash64(d + 0D) AS d FROM hashed"
    ).toArrow()
    assert hash_longs(rows["l"].to_numpy()).tolist() == theirs["l"].to_pylist()
    assert hash_ints(rows["i"].to_numpy()).tolist() == theirs["i"].to_pylist()
    assert hash_longs(bits_of(rows["d"].to_numpy())).tolist() == theirs["d"].to_pylist()


@settings(max_examples=100, deadline=None)
@given(runs=RUNS, most=st.integers(1, 12))
def test_runs_are_thinned_to_the_middles_of_equal_shares(runs: list[list[int]], most: int) -> None:
    ordered = [sorted(run) for run in runs]
    values, ends = thin_runs(*laid_out(ordered), most)
    for i, run in enumerate(ordered):
        edges = [-(-share * len(run) // most) for share in range(most + 1)]
        middles = [run[(a + b - 1) // 2] for a, b in pairwise(edges) if b > a]
        assert values[ends[i] : ends[i + 1]].tolist() == (run if len(run) <= most else middles)


def sent(spark: SparkSession, limits: Limits) -> pa.Table:
    shown = [
        f"{part_sql(function, f'({argument_sql(function, text)})', limits)} AS {name}"
        for name, (function, text) in asked_for(MEASURES, limits).columns.items()
    ]
    return spark.sql(f"SELECT k, {', '.join(shown)} FROM arriving GROUP BY k ORDER BY k").toArrow()


def test_small_rounds_arrive_as_larger_ones_are_sent(spark: SparkSession, seed: int) -> None:
    """Cells of no value to more than are kept; one of more values than may be listed has none."""
    r = Random(seed)
    keys = [k for k, many in enumerate([1, 2, 5, 7, 30, 110, 900]) for _ in range(many)]
    rows = pa.table(
        {
            "k": keys,
            "x": doubles([r.choice([None, *DOUBLE_BITS, r.gauss(0, 9)]) for _ in keys]),
            "n": [r.choice([None, r.randint(-9, 9), r.randint(-(2**63), 2**63 - 1)]) for _ in keys],
            "i": pa.array(
                [r.choice([None, r.randint(-9, 9), r.randint(-(2**31), 2**31 - 1)]) for _ in keys],
                pa.int32(),
            ),
            "s": [r.choice([None, "", "a", str(r.random())]) for _ in keys],
        }
    )
    spark.createDataFrame(rows).createOrReplaceTempView("arriving")
    limits = replace(NO_LIMITS, values=500)
    small = replace(limits, is_small=True)
    theirs, raw = sent(spark, limits), sent(spark, small)
    assert came_whole(raw, MEASURES, small, 1 << 30) and raw.num_columns < theirs.num_columns
    ours = arrive(raw, MEASURES, small)
    sent_bytes = sum(
        raw[n].nbytes
        for n, part in asked_for(MEASURES, small).columns.items()
        if part[0].partition(":")[0] in AS_THEY_COME
    )
    assert came_whole(raw, MEASURES, small, sent_bytes) and not came_whole(
        raw, MEASURES, small, sent_bytes - 1
    )
    assert ours.schema.equals(theirs.schema), f"{ours.schema}\n{theirs.schema}"
    for (function, _), name in part_names(MEASURES).items():
        for key, a, b in zip(
            ours["k"], ours[name].to_pylist(), theirs[name].to_pylist(), strict=True
        ):
            assert same(function, a, b), f"{function} of {key}: {a}, not {b}"
    assert ours[part_names(MEASURES)["list", "`x`"]].null_count == 1


def same(function: str, ours: object, theirs: object) -> bool:
    """Of coupons of one register only the highest counts; a set has no order; zeros of a list are
    one."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return ours == theirs
    if function.startswith("coupons"):
        mask = (1 << int(function.partition(":")[2])) - 1
        return {c & mask: c for c in sorted(ours)} == {c & mask: c for c in sorted(theirs)} and len(
            ours
        ) <= len(theirs)
    if function == "set":
        return set(ours) == set(theirs)
    return np.array_equal(
        np.array(ours), np.array(theirs), equal_nan=isinstance(ours[0], float) if ours else False
    )


def test_a_cell_of_too_many_rows_is_noticed(spark: SparkSession) -> None:
    """Whatever its values are, null or not; other cells are sent all the same."""
    most = kinds.SENT_MAX
    rows = f"SELECT id % 7 AS n, CAST(id AS INT) AS i, 1D AS x, CAST(NULL AS STRING) AS s, IF(id < {most}, 0, 1) AS k"
    small = replace(NO_LIMITS, is_small=True)
    for many, is_whole in ((2 * most, True), (2 * most + 1, False)):
        spark.sql(f"{rows} FROM range({many})").createOrReplaceTempView("arriving")
        found = sent(spark, small)
        assert came_whole(found, MEASURES, small, 1 << 30) == is_whole
        assert found[part_names(MEASURES)[parts_of(MEASURES[0])[0]]].null_count == (not is_whole)
