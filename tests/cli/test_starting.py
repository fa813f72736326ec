"""init: a home, data and a script; nothing is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import Result

from headrace.config import Config
from headrace.sql.statements import CreateQuery, CreateStream, parse_script
from tests.cli.fakes import FakeEngine

Command = Callable[..., Result]


def test_init_makes_what_run_needs(headrace: Command, engine: FakeEngine) -> None:
    result = headrace("init", "shop")
    assert result.exit_code == 0, result.stderr
    assert Path("shop/race").is_dir()
    assert pq.read_table("shop/data/trades").num_rows == 60_000
    assert "cd shop && headrace run queries.sql" in result.stderr
    kinds = [type(s) for s in parse_script(Path("shop/queries.sql").read_text(), Config())]
    assert kinds == [CreateStream, CreateQuery, CreateQuery, CreateQuery]


def test_init_overwrites_nothing(headrace: Command, engine: FakeEngine) -> None:
    Path("queries.sql").write_text("mine")
    result = headrace("init")
    assert result.exit_code == 1
    assert "queries.sql is there already" in result.stderr
    assert Path("queries.sql").read_text() == "mine"
