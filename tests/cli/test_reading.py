"""read: table and JSON, limit."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from tests.cli.fakes import FakeAnswer, FakeEngine

Command = Callable[..., Result]


@pytest.fixture
def answering(engine: FakeEngine) -> FakeEngine:
    engine.answers = [
        FakeAnswer(1, symbol="TAX", p=1.5),
        FakeAnswer(2, symbol="A LONGER ONE", p=float("nan")),
        FakeAnswer(3, symbol=None, p=2.0),
    ]
    return engine


def test_a_table_has_every_row_and_no_seq(headrace: Command, answering: FakeEngine) -> None:
    result = headrace("read", "q")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["symbol", "p"]
    assert [line.split()[-1] for line in lines[2:5]] == ["1.5", "nan", "2"]
    assert "null" in lines[4] and result.stderr == ""
    assert ("read", "q") in answering.calls


def test_json_is_one_valid_object_a_line(headrace: Command, answering: FakeEngine) -> None:
    for arguments in (["--json"], ["--format", "json"]):
        rows = [json.loads(line) for line in headrace("read", "q", *arguments).stdout.splitlines()]
        assert rows == [
            {"symbol": "TAX", "p": 1.5},
            {"symbol": "A LONGER ONE", "p": "nan"},
            {"symbol": None, "p": 2.0},
        ]


def test_limit_shows_the_first_and_says_so(headrace: Command, answering: FakeEngine) -> None:
    result = headrace("read", "q", "--limit", "2")
    assert "A LONGER ONE" in result.stdout and "null" not in result.stdout
    assert "first 2 of 3 rows" in result.stderr
    assert len(headrace("read", "q", "--limit", "2", "--json").stdout.splitlines()) == 2


def test_no_rows_is_said_on_stderr(headrace: Command, engine: FakeEngine) -> None:
    result = headrace("read", "q")
    assert result.stdout == "" and "no rows" in result.stderr
