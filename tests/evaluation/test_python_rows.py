"""Answers as Python's dicts: no value that can be committed makes a reader fail."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.show import answers_table, console, plain_json
from headrace.cli.watching import aligned_lines, json_lines
from headrace.evaluation.python_rows import date_text, python_rows, time_text
from headrace.reading import Answer
from headrace.showing import cell

LEAST, MOST = -(2**63), 2**63 - 1
TIME, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")
EXTREMES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.int64(), [LEAST, MOST]),
    (pa.bool_(), [True]),
    (pa.float32(), [float("nan"), float("inf"), -0.0]),
    (pa.float64(), [float("nan"), float("-inf"), 5e-324, 1e308]),
    (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38)]),
    (pa.decimal128(38, 38), [Decimal("1e-38")]),
    (pa.string(), ["", "\U0001f600", "\x00\n\t", "x" * 1_000]),
    (pa.binary(), [b"", b"\xff\xfe"]),
    (pa.duration("us"), [timedelta.max // 1_000, LEAST, MOST]),
]


def times(kind: pa.DataType, values: list[int]) -> pa.Array:
    raw = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return (
        pa.array([*values, None], raw).cast(kind)
        if raw == pa.int32()
        else pa.array([*values, None], raw).view(kind)
    )


def shown(table: pa.Table) -> str:
    """As every reader shows it; none may fail."""
    rows = python_rows(table)
    assert len(rows) == table.num_rows and all(list(r) == table.column_names for r in rows)
    answers = [Answer(row, i) for i, row in enumerate(rows)]
    lines = list(aligned_lines(answers))
    assert len(lines) == table.num_rows + 2
    parsed = [json.loads(line, parse_constant=pytest.fail) for line in json_lines(answers)]
    assert [p["seq"] for p in parsed] == list(range(table.num_rows))
    with console().capture() as captured:
        console().print(answers_table(rows, table.column_names))
    return "\n".join([*lines, *map(str, parsed), captured.get()])


@pytest.mark.parametrize(
    ("kind", "values"), EXTREMES, ids=lambda x: str(x) if isinstance(x, pa.DataType) else ""
)
def test_extreme_values_of_every_type(kind: pa.DataType, values: list[Any]) -> None:
    is_ticks = pa.types.is_duration(kind)
    array = (
        pa.array([v for v in values if isinstance(v, int)], pa.int64()).view(kind)
        if is_ticks
        else pa.array([*values, None], kind)
    )
    assert shown(
        pa.table(
            {
                "v": array,
                "l": pa.array([[v] for v in array], pa.list_(kind)),
                "s": pa.StructArray.from_arrays([array], names=["x"]),
            }
        )
    )


@given(st.lists(st.integers(LEAST, MOST), max_size=5))
def test_times_of_any_year(values: list[int]) -> None:
    """Those within Python's years are datetimes, with and without a zone, in a window and in an
    array."""
    for kind in (TIME, NTZ):
        array = times(kind, [*values, LEAST, MOST, 0])
        window = pa.StructArray.from_arrays([array, array], names=["start", "end"])
        table = pa.table(
            {"t": array, "window": window, "l": pa.array([[v] for v in array], pa.list_(kind))}
        )
        shown(table)
        for row, us in zip(python_rows(table), [*values, LEAST, MOST, 0, None], strict=True):
            assert row["window"] == {"start": row["t"], "end": row["t"]} and row["l"] == [row["t"]]
            if us is None:
                assert row["t"] is None
                continue
            at = np.datetime64(us, "us")
            if isinstance(row["t"], datetime):
                assert row["t"].replace(tzinfo=UTC) == datetime.fromtimestamp(0, UTC) + timedelta(
                    microseconds=us
                )
            elif us > LEAST:  # which numpy takes for no time
                told = row["t"].removesuffix("+00:00").lstrip("+")
                assert (
                    np.datetime64(told, "us") == at
                    and not 1 <= at.astype("M8[Y]").astype(int) + 1970 <= 9999
                )
    assert time_text(LEAST, 1_000_000) == "-290308-12-21T19:59:05.224192"


@given(st.integers(-(2**31), 2**31 - 1))
def test_dates_of_any_year(days: int) -> None:
    table = pa.table({"d": times(pa.date32(), [days])})
    shown(table)
    found = python_rows(table)[0]["d"]
    if isinstance(found, date):
        assert found.toordinal() == days + date(
            1970, 1, 1
        ).toordinal() and found.isoformat() == date_text(days)
    else:
        assert np.datetime64(found.lstrip("+"), "D") == np.datetime64(days, "D")


def test_how_they_look() -> None:
    assert [date_text(d) for d in (0, -719_528, -719_529, 2_932_896, 2_932_897)] == [
        "1970-01-01",
        "0000-01-01",
        "-0001-12-31",
        "9999-12-31",
        "+10000-01-01",
    ]
    assert python_rows(pa.table({"t": times(TIME, [2**62])}))[0] == {
        "t": "+148108-07-06T14:00:27.387904+00:00"
    }
    assert cell(datetime(5, 1, 2, 3, 4, 5, 600, tzinfo=UTC)) == "0005-01-02 03:04:05.0006"
    assert cell(datetime(2024, 1, 2, 3, 4, 50, tzinfo=UTC)) == "2024-01-02 03:04:50"
    assert plain_json({"t": datetime(1, 1, 1, tzinfo=UTC)}) == {"t": "0001-01-01T00:00:00+00:00"}


def test_a_text_that_is_not_utf8() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 2, pa.array([b"a\xff", b"b"], pa.binary()).buffers()
    )
    assert [r["k"] for r in python_rows(pa.table({"k": broken}))] == [
        "a\N{REPLACEMENT CHARACTER}",
        "b",
    ]
