"""What PySpark says by itself in this process: in the log of the home, not on the terminal.

PySpark writes each error of a query with Java's stack before it raises it, also one that only
quarantines a query.  When the JVM dies, py4j logs a traceback for each call under way, and the
server of accumulators prints its own.  The command says such things in its own words, once.
"""

from __future__ import annotations

import logging
from pathlib import Path
from socketserver import BaseServer

from pyspark import accumulators
from pyspark.logger import PySparkLogger

from headrace.disk import private
from headrace.runtime.spark_log import debugging

ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_PY4J = "Exception while sending command."  # it logs this to the root logger

# A kind of socket each from Spark 4.1 on; Spark 4.0 has the one.
_SERVERS = ("AccumulatorTCPServer", "AccumulatorUnixServer", "AccumulatorServer")

_is_quiet = False
_handler: logging.Handler | None = None


class _Appending(logging.FileHandler):
    """Opens the file for each record: it is emptied, or gone with its home, while others write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            with open(self.baseFilename, "a", opener=private) as file:
                file.write(self.format(record) + "\n")
        except (OSError, ValueError):
            return


def hush(log: Path | None = None) -> None:
    """From now on, for this process; sessions made later do not log either, but to `log`."""
    global _is_quiet, _handler  # noqa: PLW0603 - loggers are the process's too
    before, _handler = _handler, None if log is None else _Appending(log)
    for name in ERROR_LOGGERS:
        _speak_to(PySparkLogger.getLogger(name), before)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_worth_saying)
    for server in accumulator_servers():
        setattr(server, "handle_error", _say_nothing)  # noqa: B010 - a method is not to be assigned, says mypy
    _is_quiet = True


def accumulator_servers() -> list[type[BaseServer]]:
    """Those that this version of PySpark has."""
    return [getattr(accumulators, name) for name in _SERVERS if hasattr(accumulators, name)]


def _speak_to(logger: logging.Logger, before: logging.Handler | None) -> None:
    """To the log instead of the log of before; to nobody where there is none."""
    if before is not None:
        logger.removeHandler(before)
    for handler in [h for h in logger.handlers if type(h) is logging.StreamHandler]:
        logger.removeHandler(handler)  # standard error, as PySpark sets it
    logger.propagate = False
    logger.setLevel(logging.CRITICAL + 1 if _handler is None else logging.WARNING)
    if _handler is not None:
        logger.addHandler(_handler)


def log_level(has_log: bool = False) -> str:
    """Of the JVM of a new session."""
    if has_log or debugging():
        return "WARN"
    return "OFF" if _is_quiet else "ERROR"


def _is_worth_saying(record: logging.LogRecord) -> bool:
    if record.msg != _PY4J:
        return True
    if _handler is not None:
        _handler.handle(record)
    return False


def _say_nothing(*_: object) -> None:
    """The connection to a JVM that is gone."""
