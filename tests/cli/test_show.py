"""Numbers and values, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.cli.show import count, duration, plain_json, several
from headrace.showing import cell


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (12_345, "12,345"),
        (123_456, "123.5 k"),
        (12_345_678, "12.3 M"),
        (5e9, "5.0 G"),
    ],
)
def test_count(number: float, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.452, "0.45 s"), (12, "12 s"), (59.7, "60 s"), (248, "4 min 08 s"), (3725, "1 h 02 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_several() -> None:
    assert several(1, "query") == "1 query"
    assert several(1_000, "query") == "1,000 queries"
    assert several(2, "round") == "2 rounds"


def test_cell() -> None:
    assert cell(None) == "null"
    assert cell(1.5) == "1.5"
    assert cell(2.0) == "2"
    assert cell(float("inf")) == "inf"
    assert cell(datetime(2025, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)) == "2025-01-01 12:00:00.25"
    assert cell("x" * 100).endswith("…")


def test_plain_json() -> None:
    assert plain_json({"a": [b"\x01", float("-inf"), True]}) == {"a": ["01", "-inf", True]}
