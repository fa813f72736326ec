"""What is known of a group by its keys: of doubles and floats, only how they compare.  And what is
one measure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.families.contract import Refusal
from headrace.families.windows.aggregation.aggregate import grouping
from headrace.families.windows.cuts import Cut
from headrace.families.windows.plan import share
from headrace.families.windows.rollup.groups import Groups
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.sql.tree import Column, Expr
from headrace.values import DOUBLE, FLOAT, Relation

RELATION = Relation(
    "s", "parquet:s", parse_schema("d DOUBLE, f FLOAT, n INT, k STRING, ts TIMESTAMP"), time="ts"
)


def bound(text: str) -> Expr:
    sql = f"SELECT {text} AS x, count(*) AS c FROM s GROUP BY {text}, window(ts, '10 seconds')"
    return bind(sql, {"s": RELATION}, name="q").keys[0]


def keys_with(text: str) -> tuple[bool, bool]:
    """Whether this is a fact of bare columns, and whether Spark groups by it."""
    columns = tuple(bound(c) for c in ("d", "f", "n", "k"))
    found = grouping(Cut((*columns, bound(text)), ()))
    return bound(text) in found.facts, bound(text) in found.keys


@pytest.mark.parametrize(
    "text",
    [
        "d = 0",
        "d <=> f",
        "d IN (0, 1, n)",
        "d BETWEEN -1 AND f",
        "isnan(d) AND n > 0",
        "f IS NULL",
        "CASE WHEN d > 0 THEN n ELSE 0 END",
        "upper(k)",
        "CASE WHEN f < d THEN 'a' ELSE k END",
        "NOT (d <> 1)",
    ],
)
def test_comparisons_are_facts(text: str) -> None:
    assert keys_with(text) == (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "CAST(d AS STRING)",
        "power(d, -1)",
        "d * 2 > 1",
        "- f",
        "coalesce(d, 0)",
        "hash(d)",
        "CAST(f AS DOUBLE) = 0",
        "CASE WHEN n > 0 THEN d ELSE 0 END",
        "sqrt(d) > 1 AND n > 0",
        "concat(k, CAST(f AS STRING))",
    ],
)
def test_what_may_tell_zeros_apart_is_asked_of_the_rows(text: str) -> None:
    assert keys_with(text) == (False, True)


@pytest.mark.parametrize(
    ("having", "is_shared"),
    [
        ("d > 0", True),
        ("power(d, -1) > 0", False),
        ("count(*) > 1 AND sqrt(d) > 0", False),
        ("sum(n) * d > 0", True),
        ("isnan(d) OR d IN (0, 1)", True),
    ],
)
def test_conditions_on_keys_that_spark_asks_of_rows_are_left_to_it(
    having: str, is_shared: bool
) -> None:
    sql = f"SELECT d, count(*) AS c FROM s GROUP BY d, window(ts, '10 seconds') HAVING {having}"
    found = share(bind(sql, {"s": RELATION}, name="q"), RELATION)
    assert isinstance(found, Refusal) != is_shared
    assert is_shared or "HAVING" in found.reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("where", "is_shared"),
    [
        ("d = 0 AND power(d, -1) < 0", False),
        ("d <=> 0 AND CAST(d AS STRING) = '0.0'", False),
        ("d = f AND power(n, -1) < 0 AND hash(f) > 0", False),
        ("f IN (1, 0) AND concat(CAST(f AS STRING), k) > ''", False),
        ("d = 0.00 AND power(d, -1) < 0", False),
        ("d = 1e-50F AND power(d, -1) < 0", False),
        ("NOT (d <> 0) AND power(d, -1) < 0", False),
        ("NOT (d <> 0 OR CAST(d AS STRING) = '0.0')", False),
        ("d = 1 AND power(d, -1) < 0", True),
        ("d = 2.5 AND CAST(d AS STRING) = '0.0'", True),
        ("d <= 0 AND d >= 0 AND power(d, -1) < 0", True),
        ("n = 0 AND power(n, -1) < 0", True),
        ("d = f AND d * 2 > f + 1 AND abs(d) < 3 AND CAST(f AS INT) = 1", True),
        ("d <=> NULL AND hash(d) > 0", True),
    ],
)
def test_conditions_in_which_spark_may_swap_zeros_are_left_to_it(
    where: str, is_shared: bool
) -> None:
    sql = f"SELECT k, count(*) AS c FROM s WHERE {where} GROUP BY k, window(ts, '10 seconds')"
    found = share(bind(sql, {"s": RELATION}, name="q"), RELATION)
    assert isinstance(found, Refusal) != is_shared
    assert is_shared or "-0.0" in found.reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "of_bits", "nans"),
    [
        (pa.float64(), pa.int64(), [0x7FF8 << 48, -(1 << 51), -1, (0x7FF << 52) + 1]),
        (pa.float32(), pa.int32(), [0x7FC00000, -(1 << 22), -1, 0x7F800001]),
    ],
)
def test_there_is_one_zero_and_one_nan(
    kind: pa.DataType, of_bits: pa.DataType, nans: list[int]
) -> None:
    column = Column("d", DOUBLE if kind == pa.float64() else FLOAT)
    groups = Groups((column,))
    strange = pa.array([*nans, None], of_bits).view(kind)
    plain = pa.array([1.5, -0.0, 0.0, float("inf"), None], kind)
    assert groups.encode([plain], 5).tolist() == [0, 1, 1, 2, 3]
    assert groups.encode([strange], 5).tolist() == [4, 4, 4, 4, 3]
    (shown,) = groups.arrays([kind])
    assert repr(shown.to_pylist()) == "[1.5, 0.0, inf, None, nan]"
    assert shown.view(of_bits)[4].as_py() == pa.array([np.nan], kind).view(of_bits)[0].as_py()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("count(*) FILTER (WHERE n > 0)", "count(CASE WHEN n > 0 THEN 1 END)"),
        ("sum(d) FILTER (WHERE n > 0)", "sum(CASE WHEN n > 0 THEN d END)"),
        ("count(DISTINCT k) FILTER (WHERE d = 0)", "count(DISTINCT CASE WHEN d = 0 THEN k END)"),
    ],
)
def test_filter_and_case_are_one_measure(one: str, other: str) -> None:
    found = [
        share(
            bind(
                f"SELECT {a} AS x FROM s GROUP BY window(ts, '1 minute')", {"s": RELATION}, name="q"
            ),
            RELATION,
        )
        for a in (one, other)
    ]
    assert found[0] == found[1]
