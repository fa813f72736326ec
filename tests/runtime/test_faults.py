"""Spark's failures in our words: a query's own fault, the world's, or the source's."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, RoundError, SourceError
from headrace.runtime.faults import explain_failure, is_nobodys, is_value_fault, reason_of
from tests.runtime.scenario import relation_of

RELATION = relation_of(Path("/src"))
BY_ZERO = (
    "[STREAM_FAILED] Query failed\n[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n\tat java"
)


def test_the_innermost_reason_on_one_line() -> None:
    assert reason_of(PySparkException(BY_ZERO)) == "DIVIDE_BY_ZERO: Division by zero."
    assert reason_of(ValueError("first\nsecond")) == "ValueError: first"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "An error occurred while calling o1207.parquet.\n: org.apache.spark.SparkException: Job aborted.\n\tat A\n"
            "Caused by: java.io.IOException: No space left on device\n\tat java.base/B\n\t... 3 more",
            "IOException: No space left on device",
        ),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.lang.IllegalStateException: stopped\n\tat C\nCaused by: java.lang.InterruptedException\n\tat D",
            "IllegalStateException: stopped",
        ),
        ("java.io.IOException: No space left on device", "IOException: No space left on device"),
        (
            "Query failed\norg.apache.spark.SparkException: java.io.IOException: gone",
            "SparkException: IOException: gone",
        ),
        (
            "[TASK_WRITE_FAILED] Task failed: java.io.IOException: x. SQLSTATE: 58030",
            "TASK_WRITE_FAILED: Task failed: IOException: x.",
        ),
        ("An error occurred while calling z:e.f.\n: a.b.C$D: \u00fc: x\n\tat E", "C$D: \u00fc: x"),
    ],
)
def test_java_is_told_by_its_innermost_cause_that_says_something(text: str, reason: str) -> None:
    """Not by the name of py4j's object, which tells nobody anything; found by the chaos run on a
    full disk."""
    assert reason_of(RuntimeError(text)) == reason


def test_a_rows_value_is_the_querys_fault() -> None:
    error = PySparkException(BY_ZERO)
    assert is_value_fault(error) and not is_nobodys(error)
    assert not is_value_fault(ValueError("DIVIDE_BY_ZERO"))


@pytest.mark.parametrize(
    "error",
    [
        PySparkException("java.io.IOException: No space left on device"),
        PySparkException("Job 7 cancelled"),
        RoundError("our own"),
        Exception("Disk quota exceeded"),
        OSError(28, "No space left on device"),
        PySparkException(
            "[SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job group 1. SQLSTATE: XXKDA"
        ),
        PySparkException(
            "[TASK_WRITE_FAILED] It failed.\nCaused by: java.io.IOException: No space left on device\n\tat a"
        ),
        RuntimeError(
            "An error occurred while calling o1.x.\n: java.lang.InterruptedException\n\tat java.base/a"
        ),
        RuntimeError(
            "An error occurred.\n: java.nio.channels.ClosedByInterruptException\n\tat java.base/a"
        ),
        PySparkException("Job 3 cancelled because SparkContext was shut down"),
    ],
)
def test_no_query_is_to_blame_for_the_world(error: Exception) -> None:
    assert is_nobodys(error)


@pytest.mark.parametrize(
    "words",
    [
        "cancelled",
        "canceled by user",
        "interrupted",
        "No space left on device",
        "Python worker exited unexpectedly",
        "x: No space left on device",
        "SparkContext was shut down",
        "a: Job 7 cancelled",
        "java.lang.InterruptedException",
    ],
)
def test_what_a_row_says_is_not_what_happened(words: str) -> None:
    """A message quotes the row's value and the query's text."""
    error = PySparkException(
        f"[CAST_INVALID_INPUT] The value '{words}' of the type \"STRING\" cannot be cast to "
        f"\"INT\". SQLSTATE: 22018\n== SQL (line 1, position 1) ==\nCAST('{words}' AS INT)\n^^\n"
    )
    assert is_value_fault(error) and not is_nobodys(error)


@pytest.mark.parametrize("words", ["cancelled", "interrupted", "No space left on device"])
def test_what_a_query_says_is_not_what_happened(words: str) -> None:
    text = f"[UNRESOLVED_ROUTINE] Cannot resolve `nope`.\n== SQL (line 1, position 1) ==\nnope('{words}')\n^^^^\n"
    assert not is_nobodys(PySparkException(text))


@pytest.mark.parametrize(
    "words",
    [
        "x" + " " * 200_000 + "y",
        "a: a." + "Interrupt" * 20_000,
        "a." * 100_000,
        "[A" * 100_000,
        "Caused by: " + "a." * 100_000,
        "\nCaused by: a" * 20_000,
    ],
    ids=range(6),
)
def test_no_message_takes_long(words: str) -> None:
    """They quote what rows hold; by the square of its length the first took an hour."""
    for condition in ("[CAST_INVALID_INPUT] ", "[NOPE] ", ""):
        error, began = (
            PySparkException(f"{condition}The value '{words}' is odd. SQLSTATE: 22018"),
            perf_counter(),
        )
        is_nobodys(error)
        assert len(reason_of(error)) < 400
        assert perf_counter() - began < 2


AWAITED = (
    "An error occurred while calling o44.getResult.\n: org.apache.spark.SparkException: Exception thrown in "
    "awaitResult: \n\tat org.apache.spark.X\nCaused by: org.apache.spark.SparkException: Job aborted: Lost task\n"
)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (
            "java.util.regex.PatternSyntaxException: Illegal character range near index 3\n[z-a]",
            "INVALID_PATTERN: Java does not take the regular expression: Illegal character range near index 3",
        ),
        ("java.lang.ArithmeticException: long overflow", "ARITHMETIC_OVERFLOW: long overflow"),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "OUT_OF_MEMORY: evaluating it takes more memory than Spark has (Java heap space)",
        ),
        ("java.lang.IllegalStateException: {odd} braces", "IllegalStateException: {odd} braces"),
    ],
)
def test_what_java_throws_in_our_words(cause: str, reason: str) -> None:
    assert (
        reason_of(Exception(f"{AWAITED}Caused by: {cause}\n\tat java.base/x.Y\n\t... 12 more"))
        == reason
    )


def test_a_stack_that_overflows() -> None:
    reason = reason_of(Exception(f"{AWAITED}Caused by: java.lang.StackOverflowError\n\tat a.B"))
    assert reason.startswith("STACK_OVERFLOW") and "simpler" in reason


def test_a_failure_becomes_one_of_ours() -> None:
    ours = RoundError("known")
    assert explain_failure(ours, RELATION) is ours
    unreadable = explain_failure(
        PySparkException("[FAILED_READ_FILE.NO_HINT] bad footer"), RELATION
    )
    assert isinstance(unreadable, SourceError) and unreadable.code == "SOURCE_UNREADABLE"
    other: HeadraceError = explain_failure(PySparkException("something odd"), RELATION, 7)
    assert (
        other.code == "ROUND_FAILED" and "round 7" in str(other) and "something odd" in str(other)
    )
