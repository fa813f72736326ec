"""Regular expressions: what we accept compiles in Java, means there what we think, and is never
slow."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.config import Config
from headrace.runtime.versions import lacking
from headrace.sql import regex
from headrace.sql.patterns import check_like, check_regex, like_regex
from headrace.sql.regex import Chars, complement, overlap, union
from headrace.sql.regex_work import steps
from headrace.sql.types import MismatchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = Config()
LIMIT_S = (
    20.0  # of a pattern on a text of 1,000 characters: the bound means a second; machines are busy
)
PIECES = (
    "a",
    "b",
    "é",
    "😀",
    "\n",
    "\x00",
    " ",
    "-",
    "]",
    "}",
    "&",
    "^",
    "$",
    ".",
    "|",
    "(",
    "(?:",
    ")",
    "*",
    "+",
    "?",
    "{2}",
    "{002}",
    "{00001}",
    "{00,0003}",
    "{1,}",
    "{0,3}",
    "{3,1}",
    "{",
    "\\d",
    "\\W",
    "\\s",
    "\\b",
    "\\B",
    "\\t",
    "\\n",
    "\\.",
    "\\\\",
    "\\_",
    "\\-",
    "[ab]",
    "[^ab]",
    "[a-z]",
    "[z-a]",
    "[a-\\d]",
    "[\\w-z]",
    "[a-]",
    "[-a]",
    "[]a]",
    "[^]a]",
    "[a-b-c]",
    "[😀-😎]",
    "[é-ü^]",
    "[\\^\\]]",
    "[",
    "\\p",
    "\\Q",
    "\\1",
    "(?=",
    "#",
    "'",
    "\\'",
)
MEMBERS = (
    "a",
    "b",
    "c",
    "z",
    "-",
    "^",
    "]",
    "é",
    "😀",
    "😎",
    "\\d",
    "\\W",
    "\\s",
    "\\]",
    "\\-",
    "\\\\",
    "\\t",
    ".",
    "$",
    " ",
    "\n",
    "\x00",
    "0",
    "_",
    "|",
    "(",
    "*",
)
SAMPLE = "abcz-^]é😀😎05 \t\n\x00\\.$_|(*A~\u0085\u2028ÿ"
LOOPS = (
    "a",
    "b",
    "[ab]",
    ".",
    "a*",
    "a+",
    "b?",
    "(a|aa)",
    "(a|b)",
    "a{0,9}",
    "a{0,99}",
    "(ab)*",
    "(?:ab){0,9}",
    "\\w*",
    "a*?",
    ".*",
    "[^b]+",
    "(a|b|)",
    "(a*|b)",
    "\\d",
    "$",
    "\\b",
    "ab",
)


def accepted(pattern: str) -> str | None:
    try:
        return check_regex(pattern, CONFIG)
    except MismatchError:
        return None


def java(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.util.regex.Pattern


def test_what_is_accepted_compiles(spark: SparkSession, seed: int) -> None:
    """And what Java is given instead finds the same."""
    draw, compiled = random.Random(seed), 0
    for _ in range(4_000):
        pattern = "".join(draw.choices(PIECES, k=draw.randint(1, 6)))
        found = accepted(pattern)
        if found is not None:
            theirs, ours = java(spark).compile(pattern), java(spark).compile(found)
            for text in (
                "",
                *("".join(draw.choices("ab 1é😀\n", k=draw.randint(1, 7))) for _ in range(3)),
            ):
                assert theirs.matcher(text).find() == ours.matcher(text).find(), (
                    pattern,
                    found,
                    text,
                )
            compiled += 1
    assert compiled > 200


def test_classes_hold_what_java_finds_in_them(spark: SparkSession, seed: int) -> None:
    draw, checked = random.Random(seed), 0
    for _ in range(300):
        inside = "".join(
            draw.choice(MEMBERS) + ("-" if draw.random() < 0.3 else "")
            for _ in range(draw.randint(1, 4))
        )
        pattern = f"[{draw.choice(['', '^'])}{inside}]"
        try:
            ((item,),) = regex.parse(pattern).ways
        except (MismatchError, ValueError):
            continue
        assert isinstance(item, Chars)
        compiled, checked = java(spark).compile(pattern), checked + 1
        ours = "".join(c for c in SAMPLE if overlap(item.ranges, ((ord(c), ord(c)),)))
        assert ours == "".join(c for c in SAMPLE if compiled.matcher(c).matches()), pattern
    assert checked > 100


@pytest.mark.parametrize(
    "pattern", ["\\d", "\\D", "\\w", "\\W", "\\s", "\\S", ".", "é", "\\t", "\\$", "😀"]
)
def test_single_characters_are_javas(spark: SparkSession, pattern: str) -> None:
    ((item,),) = regex.parse(pattern).ways
    assert isinstance(item, Chars)
    for char in SAMPLE + "\x0b\x0c\r\x1c\xa0":
        ours = overlap(item.ranges, ((ord(char), ord(char)),))
        assert ours == java(spark).compile(pattern).matcher(char).matches(), repr(char)


def test_sets_of_characters() -> None:
    assert union(((3, 5),), ((1, 2), (9, 9)), ((4, 7),)) == ((1, 7), (9, 9))
    assert complement(complement(((1, 7), (9, 9)))) == ((1, 7), (9, 9))
    assert complement(((0, regex.LAST),)) == ()


def hard_texts(length: int, draw: random.Random) -> list[str]:
    """Texts that make patterns over a and b try again: long runs, and an end that nothing
    matches."""
    mixed = "".join(draw.choices("aab", k=length))
    return [
        run + end for run in ("a" * length, "ab" * (length // 2), mixed) for end in ("", "!", "c\n")
    ]


def took(spark: SparkSession, pattern: str, length: int, draw: random.Random) -> float:
    matchers = [java(spark).compile(pattern).matcher(text) for text in hard_texts(length, draw)]
    began = time.perf_counter()
    for matcher in matchers:
        matcher.find()
    return time.perf_counter() - began


@pytest.mark.timeout(300)
def test_what_is_accepted_is_quick(spark: SparkSession, seed: int) -> None:
    draw, asked = random.Random(seed), 0
    for _ in range(150):
        pattern = draw.choice(["", "", "^"]) + "".join(draw.choices(LOOPS, k=draw.randint(2, 7)))
        pattern += draw.choice(["", "c", "$", "[xy]"])
        found = accepted(pattern)
        if found is not None:
            asked += 1
            assert took(spark, found, 1_000, draw) < LIMIT_S, pattern
    assert asked > 20


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "pattern",
    [
        "(a|aa)" * 12 + "c",
        "b" + "a?" * 13 + "c",
        "ba{0,99}a{0,9}c",
        "^a*a*c",
        "^(a|b)c",
        "[ab]+c",
        "a.*b.*",
        "^.*a.*c",
        "(ab)*(ab){0,99}c",
        "(?:a|b)(?:a|b)(?:a|b)c",
        ".*?a.*?c",
        "[a-b]{1,900}c",
        "(a|b|)(a|b|)(a|b|)c",
    ],
)
def test_patterns_near_the_bound_are_quick(spark: SparkSession, pattern: str, seed: int) -> None:
    assert took(spark, check_regex(pattern, CONFIG), 1_000, random.Random(seed)) < LIMIT_S


@pytest.mark.parametrize(
    "pattern",
    [
        ".*",
        ".+x",
        ".{0,1000}x",
        "[^b]*",
        "(ab)*x",
        "(?:ab)+",
        "(.b){0,1000}",
        "[a😀]+x",
        ".*?x",
        ".{2,}x",
        "[^b]{3,}x",
        "(?:[^b]b){5,900}x",
        "." * 999,
    ],
)
def test_long_texts_do_not_end_the_stack(spark: SparkSession, pattern: str) -> None:
    found = check_regex(pattern, CONFIG)
    for text in ("ab" * 100_000, "a😀" * 20_000, "ab😀b" * 20_000):
        java(spark).compile(f"^(?:{found})").matcher(text).find()


@pytest.mark.parametrize(
    ("pattern", "shorter"),
    [
        (".*a.*", "a"),
        (".*", ""),
        ("a*?b{0,3}c+d*", "c+"),
        ("^.*a", "^.*a"),
        (".*a|b.*", ".*a|b.*"),
        ("\\.*a\\**", "a"),
        ("(.*)a(b)*", "(.*)a"),
        ("x*(ab)*", ""),
        ("[ab]*[cd]", "[cd]"),
        (".*.+.*", ".+"),
        ("a?b?", ""),
    ],
)
def test_what_a_pattern_may_begin_or_end_with_is_left_out(
    spark: SparkSession, pattern: str, shorter: str
) -> None:
    assert regex.trimmed(pattern) == shorter
    for text in ("", "a", "b", "xab", "cd\nab", "..a", "😀"):
        both = [java(spark).compile(p).matcher(text).find() for p in (pattern, shorter)]
        assert both[0] == both[1], text


def test_the_bound_counts_ways() -> None:
    """By hand: a start of the text costs what its ways cost."""
    assert steps(regex.parse("^abc"), 10) == 4
    assert steps(regex.parse("^a*b"), 10) < steps(regex.parse("^a*ab"), 10) < 200
    assert steps(regex.parse("a*b"), 1_000) < 10**7 < steps(regex.parse("a*ab"), 1_000) * 10
    assert steps(regex.parse("(a|aa)" * 10 + "c"), 10) > 2**10
    assert steps(regex.parse("(a|b)" * 10 + "c"), 10) < 10**3


# LIKE

WILD = (
    "%",
    "a",
    "_",
    "b",
    "A",
    "é",
    "😀",
    "\n",
    ".",
    "\\%",
    "\\_",
    "\\\\",
    "(",
    "$",
    "'",
    "-",
    "#",
    " ",
    "\x00",
)
LETTERS = (
    "a",
    "b",
    "A",
    "B",
    "é",
    "É",
    "😀",
    "\n",
    ".",
    "%",
    "_",
    "\\",
    "(",
    "$",
    "'",
    "-",
    "#",
    " ",
    "ß",
    "İ",
    "\x00",
)


def likes(draw: random.Random, count: int) -> list[str]:
    weights = [15, 6, 3] + [1] * (len(WILD) - 3)
    return ["".join(draw.choices(WILD, weights, k=draw.randint(3, 12))) for _ in range(count)]


def test_like_as_a_regular_expression_is_like(spark: SparkSession, seed: int) -> None:
    """Java's own translation of LIKE, as Spark makes it, is the judge."""
    draw, rewritten = random.Random(seed), 0
    has_all = not any("LIKE" in lack.what for lack in lacking(spark.version))
    for pattern in likes(draw, 300):
        if not has_all and max(pattern) > "\uffff":
            continue  # as `headrace doctor` says
        check_like(pattern, "\\", False, CONFIG)
        ours = like_regex(pattern, "\\")
        if ours is None:
            continue
        rewritten += 1
        theirs = java(spark).compile(_sparks(spark, pattern))
        own = java(spark).compile(ours)
        texts = ["".join(draw.choices(LETTERS, k=draw.randint(0, 12))) for _ in range(15)]
        for text in (*texts, *(_fitting(pattern, draw) for _ in range(3))):
            assert own.matcher(text).find() == theirs.matcher(text).matches(), (pattern, text)
    assert rewritten > 60


def _sparks(spark: SparkSession, pattern: str) -> str:
    jvm: Any = spark._jvm
    return str(jvm.org.apache.spark.sql.catalyst.util.StringUtils.escapeLikeRegex(pattern, "\\"))


def _fitting(pattern: str, draw: random.Random) -> str:
    """A text that the pattern matches, or nearly."""
    text, at = "", 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
            text += pattern[at]
        elif pattern[at] in "%_":
            text += "".join(
                draw.choices(LETTERS, k=1 if pattern[at] == "_" else draw.randint(0, 3))
            )
        else:
            text += pattern[at]
        at += 1
    return text


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "pattern",
    [
        "%a%a%a%a%a%a%a%b",
        "%a" * 300 + "%",
        "%a_%_a%" * 50 + "c",
        "_%" * 200 + "c",
        "a%a%a%b%a_c",
        "%_a_%_a_%_a_%c_",
    ],
)
def test_like_is_quick(spark: SparkSession, pattern: str, seed: int) -> None:
    ours = like_regex(pattern, "\\")
    assert ours is not None
    assert took(spark, ours, 20_000, random.Random(seed)) < LIMIT_S
