"""Python's cyclic garbage collector, kept from looking at very many objects that all stay.

Each of its full passes looks at everything there is: reading a catalog of 100,000 queries took
three times as long with them.  What counts references goes on; only cycles wait.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pause:
    """Until the last of those who want it is done, in whatever threads they are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._many = 0
        self._was_on = False

    def begin(self) -> None:
        with self._lock:
            if self._many == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._many += 1

    def end(self) -> None:
        with self._lock:
            self._many -= 1
            if self._many == 0 and self._was_on:
                gc.enable()


_pause = _Pause()


@contextmanager
def collector_paused() -> Iterator[None]:
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()


def look_through_now() -> None:
    """The full pass that very many new objects have brought near, before somebody else has to wait
    for it."""
    gc.collect()


def set_aside() -> None:
    """What there is now lives long, such as planned queries: it need not be looked at again every
    few rounds."""
    gc.collect()
    gc.freeze()


def take_back() -> None:
    """All that was set aside may go again."""
    gc.unfreeze()
