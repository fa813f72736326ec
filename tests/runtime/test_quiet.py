"""What Spark says on standard error by itself: the command says it in its own words, once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from socketserver import BaseServer

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headrace.runtime import quiet
from headrace.runtime.quiet import ERROR_LOGGERS, accumulator_servers, hush


class Heard(logging.Handler):
    """What PySpark's own loggers of errors are about to write to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """As in a process that nobody has hushed: a test of the command may have hushed this one."""
    loggers = [PySparkLogger.getLogger(name) for name in ERROR_LOGGERS]
    levels = [logger.level for logger in loggers]
    found, py4j = Heard(), logging.getLogger("py4j")
    monkeypatch.setattr(quiet, "_is_quiet", False)
    assert accumulator_servers(), "PySpark calls them otherwise"
    for server in accumulator_servers():
        monkeypatch.setattr(server, "handle_error", BaseServer.handle_error)
    before = py4j.level
    logging.getLogger().removeFilter(quiet._is_worth_saying)
    logging.getLogger().addHandler(found)
    for logger in loggers:
        logger.setLevel(logging.ERROR)
        logger.addHandler(found)
    yield found
    py4j.setLevel(before)
    logging.getLogger().removeHandler(found)
    logging.getLogger().removeFilter(quiet._is_worth_saying)
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(found)
        logger.setLevel(level)


@pytest.mark.parametrize("sql", ["SELECT CAST('b' AS INT)", "SELECT 1 / 0", "SELECT nothing"])
def test_a_failed_query_does_not_print_javas_stack(
    spark: SparkSession, sql: str, heard: Heard
) -> None:
    def fail() -> int:
        heard.records.clear()
        with pytest.raises(PySparkException):
            spark.sql(sql).collect()
        return len(heard.records)

    assert fail() == 1, "PySpark says no more: hush is not needed"
    hush()
    assert fail() == 0


def test_a_jvm_that_dies_leaves_no_tracebacks(
    heard: Heard, capfd: pytest.CaptureFixture[str]
) -> None:
    """What py4j and the server of accumulators say then; other errors are said as ever."""

    def die() -> int:
        heard.records.clear()
        logging.error("Exception while sending command.", exc_info=True)
        kind = accumulator_servers()[0]
        server = kind.__new__(kind)
        try:
            raise EOFError
        except EOFError:
            server.handle_error(None, ("127.0.0.1", 1))  # type: ignore[arg-type]
        return len(heard.records) + capfd.readouterr().err.count("Exception occurred")

    assert die() == 2 and quiet.log_level() == "ERROR"
    hush()
    assert die() == 0 and quiet.log_level() == "OFF"
    logging.error("another")
    assert [record.msg for record in heard.records] == ["another"]
