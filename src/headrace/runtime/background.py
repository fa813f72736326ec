"""Work that goes on after its caller has returned: one piece at a time, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """`begin` hands over the next piece, once the one before has been waited for; `wait` raises
    what it raised."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        assert self._pending is None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "headrace-later")
        self._pending = self._thread.submit(work)

    def wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Let the thread go; another is made when there is work again."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
