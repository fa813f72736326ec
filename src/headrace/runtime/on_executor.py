"""What runs on an executor before Headrace can be imported there: sent as a whole, not by name.

So nothing here may use anything of Headrace, nor numpy or Arrow: that they are there is what is
found out.  Who imports this module for sending calls `by_value` first.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

LOOKS_MAX, LOOK_PAUSE_S = 8, 0.25  # a network file system may show a new file some time later
Task = Callable[[Iterator[Any]], Iterator[Any]]
SEEN, MISSING, OTHER, SHUT = "seen", "missing", "other", "shut"


class HomeUnseenError(Exception):
    """Its text is that of an error of ours; the driver reads it (`faults.py`)."""


@dataclass(frozen=True)
class Sign:
    """What only this run's driver has written into the home."""

    home: str
    path: str
    text: str


def by_value() -> None:
    """From now on functions and classes of this module travel whole."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
        sys.modules[__name__]
    )


def state_of(sign: Sign) -> str:
    """Whether the home that is seen here is the driver's."""
    state = MISSING
    for look in range(LOOKS_MAX):
        try:
            with open(sign.path, encoding="utf-8") as file:
                if file.read() == sign.text:
                    return SEEN
            state = OTHER
        except PermissionError:
            return SHUT
        except OSError:
            state = OTHER if os.path.isdir(sign.home) else MISSING
        if look + 1 < LOOKS_MAX:
            time.sleep(LOOK_PAUSE_S)
    return state


def look_around(
    sign: Sign, needed: Iterable[str], pause_s: float
) -> Callable[[int, Iterable[Any]], Iterable[dict[str, Any]]]:
    """A task that tells where it runs: which executor, what it sees and has.  It takes a moment, so
    that other executors get some of its like."""

    def look(index: int, rows: Iterable[Any]) -> Iterable[dict[str, Any]]:
        from pyspark import __version__

        time.sleep(pause_s)
        yield {
            "host": socket.gethostname(),
            "executor": executor(),
            "home": state_of(sign),
            "python": platform.python_version(),
            "program": sys.executable,
            "spark": __version__,
            "user": os.getuid(),
            "missing": [name for name in needed if importlib.util.find_spec(name) is None],
        }

    return look


def executor() -> str:
    """The Java process that this one works for, whatever else it started, and where its files are:
    process ids are told apart by their namespace."""
    try:
        space = os.readlink("/proc/self/ns/pid") + os.readlink("/proc/self/ns/mnt")
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space} {_java(os.getppid())}"


def _java(parent: int) -> int:
    """A worker is a child of the daemon that the executor has started, and starts again if it
    ends."""
    try:
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            is_daemon = b"\0pyspark.daemon\0" in file.read()
        with open(f"/proc/{parent}/stat", encoding="utf-8", errors="replace") as file:
            above = int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return parent
    return above if is_daemon else parent


def proven(sign: Sign, package: str, task: bytes) -> Task:
    """A task over the home: it runs where the home is seen, with the package that is in it."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        if state_of(sign) != SEEN:
            raise HomeUnseenError(
                "[HOME_UNSEEN] an executor does not see the home of the driver\n"
                f"  got:     {sign.home} on {socket.gethostname()}\n"
                "  next:    mount the same folder at the same path on every machine of the cluster"
            )
        use_package(package)
        from pyspark import cloudpickle

        own: Task = cloudpickle.loads(task)
        return own(batches)

    return work


def use_package(package: str) -> None:
    """Import Headrace from here.  A worker lives on and serves others, who may have another one."""
    if package in sys.path:
        sys.path.remove(package)
    sys.path.insert(0, package)
    loaded = sys.modules.get("headrace")
    if loaded is not None and not str(loaded.__file__).startswith(package):
        for name in [n for n in sys.modules if n.partition(".")[0] == "headrace"]:
            del sys.modules[name]
