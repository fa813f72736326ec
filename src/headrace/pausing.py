"""Python's cyclic garbage collector, kept from looking at very many objects that all stay.

Each of its full passes looks at everything there is: reading a catalog of 100,000 queries took three times as long with
them.  What counts references goes on; only cycles wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def set_aside() -> None:
    """What there is now lives long, such as planned queries: it need not be looked at again every few rounds."""
    gc.collect()
    gc.freeze()


def take_back() -> None:
    """All that was set aside may go again."""
    gc.unfreeze()
