"""Spark's own logs of a pipeline, read with suspicion.

Spark renames its logs into place but never syncs or verifies them, and a batch id does not identify
its input.  So each manifest remembers the checkpoint's id, the round's offsets, and a running hash
(`chain`) of every input file Spark has listed so far; on restart the logs must still tell the same
story, or we stop.  What a power cut left half-written for rounds that were never committed is taken
away first (`mend`): Spark does not start from a torn log, and writes it again. Spark may be a round
ahead of the manifests (`rounds.py`): what it has noted of that round is taken back.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from headrace.disk import Disk
from headrace.errors import HomeError, SourceError
from headrace.records import ODD
from headrace.runtime.ledger import Manifest

UNREADABLE = (OSError, *ODD)
AHEAD = 1  # rounds that Spark may take for done and no manifest speaks of


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a file source, as Spark's source log lists it."""

    path: str
    time_ms: int
    batch: int

    @property
    def local(self) -> Path | None:
        parts = urlparse(self.path)
        return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


@dataclass(frozen=True, slots=True)
class Input:
    """What a round reads: the offsets, and for file sources the files."""

    checkpoint_id: str
    offsets: str
    files: tuple[Listed, ...]
    chain: str

    @staticmethod
    def of(manifest: Manifest) -> Input:
        """What a committed round read, as far as the next one needs to know."""
        return Input(manifest.checkpoint_id, manifest.offsets, (), manifest.chain)


