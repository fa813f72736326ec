"""Spark's failures in our words: what, the value, the next step."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, PySparkException

from headrace.errors import HeadraceError, HomeError, RoundError, SourceError
from headrace.values import Relation

_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*([^\n]*)")
_SOURCE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "PATH_NOT_FOUND", "PARQUET", "MALFORMED", "FILE_NOT_FOUND")
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")
UNREADABLE = "SOURCE_UNREADABLE"
_FULL = ("No space left on device", "Disk quota exceeded")
_ADVICE = re.compile(r"\s*If necessary,? set [^.]*spark\.sql\.ansi\.enabled.*")
_VALUE = (
    "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW", "CAST_INVALID_INPUT", "CAST_OVERFLOW", "REMAINDER_BY_ZERO",
    "INVALID_ARRAY_INDEX", "NUMERIC_VALUE_OUT_OF_RANGE", "BINARY_ARITHMETIC_OVERFLOW", "USER_RAISED_EXCEPTION",
    "CANNOT_PARSE_TIMESTAMP", "DATETIME_OVERFLOW", "INTERVAL_ARITHMETIC_OVERFLOW",
)


def reason_of(error: BaseException) -> str:
    """The innermost Spark error, as `CLASS: message` on one line."""
    found = [(c, m) for c, m in _CLASS.findall(str(error)) if c not in _WRAPPERS]
    if not found:
        first = str(error).strip().split("\n")[0]
        return f"{type(error).__name__}: {first[:300]}"
    name, message = found[0]
    message = _ADVICE.sub("", message.split(" SQLSTATE")[0])  # ANSI mode is not the user's to switch off here
    return f"{name}: {message[:300]}"


def is_value_fault(error: BaseException) -> bool:
    """Whether a row's value made an expression fail: the query's fault, not the stream's."""
    return isinstance(error, PySparkException) and any(name in str(error) for name in _VALUE)


def is_query_fault(error: BaseException) -> bool:
    """Whether the query itself is the cause: a value it cannot take, or a text Spark does not take."""
    return is_value_fault(error) or isinstance(error, AnalysisException)


def is_interrupted(error: BaseException) -> bool:
    """Whether somebody stopped the work: nobody's fault."""
    text = str(error).lower()
    return any(word in text for word in ("cancelled", "canceled", "interrupted", "sparkcontext was shut down"))


def explain_failure(error: BaseException, relation: Relation, round_id: int | None = None) -> HeadraceError:
    """A failure of Spark as one of ours."""
    if isinstance(error, HeadraceError):
        return error
    reason = reason_of(error)
    text = str(error)
    if any(words in text for words in _FULL):
        return HomeError(
            f"the disk is full: a round of {relation.name!r} could not be written", value=reason,
            hint="free space on this disk and start again: every committed round is safe, the open one is repeated",
            code="DISK_FULL",
        )
    if any(name in reason for name in _SOURCE) or "FileNotFoundException" in text or "ParquetDecodingException" in text:
        return SourceError(
            f"a file of the source of {relation.name!r} cannot be read, or does not fit its schema", value=reason,
            hint="mend the file or take it away, and run again: nothing of this round was committed, the files "
            "that are there then are read", code=UNREADABLE,
        )
    return RoundError(
        f"a round of {relation.name!r} failed", value=reason, round_id=round_id,
        hint="nothing of this round was committed; after mending the cause, run again", code="ROUND_FAILED",
    )
