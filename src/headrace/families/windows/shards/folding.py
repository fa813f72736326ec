"""Folding the logs of shards: what is folded, and when, is decided for all of them together, so that
they always hold the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from headrace.disk import Disk
from headrace.families.windows.pane_log.background import Compactor
from headrace.families.windows.pane_log.compaction_plan import Compaction
from headrace.families.windows.pane_log.panes import NO_CUTS, PaneRound
from headrace.families.windows.shards.part_log import PartLog
from headrace.families.windows.shards.shard import FoldTask, PartReport, Place

Fold = Callable[[FoldTask], Sequence[PartReport]]


class PartCompactor(Compactor):
    """A fold is a task for each shard; its log is told when all are done."""

    _unreadable = (Exception,)

    def __init__(self, log: PartLog, disk: Disk, place: Place, fold: Fold) -> None:
        self._log: PartLog = log
        self._disk = disk
        self._place = place
        self._run = fold
        self._worker = ThreadPoolExecutor(1, "headrace-folds")
        self._task = None
        self._is_first = True

    def _fold(self, entries: Sequence[PaneRound], due: Compaction) -> PaneRound:
        filled = [e for e in entries if e.rows]
        cuts = replace(due.cuts, pane_us=due.width_us) if filled else NO_CUTS
        rounds = tuple(self._log.parts_of(e) for e in entries)
        times = entries[0].newest_before_us, entries[-1].newest_us
        last = entries[-1].round_id
        reports = self._run(FoldTask(self._place, rounds, cuts, last, *times))
        parts = {r.shard: r.mark for r in reports if r.mark is not None}
        return self._log.add(last, *times, cuts, parts, is_folded=True)

    def _discard(self, made: PaneRound) -> None:
        for mark in self._log.parts_of(made).values():
            self._disk.remove(mark.path)
        self._log.forget(made)
