"""Folding the pane log while rounds go on.

A fold begins with a round, in a thread of its own, and is taken over at the end of that round, or
of a later one if it is a large one.  What it wrote counts from the commit of that round on, whose
manifest names it; the files it replaces are removed after that.  So a crash leaves either the old
files or the new one in force, and the other as a leftover, which the next start removes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from headrace.disk import Disk
from headrace.families.windows.pane_log.compaction import fold, project
from headrace.families.windows.pane_log.compaction_plan import Compaction, CompactionPlan
from headrace.families.windows.pane_log.panes import PaneLog, PaneRound

# a round waits for a fold of so much; a larger one may take until a later round
WAIT_BYTES = 32 << 20
# of all folds of the process: a file that nobody took over is never written again
_numbers = count()


@dataclass(frozen=True, slots=True)
class _Task:
    entries: Sequence[PaneRound]
    future: Future[PaneRound]

    @property
    def is_small(self) -> bool:
        return sum(e.mark.size for e in self.entries) <= WAIT_BYTES


class Folding(Protocol):
    """Folds a log while rounds go on."""

    def begin(self, plan: CompactionPlan, watermark_us: int | None) -> None: ...

    def end(self, plan: CompactionPlan, watermark_us: int | None) -> None: ...

    def rest(self) -> None: ...


class FoldedByOthers:
    """Leaves the log as it is."""

    def begin(self, plan: CompactionPlan, watermark_us: int | None) -> None: ...

    def end(self, plan: CompactionPlan, watermark_us: int | None) -> None: ...

    def rest(self) -> None: ...


class Compactor:
    """One fold of a log at a time."""

    def __init__(self, log: PaneLog, disk: Disk, folder: str) -> None:
        self._log = log
        self._disk = disk
        self._folder = f"{folder}/folded"
        self._worker = ThreadPoolExecutor(1, "headrace-folds")
        self._task: _Task | None = None
        self._is_first = True
        self._remove_leftovers()

    def begin(self, plan: CompactionPlan, watermark_us: int | None) -> None:
        """Begin a fold, if one is due and none is under way."""
        if self._task is not None or watermark_us is None:
            return
        due = plan.next(self._log.rounds, watermark_us)
        if due is not None:
            entries = self._log.rounds[due.start : due.stop]
            self._task = _Task(entries, self._worker.submit(self._fold, entries, due))

    def end(self, plan: CompactionPlan, watermark_us: int | None) -> None:
        """Take over what is done; wait for it if it is small, and in the first round, which may be
        the only one."""
        task, waits = self._task, self._is_first
        self._is_first = False
        if (
            task is None
            or watermark_us is None
            or not (waits or task.is_small or task.future.done())
        ):
            return
        self._task = None
        rounds = self._log.rounds
        start = next((i for i, e in enumerate(rounds) if e is task.entries[0]), None)
        if start is None:  # let go of meanwhile, and perhaps not there to be read
            with suppress(*self._unreadable):
                self._discard(task.future.result())
            return
        made = task.future.result()
        if plan.is_good(task.entries, made.cuts, watermark_us):
            rounds[start : start + len(task.entries)] = [made]
        else:  # queries came that need finer panes, or what these have not in common
            self._discard(made)

    _unreadable: tuple[type[Exception], ...] = (OSError,)
    """What reading files that are gone may raise."""

    def _discard(self, made: PaneRound) -> None:
        """It was made for nothing."""
        self._disk.remove(made.mark.path)

    def rest(self) -> None:
        """Leave nothing under way; what is not taken over is a leftover."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _fold(self, entries: Sequence[PaneRound], due: Compaction) -> PaneRound:
        filled = [e for e in entries if e.rows]
        last, cuts = entries[-1], replace(due.cuts, pane_us=due.width_us)
        if filled:
            table = fold(
                cuts, due.width_us, [project(self._log.read(e), e.cuts, cuts) for e in filled]
            )
        else:
            cuts, table = entries[0].cuts, self._log.read(entries[0])
        path = f"{self._folder}/{last.round_id:012d}-{next(_numbers)}.arrow"
        return self._log.write(
            path, last.round_id, entries[0].newest_before_us, last.newest_us, cuts, table
        )

    def _remove_leftovers(self) -> None:
        place = self._disk.root / self._folder
        held = {mark.path for mark in self._log.held}
        for name in sorted(p.name for p in place.iterdir()) if place.is_dir() else ():
            if f"{self._folder}/{name}" not in held:
                self._disk.remove(f"{self._folder}/{name}")
