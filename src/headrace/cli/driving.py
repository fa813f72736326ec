"""Running an engine while showing how far it is.

The engine works in a thread of its own, the main thread shows progress and takes Ctrl-C or SIGTERM,
which stop the engine after the round at hand.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from headrace.cli.show import caution, console, count, duration
from headrace.cli.tally import Tally

if TYPE_CHECKING:
    from headrace.engine import Engine

POLL_S = 0.2
LINE_EVERY_S = 2.0

Tell = Callable[[str], None]


class Work:
    """A call in a thread; `finish` raises what it raised."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-work", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self._error = error

    def wait(self, seconds: float) -> bool:
        """Wait for the work so many seconds; whether it is done then."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def finish(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def start_spark(engine: Engine, *, whole: bool = False) -> None:
    """A source that is not there is told at once; starting Spark takes some seconds, and it is said
    that it does."""
    for missing in engine.prepare(whole=whole):
        caution(str(missing))
    with telling() as tell:
        work = Work(lambda: _touch(engine))
        began_s = monotonic()
        while not work.wait(POLL_S):
            tell(f"starting Spark … {monotonic() - began_s:.0f} s")
        work.finish()


def _touch(engine: Engine) -> None:
    assert engine.spark is not None


def drain(engine: Engine) -> tuple[Tally, bool]:
    """Run what is there; the tally of it, and whether it came to its end."""
    start_spark(engine)
    tally = Tally()
    tally.skip(engine.statistics())
    work = Work(engine.run)
    whole = _attend(engine, tally, work.wait)
    if not whole:
        engine.stop()
    work.finish()
    tally.absorb(engine.statistics(), monotonic())
    return tally, whole


def follow(engine: Engine) -> Tally:
    """Keep going until Ctrl-C or SIGTERM, also while it starts."""
    with interruptible():
        start_spark(engine, whole=True)
        tally = Tally()
        tally.skip(engine.statistics())
        engine.start()
        _attend(engine, tally, lambda seconds: _failed(engine, seconds))
    engine.stop()  # raises what made a stream fail, if that was the end
    tally.absorb(engine.statistics(), monotonic())
    return tally


def _failed(engine: Engine, seconds: float) -> bool:
    sleep(seconds)
    return not engine.is_running


def _attend(engine: Engine, tally: Tally, wait: Callable[[float], bool]) -> bool:
    """Show progress until `wait` says that it is over (True) or the user does (False)."""
    began_s = monotonic()
    try:
        with interruptible(), telling() as tell:
            while not wait(POLL_S):
                now_s = monotonic()
                tally.absorb(engine.statistics(), now_s)
                tell(progress_text(tally, began_s, now_s))
    except KeyboardInterrupt:
        return False
    return True


def progress_text(tally: Tally, began_s: float, now_s: float) -> str:
    if not tally.rounds:
        return f"the first round … {now_s - began_s:.0f} s"
    return (
        f"round {tally.rounds:,} · {count(tally.rows)} rows · {count(tally.rows_per_s(now_s))} rows/s · "
        f"{count(tally.answers)} answers · {duration(tally.round_s)} a round"
    )


@contextmanager
def telling(screen: Console | None = None) -> Iterator[Tell]:
    """A way to tell progress: one line that changes on a terminal, else a new line now and then."""
    screen = screen or console(stderr=True)
    if screen.is_terminal:
        with screen.status("") as status:
            yield lambda text: status.update(Text(text))
        return
    last_s = monotonic()

    def tell(text: str) -> None:
        nonlocal last_s
        if monotonic() - last_s >= LINE_EVERY_S:
            last_s = monotonic()
            screen.print(Text(text), soft_wrap=True)

    yield tell


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM means what Ctrl-C means.  Only the main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
