"""Spark's failures in our words: what, the value, the next step."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, HomeError, RoundError, SourceError
from headrace.runtime.causes import explain_worker, lost_executor, python_cause
from headrace.runtime.sparkuse import WORKER_GONE, is_cut_off
from headrace.values import Relation

_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*([^\n]*)")
# a class of Java, what it says
_CAUSE = re.compile(r"^(?:: |Caused by: )?(?:[\w$]+\.)+([\w$]+)(?:: ([^\n]*))?$", re.M)
_PACKAGE = re.compile(r"\b(?:[a-z]\w{0,40}\.){1,12}(?=[A-Z][\w$]{0,80}(?:Exception|Error)\b)")
_SOURCE = (
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE",
    "PATH_NOT_FOUND",
    "PARQUET",
    "MALFORMED",
    "FILE_NOT_FOUND",
)
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")
UNREADABLE = "SOURCE_UNREADABLE"
_WORKER = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Error from python worker",
    "waiting for the Python worker to connect back",
)
_CUT_OFF = ("Broken pipe", "Connection reset", "EOFException")
# Anchored: messages quote the user's text and the values of rows, which may say anything.
_FULL = re.compile(r"(?:^|: |\] )(?:No space left on device|Disk quota exceeded)", re.M)
_STOPPED = re.compile(
    r"(?:^|: |\] )(?:Job \d+ cancelled|Operation has been canceled)|SparkContext was shut down|"
    r"(?:^|[: ])(?:[a-z]+\.)+(?:\w{0,40}Interrupt\w{0,40}|Cancellation|TaskKilled)Exception\b",
    re.M,
)
# an error of ours, raised on a worker, in what Spark says of it
_OURS = re.compile(
    r"^headrace\.(?:errors\.HomeError|runtime\.on_executor\.HomeUnseenError): \[([A-Z_]+)\] ([^\n]*)"
    r"(?:\n +got: +([^\n]*))?"
    r"(?:\n +choices: [^\n]*)?(?:\n +next: +([^\n]*))?",
    re.M,
)
_ADVICE = re.compile(r"\s?If necessary,? set [^.]{0,40}spark\.sql\.ansi\.enabled.*")
_VALUE = (
    "DIVIDE_BY_ZERO",
    "ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "REMAINDER_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "BINARY_ARITHMETIC_OVERFLOW",
    "USER_RAISED_EXCEPTION",
    "CANNOT_PARSE_TIMESTAMP",
    "DATETIME_OVERFLOW",
    "INTERVAL_ARITHMETIC_OVERFLOW",
)
_JAVA = {
    "PatternSyntaxException": "INVALID_PATTERN: Java does not take the regular expression: {}",
    "ArithmeticException": "ARITHMETIC_OVERFLOW: {}",
    "StackOverflowError": "STACK_OVERFLOW: it nests deeper than Spark's stack allows; use a simpler expression or "
    "pattern, or shorter texts",
    "OutOfMemoryError": "OUT_OF_MEMORY: evaluating it takes more memory than Spark has ({})",
    "CompileException": "TOO_COMPLEX: Spark cannot compile it ({})",
    "InternalCompilerException": "TOO_COMPLEX: Spark cannot compile it ({})",
    "JaninoRuntimeException": "TOO_COMPLEX: Spark cannot compile it ({})",
}


def reason_of(error: BaseException) -> str:
    """The innermost error of Spark, or else of Java, as `CLASS: message` on one line."""
    text = str(error)
    found = _conditions(text)
    if not found:
        causes = [(type(error).__name__, text.strip().split("\n")[0])]
        causes += [
            (c, m) for c, m in _CAUSE.findall(text) if m.strip() or c in _JAVA
        ]  # others say nothing
        name, message = python_cause(text) or causes[-1]
        told = _PACKAGE.sub("", message.strip()[:300])
        return (
            _JAVA[name].format(told or "it does not say why")
            if name in _JAVA
            else f"{name}: {told}"
        )
    name, message = found[0]
    # ANSI mode is not the user's to switch off here
    message = _ADVICE.sub("", message.split(" SQLSTATE")[0])
    return f"{name}: {_PACKAGE.sub('', message[:300])}"


def _conditions(text: str) -> list[tuple[str, str]]:
    """Spark's error conditions with their messages, the outermost first."""
    return [(name, message) for name, message in _CLASS.findall(text) if name not in _WRAPPERS]


