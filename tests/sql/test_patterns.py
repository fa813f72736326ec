"""Patterns: the safe ones pass, those that may hold a core do not."""

from __future__ import annotations

import pytest

from headrace.config import Config
from tests.sql.refusals import bound, refused

BACKSLASH = "\\"


def escaped(pattern: str) -> str:
    return pattern.replace(BACKSLASH, BACKSLASH * 2).replace("'", "\\'")


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "abc",
        "^a.*b$",
        "[a-z]+",
        "[^0-9_]{2,5}",
        "(ab)*",
        "(?:ab)+c",
        "a|b",
        "(a|b)?",
        r"\d+\.\d+",
        r"\w\s\b",
        "a*?",
        r"[\w.-]+@x",
        "x{3}",
        "(a+)?",
        r"\(\[\{\*",
        "ä+",
        r"^\d+\.\d+\.\d+$",
        "[a-z]+[0-9]+[A-Z]+x",
        ".*foo.*bar.*",
        "^.*foo.*bar",
        "(error|warning|info): .*",
        "a{0,99}" * 10 + "b",
        "[]a-c^-]",
        "[+--]",
        "😀+[😀-😎]?",
        ".{2,}",
    ],
)
def test_safe_patterns_pass(pattern: str) -> None:
    assert bound(f"SELECT symbol RLIKE '{escaped(pattern)}' AS x FROM trades")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a+)+", "exponential"),
        ("(a*)*", "exponential"),
        ("(a|aa)+", "exponential"),
        ("((ab)*)*", "exponential"),
        ("(a+){9}", "exponential"),
        ("(?:a?)*", "exponential"),
        ("(.*a){20}", "exponential"),
        ("a++", "repetition"),
        ("a**", "repetition"),
        ("*a", "nothing to repeat"),
        ("(?=a)", "look-around"),
        ("(?!a)", "look-around"),
        ("(?<n>a)", "look-around"),
        ("(?i)a", "look-around"),
        (r"(a)\1", "escape"),
        (r"\p{L}", "escape"),
        (r"\Qa\E", "escape"),
        ("a\\", "escape"),
        ("(a", "not closed"),
        ("a)", "not opened"),
        ("[a", "class"),
        ("[a&&b]", "class"),
        ("[[a]]", "class"),
        ("a{", "count"),
        ("a{2,1}", "the smaller first"),
        ("a{9999}", "1,000"),
        (".*a.*b.*c.*", "sql_pattern_steps_max=100,000,000"),
        ("a.*b.*c", "begin it with ^"),
        ("^a.*b.*c.*d$", "steps on a text of 1,000 characters"),
        ("(a|aa)" * 20 + "c", "steps"),
        ("(?:a|ab?)" * 20 + "c", "steps"),
        ("xa{0,99}a{0,99}a{0,99}a{0,99}b", "steps"),
        ("x" + "a?" * 30 + "b", "steps"),
        ("(a*a*a*a*b|)", "steps"),
        ("[z-a]", "from a smaller to a larger"),
        ("[b-aß]", "from a smaller to a larger"),
        (r"[a-\d]", "from a smaller to a larger"),
        (r"[\t-\s]", "from a smaller to a larger"),
        ("[😀-a]", "from a smaller to a larger"),
        ("[a-", "class"),
        ("[]", "class"),
        (r"[\b]", "escape"),
        ("(?:[^a]b)*", "recurse"),
        ("(.)+", "recurse"),
        ("^*", "nothing to repeat"),
        (r"\b+", "nothing to repeat"),
        ("()*", "exponential"),
        ("(^a)*", "exponential"),
        ("a+*", "repetition"),
        ("a+?+", "repetition"),
        ("a{2}{3}", "repetition"),
        ("(" * 30 + "a" + ")" * 30, "deeper than 20"),
        ("x" + "a*" * 120 + "b", "1e+30 steps"),
        ("xa{00001}", "begins a count"),
    ],
)
def test_unsafe_patterns_are_refused(pattern: str, words: str) -> None:
    refused(f"SELECT symbol RLIKE '{escaped(pattern)}' FROM trades", words)


def test_pattern_length_is_capped() -> None:
    refused(
        f"SELECT symbol RLIKE '{'a' * 50}' FROM trades",
        "sql_pattern_length_max=10",
        config=Config.of(sql_pattern_length_max=10),
    )


@pytest.mark.parametrize(
    "pattern", ["a%", "%a%b%", "_", r"a\\%", r"\\\\", "%%%%%%%%%%%%%%", "%a%a%a%a%a%a%a%a%a%a%b"]
)
def test_like(pattern: str) -> None:
    assert bound(f"SELECT symbol LIKE '{pattern}' AS x, symbol ILIKE '{pattern}' AS y FROM trades")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"symbol LIKE 'a\\'", "must stand before"),
        (r"symbol LIKE '\\a'", "must stand before"),
        ("symbol LIKE 'a!b' ESCAPE '!'", "must stand before"),
        ("symbol LIKE 'a' ESCAPE '!!'", "one character"),
        ("symbol LIKE 'a' ESCAPE symbol", "in quotes"),
        ("symbol LIKE 'a' ESCAPE '😀'", "below U+10000"),
        ("symbol ILIKE 'a' ESCAPE ''", "one character"),
        ("symbol ILIKE 'Ab' ESCAPE 'a'", "not a letter"),
        ("symbol ILIKE 'a' ESCAPE '\u0307'", "not a letter"),
        ("symbol ILIKE 'Σ%a%b'", "small letters"),
        (f"symbol LIKE '{'_' * 1001}'", "sql_pattern_length_max=1,000"),
        ("symbol LIKE symbol", "must be a constant"),
        ("symbol RLIKE symbol", "must be a constant"),
    ],
)
def test_bad_like(text: str, words: str) -> None:
    refused(f"SELECT {text} FROM trades", words)
