"""`drop_many`: all or none, with one write, for whoever has the home open."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import HeadraceError

SQL = "SELECT count(*) AS n FROM s GROUP BY window(ts, '1 minute')"


@pytest.fixture
def eng(tmp_path: Path) -> headrace.Engine:
    eng = headrace.Engine(tmp_path / "race")
    (tmp_path / "s").mkdir()
    eng.create_stream("s", f"parquet:{tmp_path / 's'}", schema="ts TIMESTAMP", time="ts")
    eng.add_many({f"q{i}": SQL for i in range(6)})
    return eng


def names(eng: headrace.Engine) -> list[str]:
    return sorted(info.name for info in eng.queries())


def test_those_named_go_and_others_stay(eng: headrace.Engine) -> None:
    other = headrace.Engine(eng.home.root)
    version = eng.catalog.version
    eng.drop_many(f"q{i}" for i in (1, 3, 5))
    assert names(eng) == names(other) == ["q0", "q2", "q4"]
    assert eng.catalog.version > version
    eng.add(SQL, name="q1")  # the name is free, the query is another
    assert names(other) == ["q0", "q1", "q2", "q4"]


def test_none_goes_if_one_is_not_there(eng: headrace.Engine) -> None:
    before = (eng.home.root / "catalog.log").read_bytes()
    with pytest.raises(HeadraceError, match="q9"):
        eng.drop_many(["q0", "q9"])
    assert names(eng) == [f"q{i}" for i in range(6)]
    assert (eng.home.root / "catalog.log").read_bytes() == before


def test_it_is_one_write(eng: headrace.Engine) -> None:
    before = (eng.home.root / "catalog.log").read_bytes()
    eng.drop_many([f"q{i}" for i in range(6)])
    after = (eng.home.root / "catalog.log").read_bytes()
    assert after.startswith(before) and after[len(before) :].count(b"\n") == 1
    assert names(eng) == []
    eng.drop_many([])
    assert (eng.home.root / "catalog.log").read_bytes() == after
