"""A disk that remembers, and what a power cut would leave of it.

`RecordingDisk` does every operation and notes it.  `Model` replays any prefix of the notes as a
file system that promises only what POSIX does: a file's content is safe after its own sync, a name
after the sync of its folder. `Model.leave` writes to a folder what a crash at that point may leave,
for each way the unsynced part may fare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random

from headrace.disk import Bytes, Disk


@dataclass(frozen=True)
class Promise:
    """What had been promised: catalog version, round, epoch; and how many source files there
    were."""

    version: int = 0
    round_id: int = -1
    epoch: int = 0
    files: int = 0


@dataclass(frozen=True)
class Op:
    """One operation, and what had been promised before it."""

    verb: str
    path: str
    data: bytes = b""
    new: str = ""
    acked: Promise = Promise()


class QuickDisk(Disk):
    """Does everything but wait for the hardware: tests cut power only on paper."""

    def sync(self, path: str) -> None:
        with self._guard("sync", path):
            if not (self.root / path).exists():
                raise FileNotFoundError(2, "nothing to sync", path)


class RecordingDisk(QuickDisk):
    """Notes what it does.  `skips`: syncs to forget, to prove that forgetting them is noticed."""

    def __init__(self, root: Path, skips: Callable[[str], bool] = lambda path: False) -> None:
        super().__init__(root)
        self.ops: list[Op] = []
        self.acked = Promise()
        self._skips = skips

    def _note(self, verb: str, path: str, data: bytes = b"", new: str = "") -> None:
        self.ops.append(Op(verb, _clean(path), data, _clean(new), self.acked))

    def mkdir(self, path: str) -> None:
        if not (self.root / path).exists():
            self._note("mkdir", path)
        super().mkdir(path)

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        self._note("remove", path)

    def write(self, path: str, data: Bytes) -> None:
        """A file that is there is empty before it has its new content."""
        place = self.root / path
        if place.exists() and place.stat().st_size:
            self._note("write", path)
        super().write(path, data)
        self._note("write", path, bytes(data))

    def append(self, path: str, data: Bytes) -> None:
        super().append(path, data)
        self._note("append", path, bytes(data))

    def truncate(self, path: str, size: int) -> None:
        super().truncate(path, size)
        self._note("write", path, (self.root / path).read_bytes())

    def rename(self, path: str, new: str) -> None:
        super().rename(path, new)
        self._note("rename", path, new=new)

    def remove(self, path: str) -> None:
        was = (self.root / path).exists()
        super().remove(path)
        if was:
            self._note("remove", path)

    def sync(self, path: str) -> None:
        super().sync(path)
        if not self._skips(_clean(path)):
            self._note("sync", path)


def _clean(path: str) -> str:
    return PurePosixPath(path).as_posix() if path else ""


# -- the file system on paper ----------------------------------------------------------------------


@dataclass
class Node:
    """A file or folder: what programs see now, and what is safe."""

    folder: bool
    data: bytes = b""
    safe: bytes | None = None
    names: dict[str, Node] = field(default_factory=dict)
    safe_names: dict[str, Node] = field(default_factory=dict)


# how unsynced contents and unsynced names fare
Fate = Callable[[bytes | None, bytes], bytes]


def kept(safe: bytes | None, now: bytes) -> bytes:
    return now


def dropped(safe: bytes | None, now: bytes) -> bytes:
    return safe or b""


def torn(safe: bytes | None, now: bytes) -> bytes:
    """Half of what was being written: of the end for an append, of the whole for another
    content."""
    done = len(safe) if safe is not None and now.startswith(safe) else 0
    return now[: done + (len(now) - done) // 2]


def zeroed(safe: bytes | None, now: bytes) -> bytes:
    """The length is there, the bytes are not."""
    done = len(safe) if safe is not None and now.startswith(safe) else 0
    return now[:done] + b"\0" * (len(now) - done)


FATES: tuple[Fate, ...] = (kept, dropped, torn, zeroed)


@dataclass(frozen=True)
class Crash:
    """One way a crash may go: the fate of contents, and which unsynced names survive."""

    name: str
    content: Callable[[], Fate]
    name_kept: Callable[[], bool]


def crashes(seed: int) -> list[Crash]:
    """The pure ways, and some where each file and each name fares by itself."""
    return [pure_crash(fate, stays) for fate in FATES for stays in (True, False)] + [
        mixed_crash(f"mixed {seed}.{n}", Random(seed * 10 + n)) for n in range(2)
    ]


def pure_crash(fate: Fate, stays: bool) -> Crash:
    return Crash(
        f"{fate.__name__} content, names {'kept' if stays else 'lost'}", lambda: fate, lambda: stays
    )


def mixed_crash(name: str, r: Random) -> Crash:
    return Crash(name, lambda: r.choice(FATES), lambda: r.random() < 0.5)


class Model:
    """The home as a file system, after some operations."""

    def __init__(self) -> None:
        self.top = Node(True)  # the folder that holds the home: it was always there

    def apply(self, op: Op) -> None:
        match op.verb:
            case "mkdir":
                self._parent(op.path).names[_name(op.path)] = Node(True)
            case "write" | "append":
                names = self._parent(op.path).names
                node = names.setdefault(_name(op.path), Node(False))
                node.data = op.data if op.verb == "write" else node.data + op.data
            case "rename":
                node = self._parent(op.path).names.pop(_name(op.path))
                self._parent(op.new).names[_name(op.new)] = node
            case "remove":
                del self._parent(op.path).names[_name(op.path)]
            case "sync":
                node = self._node(op.path)
                node.safe, node.safe_names = node.data, dict(node.names)
            case other:
                raise AssertionError(other)

    def leave(self, folder: Path, crash: Crash) -> None:
        """Write what the crash leaves."""
        folder.mkdir()
        _leave(self.top, folder, crash)

    def digest(self, crash: Crash) -> tuple[object, ...]:
        """What the crash leaves, to see whether it has been tried already."""
        return _digest(self.top, crash)

    def _node(self, path: str) -> Node:
        node = self.top
        for part in _parts(path):
            node = node.names[part]
        return node

    def _parent(self, path: str) -> Node:
        node = self.top
        for part in _parts(path)[:-1]:
            node = node.names[part]
        return node


HOME = "race"


def _parts(path: str) -> list[str]:
    """Below the folder that holds the home; `..` is that folder."""
    if path == "..":
        return []
    return [HOME, *(p for p in path.split("/") if p not in ("", "."))]


def _name(path: str) -> str:
    return _parts(path)[-1]


def _names(node: Node, crash: Crash) -> dict[str, Node]:
    """Which names of a folder survive: the safe ones, and of the changes since those that fate
    keeps."""
    names: dict[str, Node] = {}
    for name in sorted({*node.names, *node.safe_names}):
        now, safe = node.names.get(name), node.safe_names.get(name)
        found = now if now is safe or crash.name_kept() else safe
        if found is not None:
            names[name] = found
    return names


def _content(node: Node, crash: Crash) -> bytes:
    return node.data if node.safe == node.data else crash.content()(node.safe, node.data)


def _leave(node: Node, place: Path, crash: Crash) -> None:
    for name, child in _names(node, crash).items():
        if child.folder:
            (place / name).mkdir()
            _leave(child, place / name, crash)
        else:
            (place / name).write_bytes(_content(child, crash))


def _digest(node: Node, crash: Crash) -> tuple[object, ...]:
    return tuple(
        (name, _digest(child, crash) if child.folder else hash(_content(child, crash)))
        for name, child in _names(node, crash).items()
    )
