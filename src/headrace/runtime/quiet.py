"""What PySpark and Java say on standard error by themselves: the command says it in its own words,
once.

PySpark writes each error of a query with Java's stack before it raises it, also one that only
quarantines a query. When the JVM dies, py4j logs a traceback for each call under way, and the
server of accumulators prints its own.
"""

from __future__ import annotations

import logging
from socketserver import BaseServer

from pyspark import accumulators
from pyspark.logger import PySparkLogger

ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_PY4J = "Exception while sending command."  # it logs this to the root logger

# A kind of socket each from Spark 4.1 on; Spark 4.0 has the one.
_SERVERS = ("AccumulatorTCPServer", "AccumulatorUnixServer", "AccumulatorServer")

_is_quiet = False


def hush() -> None:
    """From now on, for this process; sessions made later do not log either."""
    global _is_quiet  # noqa: PLW0603 - loggers are the process's too
    for name in ERROR_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_worth_saying)
    for server in accumulator_servers():
        setattr(server, "handle_error", _say_nothing)  # noqa: B010 - a method is not to be assigned, says mypy
    _is_quiet = True


def accumulator_servers() -> list[type[BaseServer]]:
    """Those that this version of PySpark has."""
    return [getattr(accumulators, name) for name in _SERVERS if hasattr(accumulators, name)]


def log_level() -> str:
    """Of the JVM of a new session."""
    return "OFF" if _is_quiet else "ERROR"


def _is_worth_saying(record: logging.LogRecord) -> bool:
    return record.msg != _PY4J


def _say_nothing(*_: object) -> None:
    """The connection to a JVM that is gone."""