class SparkLogs:
    """The checkpoint folder of one pipeline, inside the home."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = f"{folder}/checkpoint"
        self._root = disk.root / self._folder

    @property
    def location(self) -> str:
        return self._disk.url(self._folder)

    def checkpoint_id(self) -> str:
        found = self._noted_id()
        if found is None:
            raise _mismatch("Spark's file metadata cannot be read")
        return found

    def input_of(self, round_id: int, before: Input | None) -> Input:
        """What Spark says the round reads, and where that leaves the chain."""
        offsets = self._offsets(round_id)
        last = -1 if before is None else _log_offset(before.offsets)
        end = _log_offset(offsets)
        if end < last or end > max(self._source_ids(), default=-1):
            # Spark would take a changed digit as it is, and read files twice or never
            raise _mismatch(f"Spark's offsets of round {round_id} point outside its list of files")
        files = tuple(f for f in self._listed(end) if last < f.batch)
        return Input(
            self.checkpoint_id(),
            offsets,
            files,
            chain("" if before is None else before.chain, files),
        )

    def sync(self, round_id: int, before: Input | None) -> None:
        """Make what Spark wrote for this round durable: a round may span several entries of the
        source log."""
        last = -1 if before is None else _log_offset(before.offsets)
        end = _log_offset(self._offsets(round_id))
        names = [
            f"sources/0/{n}{kind}" for n in range(last + 1, end + 1) for kind in ("", ".compact")
        ]
        names += [f"offsets/{round_id}", "metadata"]
        for name in names:
            for path in (name, _crc(name)):
                if (self._root / path).exists():
                    self._disk.sync(f"{self._folder}/{path}")
        for place in ("offsets", "sources/0", "sources", "."):
            if (self._root / place).is_dir():
                self._disk.sync(f"{self._folder}/{place}")
        self._disk.sync(self._folder.rpartition("/")[0])

    def mend(self, newest: Manifest | None) -> None:
        """Before Spark starts: take away what no committed round speaks of and Spark cannot read,
        or takes for done."""
        self._clear_hidden()
        done = -1 if newest is None else newest.round_id
        if max(self._ids("commits"), default=-1) > done + AHEAD:
            return  # `verify` says so
        for round_id in self._ids("commits"):
            if round_id > done or not self._is_whole(f"commits/{round_id}"):
                # whether a round is done the manifest says; Spark asks again
                self._remove(f"commits/{round_id}")
        if newest is None and self._noted_id() is None:
            self._remove("metadata")
        end = -1 if newest is None else _log_offset(newest.offsets)
        intact = self._intact(end)
        for round_id in self._ids("offsets"):
            name = f"offsets/{round_id}"
            sound = self._is_whole(name) and end <= _log_offset(self._offsets(round_id)) <= intact
            if (round_id > done and not sound) or round_id == done + 1 + AHEAD:
                self._remove(name)
        if done + 1 in self._ids("offsets"):
            end = _log_offset(self._offsets(done + 1))
        self._unlist(end, intact)

    def _intact(self, end: int) -> int:
        """Up to where Spark can read the source log, from `end` on."""
        for n, name in sorted(self._source_names()):
            if n > end:
                if n != end + 1 or not self._is_whole(f"sources/0/{name}"):
                    break
                end = n
        return end

    def _unlist(self, end: int, intact: int) -> None:
        """Let Spark list anew the files of rounds it has not planned or shall plan again: what it
        cannot read, and after `end` what it has only just listed.  A compacted entry stays if those
        it was made of are gone."""
        for n, name in sorted(self._source_names(), reverse=True):
            if n <= end or (n <= intact and not (self._lists_files(name) and self._covers(n))):
                break
            self._remove(f"sources/0/{name}")

    def _lists_files(self, name: str) -> bool:
        """Other sources keep there where they began, once and for all."""
        try:
            return bool(_entries(self._root / "sources" / "0" / name))
        except HomeError:
            return False

    def _covers(self, n: int) -> bool:
        """Whether the source log lists all files before entry `n` without it."""
        names = [(i, name) for i, name in self._source_names() if i < n]
        start = max((i for i, name in names if name.endswith(".compact")), default=0)
        return set(range(start, n)) <= {i for i, _ in names}

    def _clear_hidden(self) -> None:
        """Files that Spark was killed while writing, before it named them: it refuses to begin
        beside one."""
        for place in (".", "offsets", "commits", "sources/0"):
            folder = self._root / place
            hidden = folder.glob(".*") if folder.is_dir() else ()
            # a checksum goes after its file
            for path in sorted(hidden, key=lambda p: p.suffix == ".crc"):
                of_another = (
                    path.suffix == ".crc" and (folder / path.name[1:].removesuffix(".crc")).exists()
                )
                if path.is_file() and not of_another:
                    self._disk.remove(f"{self._folder}/{path.relative_to(self._root)}")

    def forget(self, newest: Manifest | None) -> None:
        """Take away Spark's plan of the round that is not committed: its files will be listed
        anew."""
        end = -1 if newest is None else _log_offset(newest.offsets)
        done = -1 if newest is None else newest.round_id
        for kind in ("commits", "offsets"):
            for round_id in self._ids(kind):
                if round_id > done:
                    self._remove(f"{kind}/{round_id}")
        self._unlist(end, self._intact(end))

    def verify(self, newest: Manifest | None) -> None:
        """Before Spark starts: do its logs still say what the newest manifest says they said?"""
        if newest is None:
            done = max(self._ids("commits"), default=-1)
            if done >= AHEAD:
                raise _mismatch(f"Spark has finished round {done}, and no manifest speaks of it")
            return
        if not (self._root / "metadata").exists():
            raise _mismatch("Spark's checkpoint is gone")
        if self.checkpoint_id() != newest.checkpoint_id:
            raise _mismatch(
                f"the checkpoint is another one ({self.checkpoint_id()} instead of {newest.checkpoint_id})"
            )
        if self._offsets(newest.round_id) != newest.offsets:
            raise _mismatch(f"Spark's offsets of round {newest.round_id} have changed")
        ahead = [r for r in self._ids("commits") if r > newest.round_id + AHEAD]
        if ahead:
            raise _mismatch(
                f"Spark has finished round {max(ahead)}, the newest manifest is {newest.round_id}"
            )
        beyond = [r for r in self._ids("offsets") if r > newest.round_id + 1 + AHEAD]
        if beyond:
            raise _mismatch(
                f"Spark has begun round {max(beyond)}, the newest manifest is {newest.round_id}"
            )
        end = _log_offset(newest.offsets)
        if chain("", tuple(self._listed(end))) != newest.chain:
            raise _mismatch("Spark's list of files it has read has changed")

    def _offsets(self, round_id: int) -> str:
        path = self._root / "offsets" / str(round_id)
        try:
            lines = path.read_text().split("\n")
        except (OSError, UnicodeDecodeError):
            raise _mismatch(f"Spark's offsets of round {round_id} cannot be read") from None
        return "\n".join(lines[2:])

    def _listed(self, end: int) -> list[Listed]:
        """Every file Spark has listed up to offset `end`: the newest compacted log and the logs
        after it; or, where those have expired, a later compacted log, which has them all."""
        place = self._root / "sources" / "0"
        later = min(
            (n for n, name in self._source_names() if n > end and name.endswith(".compact")),
            default=None,
        )
        if later is not None and not self._covers(end + 1):
            return [entry for entry in _entries(place / f"{later}.compact") if entry.batch <= end]
        names = [(n, name) for n, name in self._source_names() if n <= end]
        start = max((n for n, name in names if name.endswith(".compact")), default=-1)
        used = sorted((n, name) for n, name in names if n > start or name == f"{start}.compact")
        return [entry for _, name in used for entry in _entries(place / name)]

    def _source_names(self) -> list[tuple[int, str]]:
        """The entries of the source log: (offset, file name)."""
        place = self._root / "sources" / "0"
        names = [p.name for p in place.iterdir()] if place.is_dir() else []
        return [
            (int(n.removesuffix(".compact")), n)
            for n in names
            if n.removesuffix(".compact").isdigit()
        ]

    def _source_ids(self) -> list[int]:
        return [n for n, _ in self._source_names()]

    def _ids(self, kind: str) -> list[int]:
        place = self._root / kind
        return [int(p.name) for p in place.iterdir() if p.name.isdigit()] if place.is_dir() else []

    def _is_whole(self, name: str) -> bool:
        """Whether Spark could read this log: a version, then lines of JSON (or `-` for no
        offset)."""
        try:
            version, *lines = (self._root / name).read_text().split("\n")
            for line in lines:
                if line not in ("", "-"):
                    json.loads(line)
        except UNREADABLE:
            return False
        return version.startswith("v") and any(lines)

    def _noted_id(self) -> str | None:
        """The id in Spark's `metadata`, if that can be read and has one."""
        try:
            match json.loads((self._root / "metadata").read_text()):
                case {"id": str(found)}:
                    return found
        except UNREADABLE:
            pass
        return None

    def _remove(self, name: str) -> None:
        for path in (name, _crc(name)):
            self._disk.remove(f"{self._folder}/{path}")


