"""Spark's temporary folders, inside the home: gone when the engine closes, or by the next one if it
was killed.

Each Spark has a folder of its own below `tmp`, with a file that its engine keeps locked as long as
it lives.  A folder whose lock is free has no owner any more.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO

from headrace.disk import private

TMP = "tmp"
OWNER = "owner"
_PLAIN = re.compile(r"[\w./+=@-]+", re.ASCII)  # what Spark and Java take in a setting as it is


class Scratch:
    """The folder of one Spark."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._lock: IO[bytes] | None = None
        self.folder: Path | None = None

    def make(self) -> Path | None:
        """A new folder, those without an owner removed; None where Spark could not name it, or it
        cannot be made."""
        self.remove()
        if not _PLAIN.fullmatch(str(self._home)):
            return None
        with suppress(OSError):  # Spark's own default will do
            place = self._home / TMP
            place.mkdir(mode=0o700, exist_ok=True)
            sweep(place)
            folder = place / f"spark-{uuid.uuid4().hex[:12]}"
            folder.mkdir(mode=0o700)
            self._lock = open(folder / OWNER, "wb", opener=private)  # noqa: SIM115 - held as long as the folder is ours
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.folder = folder
        return self.folder

    def remove(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def sweep(place: Path) -> None:
    """Remove the folders whose owner has died; anything else there is not ours."""
    for folder in sorted(place.glob("spark-*")):
        with suppress(OSError), open(folder / OWNER, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
