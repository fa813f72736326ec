"""Families are asked in order, and nobody but the registry names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace
from headrace.families import registry
from headrace.families.contract import Claim, Refusal
from headrace.families.registry import run_of
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import Relation

FIELDS = parse_schema("k STRING, n INT, ts TIMESTAMP")
RELATIONS = {
    "s": Relation("s", "parquet:/s", FIELDS, "ts", 0),
    "t": Relation("t", "parquet:/t", FIELDS, key=("k",)),
}
SOURCES = Path(headrace.__file__).parent
NOTICES = {
    "__init__.py",
    "engine/ask.py",
}  # `eng.notices` is about joins and filters by what it says
FOLDERS = [p.name for p in (SOURCES / "families").iterdir() if (p / "family.py").is_file()]


def bound(sql: str) -> Query:
    return bind(sql, RELATIONS, name="q")


@pytest.mark.parametrize(
    ("sql", "family", "reason"),
    [
        ("SELECT count(*) AS c FROM s GROUP BY window(ts, '5 seconds')", "windows", ""),
        ("SELECT max(k) AS c FROM s GROUP BY window(ts, '5 seconds')", "plain", "max of a string"),
        ("SELECT k, count(*) AS c FROM s GROUP BY k", "plain", "it has no window"),
        ("SELECT k FROM s WHERE n > 3", "joins", ""),
        ("SELECT k FROM s", "plain", "it has no range of one attribute"),
        ("SELECT k FROM t WHERE n > 3", "plain", "it is a filter or projection: it has no window"),
        ("SELECT s.k FROM s JOIN t ON s.n - t.n BETWEEN 0 AND 1", "joins", ""),
    ],
)
def test_the_first_that_claims_a_query_runs_it(sql: str, family: str, reason: str) -> None:
    run = run_of(bound(sql), RELATIONS.__getitem__)
    assert run.family.name == family
    assert run.reason == "" if not reason else reason in run.reason


def test_the_last_family_that_knows_the_query_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Claim | Refusal] = {
        "a": Refusal("too odd"),
        "b": Refusal(),
        "c": Claim("mine"),
    }

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def claims(self, query: Query, relation_of: object) -> Claim | Refusal:
            return answers[self.name]

    monkeypatch.setattr(registry, "FAMILIES", tuple(map(Fake, answers)))
    run = run_of(bound("SELECT k FROM s"), RELATIONS.__getitem__)
    assert (run.family.name, run.claim.asked, run.reason) == ("c", "mine", "too odd")
    answers["a"] = Claim("first")
    run = run_of(bound("SELECT k FROM s"), RELATIONS.__getitem__)
    assert (run.family.name, run.claim.asked, run.reason) == ("a", "first", "")


def test_nobody_but_the_registry_imports_a_family() -> None:
    assert sorted(FOLDERS) == sorted(family.name for family in registry.FAMILIES)
    name = re.compile(rf"headrace\.families\.({'|'.join(FOLDERS)})\b")
    found = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if name.search(path.read_text())
    }
    inside = {
        path
        for path in found
        if path.split("/")[0] == "bench" or path.split("/")[1:2] in [[f] for f in FOLDERS]
    }
    assert found - inside - {"families/registry.py"} == NOTICES
