"""Characters and tokens: caps, what is not text, strings and comments as Spark reads them."""

from __future__ import annotations

import pytest

from headrace.config import Config
from headrace.errors import SQLError
from headrace.sql.text import Token, tokenize
from tests.sql.refusals import bound, refused


def tokens(sql: str) -> list[Token]:
    return tokenize(sql, Config())[:-1]


def string(sql: str) -> str:
    (token,) = tokens(sql)
    assert token.kind == "string"
    return token.text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'a'", "a"),
        ('"a"', "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'it\\'s'", "it's"),
        ("'a\\nb\\tc'", "a\nb\tc"),
        ("'\\\\'", "\\"),
        ("'\\u0041\\101\\U0001F600'", "AA😀"),
        ("'\\ud83d\\ude00'", "😀"),
        ("'\\%\\_\\q'", "\\%\\_q"),
        ("r'a\\nb'", "a\\nb"),
        ("'-- no comment /* */ ;'", "-- no comment /* */ ;"),
        ("'${env:HOME}'", "${env:HOME}"),
    ],
)
def test_strings_are_read_as_spark_reads_them(written: str, meant: str) -> None:
    assert string(written) == meant


def test_comments_are_left_out_and_hints_kept() -> None:
    found = tokens(
        "SELECT /*+ WITHIN(80) */ a -- to the end; of line\n/* nested /* comment */ ; */ , b"
    )
    assert [t.text for t in found] == ["SELECT", "WITHIN(80)", "a", ",", "b"]
    assert found[1].kind == "hint"


def test_offsets_point_into_the_text() -> None:
    sql = "SELECT  `a``b` + 1.5D"
    assert [(t.text, sql[t.at : t.end]) for t in tokens(sql)][1:] == [
        ("a`b", "`a``b`"),
        ("+", "+"),
        ("1.5D", "1.5D"),
    ]


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("SELECT 'a FROM trades", "string is not closed"),
        ("SELECT r'a FROM trades", "string is not closed"),
        ('SELECT "a FROM trades', "string is not closed"),
        ("SELECT /* a FROM trades", "comment is not closed"),
        ("SELECT /* /* */ a FROM trades", "comment is not closed"),
        ("SELECT `a FROM trades", "name is not closed"),
        ("SELECT a\x00 FROM trades", "U+0000"),
        ("SELECT \x1b[31m FROM trades", "U+001B"),
        ("SELECT '\ud800' FROM trades", "U+D800"),
        ("SELECT '\\ud800' FROM trades", "surrogate"),
        ("\ufeffSELECT 1 FROM trades", "U+FEFF"),
        ("SELECT 1abc FROM trades", "not a number"),
        ("SELECT ? FROM trades", "parameters"),
        ("SELECT :x FROM trades", "parameters"),
        ("SELECT @x FROM trades", "parameters"),
        ("SELECT ${x} FROM trades", "parameters"),
        ("SELECT a[0] FROM trades", "unexpected character"),
        ("SELECT ~qty FROM trades", "unexpected character"),
        ("SELECT 1 FROM trades; SELECT 2 FROM trades", "one statement"),
        ("SELECT 1 FROM trades;;", "one statement"),
    ],
)
def test_bad_text_is_refused(sql: str, what: str) -> None:
    refused(sql, what)


def test_text_must_be_text() -> None:
    with pytest.raises(SQLError, match="must be text"):
        bound(b"SELECT 1")  # type: ignore[arg-type]


def test_length_is_capped() -> None:
    error = refused(
        "SELECT 1 FROM trades -- " + "x" * 100,
        "sql_length_max=50",
        config=Config.of(sql_length_max=50),
    )
    assert len(str(error)) < 1_000


def test_depth_is_capped() -> None:
    refused(f"SELECT {'(' * 49_000}1{')' * 49_000} FROM trades", "sql_depth_max=200")
    refused(f"SELECT {'abs(' * 300}1{')' * 300} FROM trades", "sql_depth_max=200")
    refused(f"SELECT {'- ' * 300}qty FROM trades", "sql_depth_max=200")
    refused(f"SELECT {'NOT ' * 300}ok FROM trades", "sql_depth_max=200")
    refused(f"SELECT {'CASE WHEN ' * 300}ok FROM trades", "sql_depth_max=200")
    refused(f"SELECT {'+'.join(['qty'] * 20_000)} FROM trades", "sql_depth_max=200")
    refused(f"SELECT {'||'.join(['symbol'] * 5_000)} FROM trades", "sql_depth_max=200")


@pytest.mark.parametrize(
    "form", ["({})", "abs({})", "- {}", "CASE WHEN ok THEN {} END", "CAST({} AS DOUBLE)", "{} + 1"]
)
def test_what_is_within_the_depth_is_bound(form: str) -> None:
    text = "price"
    for _ in range(190):
        text = form.format(text)
    assert bound(f"SELECT {text} AS x FROM trades").outputs[0].name == "x"


def test_thousands_of_conditions_are_fine() -> None:
    for word in ("AND", "OR"):
        conditions = f" {word} ".join(f"qty <> {i}" for i in range(5_000))
        assert bound(f"SELECT qty FROM trades WHERE {conditions}").where is not None


def test_repeated_operands_do_not_explode() -> None:
    text = "ok"
    for _ in range(60):
        text = f"({text} BETWEEN false AND true)"
    refused(f"SELECT {text} AS x FROM trades", "grows too large")


def test_the_in_list_is_capped() -> None:
    choices = ", ".join(map(str, range(12_000)))
    refused(f"SELECT qty FROM trades WHERE qty IN ({choices})", "sql_in_list_max=10,000")
