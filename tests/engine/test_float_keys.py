"""Groups of floating-point keys: GROUP BY takes both zeros for one value and every NaN for one,
whoever stands beside.

What is made of a row's own value (its text, a power of it) must still see the zero and the NaN that
came.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.families.windows.aggregation import sending
from tests.streams import EPOCH_US, Stream, canonical, same_rows, spark_answer

DDL = "d DOUBLE, f FLOAT, k STRING, ts TIMESTAMP"
SCHEMA = pa.schema(
    [
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("k", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
NANS = (
    0x7FF8000000000000,
    0xFFF8000000000000 - (1 << 64),
    0x7FF0000000000001,
    0xFFFFFFFFFFFFFFFF - (1 << 64),
)
NANS_32 = (0x7FC00000, 0xFFC00000 - (1 << 32), 0x7F800001, 0xFFFFFFFF - (1 << 32))
WINDOW = "window(ts, '10 seconds')"
SHOWN = "count(*) AS c, window.end AS we FROM s"


def bits(value: float) -> int:
    found: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return found


def bits_32(value: float) -> int:
    found: int = struct.unpack("<i", struct.pack("<f", value))[0]
    return found


NUMBERS = (0.0, -0.0, -0.0, -1.0, -4.0, 2.5, float("inf"), float("-inf"))
DOUBLES = [*map(bits, NUMBERS), *NANS]
FLOATS = [*map(bits_32, NUMBERS), *NANS_32]


def rows(first_s: int) -> pa.Table:
    """One row of each number and each NaN, a second apart; every column begins elsewhere."""
    count = len(DOUBLES)
    times = [EPOCH_US + (first_s + i) * 1_000_000 for i in range(count)]
    return pa.table(
        {
            "d": pa.array(DOUBLES, pa.int64()).view(pa.float64()),
            "f": pa.array(FLOATS[5:] + FLOATS[:5], pa.int32()).view(pa.float32()),
            "k": pa.array(["abc"[i % 3] for i in range(count)]),
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


def check(
    spark: SparkSession,
    sqls: Sequence[str],
    rounds: int = 3,
    late_s: int = 0,
    answered: str | None = None,
) -> None:
    """All queries in one engine, over rounds of the same values; each has Spark's answer, and the
    sign of its zeros.

    All have answers, or only `answered`."""
    stream = Stream(SCHEMA, DDL, tuple(rows(20 * i) for i in range(rounds)), late_s * 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        source = stream.write(Path(folder) / "src")
        eng = headrace.Engine(Path(folder) / "race", spark=spark)
        eng.create_stream("s", source, schema=DDL, time="ts", late=f"{late_s} seconds")
        names = [eng.add(sql) for sql in sqls]
        eng.run()
        closed_us = stream.closed_us() or 0
        for name, sql in zip(names, sqls, strict=True):
            theirs = spark_answer(spark, sql, "s", stream.counted(), DDL)
            done = theirs.filter(
                pa.compute.less_equal(theirs.column("we").cast(pa.int64()), closed_us)
            )
            ours, wanted = (canonical(t, theirs.column_names) for t in (eng.results(name), done))
            assert wanted or answered not in (None, sql)
            assert same_rows(ours, wanted), (
                f"{sql}\nours:  {ours}\nspark: {wanted}\n{eng.explain(name)}"
            )
            assert _zeros(ours) == _zeros(wanted), f"{sql}\nours:  {ours}\nspark: {wanted}"


def _zeros(answers: Sequence[tuple[object, ...]]) -> list[str]:
    return sorted(repr(v) for answer in answers for v in answer if isinstance(v, float) and v == 0)


def grouped(*keys: str) -> str:
    shown = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    return f"SELECT {shown}, {SHOWN} GROUP BY {', '.join(keys)}, {WINDOW}"


def chosen(where: str, key: str = "k") -> str:
    return f"SELECT {key} AS k0, {SHOWN} WHERE {where} GROUP BY {key}, {WINDOW}"


MADE = [
    "CAST({} AS STRING)",
    "power({}, -1)",
    "sqrt({})",
    "- {}",
    "abs({})",
    "{} * 2",
    "coalesce({}, 1)",
    "CASE WHEN {} > 0 THEN {} ELSE - {} END",
    "hash({})",
    "CAST({} AS DOUBLE)",
    "CAST({} AS FLOAT)",
]
TOLD = [
    "{} = 0",
    "{} >= 0",
    "{} < 0",
    "{} IN (0, 2.5)",
    "{} BETWEEN -1 AND 0",
    "isnan({})",
    "{} IS NOT NULL",
    "CAST({} AS STRING) = '-0.0'",
    "CAST({} AS STRING) LIKE '%0%'",
    "power({}, -1) < 0",
    "sqrt({}) = 0",
    "{} > 2.5 AND NOT isnan({})",
    "{} <=> 0",
    "NOT isnan({}) AND power({}, -3) > 0",
]


@pytest.mark.parametrize("column", ["d", "f"])
def test_what_is_made_of_a_key_sees_the_value_of_the_row(spark: SparkSession, column: str) -> None:
    made = [text.replace("{}", column) for text in MADE]
    told = [text.replace("{}", column) for text in TOLD]
    check(
        spark,
        [
            grouped(column),
            *(grouped(key) for key in made),
            grouped(column, made[0]),
            grouped(made[2], column, "k"),
            *(chosen(where) for where in told),
            *(chosen(where, column) for where in told),
        ],
    )


@pytest.mark.parametrize("column", ["d", "f"])
def test_rounds_sent_as_rows_have_one_zero_and_one_nan(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """Every round is: nobody has grouped the rows before they are numbered."""
    monkeypatch.setattr(
        sending.Sending, "sends_rows", lambda self, cuts, is_small: len(cuts.cuts) == 1
    )
    check(spark, [grouped(column)])
    check(
        spark,
        [
            grouped(column, f"CAST({column} AS STRING)", "k"),
            chosen(f"power({column}, -1) < 0", column),
        ],
    )


def test_what_is_selected_of_a_key_sees_the_key(spark: SparkSession) -> None:
    """SELECT and HAVING over a key have its normal form, as in Spark."""
    check(
        spark,
        [
            f"SELECT d AS k0, power(d, -1) AS p, - d AS m, {SHOWN} GROUP BY d, {WINDOW}",
            f"SELECT d AS k0, sqrt(f) AS q, {SHOWN} GROUP BY d, f, {WINDOW} HAVING power(d, -1) > 0",
            f"SELECT CAST(d AS STRING) AS t, {SHOWN} GROUP BY d, {WINDOW} HAVING d IN (0, 1) OR isnan(d)",
            f"SELECT d + 1 AS k0, sum(d) AS s, avg(d) AS a, count(DISTINCT d) AS n, {SHOWN} GROUP BY d + 1, {WINDOW}",
            f"SELECT sum(d) AS s, sum(f) AS t, {SHOWN} WHERE d = 0 GROUP BY {WINDOW}",
        ],
    )


def test_percentiles_keep_the_sign_of_a_zero(spark: SparkSession) -> None:
    """Each window has one row; what is made of its percentile sees the zero that came."""
    aggregates = (
        "median(d)",
        "median(f)",
        "percentile(f, 0.3)",
        "percentile_approx(d, 0.5)",
        "percentile_approx(f, 1)",
    )
    check(
        spark,
        [
            f"SELECT {a} AS a, power({a}, -1) AS p, count(DISTINCT d) AS c, window.end AS we FROM s "
            f"WHERE NOT isnan(d) AND NOT isnan(f) GROUP BY window(ts, '1 second')"
            for a in aggregates
        ],
    )


@pytest.mark.parametrize(
    "where",
    [
        "d = 0 AND power(d, -1) < 0",
        "power(d, -1) < 0 AND d <=> 0",
        "0.0D = d AND CAST(d AS STRING) = '-0.0'",
        "d IN (-0.0D) AND power(d, -1) > 0",
        "(d = 0 AND power(d, -1) < 0) OR f = 2.5F",
        "NOT (d = 0 AND power(d, -1) < 0)",
        "f = 0 AND CAST(f AS STRING) LIKE '-%'",
        "d = f AND power(d, -1) < 0",
        "CAST(f AS DOUBLE) = d AND power(f, -1) > 0",
        "d = 0 AND d * -1 <= 0 AND abs(d) < 1",
        "NOT (d <> 0) AND power(d, -1) < 0",
        "(d != f) = false AND power(f, -1) < 0",
        "NOT (f <> 0 OR CAST(f AS STRING) = '0.0')",
    ],
)
def test_conditions_in_which_spark_takes_one_zero_for_the_other(
    spark: SparkSession, where: str
) -> None:
    """Its optimizer puts the constant, or the other column, in place of the column. Neighbours do
    not change it."""
    told = [
        f"SELECT d AS k0, f AS k1, {SHOWN} WHERE {where} GROUP BY d, f, {WINDOW}",
        chosen(where),
    ]
    check(
        spark,
        [*told, chosen("power(d, -1) < 0"), chosen("d = 0"), grouped("d")],
        answered=grouped("d"),
    )


def test_a_condition_on_a_key_joins_those_of_where(spark: SparkSession) -> None:
    shown = f"SELECT d AS k0, {SHOWN} WHERE {{}} GROUP BY d, {WINDOW} HAVING {{}}"
    told = [
        shown.format("power(d, -1) < 0", "d = 0"),
        shown.format("CAST(d AS STRING) = '-0.0'", "d <=> 0"),
    ]
    check(spark, [*told, grouped("d")], answered=grouped("d"))


def test_filters_in_which_spark_takes_one_zero_for_the_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(SCHEMA, DDL, (rows(0),), 0)
    eng = headrace.Engine(tmp_path / "race", spark=spark)
    eng.create_stream("s", stream.write(tmp_path / "src"), schema=DDL, time="ts")
    texts = [
        f"SELECT d, f, ts AS we FROM s WHERE {where}"
        for where in (
            "d = 0 AND power(d, -1) < 0",
            "d BETWEEN 0 AND 1 AND power(d, -1) < 0",
            "d = 0 AND - d >= 0",
        )
    ]
    names = [eng.add(sql) for sql in texts]
    eng.run()
    for name, sql in zip(names, texts, strict=True):
        theirs = spark_answer(spark, sql, "s", stream.counted(), DDL)
        ours, wanted = (canonical(t, theirs.column_names) for t in (eng.results(name), theirs))
        assert same_rows(ours, wanted), (
            f"{sql}\nours:  {ours}\nspark: {wanted}\n{eng.explain(name)}"
        )
    assert ["plain Spark" in eng.explain(name) for name in names] == [True, False, False]
