"""The ledger of a stream: one manifest for each committed round.  The newest is the truth.

Order of a commit: files of the round are durable → Spark's logs of the round are durable → the
manifest is written aside, synced, renamed, its folder synced.  Whatever a crash leaves after the
newest manifest is a leftover, and the repeated round overwrites it.  Manifests are contiguous
and checksummed, and carry size and checksum of every file they speak for, so a missing or
changed file is found and named, never skipped.
"""

from __future__ import annotations

import json
import os
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headrace.catalog.catalog import Catalog
from headrace.disk import Bytes, Disk
from headrace.errors import HomeError
from headrace.records import decode, reading
from headrace.runtime.statistics import check_stats

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file of a round, relative to the home, as it was committed."""

    path: str
    size: int
    crc: int


Choices = Mapping[str, Any]
"""What a family has decided by the rounds so far, as JSON has it: it does the next round by it,
restarted or not."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one round read, and what it made of it.

    `held`: files of earlier rounds that the state still needs, beside those of the rounds `keep`
    speaks of. `choices`: by family."""

    round_id: int
    checkpoint_id: str
    epoch: int
    catalog_version: int
    catalog_mark: int
    first_round: int
    newest_us: int | None
    offsets: str
    chain: str
    inputs: tuple[tuple[str, int, int], ...] = ()
    files: tuple[FileMark, ...] = ()
    keep: Mapping[str, int] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)
    held: tuple[FileMark, ...] = ()
    choices: Mapping[str, Choices] = field(default_factory=dict)


def mark_of(path: str, data: Bytes) -> FileMark:
    return FileMark(path, len(data), zlib.crc32(data))


NEWEST = "newest"
MISSING = "MANIFEST_MISSING"


class Ledger:
    """Manifests below `<folder>/rounds`.  `is_empty`: none is looked for."""

    def __init__(self, disk: Disk, folder: str, is_empty: bool = False) -> None:
        self._disk = disk
        self.folder = folder
        self.rounds: list[int] = []
        self.newest: Manifest | None = None
        self._leftover: list[int] = []
        if not is_empty:
            self.refresh()

    def path(self, round_id: int) -> str:
        return f"{self.folder}/rounds/{round_id:012d}.json"

    def refresh(self) -> None:
        """See what is committed now (another process may be the one that commits).  The folder, of
        many rounds, is gone through at first; then what may be new is looked for by name."""
        if self.newest is None or not self.is_there(self.newest.round_id):
            self._go_through()
            return
        newest = self.newest.round_id
        while self.is_there(newest + 1):
            newest += 1
        if newest > self.newest.round_id:
            self.newest = self.read(newest)
            self.rounds = list(range(self.newest.first_round, newest + 1))

    def is_there(self, round_id: int) -> bool:
        return os.path.exists(self._disk.root / self.path(round_id))

    def _go_through(self) -> None:
        """Another process may commit, and let old rounds go, while the folder is listed: then it is
        listed again."""
        for tries_left in (2, 1, 0):
            try:
                self._go_through_once()
            except HomeError as error:
                if error.code != MISSING or not tries_left:
                    raise
            else:
                return

    def _go_through_once(self) -> None:
        known = max(
            newest_known(self._disk, self.folder),
            -1 if self.newest is None else self.newest.round_id,
        )
        found = self._found()
        if known >= 0 and (not found or found[-1] < known):
            raise self.missing(known)
        if found and (self.newest is None or found[-1] > self.newest.round_id):
            self.newest = self.read(found[-1])
        if self.newest is not None:
            self._leftover = [r for r in found if r < self.newest.first_round]
            found = found[len(self._leftover) :]
            expected = list(range(self.newest.first_round, self.newest.round_id + 1))
            if found != expected:
                raise self.missing(min(set(expected) ^ set(found)))
        self.rounds = found

    def _found(self) -> list[int]:
        place = self._disk.root / self.folder / "rounds"
        return (
            sorted(int(p.stem) for p in place.glob("*.json") if p.stem.isdigit())
            if place.is_dir()
            else []
        )

    def read(self, round_id: int) -> Manifest:
        path = self._disk.root / self.path(round_id)
        what = f"the manifest of round {round_id}"
        try:
            with reading(path, what, "MANIFEST_DAMAGED"):
                line = path.read_bytes()
        except HomeError as error:
            raise (
                self.missing(round_id) if isinstance(error.__cause__, FileNotFoundError) else error
            ) from None
        crc, _, body = line.rstrip(b"\n").partition(b" ")
        if crc != b"%08x" % zlib.crc32(body):
            raise HomeError(
                f"{what} is damaged",
                value=str(path),
                hint="restore it from a backup; `headrace doctor` shows what the home holds",
                code="MANIFEST_DAMAGED",
            )
        with reading(path, what, "MANIFEST_DAMAGED"):
            return self._checked(decode(Manifest, json.loads(body)), round_id)

    def _checked(self, found: Manifest, round_id: int) -> Manifest:
        """What the types do not say of a manifest."""
        if (
            found.round_id != round_id
            or not 0 <= found.first_round <= round_id
            or found.catalog_version < 0
        ):
            raise ValueError("it is of another round")
        for mark in (*found.files, *found.held):
            if not mark.path.startswith(f"{self.folder}/") or ".." in mark.path or mark.size < 0:
                raise ValueError(f"{mark.path}: not a file of this stream")
        return found

    def stats(self, manifest: Manifest) -> Mapping[str, Any]:
        """What a round measured, checked: only who asks for it pays for that."""
        with reading(self._disk.root / self.path(manifest.round_id), code="MANIFEST_DAMAGED"):
            check_stats(manifest.stats)
        return manifest.stats

    def chosen(self, family: str, kind: type[T]) -> T:
        """What a family has decided by the rounds so far; where it has nothing yet, what `kind()`
        says."""
        newest = self.newest
        if newest is None:
            return kind()
        with reading(self._disk.root / self.path(newest.round_id), code="MANIFEST_DAMAGED"):
            return decode(kind, newest.choices.get(family, {}))

    def commit(self, manifest: Manifest) -> None:
        """The moment a round becomes true.  Its files are durable already."""
        body = json.dumps(asdict(manifest), separators=(",", ":")).encode()
        self._disk.put_aside(self.path(manifest.round_id), b"%08x %s\n" % (zlib.crc32(body), body))
        self._disk.write(f"{self.folder}/{NEWEST}", _newest_line(manifest.round_id))
        stale = bisect_left(self.rounds, manifest.first_round)
        gone, self._leftover = self._leftover + self.rounds[:stale], []
        self.newest = manifest
        self.rounds = [*self.rounds[stale:], manifest.round_id]
        for round_id in gone:
            self._disk.remove(self.path(round_id))

    def check(self, mark: FileMark) -> bytes:
        """The content of a committed file, or a clear stop when it is not what was committed."""
        path = self._disk.root / mark.path
        with reading(path):
            data = path.read_bytes()
        if len(data) != mark.size or zlib.crc32(data) != mark.crc:
            raise damaged(path, "does not match its checksum")
        return data

    def check_sizes(self) -> None:
        """Every file of the kept rounds is there with its size (cheap; content is checked on
        reading)."""
        for mark in self.kept_files():
            path = self._disk.root / mark.path
            if not path.is_file():
                raise damaged(path, "is missing")
            if path.stat().st_size != mark.size:
                raise damaged(path, "has another size than was committed")

    def kept_files(self) -> Iterator[FileMark]:
        """Every file that must be there."""
        for round_id in self.rounds:
            yield from (m for m in self.read(round_id).files if self.is_kept(m, round_id))
        yield from () if self.newest is None else self.newest.held

    def is_kept(self, mark: FileMark, round_id: int) -> bool:
        """State that no query needs any more is removed; answers stay as long as their manifest."""
        kind = Path(mark.path).relative_to(self.folder).parts[0]
        return self.newest is None or round_id >= self.newest.keep.get(kind, 0)

    def missing(self, round_id: int) -> HomeError:
        """A round that was committed is not there."""
        return HomeError(
            f"the manifest of round {round_id} is missing",
            value=str(self._disk.root / self.path(round_id)),
            hint="restore it from a backup; `headrace doctor` shows what the home holds",
            code=MISSING,
        )


def damaged(path: Path, how: str) -> HomeError:
    """A file that a manifest speaks for is not what was committed."""
    return HomeError(
        f"a committed file {how}",
        value=str(path),
        hint="restore it from a backup; `headrace doctor` shows what the home holds",
        code="FILE_DAMAGED",
    )


def newest_known(disk: Disk, folder: str) -> int:
    """The round of which the file `newest` knows that it was committed, or −1.

    It is written after each commit and never synced: it may be older than the newest manifest, or
    torn, and then says nothing; but a manifest it names has been there."""
    try:
        line = (disk.root / folder / NEWEST).read_bytes()
        number = int(line[:12])
    except (OSError, ValueError):
        return -1
    return number if number >= 0 and line == _newest_line(number) else -1


def _newest_line(round_id: int) -> bytes:
    text = b"%012d" % round_id
    return b"%s %08x\n" % (text, zlib.crc32(text))


def check_folder(disk: Disk, folder: str, catalog: Catalog) -> None:
    """Whether the catalog is the one a stream was answered with, without going through its
    manifests if that can be helped."""
    known, ledger = newest_known(disk, folder), Ledger(disk, folder, is_empty=True)
    if known < 0 or not ledger.is_there(known):
        check_catalog(Ledger(disk, folder), catalog)
        return
    check_manifest(ledger.read(known), folder, catalog)


def check_catalog(ledger: Ledger, catalog: Catalog) -> None:
    """Is the catalog the one the committed rounds were answered with, or a later state of it?"""
    if ledger.newest is not None:
        check_manifest(ledger.newest, ledger.folder, catalog)


def check_manifest(newest: Manifest, folder: str, catalog: Catalog) -> None:
    """Is the catalog the one this manifest was answered with, or a later state of it?"""
    if newest.catalog_version > catalog.version:
        # somebody may have changed it, and a round been committed with that, since it was read
        catalog.refresh()
    lost = newest.catalog_version > catalog.version
    if lost or catalog.mark(newest.catalog_version) not in (newest.catalog_mark, None):
        raise HomeError(
            "the catalog log has lost committed changes"
            if lost
            else "the catalog log is another one",
            value=f"version {catalog.version}; {folder} was answered with version {newest.catalog_version}",
            hint="restore catalog.log from a backup",
            code="CATALOG_LOST",
        )
