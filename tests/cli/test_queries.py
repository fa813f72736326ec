"""add, drop, list, explain."""

from __future__ import annotations

import json
from collections.abc import Callable

from typer.testing import Result

from headrace.cost_attribution import QueryCost, StreamCost
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
        "broken": FakeInfo(
            "broken", "SELECT 1/qty FROM trades", state="quarantined", reason="division by zero"
        ),
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


def costs(queries: int) -> StreamCost:
    found = tuple(
        QueryCost(f"q{i}", "windows", 0.001 * (queries - i), i, i != 1, "SELECT 1")
        for i in range(queries)
    )
    return StreamCost("trades", 4, 3, sum(q.seconds for q in found), found)


def test_list_cost_shows_the_dearest_first_and_both_totals(
    headrace: Command, engine: FakeEngine
) -> None:
    engine.bills = [costs(3)]
    said = headrace("list", "--cost").stdout
    assert "trades: rounds 4 to 6" in said
    assert said.index("q0") < said.index("q1") < said.index("q2")
    assert "gone" in said and "3.0000" in said and "50.00%" in said
    assert "sum of all 3: 6.000 ms a round; measured: 6.000 ms a round" in said


def test_list_cost_cut_short_still_adds_up(headrace: Command, engine: FakeEngine) -> None:
    engine.bills = [costs(60)]
    said = headrace("list", "--cost").stdout
    assert "… 10 more" in said and "55.0000" in said  # 10 + 9 + … + 1
    assert "q59" in headrace("list", "--cost", "--all").stdout


def test_list_cost_json(headrace: Command, engine: FakeEngine) -> None:
    engine.bills = [costs(2)]
    (stream,) = json.loads(headrace("list", "--cost", "--json").stdout)
    assert stream["stream"] == "trades" and stream["rounds"] == 3
    assert sum(q["seconds"] for q in stream["queries"]) == stream["measured_s"]


def test_list_cost_before_the_first_round_says_what_to_do(
    headrace: Command, engine: FakeEngine
) -> None:
    assert "headrace run" in headrace("list", "--cost").stderr
