"""Query texts and definitions nobody can run: a clear error at once, and nothing changes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace
from headrace.config import Config
from headrace.errors import (
    CatalogError,
    HeadraceError,
    HeadraceWarning,
    PlanError,
    ServingError,
    SourceError,
    SQLError,
)
from tests.engine.race import DDL, said

WINDOW = "GROUP BY window(ts, '10 seconds')"


@pytest.fixture
def eng(tmp_path: Path) -> headrace.Engine:
    """An engine that never needs Spark."""
    engine = headrace.Engine(tmp_path / "race")
    engine.create_stream("s", f"parquet:{tmp_path}", schema=DDL, time="ts")
    engine.add(f"SELECT count(*) AS c FROM s {WINDOW}", name="good")
    return engine


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC k FROM s", ["SELEC", "^"]),
        ("SELECT k FROM s WHERE", ["^"]),
        ("SELECT k FROM s; DROP TABLE s", ["^"]),
        ("", ["SELECT"]),
        ("SELECT kk FROM s", ["kk", "choices", "k", "^"]),
        ("SELECT k FROM t", ["unknown stream or table", "t", "s", "^"]),
        (f"SELECT sum(k) FROM s {WINDOW}", ["sum", "string"]),
        ("SELECT k + ts FROM s", ["string", "number", "CAST"]),
        ("SELECT k FROM s WHERE n", ["int", "condition", "compare"]),
        ("SELECT count(*) FROM s GROUP BY window(n, '10 seconds')", ["ts", "n"]),
        ("SELECT count(*) FROM s GROUP BY window(k, '10 seconds')", ["ts", "k"]),
        ("SELECT count(*) FROM s GROUP BY window(ts, '10 seconds', '0 seconds')", ["0 seconds"]),
        ("SELECT count(*) FROM s GROUP BY window(ts, '-10 seconds')", ["-10 seconds"]),
        ("SELECT count(*) FROM s GROUP BY window(ts, '0 seconds')", ["0 seconds"]),
        ("SELECT count(*) FROM s GROUP BY window(ts, '1 month')", ["month", "days"]),
        ("SELECT reflect('java.lang.Runtime', 'getRuntime') FROM s", ["reflect", "^"]),
        ("SELECT `reflect`('java.lang.Runtime', 'getRuntime') FROM s", ["reflect"]),
        ("SELECT java_method('java.lang.Runtime', 'getRuntime') FROM s", ["java_method"]),
        ("SELECT * FROM text.`/etc/passwd`", ["^"]),
        ("SELECT * FROM parquet.`/etc`", ["^"]),
        ("SELECT " + "(" * 50_000 + "n" + ")" * 50_000 + " FROM s", ["sql_length_max"]),
        ("SELECT " + "(" * 40_000 + "n" + ")" * 40_000 + " FROM s", ["sql_depth_max"]),
        ("SELECT " + "-" * 40_000 + "n FROM s", ["^"]),
        ("SELECT " + "NOT " * 20_000 + "true FROM s", ["sql_depth_max"]),
        ("SELECT n FROM s WHERE k IN (" + ", ".join(["'a'"] * 10_001) + ")", ["sql_in_list_max"]),
        ("SELECT '" + "a" * 100_000 + "' FROM s", ["sql_length_max"]),
    ],
    ids=lambda v: v[:40] if isinstance(v, str) else "",
)
def test_a_bad_query_is_refused(eng: headrace.Engine, sql: str, words: list[str]) -> None:
    before = eng.catalog.version
    with pytest.raises(SQLError) as found:
        eng.add(sql, name="bad")
    for word in words:
        assert word.lower() in str(found.value).lower(), str(found.value)
    assert len(str(found.value)) < 2_000
    assert eng.catalog.version == before
    assert [q.name for q in eng.queries()] == ["good"]


opened: Callable[..., headrace.Engine] = headrace.Engine


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT a.k FROM s a JOIN s b ON b.n - a.n BETWEEN 2 AND 1", "EMPTY_RANGE"),
        ("SELECT a.k FROM s a JOIN s b ON a.k = b.k WHERE a.n > 3 AND a.n < 3", "EMPTY_RANGE"),
        ("SELECT a.k FROM s a JOIN s b ON b.n > a.n AND b.n < a.n", "EMPTY_RANGE"),
        ("SELECT a.k FROM s a JOIN s b ON a.x = b.x AND power(a.x, -1) < 0", "ZEROS_TOLD_APART"),
    ],
)
def test_a_join_that_cannot_run_is_refused(eng: headrace.Engine, sql: str, code: str) -> None:
    before = eng.catalog.version
    with pytest.raises(PlanError) as found:
        eng.add_many({"fine": "SELECT a.k FROM s a JOIN s b ON a.k = b.k", "bad": sql})
    assert found.value.code == code and "'bad'" in str(found.value)
    assert eng.catalog.version == before and [q.name for q in eng.queries()] == ["good"]


@pytest.mark.parametrize(
    "where", ["", "WHERE a.k < b.k", "WHERE abs(b.n - a.n) >= 0", "WHERE upper(a.k) = b.k"]
)
def test_a_join_of_every_pair_is_warned_of(eng: headrace.Engine, where: str) -> None:
    with pytest.warns(UserWarning, match="every row of s meets every row of s in 'all'"):
        eng.add(f"SELECT a.k FROM s a CROSS JOIN s b {where}", name="all")
    with pytest.warns(HeadraceWarning) as told:
        eng.add_many({"all_too": f"SELECT a.k FROM s a CROSS JOIN s b {where}"})
        eng.add(f"SELECT a.k FROM s a CROSS JOIN s b {where}", name="all_as_well")
    assert [own.filename for own in told] == [__file__] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eng.add("SELECT a.k FROM s a JOIN s b ON a.k = b.k", name="some")
    assert [q.name for q in eng.queries()] == ["good", "all", "all_too", "all_as_well", "some"]


def test_one_bad_query_of_many_adds_none(eng: headrace.Engine) -> None:
    with pytest.raises(SQLError):
        eng.add_many({"a": f"SELECT count(*) FROM s {WINDOW}", "b": "SELECT nope FROM s"})
    assert [q.name for q in eng.queries()] == ["good"]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a/b", "../up", "x" * 201, "a\n", "ä b"])
def test_a_bad_name(eng: headrace.Engine, name: str) -> None:
    with pytest.raises(CatalogError) as found:
        eng.add("SELECT k FROM s", name=name)
    said(found.value)


def test_a_name_that_is_taken(eng: headrace.Engine) -> None:
    with pytest.raises(CatalogError) as found:
        eng.add("SELECT k FROM s", name="good")
    said(found.value, "NAME_TAKEN", "good", "drop")


def test_a_stream_with_another_definition(eng: headrace.Engine, tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as found:
        eng.create_stream("S", f"parquet:{tmp_path}", schema="ts TIMESTAMP", time="ts")
    said(found.value, "another definition", "`k` STRING")


def test_an_unknown_query(eng: headrace.Engine) -> None:
    for ask in (eng.results, eng.watch, eng.explain, eng.drop):
        with pytest.raises(CatalogError) as found:
            ask("goood")
        said(found.value, "UNKNOWN_QUERY", "goood", "choices: good")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda e: e.add("SELECT k FROM s", name=5),
            ["name must be a text", "5, of type int", "name='near'"],
        ),
        (lambda e: e.add(None), ["sql must be a text", "None, nothing", "SELECT"]),
        (
            lambda e: e.add_many(["SELECT k FROM s"]),
            ["mapping of names to SQL", "of type list", "eng.add("],
        ),
        (lambda e: e.add_many("SELECT k FROM s"), ["mapping of names to SQL", "of type str"]),
        (lambda e: e.add_many({5: "SELECT k FROM s"}), ["whose names are texts", "5, of type int"]),
        (lambda e: e.add_many({"q": None}), ["that of 'q'", "None, nothing"]),
        (lambda e: e.drop(5), ["query must be a text", "5, of type int", "eng.queries()"]),
        (lambda e: e.results(None), ["query must be a text", "None, nothing", "eng.queries()"]),
        (lambda e: e.watch(["good"]), ["query must be a text", "of type list"]),
        (lambda e: e.explain(b"good"), ["query must be a text", "of type bytes"]),
        (
            lambda e: e.notices("s", after="x"),
            ["after must be the number of a round", "'x', of type str", "-1"],
        ),
        (lambda e: e.notices("s", after=True), ["after must be the number of a round", "True"]),
        (lambda e: e.notices(None), ["stream must be a text", "None"]),
        (
            lambda e: e.create_stream(5, "parquet:data", schema=DDL, time="ts"),
            ["name must be a text"],
        ),
        (lambda e: e.drop_many(None), ["queries must be names of queries", "None"]),
        (lambda e: e.drop_many([b"good"]), ["query must be a text", "of type bytes"]),
        (lambda e: opened(None), ["home must be the path of a folder", "None"]),
        (lambda e: opened(b"x"), ["home must be the path of a folder", "of type bytes"]),
        (
            lambda e: opened("x", config={"queries_max": 1}),
            ["config must be a Config", "of type dict"],
        ),
        (
            lambda e: e.create_stream("t", "parquet:data", schema=5, time="ts"),
            ["schema must be a text", "DOUBLE"],
        ),
        (
            lambda e: e.create_stream("t", "parquet:data", schema=DDL, time=None),
            ["time must be a text", "time='ts'"],
        ),
        (
            lambda e: e.create_stream("t", "parquet:data", schema=DDL, time="ts", late=10),
            ["late must be", "10 seconds"],
        ),
        (
            lambda e: e.create_table("t", "parquet:data", schema=DDL, key=["k"]),
            ["key must be a text", "of type list"],
        ),
        (
            lambda e: e.create_table("t", "parquet:data", schema=DDL, key="k", deleted=False),
            ["deleted must be a text"],
        ),
    ],
)
def test_an_argument_of_another_kind(
    eng: headrace.Engine, call: Callable[[headrace.Engine], object], words: list[str]
) -> None:
    before = eng.catalog.version
    with pytest.raises(HeadraceError) as found:
        call(eng)
    said(found.value, "ARGUMENT", "next:", *words)
    assert eng.catalog.version == before


@pytest.mark.parametrize(
    "option",
    [
        "maxFilesPerTrigger=zero",
        "maxFilesPerTrigger=-1",
        "maxFilesPerTrigger=0",
        "maxFilesPerTrigger=",
        "maxFilesPerTrigger=٣",
    ],
)
def test_an_option_that_counts_is_a_number(eng: headrace.Engine, option: str) -> None:
    with pytest.raises(HeadraceError) as found:
        eng.create_stream("t", f"parquet:data?{option}", schema=DDL, time="ts")
    said(found.value, "maxFilesPerTrigger is a whole number from 1 on")


@pytest.mark.parametrize("since", [-1, True, "3", 1.5, 7 << 32])
def test_a_place_to_resume_from_that_is_none(eng: headrace.Engine, since: object) -> None:
    with pytest.raises(ServingError) as found:
        eng.watch("good", since=since)  # type: ignore[arg-type]
    said(found.value, str(since), ".seq")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("data/trades", ["parquet:PATH"]),
        ("orc:data", ["parquet:PATH"]),
        ("parquet:", ["parquet:PATH"]),
        ("parquet:data?maxFilePerTrigger=1", ["maxFilePerTrigger", "maxFilesPerTrigger"]),
        ("csv:data?path=/etc", ["path", "header"]),
        ("rate://many", ["rate://1000"]),
        ("rate://0", ["rate://1000"]),
        ("rate://10", ["TIMESTAMP and one BIGINT"]),
        ("kafka://host:9092", ["topic"]),
    ],
)
def test_a_bad_source(eng: headrace.Engine, source: str, words: list[str]) -> None:
    with pytest.raises(SourceError) as found:
        eng.create_stream("t", source, schema=DDL, time="ts")
    said(found.value, *words)
    assert list(eng.catalog.relations) == ["s"]


@pytest.mark.parametrize(
    ("schema", "time", "late", "words"),
    [
        ("k STRING", "ts", "0 seconds", ["TIMESTAMP", "ts"]),
        (DDL, "n", "0 seconds", ["n int", "ts"]),
        (DDL, "ts", "-1 seconds", ["negative"]),
        (DDL, "ts", "soon", ["soon", "90 minutes"]),
        ("k STRIN, ts TIMESTAMP", "ts", "0 seconds", ["STRIN"]),
        ("k STRING, K INT, ts TIMESTAMP", "ts", "0 seconds", ["twice", "K"]),
        (None, "ts", "0 seconds", ["schema"]),
    ],
)
def test_a_bad_stream(
    eng: headrace.Engine, schema: str | None, time: str, late: str, words: list[str]
) -> None:
    with pytest.raises(HeadraceError) as found:
        eng.create_stream("t", "parquet:data", schema=schema, time=time, late=late)
    said(found.value, *words)


@pytest.mark.parametrize("shown", ["count(*)", "max(k)"], ids=["shared", "plain"])
def test_a_window_of_too_many_panes(eng: headrace.Engine, shown: str) -> None:
    with pytest.raises(PlanError) as found:
        eng.add(f"SELECT {shown} AS n FROM s GROUP BY window(ts, '999999 hours', '1 millisecond')")
    said(found.value, "panes_max", "3,599,996,400,000 panes")
    assert [q.name for q in eng.queries()] == ["good"]


def test_a_bad_key(eng: headrace.Engine) -> None:
    with pytest.raises(CatalogError) as found:
        eng.create_table("t", "parquet:data", schema="k STRING, v INT", key="kk")
    said(found.value, "kk", "choices: k, v")


@pytest.mark.parametrize(
    ("deleted", "words"),
    [
        ("away", ["not a column", "away", "choices: gone"]),
        ("", ["not a column", "choices: gone"]),
        ("v", ["must be BOOLEAN", "v int", "choices: gone"]),
        ("K", ["must not be of the key", "got:     k", "choices: gone"]),
    ],
)
def test_a_bad_column_of_deletions(eng: headrace.Engine, deleted: str, words: list[str]) -> None:
    with pytest.raises(CatalogError) as found:
        eng.create_table(
            "t", "parquet:data", schema="k BOOLEAN, v INT, gone BOOLEAN", key="k", deleted=deleted
        )
    said(found.value, *words, "outside the key")
    assert "t" not in eng.catalog.relations


def test_a_setting_that_is_none() -> None:
    with pytest.raises(HeadraceError) as found:
        Config.of(ring_byte_max=1)
    said(found.value, "ring_byte_max", "ring_bytes_max")


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(HeadraceError) as found:
        _ = headrace.Engine(tmp_path / "race").spark
    said(found.value, "JAVA", "Java 17", "make java")


def test_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HeadraceError) as found:
        _ = headrace.Engine(tmp_path / "race").spark
    said(found.value, "JAVA", "Java 11")
