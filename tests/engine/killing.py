"""Processes that are killed: run to a certain moment, ended with SIGKILL, and started again over
the same folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

CHILD_S_MAX = 240
LOOK_S = 0.2


@dataclass(frozen=True)
class Kill:
    """When: a file below the folder of streams appears (None: at once), and so many seconds later.
    `all_of_it`: Spark and its workers too."""

    file: str | None
    after_s: float
    all_of_it: bool = True


def kill_and_restart(
    script: Path,
    folder: Path,
    form: str,
    kills: Sequence[Kill],
    after: Callable[[], None] = lambda: None,
) -> int:
    """Run the child to its end through all the kills; how many of them it felt.  `after` each the
    home is looked at.

    While one runs the next starts its Spark, and waits: it opens the home when the one before is
    gone."""
    hits, spare = 0, list[Child]()
    with ExitStack() as ends:
        for kill, following in zip_longest([*kills, None], kills[1:]):
            child = (
                spare.pop()
                if spare
                else ends.enter_context(Child(script, folder, form, _is_late(kill)))
            )
            if kill is not None and _is_late(following):
                spare.append(ends.enter_context(Child(script, folder, form, waits=True)))
            hits += child.run(kill)
            child.end()
            after()
    assert (folder / "done").exists()
    return hits


def _is_late(kill: Kill | None) -> bool:
    """Not while Spark starts."""
    return kill is None or kill.file is not None


class Child:
    """A process over the folder; with `waits` it starts Spark, and nothing else until it is told to
    run."""

    def __init__(self, script: Path, folder: Path, form: str, waits: bool) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._folder = folder
        self._log = folder / "child.log"
        self._workers = set[int]()
        self._looked_s = 0.0
        words = [sys.executable, str(script), str(folder), form, *(["wait"] if waits else [])]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=env,
                start_new_session=True,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._kill_all()
        self._process.wait()

    def _kill_all(self) -> None:
        """Spark's Java is in the child's group; its Python workers are in one of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._workers = set()

    def _look_for_workers(self) -> None:
        """Now and then, for it takes longer than a kill may wait."""
        if time.monotonic() > self._looked_s + LOOK_S:
            self._workers, self._looked_s = below(self._process.pid), time.monotonic()

    def run(self, kill: Kill | None) -> bool:
        """Let it run; whether it was killed before it was done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        moment = (
            None
            if kill is None or kill.file is None
            else self._folder / "race" / "streams" / kill.file
        )
        deadline = time.monotonic() + CHILD_S_MAX
        while kill is None or (moment is not None and not moment.exists()):
            status = self._process.poll()
            if status is not None:
                assert status == 0, f"the child failed:\n{_tail(self._log)}"
                return False
            assert time.monotonic() < deadline, f"the child hangs:\n{_tail(self._log)}"
            self._look_for_workers()
            time.sleep(0.0005 if kill is not None else 0.05)
        time.sleep(kill.after_s)
        if kill.all_of_it:
            self._kill_all()
        else:
            self._process.kill()
        return self._process.wait() == -signal.SIGKILL


def _tail(log: Path) -> str:
    return "\n".join(line[:300] for line in log.read_text(errors="replace").split("\n")[-60:])


def below(pid: int) -> set[int]:
    """All processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents.setdefault(int(place.read_text().rpartition(")")[2].split()[1]), []).append(
                int(place.parent.name)
            )
    found, todo = set[int](), [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found.update(children)
        todo += children
    return found
