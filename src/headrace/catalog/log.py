"""The catalog log: one checksummed line a change, appended durably, read by anybody.

A line is `<crc32 of the rest, 8 hex digits> <json>\n`; it makes the next catalog version, from 1
on.  A last line without its newline was never acknowledged (a torn append, or one in flight) and
does not count; any other line that does not check is damage, and we stop rather than guess.

A compacted log begins with what there was at some version instead: a line `base` that names the
version, then lines of what stood at it, then changes as ever.  It is written aside and renamed,
under the lock.  Whoever follows the log by its offset sees that the file begins otherwise, and goes
on in the new one.

Several processes may append (`headrace add` beside a running engine): a short exclusive lock
orders them.
"""

from __future__ import annotations

import base64
import fcntl
import json
import shutil
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.disk import Disk
from headrace.errors import CatalogError
from headrace.records import decode, decoder_of, reading

PATH = "catalog.log"
LOCK = "catalog.lock"
BASE = "base"
# by which one file is told from another: they hold the checksum and version of the first line
HEAD_BYTES = 64
MARKS_KEPT = 100_000
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Base:
    """The first line of a compacted log: its version, how many lines say what stood at it, and the
    newest marks."""

    version: int
    lines: int
    marks: str
    do: str = BASE

    def marked(self) -> list[int]:
        found = array("I", base64.b64decode(self.marks, validate=True))
        if not 0 < len(found) <= self.version + 1:
            raise ValueError(f"{len(found)} marks of {self.version} versions")
        return found.tolist()


class CatalogLog:
    """Reads new records since the last read; appends under the lock."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._offset = 0
        self._head = b""
        self._first = 0  # the version of the first mark
        self._marks = [0]
        self._is_named = True  # whether the file is known to have its name for good

    @property
    def version(self) -> int:
        return self._first + len(self._marks) - 1

    @property
    def size(self) -> int:
        return self._offset

    def mark(self, version: int) -> int | None:
        """A checksum of all changes up to a version: two logs with one mark have the same.  None:
        so old that a compacted log no longer knows it."""
        return self._marks[version - self._first] if version >= self._first else None

    def secure(self) -> None:
        """Make what has been read durable; whoever appended it may have been killed before its
        sync."""
        if self._offset:
            self._disk.sync(PATH)
            self._disk.sync(".")

    def read(self) -> list[tuple[int, Record]]:
        """What has been appended since the last call, by anybody, each with the version it makes.
        The first may be a `base`, with all that stood at its version: what was known before does
        not count any more."""
        path = self._disk.root / PATH
        if not path.exists():
            if self._offset:
                raise CatalogError(
                    "the catalog log has vanished", value=str(path), hint="restore it from a backup"
                )
            return []
        with self.door(), path.open("rb") as file:
            head, size = file.read(len(self._head)), file.seek(0, 2)
            is_other = head != self._head and size >= len(self._head)
            if size < self._offset and not is_other:
                raise CatalogError(
                    "the catalog log has shrunk", value=str(path), hint="restore it from a backup"
                )
            file.seek(start := 0 if is_other else self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        base = self._base(lines[0]) if lines and not start else None
        if is_other and base is None:
            raise self._another()
        records = self._changes(lines) if base is None else self._from_base(base, lines[1:])
        if not start and whole:
            self._head, self._is_named = whole[:HEAD_BYTES], base is None
        self._offset = start + len(whole)
        return records

    def _changes(self, lines: Sequence[bytes]) -> list[tuple[int, Record]]:
        records = [
            (version, self._parse(line, version))
            for version, line in enumerate(lines, self.version + 1)
        ]
        for line in lines:
            self._marks.append(zlib.crc32(line, self._marks[-1]))
        return records

    def _base(self, line: bytes) -> Base | None:
        record = self._parse(line, 1)
        with self.door(1):
            return decode(Base, record) if record.get("do") == BASE else None

    def _from_base(self, base: Base, lines: Sequence[bytes]) -> list[tuple[int, Record]]:
        stood, changes = lines[: base.lines], lines[base.lines :]
        with self.door(base.version):
            marks = base.marked()
            if len(stood) < base.lines:
                raise ValueError(
                    f"{len(stood)} of {base.lines} lines of what stood at this version"
                )
        if self.version >= base.version:  # all that stood is known
            known = self.version - base.version
            if self.mark(base.version) != marks[-1] or len(changes) < known:
                raise self._another()
            return self._changes(changes[known:])
        first = base.version - len(marks) + 1
        if self.version >= first and marks[self.version - first] != self._marks[-1]:
            raise self._another()
        parts = [self._parse(line, base.version) for line in stood]
        self._first, self._marks = first, marks
        return [(base.version, {"do": BASE, "parts": parts}), *self._changes(changes)]

    def _another(self) -> CatalogError:
        return CatalogError(
            "the catalog log is another one",
            value=str(self._disk.root / PATH),
            hint="restore catalog.log from a backup, and start again",
            code="CATALOG_LOST",
        )

    def compact(self, parts: Sequence[Record]) -> bool:
        """Begin the log with these, which say what stands at this version.  Call inside
        `exclusive`, after `read`. Whether there was room for it."""
        marks = array("I", self._marks[-MARKS_KEPT:])
        base = Base(self.version, len(parts), base64.b64encode(marks.tobytes()).decode())
        first = {"do": BASE, "version": base.version, "lines": base.lines, "marks": base.marks}
        data = b"".join(map(_line, (first, *parts)))
        if shutil.disk_usage(self._disk.root).free < 2 * len(data):
            return False
        self._disk.put_aside(PATH, data)
        self._head, self._offset, self._is_named = data[:HEAD_BYTES], len(data), True
        return True

    def append(self, record: dict[str, Any]) -> None:
        """Make one more record durable.  Call inside `exclusive`, after `read`."""
        path = self._disk.root / PATH
        if not self._offset:
            self._disk.put(PATH, b"")
            self._disk.sync(".")
        elif path.stat().st_size > self._offset:
            self._disk.truncate(PATH, self._offset)  # a torn, unacknowledged append
        if not self._is_named:  # who renamed it may have been killed before it was for good
            self._disk.sync(".")
            self._is_named = True
        self._disk.add_to(PATH, _line(record))

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
        with self.door(version):
            record: dict[str, Any] = decoder_of(dict[str, Any])(json.loads(body))
        return record

    def door(self, version: int | None = None) -> AbstractContextManager[None]:
        """What of the log cannot be read, or applied, is told as damage."""
        what = "the catalog log" if version is None else f"record {version} of the catalog log"
        return reading(self._disk.root / PATH, what, "CATALOG_DAMAGED", kind=CatalogError)


def _line(record: Record) -> bytes:
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    return b"%08x %s\n" % (zlib.crc32(body), body)
