"""The catalog log: one checksummed line a change, appended durably, read by anybody.

A line is `<crc32 of the rest, 8 hex digits> <json>\n`; its number, from 1, is the catalog version it
makes.  A last line without its newline was never acknowledged (a torn append, or one in flight) and
does not count; any other line that does not check is damage, and we stop rather than guess.

Several processes may append (`headrace add` beside a running engine): a short exclusive lock
orders them.
"""

from __future__ import annotations

import fcntl
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.disk import Disk
from headrace.errors import CatalogError

PATH = "catalog.log"
LOCK = "catalog.lock"


class CatalogLog:
    """Reads new records since the last read; appends under the lock."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._offset = 0
        self._marks = [0]

    @property
    def version(self) -> int:
        return len(self._marks) - 1

    def mark(self, version: int) -> int:
        """A checksum of the log up to a version: two logs with one mark have the same records."""
        return self._marks[version]

    def secure(self) -> None:
        """Make what has been read durable; whoever appended it may have been killed before its sync."""
        if self._offset:
            self._disk.sync(PATH)
            self._disk.sync(".")

    def read(self) -> list[dict[str, Any]]:
        """The records appended since the last call, by anybody."""
        path = self._disk.root / PATH
        if not path.exists():
            if self._offset:
                raise CatalogError("the catalog log has vanished", value=str(path), hint="restore it from a backup")
            return []
        with path.open("rb") as file:
            file.seek(0, 2)
            if file.tell() < self._offset:
                raise CatalogError("the catalog log has shrunk", value=str(path), hint="restore it from a backup")
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        records = [self._parse(line, self.version + n) for n, line in enumerate(lines, 1)]
        self._offset += len(whole)
        for line in lines:
            self._marks.append(zlib.crc32(line, self._marks[-1]))
        return records

    def append(self, record: dict[str, Any]) -> None:
        """Make one more record durable.  Call inside `exclusive`, after `read`."""
        path = self._disk.root / PATH
        if not self._offset:
            self._disk.put(PATH, b"")
            self._disk.sync(".")
        elif path.stat().st_size > self._offset:
            self._disk.truncate(PATH, self._offset)  # a torn, unacknowledged append
        body = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._disk.add_to(PATH, b"%08x %s\n" % (zlib.crc32(body), body))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._disk.open_lock(LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _parse(self, line: bytes, version: int) -> dict[str, Any]:
        crc, _, body = line.partition(b" ")
        if crc != b"%08x" % zlib.crc32(body):
            raise CatalogError(
                "the catalog log is damaged",
                value=f"record {version} of {self._disk.root / PATH} does not match its checksum",
                hint="restore the file from a backup; `headrace doctor` shows what the home holds",
                code="CATALOG_DAMAGED",
            )
        record: dict[str, Any] = json.loads(body)
        return record
