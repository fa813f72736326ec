"""Scripts: declared once or again, queries together, a SELECT for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from headrace.cli.script import same_sql
from tests.cli.fakes import FakeAnswer, FakeEngine

Command = Callable[..., Result]

STREAM = """
CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP)
USING parquet OPTIONS (path 'data/trades', time 'ts', late '10 seconds');
"""
QUERIES = """
-- two of them
CREATE QUERY a AS SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 minute');
CREATE QUERY b AS SELECT symbol, avg(price) AS p FROM trades GROUP BY symbol, window(ts, '1 hour');
"""


@pytest.fixture
def run(headrace: Command, engine: FakeEngine) -> Callable[[str], Result]:
    def call(text: str) -> Result:
        Path("queries.sql").write_text(text)
        return headrace("run", "queries.sql")

    return call


def asked(engine: FakeEngine, what: str) -> list[tuple[object, ...]]:
    return [call for call in engine.calls if call[0] == what]


def test_a_file_declares_and_runs(run: Callable[[str], Result], engine: FakeEngine) -> None:
    result = run(STREAM + QUERIES)
    assert result.exit_code == 0, result.stderr
    (created,) = asked(engine, "create_stream")
    assert created[1:3] == ("trades", "parquet:data/trades")
    assert created[4:] == ("ts", "10 seconds")
    assert asked(engine, "add_many") == [("add_many", "a", "b")]
    assert asked(engine, "run") == [("run",)]
    assert "2 rounds" in result.stdout


def test_the_same_file_again_adds_nothing(run: Callable[[str], Result], engine: FakeEngine) -> None:
    run(STREAM + QUERIES)
    assert run(STREAM + QUERIES.replace("AS SELECT", "AS\n  SELECT")).exit_code == 0
    assert len(asked(engine, "add_many")) == 1


def test_another_text_under_a_known_name_is_an_error(
    run: Callable[[str], Result], engine: FakeEngine
) -> None:
    run(STREAM + QUERIES)
    result = run(QUERIES.replace("1 hour", "2 hours"))
    assert result.exit_code == 1
    assert "[NAME_TAKEN]" in result.stderr
    assert "headrace drop b" in result.stderr


def test_a_name_declared_twice_is_an_error(run: Callable[[str], Result]) -> None:
    result = run(
        QUERIES
        + "CREATE QUERY a AS SELECT max(price) AS n FROM trades GROUP BY window(ts, '1 minute');"
    )
    assert result.exit_code == 1
    assert "twice" in result.stderr


def test_statements_keep_their_order(run: Callable[[str], Result], engine: FakeEngine) -> None:
    run(
        QUERIES
        + "DROP QUERY a; CREATE QUERY c AS SELECT max(price) AS m FROM trades GROUP BY window(ts, '1 minute');"
    )
    done = [call for call in engine.calls if call[0] in ("add_many", "drop")]
    assert done == [("add_many", "a", "b"), ("drop", "a"), ("add_many", "c")]


def test_select_is_a_query_for_a_moment(headrace: Command, engine: FakeEngine) -> None:
    engine.answers = [FakeAnswer(i, n=i) for i in range(25)]
    result = headrace(
        "sql", text="SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 minute');"
    )
    assert result.exit_code == 0, result.stderr
    assert engine.infos == {}
    assert "19" in result.stdout
    assert "24" not in result.stdout
    assert "first 20 of 25 answers" in result.stderr


def test_explain_and_show(headrace: Command, engine: FakeEngine) -> None:
    engine.add_many({"a": "SELECT 1"})
    result = headrace("sql", text="EXPLAIN a; SHOW QUERIES;")
    assert "plan of a" in result.stdout
    assert "shared (windows)" in result.stdout


def test_a_script_that_does_not_parse_changes_nothing(
    run: Callable[[str], Result], engine: FakeEngine
) -> None:
    result = run(STREAM + "CREATE QUERY oops AS SELEKT 1;")
    assert result.exit_code == 1
    assert "[SQL" in result.stderr
    assert not asked(engine, "create_stream")


def test_same_sql_sees_through_layout_only() -> None:
    assert same_sql("SELECT  a\nFROM t", "SELECT a FROM t ;")
    assert same_sql("SELECT a -- note\nFROM t", "SELECT a FROM t")
    assert not same_sql("SELECT 'a  b' FROM t", "SELECT 'a b' FROM t")
    assert not same_sql("SELECT a FROM t", "SELECT b FROM t")


def test_a_table_of_a_file(run: Callable[[str], Result], engine: FakeEngine) -> None:
    table = "CREATE TABLE stock (symbol STRING, gone BOOLEAN, PRIMARY KEY (symbol)) USING json OPTIONS (path 'x'{});"
    query = "CREATE QUERY n AS SELECT count(*) AS n FROM stock;"
    assert (
        run(
            table.format(", deleted 'gone'") + table.format("").replace("stock", "shelf") + query
        ).exit_code
        == 0
    )
    assert [(c[1], c[2], *c[4:]) for c in asked(engine, "create_table")] == [
        ("stock", "json:x", "symbol", "gone"),
        ("shelf", "json:x", "symbol", None),
    ]
