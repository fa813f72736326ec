"""Spark's failures in our words: a query's own fault, the world's, or the source's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, RoundError, SourceError
from headrace.runtime.faults import explain_failure, is_query_fault, is_value_fault, reason_of
from tests.runtime.scenario import relation_of

RELATION = relation_of(Path("/src"))
BY_ZERO = "[STREAM_FAILED] Query failed\n[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n\tat java"


def test_the_innermost_reason_on_one_line() -> None:
    assert reason_of(PySparkException(BY_ZERO)) == "DIVIDE_BY_ZERO: Division by zero."
    assert reason_of(ValueError("first\nsecond")) == "ValueError: first"


def test_a_rows_value_is_the_querys_fault() -> None:
    error = PySparkException(BY_ZERO)
    assert is_value_fault(error) and is_query_fault(error)
    assert not is_value_fault(ValueError("DIVIDE_BY_ZERO"))


@pytest.mark.parametrize("text", [
    "java.io.IOException: No space left on device", "java.io.FileNotFoundException: rows/0 (Permission denied)",
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file", "java.lang.OutOfMemoryError: Java heap space",
])
def test_no_query_is_to_blame_for_the_world(text: str) -> None:
    assert not is_query_fault(PySparkException(text))


def test_a_failure_becomes_one_of_ours() -> None:
    ours = RoundError("known")
    assert explain_failure(ours, RELATION) is ours
    unreadable = explain_failure(PySparkException("[FAILED_READ_FILE.NO_HINT] bad footer"), RELATION)
    assert isinstance(unreadable, SourceError) and unreadable.code == "SOURCE_UNREADABLE"
    other: HeadraceError = explain_failure(PySparkException("something odd"), RELATION, 7)
    assert other.code == "ROUND_FAILED" and "round 7" in str(other) and "something odd" in str(other)
