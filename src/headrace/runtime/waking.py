"""Whoever waits for answers is woken by a commit: at once in the process that commits, elsewhere by
the file system.

`arm` before looking, wait after: a commit between the two is not missed.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

IN_MOVED_TO = 0x80  # <sys/inotify.h>: a file was renamed into a folder, as manifests are
POLL_S_MIN, POLL_S_MAX = 0.005, 0.2

Wait = Callable[[float], None]
"""Returns when something was committed since it was armed, or after so many seconds."""


class CommitSignal:
    """Commits of the pipelines of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def give(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def arm(self) -> Wait:
        seen = self._count

        def wait(timeout_s: float) -> None:
            with self._changed:
                self._changed.wait_for(lambda: self._count != seen, timeout_s)

        return wait

    def close(self) -> None:
        """There is nothing to give back."""


class FolderSignal:
    """Manifests that another process renames into folders: by inotify, or a poll whose pauses
    grow."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._inotify = _watching(folders)

    def arm(self) -> Wait:
        if self._inotify is None:
            return self._polling()
        _drain(self._inotify)
        return self._woken

    def close(self) -> None:
        if self._inotify is not None:
            os.close(self._inotify)
            self._inotify = None

    def _woken(self, timeout_s: float) -> None:
        assert self._inotify is not None
        ready = select.poll()  # `select` takes no file number past 1,023
        ready.register(self._inotify, select.POLLIN)
        ready.poll(math.ceil(1_000 * timeout_s))

    def _polling(self) -> Wait:
        seen = self._changed_ns()

        def wait(timeout_s: float) -> None:
            end_s, pause_s = time.monotonic() + timeout_s, POLL_S_MIN
            while self._changed_ns() == seen and (left_s := end_s - time.monotonic()) > 0:
                time.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, POLL_S_MAX)

        return wait

    def _changed_ns(self) -> list[int]:
        return [folder.stat().st_mtime_ns if folder.exists() else 0 for folder in self._folders]


class HomeSignal:
    """Commits to a home, whoever runs it: `runs_here` says whether it is this process."""

    def __init__(
        self, own: CommitSignal, runs_here: Callable[[], bool], folders: Sequence[Path]
    ) -> None:
        self._own = own
        self._runs_here = runs_here
        self._folders = folders
        self._others: FolderSignal | None = None

    def arm(self) -> Wait:
        if self._runs_here():
            return self._own.arm()
        if self._others is None:
            self._others = FolderSignal(self._folders)
        return self._others.arm()

    def close(self) -> None:
        if self._others is not None:
            self._others.close()


def _watching(folders: Sequence[Path]) -> int | None:
    """An inotify descriptor for these folders; None where the system has none, or no more of
    them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    found: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if found < 0:
        return None
    if any(
        libc.inotify_add_watch(found, os.fsencode(folder), IN_MOVED_TO) < 0 for folder in folders
    ):
        os.close(found)
        return None
    return found


def _drain(inotify: int) -> None:
    try:
        while os.read(inotify, 1 << 16):
            pass
    except BlockingIOError:
        return