def chain(before: str, files: tuple[Listed, ...]) -> str:
    """Running hash over the files read, one after another, so that any prefix can be checked."""
    state = before
    for file in files:
        state = hashlib.sha256(
            f"{state}\n{file.path}\n{file.time_ms}\n{file.batch}".encode()
        ).hexdigest()
    return state


def stat_inputs(files: tuple[Listed, ...]) -> tuple[tuple[str, int, int], ...]:
    """Path, size, time of each local input file; a missing or rewritten one is a clear stop.

    Spark itself reads a vanished file as no rows, without an error."""
    marks = []
    for file in files:
        if file.local is None:
            marks.append((file.path, -1, file.time_ms))
            continue
        try:
            found = os.stat(file.local)
        except OSError:
            raise SourceError(
                "a source file has vanished before its round was committed",
                value=str(file.local),
                hint="put the file back as it was, or run again without it: nothing of this round was committed; "
                "source files may be removed after their round",
                code="SOURCE_GONE",
            ) from None
        time_ms = found.st_mtime_ns // 1_000_000
        if time_ms != file.time_ms:
            raise SourceError(
                "a source file has changed since Spark listed it",
                value=str(file.local),
                hint="run again, and it is read as it is now: nothing of this round was committed; move finished files "
                "into the source folder, never rewrite them",
                code="SOURCE_CHANGED",
            )
        marks.append((file.path, found.st_size, time_ms))
    return tuple(marks)


def _crc(name: str) -> str:
    """Hadoop's checksum file beside a file."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


def _entries(path: Path) -> list[Listed]:
    try:
        lines = path.read_text().split("\n")[1:]
        rows = [json.loads(line) for line in lines if line]
        found = [
            Listed(str(r["path"]), int(r["timestamp"]), int(r["batchId"]))
            for r in rows
            if "path" in r
        ]
        "".join([entry.path for entry in found]).encode()  # a half of a surrogate pair is no path
        return found
    except UNREADABLE:
        raise _mismatch(f"Spark's source log {path.name} cannot be read") from None


def _log_offset(offsets: str) -> int:
    """The file source's offset, or −1 for other sources."""
    try:
        return int(json.loads(offsets.partition("\n")[0])["logOffset"])
    except UNREADABLE:
        return -1


def _mismatch(what: str) -> HomeError:
    return HomeError(
        f"Spark's logs do not match the committed rounds: {what}",
        hint="committed answers are safe; `headrace doctor` explains the ways out",
        code="CHECKPOINT_MISMATCH",
    )
