"""A Spark of a page: the logs Spark keeps, as carelessly as it does: renamed, never synced, read
without mercy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from headrace.disk import Disk


class SparkStuckError(Exception):
    """Spark would not start from these logs."""


class FakeRows(list[int]):
    """The numbers of the files of a round, as its rows: whatever is selected of them, they are
    all."""

    columns: tuple[str, ...] = ()

    def selectExpr(self, *columns: str) -> Self:
        return self


class FakeSpark:
    """What MicroBatchExecution and FileStreamSource do with their logs, one file a round."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._at = f"{folder}/checkpoint"

    def drain(self, source: Path, round_of: Callable[[list[int], int], None]) -> None:
        for place in ("", "/offsets", "/commits", "/sources", "/sources/0"):
            self._disk.mkdir(self._at + place)
        if not self._exists("metadata"):
            self._put("metadata", json.dumps({"id": os.urandom(8).hex()}))
        json.loads(self._text("metadata"))
        offsets = self._ids("offsets")
        commits = self._ids("commits")
        if commits:
            self._body(f"commits/{commits[-1]}")
        done = self._end(offsets[-1]) if offsets else -1
        if offsets and (not commits or commits[-1] < offsets[-1]):
            start = self._end(offsets[-1] - 1) if offsets[-1] > 0 else -1
            self._run(offsets[-1], start, done, source, round_of)
        number = offsets[-1] + 1 if offsets else 0
        while (end := self._list_more(source)) > done:
            self._put(f"offsets/{number}", f"v1\n{{}}\n{json.dumps({'logOffset': end})}")
            self._run(number, done, end, source, round_of)
            number, done = number + 1, end

    def _run(
        self,
        number: int,
        start: int,
        end: int,
        source: Path,
        round_of: Callable[[list[int], int], None],
    ) -> None:
        logged = [json.loads(self._body(f"sources/0/{n}")[0]) for n in range(start + 1, end + 1)]
        round_of(FakeRows(int(Path(entry["path"]).stem) for entry in logged), number)
        self._put(f"commits/{number}", "v1\n{}")

    def _list_more(self, source: Path) -> int:
        """Log the next new file; the newest offset."""
        ids = self._ids("sources/0")
        seen = {json.loads(self._body(f"sources/0/{n}")[0])["path"] for n in ids}
        new = sorted(p for p in source.iterdir() if f"file://{p}" not in seen)
        if not new:
            return ids[-1] if ids else -1
        number = ids[-1] + 1 if ids else 0
        entry = {
            "path": f"file://{new[0]}",
            "timestamp": int(new[0].stat().st_mtime * 1000),
            "batchId": number,
        }
        self._put(f"sources/0/{number}", f"v1\n{json.dumps(entry)}")
        return number

    def _put(self, name: str, text: str) -> None:
        self._disk.write(f"{self._at}/{name}.tmp", text.encode())
        self._disk.rename(f"{self._at}/{name}.tmp", f"{self._at}/{name}")

    def _exists(self, name: str) -> bool:
        return (self._disk.root / self._at / name).exists()

    def _ids(self, kind: str) -> list[int]:
        return sorted(
            int(p.name) for p in (self._disk.root / self._at / kind).iterdir() if p.name.isdigit()
        )

    def _text(self, name: str) -> str:
        try:
            return (self._disk.root / self._at / name).read_text()
        except OSError as error:
            raise SparkStuckError(f"{name}: {error}") from error

    def _body(self, name: str) -> list[str]:
        lines = self._text(name).split("\n")
        try:
            [json.loads(line) for line in lines[1:]]
        except ValueError as error:
            raise SparkStuckError(f"{name}: {error}") from error
        if lines[0] != "v1":
            raise SparkStuckError(f"{name}: no version")
        return lines[1:]

    def _end(self, number: int) -> int:
        return int(json.loads(self._body(f"offsets/{number}")[1])["logOffset"])
