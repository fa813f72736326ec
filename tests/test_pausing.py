"""The garbage collector is off while somebody wants it, and on again when nobody does."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from headrace.pausing import collector_paused


def test_two_that_overlap_leave_it_on() -> None:
    """The second begins while it is off, and ends after the first."""
    began, ended = Event(), Event()

    def second() -> None:
        with collector_paused():
            began.set()
            ended.wait(10)
            assert not gc.isenabled()

    with ThreadPoolExecutor(1) as pool:
        with collector_paused():
            running = pool.submit(second)
            assert began.wait(10)
        ended.set()
        running.result()
    assert gc.isenabled()


def test_an_error_turns_it_on_again() -> None:
    with pytest.raises(ValueError, match="x"), collector_paused():
        raise ValueError("x")
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
