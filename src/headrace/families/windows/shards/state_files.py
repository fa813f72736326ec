"""What a shard holds between rounds, as memory that all workers of a machine share.

A state is pickled; its large arrays lie beside it, a mapped file each, and whoever opens the state
works on them in place.  So a round costs what changes, and nothing is copied because another worker
does it.  None of it is durable: a state that is missing, or not the one that is asked for, is made
anew from the log.

One worker has a state at a time: it takes it away by a rename, and puts it back under another name
when the round is done.  A worker that dies takes the state with it; what it leaves behind nobody
finds by name, and the next `put` removes it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.disk import PRIVATE_FOLDER, private

MEMORY = Path("/dev/shm")  # noqa: S108 - memory of this machine; folders in it are ours alone
APART_BYTES = 1 << 16  # smaller arrays lie in the pickle
_PREFIX = "headrace-"


class Segment(NamedTuple):
    """A mapped file that holds one array."""

    path: str
    size: int


@dataclass(slots=True)
class Held:
    """A state that has been taken: the object, and which arrays of it lie in which file."""

    state: Any
    segments: dict[int, Segment] = field(default_factory=dict)
    """By the address they are mapped at."""
    maps: list[mmap.mmap] = field(default_factory=list)


class StateFiles:
    """The states of one shard on this machine, in the first of these folders that has room."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def take(self, token: str) -> Held | None:
        """The state of this name, now only ours; None if it is not here."""
        mine = self._taken(token)
        if mine is None:
            return None
        try:
            with open(mine, "rb") as file:
                segments, body = pickle.load(file), file.read()
            return _opened(segments, body)
        except (OSError, EOFError, pickle.PickleError, ValueError):
            return None

    def _taken(self, token: str) -> Path | None:
        for folder in self._folders:
            mine = folder / f"{uuid.uuid4().hex}.taken"
            with suppress(OSError):
                os.rename(folder / f"{token}.state", mine)
                return mine
        return None

    def put(self, token: str, held: Held) -> bool:
        """Leave the state under a new name.  False where there is no room for it: then it is not
        there.  Arrays that were made since it was taken are copied."""
        apart: list[pickle.PickleBuffer] = []

        def lies_apart(buffer: pickle.PickleBuffer) -> bool:
            is_large = buffer.raw().nbytes >= APART_BYTES
            if is_large:
                apart.append(buffer)
            return not is_large

        body = pickle.dumps(held.state, 5, buffer_callback=lies_apart)
        for folder in self._folders:
            with suppress(OSError):
                segments = [_segment_of(buffer.raw(), held, folder) for buffer in apart]
                aside = folder / f"{token}.part"
                with open(aside, "wb", opener=private) as file:
                    pickle.dump(segments, file, 5)
                    file.write(body)
                self._remove_but({segment.path for segment in segments} | {str(aside)})
                os.rename(aside, folder / f"{token}.state")
                return True
        self._remove_but(set())
        return False

    def _remove_but(self, kept: Set[str]) -> None:
        for path in [path for folder in self._folders for path in folder.iterdir()]:
            if str(path) not in kept:
                with suppress(OSError):
                    path.unlink()


def _opened(segments: Sequence[Segment], body: bytes) -> Held:
    held = Held(None)
    buffers = []
    for segment in segments:
        with open(segment.path, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), segment.size)
        held.maps.append(mapped)
        held.segments[_address(mapped)] = segment
        buffers.append(memoryview(mapped))
    held.state = pickle.loads(body, buffers=buffers)
    return held


def _segment_of(data: memoryview, held: Held, folder: Path) -> Segment:
    """Where the array lies; it is written if it lies nowhere yet."""
    known = held.segments.get(_address(data))
    if known is not None and known.size == data.nbytes:
        return known
    segment = Segment(str(folder / f"{uuid.uuid4().hex}.array"), data.nbytes)
    with open(segment.path, "x+b", opener=private) as file:
        try:
            # memory that is not there would end the worker when it is touched
            os.posix_fallocate(file.fileno(), 0, segment.size)
            with mmap.mmap(file.fileno(), segment.size) as mapped:
                mapped[:] = data
        except OSError:
            os.unlink(segment.path)
            raise
    return segment


def _address(data: object) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)  # type: ignore[call-overload]


# -- where they lie ----------------------------------------------------------------------------------


def places(chosen: str) -> list[Path]:
    """Folders for states: the one that was chosen, or memory, and the machine's temporary files for
    what does not fit there."""
    if chosen:
        return [Path(chosen)]
    temporary = Path(tempfile.gettempdir())
    return [MEMORY, temporary] if os.access(MEMORY, os.W_OK) else [temporary]


def make_room(base: Path, stream: str, run: str, shard: int) -> Path:
    """The folder for the states of a shard in one run of a stream; those of earlier runs are
    removed, as only one at a time runs a home."""
    own = base / f"{_PREFIX}{stream}-{run}"
    if not own.is_dir():
        for path in base.glob(f"{_PREFIX}{stream}-*"):
            if path != own:
                shutil.rmtree(path, ignore_errors=True)
    place = own / f"{shard:05d}"
    base.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    for folder in (own, place):
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    return place


def remove(base: Path, stream: str, run: str) -> None:
    shutil.rmtree(base / f"{_PREFIX}{stream}-{run}", ignore_errors=True)
