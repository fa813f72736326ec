"""The prompt: where a statement ends, and that an error does not end it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from headrace.cli import prompt
from headrace.cli.prompt import complete, converse, statements
from headrace.cli.script import Script
from headrace.errors import SQLError
from tests.cli.fakes import FakeEngine


def typing(*lines: str | type[BaseException]) -> Callable[[str], str]:
    """Someone who types these lines, then ends the input."""
    left = iter(lines)

    def ask(_: str) -> str:
        line = next(left, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return ask


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1 ;  ", True),
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT 'a;", False),
        ("SELECT 1 -- done;", False),
        ("SELECT 1; -- done", True),
        (";", True),
        ("SELECT $x;", True),
        ("SELECT /* ;", False),
        ("", False),
    ],
)
def test_complete(text: str, whole: bool) -> None:
    assert complete(text) is whole


def test_a_statement_may_take_several_lines() -> None:
    assert list(statements(typing("SELECT", "", "1;", "SHOW QUERIES;"))) == [
        "SELECT\n\n1;",
        "SHOW QUERIES;",
    ]


@pytest.mark.parametrize("word", ["\\q", "quit", "EXIT;"])
def test_quitting(word: str) -> None:
    assert list(statements(typing("SELECT 1;", word, "SELECT 2;"))) == ["SELECT 1;"]


def test_ctrl_c_forgets_what_was_typed() -> None:
    assert list(statements(typing("SELECT oh no", KeyboardInterrupt, "SELECT 1;"))) == ["SELECT 1;"]


def test_an_error_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parsed(text: str) -> Sequence[object]:
        seen.append(text)
        raise SQLError("no")

    seen: list[str] = []
    monkeypatch.setattr(prompt, "_parsed", parsed)
    script = Script(cast(Any, FakeEngine()), lambda: None)
    converse(script, typing("SELECT 1;", "\\h", "SELECT 2;"))
    said = capsys.readouterr()
    assert seen == ["SELECT 1;", "SELECT 2;"]
    assert said.err.count("[SQL] no") == 2
    assert "CREATE STREAM" in said.out
