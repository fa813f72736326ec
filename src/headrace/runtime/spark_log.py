"""`logs/spark.log` in the home: all that Spark, Java and Spark's Python workers say by themselves.

Java and whatever it starts get the file as their standard output and error, so that nothing of them
reaches a terminal; what PySpark logs in this process goes there too (`quiet.py`).  Everybody appends,
and nobody can be told to open another file; so a file that has grown too long is copied aside and
emptied.  With HEADRACE_DEBUG=1 there is no log: all of it is on the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from headrace.disk import PRIVATE_FOLDER, private

FOLDER, NAME, BEFORE = "logs", "spark.log", "spark.log.1"
BYTES_MAX = 16 << 20
LOOK_EVERY_S = 1.0
_ERROR = re.compile(r"^(?:Error|Could not|Exception in|Unrecognized|Invalid)|ERROR ")
_BUT_NOT_WHICH = "Error occurred during initialization of VM"


def debugging() -> bool:
    """HEADRACE_DEBUG=1: tracebacks, and what Spark says."""
    return os.environ.get("HEADRACE_DEBUG", "0") not in ("", "0")


def log_path(home: Path) -> Path:
    return home / FOLDER / NAME


class SparkLog:
    """The log of one home, bounded while it is open: twice `bytes_max`, and what is written within a
    second."""

    def __init__(self, home: Path, bytes_max: int = BYTES_MAX) -> None:
        self.path = log_path(home.absolute())
        self._bytes_max = bytes_max
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> IO[bytes] | None:
        """The file, to be appended to by Java; None where it cannot be made."""
        try:
            self.path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            self.bound()
            file = open(self.path, "ab", buffering=0, opener=private)  # noqa: SIM115 - whoever asks closes it
        except OSError:
            return None
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._watch, name="headrace-log", daemon=True)
            self._thread.start()
        return file

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def why(self, after: int) -> str:
        """What a Java that does not start has said since the log was so long: its error, else its
        last words."""
        try:
            text = self.path.read_bytes()[after:].decode(errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.search(line) and line != _BUT_NOT_WHICH]
        return (errors or lines[-1:] or [""])[0]

    def bound(self) -> None:
        """Copy a log that is too long aside, and empty it: those who append go on at its start."""
        with suppress(OSError):
            if self.path.stat().st_size > self._bytes_max:
                before = self.path.with_name(BEFORE)
                part = before.with_suffix(".part")
                with open(self.path, "rb") as log, open(part, "wb", opener=private) as copy:
                    # of one that ran full in no time its end
                    log.seek(max(log.seek(0, os.SEEK_END) - self._bytes_max, 0))
                    shutil.copyfileobj(log, copy)
                part.replace(before)
                os.truncate(self.path, 0)

    def close(self) -> None:
        """Nothing is looked after any more; what is there stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self.bound()