def is_value_fault(error: BaseException) -> bool:
    """Whether a row's value made an expression fail: the query's fault, not the stream's."""
    return isinstance(error, PySparkException) and _names_value(str(error))


def _names_value(text: str) -> bool:
    """By its condition; what follows may quote the value, whatever that says."""
    found = _conditions(text)
    return bool(found) and found[0][0].startswith(_VALUE)


def is_worker_gone(error: BaseException) -> bool:
    """Whether a process that runs Python for Spark was killed, or ended, under its work."""
    text = str(error)
    return any(words in text for words in _WORKER) or (
        "api.python" in text and any(words in text for words in _CUT_OFF)
    )


def is_nobodys(error: BaseException) -> bool:
    """Whether no query can be the cause: somebody stopped the work, Java is gone, the disk is full,
    or it is our own error."""
    if isinstance(error, HeadraceError) or is_cut_off(error) or told_by_worker(error) is not None:
        return True
    text = str(error)
    if _names_value(text):
        return False
    if explain_worker(error) is not None:
        return True
    return bool(_STOPPED.search(text) or _FULL.search(text)) or is_worker_gone(error)


def told_by_worker(error: BaseException) -> HomeError | None:
    """What a worker of ours found wrong with the home, as it was; Spark tells it as a traceback."""
    found = _OURS.search(str(error)) if isinstance(error, PySparkException) else None
    if found is None:
        return None
    code, what, value, hint = found.groups()
    return HomeError(what, value=value, hint=hint or "", code=code)


def why_failing(job: Callable[[], object]) -> str | None:
    """Why a job fails, by what may be a query's fault; None if it does not.  What is nobody's is
    raised."""
    try:
        job()
    except Exception as error:
        if is_nobodys(error):
            raise
        return reason_of(error)
    return None


def explain_failure(
    error: BaseException, relation: Relation, round_id: int | None = None
) -> HeadraceError:
    """A failure of Spark as one of ours."""
    if isinstance(error, HeadraceError):
        return error
    if (told := told_by_worker(error) or explain_worker(error)) is not None:
        return told
    reason = reason_of(error)
    text = str(error)
    if _FULL.search(text):
        return HomeError(
            f"the disk is full: a round of {relation.name!r} could not be written",
            value=reason,
            hint="free space on this disk and start again: every committed round is safe, the open one is repeated",
            code="DISK_FULL",
        )
    kind = reason.partition(":")[0]
    if (
        any(name in kind for name in _SOURCE)
        or "FileNotFoundException" in text
        or "ParquetDecodingException" in text
    ):
        return SourceError(
            f"a file of the source of {relation.name!r} cannot be read, or does not fit its schema",
            value=reason,
            hint="mend the file or take it away, and run again: nothing of this round was committed, the files "
            "that are there then are read",
            code=UNREADABLE,
        )
    if is_worker_gone(error):
        return RoundError(
            f"a Python worker of Spark ended in a round of {relation.name!r}, each time it was tried",
            value=reason,
            hint="nothing of this round was committed, run again; if Linux killed it for want of memory, give the "
            "machine more, or read fewer rows a round (maxFilesPerTrigger)",
            round_id=round_id,
            code=WORKER_GONE,
        )
    if (lost := lost_executor(text)) is not None:
        return RoundError(
            f"an executor of Spark ended in a round of {relation.name!r}, each time its work was tried",
            value=lost,
            hint="nothing of this round was committed, run again; if it was killed for want of memory, give executors "
            "more (--conf spark.executor.memory=4g), or read fewer rows a round (maxFilesPerTrigger)",
            round_id=round_id,
            code=WORKER_GONE,
        )
    if isinstance(error, MemoryError) or "OutOfMemoryError" in text:
        return RoundError(
            f"there is not enough memory for a round of {relation.name!r}",
            value=reason,
            round_id=round_id,
            hint="nothing of this round was committed; raise driver_memory, give the machine more memory, or read "
            "fewer rows a round (maxFilesPerTrigger)",
            code="MEMORY",
        )
    return RoundError(
        f"a round of {relation.name!r} failed",
        value=reason,
        round_id=round_id,
        hint="nothing of this round was committed; after mending the cause, run again",
        code="ROUND_FAILED",
    )
