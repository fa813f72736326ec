"""Attributes of rows as numbers, keys and marks, against Python's own."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.relations.attributes import key_marks, keys, marks, numbers, same
from headrace.relations.comparing import WIDEST, is_exact
from headrace.sql.bands import double_key
from headrace.sql.tree import Column
from headrace.values import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)
from tests.families.joins.asked import rank


def test_numbers_that_count_have_differences_that_fit() -> None:
    values = [0, 2**62 - 1, 1 - 2**62, 2**62, -(2**62), 2**63 - 1, -(2**63), None]
    found = numbers(Column("n", BIGINT), pa.table({"n": pa.array(values, pa.int64())}))
    assert found.valid.tolist() == [True] * 3 + [False] * 5
    assert found.odd.tolist() == [False] * 3 + [True] * 4 + [False]
    counted = found.values[found.valid]
    assert (counted[:, None] - counted[None, :]).tolist() == [
        [int(a) - int(b) for b in counted] for a in counted
    ]
    assert np.abs(counted).max() == WIDEST


# -- keys and marks --------------------------------------------------------------------------------

DOUBLES = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 5e-324, -5e-324, 1e308, -1e308, 1.0]
STRINGS = [None, "", "a", "b", "ab", "a\0", "\0a", "é", "😀", "aé"]


def table(kind: pa.DataType, *columns: list[Any]) -> pa.Table:
    return pa.table(
        {name: pa.array(values, kind) for name, values in zip("xyz", columns, strict=False)}
    )


def test_keys_keep_sparks_order_and_only_finite_ones_count() -> None:
    found = keys(Column("x", DOUBLE), table(pa.float64(), DOUBLES))
    for value, key, valid, odd in zip(DOUBLES, *(a.tolist() for a in found), strict=True):
        assert valid == (value is not None and math.isfinite(value)) and odd == (
            value is not None and not valid
        )
        assert value is None or key == double_key(value)
    of_none = keys(None, table(pa.float64(), DOUBLES))
    assert of_none.valid.all() and not of_none.odd.any() and not of_none.values.any()


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (
            DATE,
            pa.date32(),
            [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
        ),
        (
            TIMESTAMP,
            pa.timestamp("us", "UTC"),
            [None, datetime(1, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 9, tzinfo=UTC)],
        ),
        (BIGINT, pa.int64(), [None, -(2**63), 2**63 - 1, 0]),
        (BOOLEAN, pa.bool_(), [None, False, True]),
        (INT, pa.int32(), [None, -(2**31), 2**31 - 1]),
    ],
)
def test_keys_of_exact_types_are_their_values(
    kind: Type, arrow: pa.DataType, values: list[Any]
) -> None:
    found = keys(Column("x", kind), table(arrow, values))
    assert found.valid.tolist() == [value is not None for value in values] and not found.odd.any()
    counted = found.values[1:]
    assert counted.tolist() == sorted(counted.tolist()) or kind == BIGINT
    whole = (
        table(arrow, values)
        .column(0)
        .cast(pa.int64() if kind not in (DATE, BOOLEAN) else pa.int32())
    )
    assert counted.tolist() == whole.to_pylist()[1:]


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (STRING, pa.string(), STRINGS),
        (DOUBLE, pa.float64(), DOUBLES),
        (FLOAT, pa.float32(), DOUBLES),
        (BINARY, pa.binary(), [None, b"", b"a", b"\0", b"\0\0", b"a\0"]),
        (BOOLEAN, pa.bool_(), [None, True, False]),
        (
            decimal(9, 2),
            pa.decimal128(9, 2),
            [None, Decimal("1.00"), Decimal("-1.00"), Decimal("0.01")],
        ),
    ],
    ids=str,
)
@given(data=st.data())
def test_marks_are_equal_where_all_values_are(
    kind: Type, arrow: pa.DataType, values: list[Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(*[st.sampled_from(values)] * 2), min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(rows) - 1))
    # parts of arrays are arrays
    own = table(arrow, *([row[i] for row in rows] for i in (0, 1))).slice(start)
    pairs = [tuple(rank(v) for v in row.values()) for row in own.to_pylist()]
    for names in ("x", "xy"):
        meets = [Column(name, kind) for name in names]
        found, asked = marks(meets, own), [pair[: len(names)] for pair in pairs]
        assert found.valid.tolist() == [None not in pair for pair in asked] and not found.odd.any()
        counted = [
            (m, pair)
            for m, pair in zip(found.values.tolist(), asked, strict=True)
            if None not in pair
        ]
        assert all((m == n) == (p == q) for m, p in counted for n, q in counted)
        nulls_too = key_marks(names, own).tolist()
        assert all(
            (m == n) == (p == q)
            for m, p in zip(nulls_too, asked, strict=True)
            for n, q in zip(nulls_too, asked, strict=True)
        )
    equal = same(own.column("x").combine_chunks(), own.column("y").combine_chunks())
    assert equal.tolist() == [x == y for x, y in pairs]


def test_whole_numbers_of_any_width_have_one_mark() -> None:
    values = [-128, 0, 127]
    rows = pa.table(
        {"t": pa.array(values, pa.int8()), "n": pa.array(values, pa.int64()), "k": ["a", "b", "c"]}
    )
    narrow, wide = (
        [Column(name, kind), Column("k", STRING)] for name, kind in (("t", TINYINT), ("n", BIGINT))
    )
    assert marks(narrow, rows).values.tolist() == marks(wide, rows).values.tolist()
    assert not is_exact(narrow) and is_exact(narrow[:1]) and not is_exact(narrow[1:])
