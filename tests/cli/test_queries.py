"""add, drop, list, explain."""

from __future__ import annotations

import json
from collections.abc import Callable

from typer.testing import Result

from tests.cli.fakes import FakeEngine, FakeInfo

Command = Callable[..., Result]


def test_add_prints_the_name(headrace: Command, engine: FakeEngine) -> None:
    assert headrace("add", "SELECT 1;", "--name", "one").stdout == "one\n"
    assert engine.infos["one"].sql == "SELECT 1"
    assert headrace("add", "SELECT 2").stdout == "query_2\n"


def test_add_reads_standard_input(headrace: Command, engine: FakeEngine) -> None:
    headrace("add", "-", "-n", "piped", text="SELECT 3 ;\n")
    assert engine.infos["piped"].sql == "SELECT 3 "


def test_drop_several(headrace: Command, engine: FakeEngine) -> None:
    engine.add_many({"a": "SELECT 1", "b": "SELECT 2", "c": "SELECT 3"})
    assert headrace("drop", "a", "b").exit_code == 0
    assert list(engine.infos) == ["c"]


def test_drop_unknown_lists_the_choices(headrace: Command, engine: FakeEngine) -> None:
    engine.add_many({"hourly": "SELECT 1"})
    result = headrace("drop", "hurly")
    assert result.exit_code == 1
    assert "hourly" in result.stderr


def test_list_shows_sharing_state_and_reason(headrace: Command, engine: FakeEngine) -> None:
    engine.infos = {
        "good": FakeInfo("good", "SELECT avg(price) FROM trades", answers=12),
        "odd": FakeInfo("odd", "SELECT price FROM trades", family="plain"),
        "broken": FakeInfo("broken", "SELECT 1/qty FROM trades", state="quarantined", reason="division by zero"),
    }
    said = headrace("list").stdout
    assert "shared (windows)" in said
    assert "plain" in said
    assert "quarantined" in said
    assert "broken: division by zero" in said


def test_list_json(headrace: Command, engine: FakeEngine) -> None:
    engine.add_many({"a": "SELECT 1"})
    rows = json.loads(headrace("list", "--json").stdout)
    assert rows == [
        {
            "name": "a",
            "stream": "trades",
            "family": "windows",
            "state": "live",
            "reason": "",
            "answers": 0,
            "sql": "SELECT 1",
        }
    ]


def test_a_long_list_is_cut_unless_all_is_asked(headrace: Command, engine: FakeEngine) -> None:
    engine.add_many({f"q{i}": "SELECT 1" for i in range(60)})
    short = headrace("list")
    assert "q49 " in short.stdout
    assert "q50 " not in short.stdout
    assert "10 more" in short.stderr
    assert "q59 " in headrace("list", "--all").stdout


def test_an_empty_list_says_how_to_begin(headrace: Command, engine: FakeEngine) -> None:
    assert "headrace add" in headrace("list").stderr


def test_explain_one_and_all(headrace: Command, engine: FakeEngine) -> None:
    assert headrace("explain").stdout == "plan of everything\n"
    assert headrace("explain", "hourly").stdout == "plan of hourly\n"
