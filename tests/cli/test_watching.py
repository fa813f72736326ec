"""watch: table and JSON, since, limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from typer.testing import Result

from tests.cli.fakes import FakeAnswer, FakeEngine

Command = Callable[..., Result]

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def answering(engine: FakeEngine) -> FakeEngine:
    engine.answers = [
        FakeAnswer(1, symbol="TAX", p=1.5, window_end=NOON),
        FakeAnswer(2, symbol="A LONGER ONE", p=float("nan"), window_end=NOON),
        FakeAnswer(3, symbol=None, p=Decimal("2.50"), window_end=NOON),
    ]
    return engine


def test_table_is_aligned(headrace: Command, answering: FakeEngine) -> None:
    lines = headrace("watch", "q", "--no-follow").stdout.splitlines()
    assert lines[0].split() == ["seq", "symbol", "p", "window_end"]
    assert lines[2].split() == ["1", "TAX", "1.5", "2025-01-01", "12:00:00"]
    assert "A LONGER ONE" in lines[3]
    assert "null" in lines[4]


def test_json_is_one_valid_object_a_line(headrace: Command, answering: FakeEngine) -> None:
    for arguments in (["--json"], ["--format", "json"]):
        rows = [
            json.loads(line)
            for line in headrace("watch", "q", "--no-follow", *arguments).stdout.splitlines()
        ]
        assert rows[0] == {
            "seq": 1,
            "symbol": "TAX",
            "p": 1.5,
            "window_end": "2025-01-01T12:00:00+00:00",
        }
        assert rows[1]["p"] == "nan"
        assert rows[2] == {
            "seq": 3,
            "symbol": None,
            "p": "2.50",
            "window_end": "2025-01-01T12:00:00+00:00",
        }


def test_since_and_follow_reach_the_engine(headrace: Command, answering: FakeEngine) -> None:
    lines = headrace("watch", "q", "--since", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [3]
    assert ("watch", "q", 2, True) in answering.calls


def test_limit_ends_it(headrace: Command, answering: FakeEngine) -> None:
    assert len(headrace("watch", "q", "--json", "--limit", "2").stdout.splitlines()) == 2


def test_no_answers_is_said_on_stderr(headrace: Command, engine: FakeEngine) -> None:
    result = headrace("watch", "q", "--no-follow")
    assert result.stdout == ""
    assert "no answers yet" in result.stderr
