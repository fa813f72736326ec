"""The one door to the disk: every durable write of a home folder goes through a `Disk`.

Eight primitive operations, so that a test can record them and replay every prefix with
unsynced writes kept, dropped or torn.  Composite writes (`put`, `put_aside`) fix the fsync
order once.  After a failed write or fsync the door stays shut: what the kernel then holds
is unknown, and guessing would break the promise that committed answers are never lost.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace.errors import HomeError

Bytes = bytes | bytearray | memoryview
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def private(path: str, flags: int) -> int:
    """An opener: what is made by it only its owner reads."""
    return os.open(path, flags, PRIVATE_FILE)


class Disk:
    """Durable writes below `root`.  Paths are relative to it, with forward slashes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._broken: str | None = None

    def url(self, path: str) -> str:
        """A file or folder as Spark is told it: where a cluster has another file system for its
        default, a path alone would be one there."""
        return f"file://{self.root.absolute() / path}"

    # -- primitives: a recording disk overrides exactly these --------------------------------------

    def mkdir(self, path: str) -> None:
        with self._guard("make folder", path):
            (self.root / path).mkdir(PRIVATE_FOLDER, exist_ok=True)

    def write(self, path: str, data: Bytes) -> None:
        """The whole content of a file, from its start; not yet durable."""
        with self._guard("write", path), open(self.root / path, "wb", opener=private) as file:
            file.write(data)

    def append(self, path: str, data: Bytes) -> None:
        with self._guard("append", path), open(self.root / path, "ab", opener=private) as file:
            file.write(data)

    def truncate(self, path: str, size: int) -> None:
        with self._guard("truncate", path):
            os.truncate(self.root / path, size)

    def rename(self, path: str, new: str) -> None:
        with self._guard("rename", path):
            os.replace(self.root / path, self.root / new)

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""
        with self._guard("remove", path):
            (self.root / path).unlink(missing_ok=True)

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        with self._guard("remove", path):
            os.rmdir(self.root / path)

    def sync(self, path: str) -> None:
        """Make a file's content, or a folder's entries, durable."""
        with self._guard("sync", path):
            handle = os.open(self.root / path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    # -- composites --------------------------------------------------------------------------------

    def make_root(self) -> None:
        """The root itself and its missing parents, durable."""
        above = [p for p in self.root.absolute().parents if not p.is_dir()]
        with self._guard("make folder", "."):
            self.root.absolute().parent.mkdir(parents=True, exist_ok=True)
        self.mkdir(".")
        for level in range(1, len(above) + 2):
            self.sync("/".join([".."] * level))

    def open_lock(self, path: str) -> IO[bytes]:
        """A file to be locked, made if it is missing; what it holds need not last."""
        with self._guard("open", path):
            return open(self.root / path, "a+b", opener=private)

    def make_folder(self, path: str) -> None:
        """A folder and its missing parents, durable."""
        missing = []
        place = Path(path)
        while str(place) != "." and not (self.root / place).is_dir():
            missing.append(place)
            place = place.parent
        for folder in reversed(missing):
            self.mkdir(folder.as_posix())
            self.sync(folder.parent.as_posix())

    def put(self, path: str, data: Bytes) -> None:
        """A file with this content, durable (its folder's entry is not: sync the folder)."""
        self.write(path, data)
        self.sync(path)

    def put_aside(self, path: str, data: Bytes) -> None:
        """All or nothing: the file has this content, or what it had before."""
        self.put(path + ".part", data)
        self.rename(path + ".part", path)
        self.sync(Path(path).parent.as_posix())

    def add_to(self, path: str, data: Bytes) -> None:
        """Append to a file, and sync it."""
        self.append(path, data)
        self.sync(path)

    def adopt(self, folder: str) -> list[str]:
        """Make files somebody else wrote below `folder` durable; their paths, sorted.

        Hidden files and Spark's success marks are left out."""
        files: list[str] = []
        for place, _, names in os.walk(self.root / folder):
            inside = Path(place).relative_to(self.root)
            found = sorted(n for n in names if not n.startswith((".", "_")))
            files.extend((inside / n).as_posix() for n in found)
            for name in found:
                os.chmod(self.root / inside / name, PRIVATE_FILE)
                self.sync((inside / name).as_posix())
            self.sync(inside.as_posix())
        return sorted(files)

    def check_written(self, files: Iterable[tuple[str, int]]) -> None:
        """What others say they have written here (path, size) is there: they may see another
        folder."""
        for path, size in files:
            try:
                found = (self.root / path).stat().st_size
            except FileNotFoundError:
                found = None
            if found != size:
                raise lost(
                    f"{path} of {size:,} bytes",
                    "no such file" if found is None else f"{found:,} bytes",
                )

    def clear(self, folder: str) -> None:
        """Remove a folder and all in it (leftovers of a round that was not committed)."""
        for place, _, names in os.walk(self.root / folder, topdown=False):
            inside = Path(place).relative_to(self.root)
            for name in names:
                self.remove((inside / name).as_posix())
            self.rmdir(inside.as_posix())

    @contextmanager
    def _guard(self, verb: str, path: str) -> Iterator[None]:
        if self._broken is not None:
            raise HomeError(
                "the home folder is not written any more",
                value=self._broken,
                hint="restart after mending the cause",
                code="HOME_BROKEN",
            )
        try:
            yield
        except OSError as error:
            self._broken = f"cannot {verb} {path}: {error.strerror}"
            raise HomeError(
                self._broken, value=str(self.root), hint=_advice(error), code=_code(error)
            ) from error


def lost(said: str, found: str) -> HomeError:
    """Who writes for us writes elsewhere, or it has gone since."""
    return HomeError(
        "what executors have written is not in the home",
        value=f"they wrote {said}, here there is {found}",
        hint="nothing of this round was committed: mount the same folder at the home's path on every machine of "
        "the cluster, and run again; docs/cluster.md",
        code="HOME_UNSEEN",
    )


def _code(error: OSError) -> str:
    return "DISK_FULL" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "DISK"


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space on this disk and start again: every committed round is safe, the open one is repeated"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "give this user write permission on the home folder"
    return "mend the cause and start again: every committed round is safe, the open one is repeated"
