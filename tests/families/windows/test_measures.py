"""Aggregates out of measures, against Spark's own aggregates over the same rows."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.evaluation.vectors import FinishError
from headrace.families.windows.measures import (
    ROWS,
    Measure,
    arrange,
    finish_aggregate,
    measures_for,
    refusal,
)
from headrace.families.windows.rings.ring import Ring, Windows
from headrace.sql.emit import emit
from headrace.sql.functions import AGGREGATES
from headrace.sql.tree import Aggregate, Call, Column, Expr, Literal
from headrace.values import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# One list of values per group; the last two groups are a single value and only nulls.
FIELDS: dict[str, tuple[Type, pa.DataType, list[list[Any]]]] = {
    "l": (
        BIGINT,
        pa.int64(),
        [[1, None, -5, 1 << 62, 1 << 61], [-(1 << 63), 3, -1 + (1 << 63)], [7], [None, None]],
    ),
    "i": (
        INT,
        pa.int32(),
        [[1, 2, None, -(2**31), 9], [2**31 - 1, 2**31 - 1, 5], [4], [None, None]],
    ),
    "h": (SMALLINT, pa.int16(), [[1, -32768, None, 5, 5], [1, 1, 1], [2], [None, None]]),
    "y": (TINYINT, pa.int8(), [[1, -128, None, 5, 5], [1, 1, 1], [2], [None, None]]),
    "x": (
        DOUBLE,
        pa.float64(),
        [[1.5, math.nan, None, -math.inf, 2.0], [0.1, 0.2, 1e6], [3.25], [None, None]],
    ),
    "f": (
        FLOAT,
        pa.float32(),
        [[1.5, 0.1, None, 2.5, -0.25], [math.nan, math.inf, 1.0], [math.nan], [None, None]],
    ),
    "b": (
        BOOLEAN,
        pa.bool_(),
        [[True, None, False, True, True], [True, True, True], [False], [None, None]],
    ),
    "d": (
        DATE,
        pa.date32(),
        [
            [date(2024, 1, 1), None, date(1969, 1, 1), date(2000, 1, 1), None],
            [date(1, 1, 1), date(9999, 12, 31), None],
            [date(2024, 2, 29)],
            [None, None],
        ],
    ),
    "w": (
        TIMESTAMP,
        pa.timestamp("us", "UTC"),
        [
            [EPOCH, None, EPOCH - timedelta(microseconds=1), None, None],
            [datetime(2024, 1, 1, 5, 6, 7, 8, tzinfo=UTC)] * 3,
            [EPOCH],
            [None, None],
        ],
    ),
}
SIZES = (5, 3, 1, 2)


def table() -> pa.Table:
    columns = {"g": pa.array([g for g, n in enumerate(SIZES) for _ in range(n)], pa.int32())}
    for name, (_, kind, groups) in FIELDS.items():
        assert [len(values) for values in groups] == list(SIZES)
        columns[name] = pa.array([v for values in groups for v in values], kind)
    return pa.table(columns)


TABLE = table()


def aggregates() -> list[Aggregate]:
    found = [Aggregate("count", (), BIGINT)]
    for name, (kind, _, _) in FIELDS.items():
        arg = Column(name, kind)
        numeric = (
            ("sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
            if kind.is_numeric
            else ()
        )
        ops = ("count", "min", "max", *numeric)
        found += [Aggregate(op, (arg,), AGGREGATES[op].rule((arg,))) for op in ops]
    return found


def column_of(arg: Expr) -> list[Any]:
    if isinstance(arg, Call):
        assert arg.op == "cast" and arg.type == DOUBLE
        return [None if v is None else float(v) for v in column_of(arg.args[0])]
    assert isinstance(arg, Column)
    return list(TABLE[arg.name].to_pylist())


def as_number(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def partial(measure: Measure, row: int) -> tuple[list[int], list[float]]:
    """The columns of one row's partial, as Spark's pane aggregate would send them."""
    if measure.arg is None:
        return [1], []
    value = as_number(column_of(measure.arg)[row])
    none = value is None
    empty = {
        "sum_int": ([0, 0], []),
        "sum_float": ([], [0.0]),
        "moments": ([], [0.0] * 3),
        "count": ([0], []),
        "min_int": ([2**63 - 1], []),
        "max_int": ([-(2**63)], []),
        "min_float": ([], [math.nan]),
        "max_float": ([], [-math.inf]),
    }
    if none:
        return empty[measure.kind]
    if measure.kind == "count":
        return [1], []
    if measure.kind == "sum_int":
        return [value >> 32, value & 0xFFFFFFFF], []
    if measure.kind == "moments":
        return [], [1.0, value, 0.0 if math.isfinite(value) else math.nan]
    return ([], [float(value)]) if measure.kind.endswith("float") else ([int(value)], [])


def finished(wanted: list[Aggregate]) -> list[pa.Array]:
    """Through a ring: every row its own pane, one window over all."""
    arrangement = arrange([m for a in wanted for m in measures_for(a)])
    rows = TABLE.num_rows
    columns = [[partial(m, row) for m in arrangement.ints] for row in range(rows)]
    ints = np.array([[v for part in row for v in part[0]] for row in columns], np.int64).T
    floats = np.array([[v for part in row for v in part[1]] for row in columns], np.float64).T
    ring = Ring(arrangement.layout, rows, 0)
    groups = TABLE["g"].to_numpy().astype(np.int32)
    ring.add(np.arange(rows), groups, ints, floats.reshape(len(arrangement.layout.float_ops), rows))
    shape = Windows(*(np.array([v]) for v in (rows, rows, 0, 0)))
    answers = ring.close(rows - 1, shape)
    assert answers.group.tolist() == [0, 1, 2, 3]
    held = arrangement.columns(answers.ints, answers.floats)
    return [finish_aggregate(a, held) for a in wanted]


def test_as_spark_answers(spark: SparkSession) -> None:
    wanted = aggregates()
    assert [refusal(a) for a in wanted] == [None] * len(wanted)
    spark.createDataFrame(TABLE).createOrReplaceTempView("measure_rows")
    selected = ", ".join(f"{emit(a)} AS c{i}" for i, a in enumerate(wanted))
    theirs = spark.sql(f"SELECT g, {selected} FROM measure_rows GROUP BY g").toArrow().sort_by("g")
    for at, (aggregate, mine) in enumerate(zip(wanted, finished(wanted), strict=True)):
        column = theirs[f"c{at}"]
        assert mine.type == column.type, aggregate
        for a, b in zip(mine.to_pylist(), column.to_pylist(), strict=True):
            close = (
                isinstance(a, float)
                and isinstance(b, float)
                and (math.isclose(a, b, rel_tol=1e-14) or (math.isnan(a) and math.isnan(b)))
            )
            assert close or (a == b and type(a) is type(b)), (emit(aggregate), a, b)


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ([2**63 - 1, 2**63 - 1, -(2**63)], True),
        ([2**63 - 1, 1], False),
        ([-(2**63), -1], False),
        ([-(2**63), -1, 1], True),
        ([2**63 - 1] * 3, False),
        ([-1] * 9, True),
    ],
)
def test_sums_are_exact_until_they_overflow(values: list[int], fits: bool) -> None:
    total = Aggregate("sum", (Column("l", BIGINT),), BIGINT)
    count, parts = measures_for(total)
    hi, lo = sum(v >> 32 for v in values), sum(v & 0xFFFFFFFF for v in values)
    columns = {count: (np.array([len(values)]),), parts: (np.array([hi]), np.array([lo]))}
    if fits:
        assert finish_aggregate(total, columns).to_pylist() == [sum(values)]
    else:
        with pytest.raises(FinishError) as caught:
            finish_aggregate(total, columns)
        assert caught.value.code == "ARITHMETIC_OVERFLOW"


def test_measures_are_shared() -> None:
    x = Column("x", DOUBLE)
    mean, spread = Aggregate("avg", (x,), DOUBLE), Aggregate("stddev_pop", (x,), DOUBLE)
    assert measures_for(Aggregate("sum", (x,), DOUBLE)) == measures_for(mean)
    assert measures_for(Aggregate("var_samp", (x,), DOUBLE)) == measures_for(spread)
    assert measures_for(Aggregate("count", (Literal(1, INT),), BIGINT)) == (ROWS,)
    arrangement = arrange([*measures_for(mean), *measures_for(spread), *measures_for(mean), ROWS])
    assert list(arrangement.ints) == [ROWS, *measures_for(mean), *measures_for(spread)]
    assert len(arrangement.layout.int_ops) == 2 and len(arrangement.layout.float_ops) == 4


@pytest.mark.parametrize(
    ("aggregate", "reason"),
    [
        (Aggregate("sum", (Column("x", INT),), BIGINT, distinct=True), "DISTINCT"),
        (
            Aggregate("count", (Column("x", INT), Column("y", INT)), BIGINT, distinct=True),
            "several",
        ),
        (Aggregate("median", (Column("x", decimal(9, 2)),), DOUBLE), "median of a decimal"),
        (Aggregate("mode", (Column("x", STRING),), STRING), "mode of a string"),
        (
            Aggregate(
                "approx_count_distinct", (Column("x", INT), Literal("0.001", decimal(4, 3))), BIGINT
            ),
            "below 0.81%",
        ),
        (Aggregate("sum", (Column("x", decimal(9, 2)),), decimal(19, 2)), "sum of a decimal"),
        (Aggregate("max", (Column("x", STRING),), STRING), "max of a string"),
        (Aggregate("first", (Column("x", INT),), INT), "first"),
        (Aggregate("count", (Column("x", INT), Column("y", INT)), BIGINT), "several"),
    ],
)
def test_refusals(aggregate: Aggregate, reason: str) -> None:
    assert reason in (refusal(aggregate) or "")
