"""What Spark is asked for: each part once, and the measures come out of the parts as they would
alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.families.windows.aggregation.columns import (
    ROWS_PART,
    part_names,
    part_sql,
    parts_of,
    ring_columns,
)
from headrace.families.windows.measures import ROWS, Measure, measures_for
from headrace.sql.tree import Aggregate, Call, Column, Expr
from headrace.values import BIGINT, DOUBLE, INT, Type

QTY, PRICE, BIG = Column("qty", INT), Column("price", DOUBLE), Column("big", BIGINT)


def over(op: str, arg: Expr, kind: Type = DOUBLE) -> tuple[Measure, ...]:
    return measures_for(Aggregate(op, (arg,), kind))


def test_measures_share_their_parts() -> None:
    wanted = (
        ROWS,
        *over("sum", QTY, BIGINT),
        *over("avg", QTY),
        *over("stddev_samp", QTY),
        *over("count", QTY, BIGINT),
        *over("avg", PRICE),
        *over("var_pop", PRICE),
        *over("sum", PRICE),
    )
    asked = [part_sql(*part) for part in part_names(tuple(dict.fromkeys(wanted)))]
    assert asked == [
        "count(1)",
        "count(`qty`)",
        "sum(CAST(`qty` AS BIGINT))",
        "var_pop(cast(`qty` AS double))",
        "count(`price`)",
        "sum(`price`)",
        "var_pop(`price`)",
    ]


def test_rows_are_always_counted() -> None:
    assert part_names(()) == {ROWS_PART: "m0"}


def test_what_can_fail_is_asked_of_counted_rows_only() -> None:
    ratio = Call("div", (BIG, BIG), BIGINT)
    texts = [text for m in over("sum", ratio, BIGINT) for _, text in parts_of(m)]
    assert texts and all(text.startswith("IF(_headrace_kind = 0, ") for text in texts)


def test_a_large_integer_is_summed_in_halves() -> None:
    (measure,) = [m for m in over("sum", BIG, BIGINT) if m.kind == "sum_int"]
    values = np.array([2**62, -(2**62) - 5, 7, -1], np.int64)
    halves = [
        pa.chunked_array([[int((values >> 32).sum())]]),
        pa.chunked_array([[int((values & 0xFFFFFFFF).sum())]]),
    ]
    high, low = ring_columns(measure, halves)
    assert (int(high[0]) << 32) + int(low[0]) == int(values.sum())


@pytest.mark.parametrize("counts", [[0, 1, 3]])
def test_moments_of_groups_without_values(counts: list[int]) -> None:
    (measure,) = over("stddev_pop", PRICE)
    parts = [
        pa.chunked_array([counts]),
        pa.chunked_array([[None, 2.5, 6.0]]),
        pa.chunked_array([[None, 0.0, 2.0 / 3.0]]),
    ]
    n, mean, m2 = ring_columns(measure, parts)
    assert (
        n.tolist() == [0.0, 1.0, 3.0]
        and mean.tolist() == [0.0, 2.5, 2.0]
        and m2.tolist() == [0.0, 0.0, 2.0]
    )


@pytest.mark.parametrize(("op", "empty"), [("min", np.inf), ("max", -np.inf)])
def test_an_extreme_of_nothing_is_an_identity(op: str, empty: float) -> None:
    (measure,) = [m for m in over(op, PRICE) if m.kind.endswith("float")]
    (column,) = ring_columns(measure, [pa.chunked_array([pa.array([None, 1.5], pa.float64())])])
    assert column[1] == 1.5 and (np.isnan(column[0]) if op == "min" else column[0] == empty)
    (whole,) = [m for m in over(op, QTY, INT) if m.kind.endswith("int")]
    (column,) = ring_columns(whole, [pa.chunked_array([pa.array([None, 3], pa.int64())])])
    extremes = np.iinfo(np.int64)
    assert column.tolist() == [extremes.max if op == "min" else extremes.min, 3]
