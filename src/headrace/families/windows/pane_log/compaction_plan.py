"""How wide the panes of the log must be at which age, and what to fold next.  Pure.

A window of range r whose edges are multiples of g needs panes of g, or finer ones that divide it,
for as long as r lasts.  So the width that serves all queries grows with age, in *steps*: with 10 s
sliding by 10 s beside 30 days sliding by a day it is 10 s at first and a day from then on.  Steps
are those of the queries whose grain the panes still divide: for others the panes are too wide
already.

The log is folded rounds, oldest first, and then rounds as they came.  One fold at a time: rounds
that have come of age, when there are enough of them, or folded ones that have reached the next
step.  Either takes older folded neighbours along that are not larger than all it has so far, so
that a row is rewritten a logarithmic number of times.  No fold spans more than an eighth of its
step: so much longer than needed may its oldest rows stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.families.windows.cuts import Cuts
from headrace.families.windows.pane_log.compaction import common_groupings, without_sketches
from headrace.runtime.ledger import FileMark

FOLD_ROUNDS = 256  # so many rounds that have come of age are folded
FOLD_BYTES = 64 << 20  # or so many bytes of them,
FOLD_BYTES_MIN = 1 << 20  # or so many, if they are more than all that is folded
FOLD_SHARE = 16  # or those of such a part of what their step reaches
SPAN_SHARE = 8

Need = tuple[int, int]
"""Range and grain of a window, in µs."""


class Entry(Protocol):
    """What is asked of an entry of the log: see `panes.PaneRound`."""

    @property
    def newest_before_us(self) -> int | None: ...
    @property
    def newest_us(self) -> int | None: ...
    @property
    def cuts(self) -> Cuts: ...
    @property
    def rows(self) -> int: ...
    @property
    def mark(self) -> FileMark: ...
    @property
    def is_folded(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Step:
    """Panes of this width serve all who look back as far as `reach_us`, but not further than the
    step before."""

    reach_us: int
    width_us: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """Entries `start:stop` of the log, to become one of these cuts, with panes of `width_us`."""

    start: int
    stop: int
    width_us: int
    cuts: Cuts


def steps_for(needs: Iterable[Need]) -> list[Step]:
    """Widths by age, the finest first."""
    steps: list[Step] = []
    width = 0
    for range_us, grain_us in sorted(needs, reverse=True):
        finer = math.gcd(width, grain_us)
        if steps and steps[-1].reach_us == range_us:
            steps.pop()
        if not steps or finer != steps[-1].width_us:
            steps.append(Step(range_us, finer))
        width = finer
    return steps[::-1]


class CompactionPlan:
    """What to fold, for these windows and limits."""

    def __init__(
        self,
        needs: Iterable[Need],
        history_us: int,
        rounds_max: int,
        bytes_max: int,
        served: Callable[[Cuts], frozenset[int]] = lambda cuts: frozenset(),
        sketches_us: int = 0,
    ) -> None:
        """`served`: for whom, but those who ask for sketches, rounds of these cuts hold all they
        need, whatever the width of their panes; `sketches_us`: how far back windows over sketches
        reach."""
        self._needs = frozenset(needs)
        self._served = served
        self._history_us = history_us
        self._rounds_max = rounds_max
        self._bytes_max = bytes_max
        self._sketches_us = sketches_us
        self._steps: dict[int, list[Step]] = {}

    def step(self, entry: Entry, watermark_us: int) -> Step | None:
        """The step an entry has reached by its newest row; None when nobody needs it any more, or
        only as it is."""
        pane_us, newest_us = entry.cuts.pane_us, entry.newest_us
        if newest_us is None or not pane_us:
            return None
        if pane_us not in self._steps:
            self._steps[pane_us] = steps_for(n for n in self._needs if n[1] % pane_us == 0)
        oldest_us = watermark_us - self._history_us
        return next((s for s in self._steps[pane_us] if newest_us >= oldest_us - s.reach_us), None)

    def cuts(self, entry: Entry, watermark_us: int) -> Cuts | None:
        """What is kept of an entry that is folded.  Sketches are not merged: None as long as they
        are needed."""
        kept = without_sketches(entry.cuts)
        oldest_us = watermark_us - self._history_us - self._sketches_us
        is_past = entry.newest_us is not None and entry.newest_us < oldest_us
        return kept if kept == entry.cuts or is_past else None

    def next(self, entries: Sequence[Entry], watermark_us: int) -> Compaction | None:
        """The next fold, if one is due.  The newest entry is left alone: the log never ends with a
        folded one."""
        entries = entries[:-1]
        fresh = next((i for i, e in enumerate(entries) if not e.is_folded), len(entries))
        for i in range(fresh):
            step = self.step(entries[i], watermark_us)
            if step is not None and step.width_us > entries[i].cuts.pane_us:
                return self._from(entries, i, fresh, step, watermark_us)
        stop = self._due(entries, fresh, watermark_us)
        if stop == fresh:
            return None
        step = self.step(entries[fresh], watermark_us)
        width = entries[fresh].cuts.pane_us
        return self._from(entries, fresh, stop, step or Step(0, width), watermark_us)

    def is_good(self, entries: Iterable[Entry], cuts: Cuts, watermark_us: int) -> bool:
        """Whether entries folded so still serve all whom they serve now."""
        filled = [e for e in entries if e.rows]
        steps = [self.step(e, watermark_us) for e in filled]
        return all(s is None or s.width_us % cuts.pane_us == 0 for s in steps) and all(
            self.cuts(e, watermark_us) is not None and self._serve_alike(e.cuts, cuts)
            for e in filled
        )

    def _serve_alike(self, left: Cuts, right: Cuts) -> bool:
        return left is right or left == right or self._served(left) == self._served(right)

    def _together(self, cuts: Cuts, entry: Entry, watermark_us: int) -> Cuts | None:
        """What both can tell, if nobody whom either serves would miss anything."""
        if not entry.rows:
            return cuts
        own = self.cuts(entry, watermark_us)
        both = None if own is None else common_groupings(cuts, own)
        alike = (
            both is not None
            and self._serve_alike(both, cuts)
            and self._serve_alike(both, entry.cuts)
        )
        return both if alike else None

    def _due(self, entries: Sequence[Entry], fresh: int, watermark_us: int) -> int:
        """The end of the rounds from `fresh` on that are to be folded now."""
        stop = fresh
        while stop < len(entries) and self._widens(entries[stop], watermark_us):
            stop += 1
        if self._are_enough(
            entries[fresh:stop], sum(e.mark.size for e in entries[:fresh]), watermark_us
        ):
            return stop
        rounds = len(entries) - fresh
        return (
            max(fresh, len(entries) - self._rounds_max // 2) if rounds > self._rounds_max else fresh
        )

    def _are_enough(self, aged: Sequence[Entry], folded_bytes: int, watermark_us: int) -> bool:
        size = sum(e.mark.size for e in aged)
        if len(aged) >= FOLD_ROUNDS or size >= min(FOLD_BYTES, max(FOLD_BYTES_MIN, folded_bytes)):
            return True
        step = self.step(aged[0], watermark_us) if aged else None
        first, last = (aged[0].newest_us, aged[-1].newest_us) if aged else (None, None)
        return (
            step is not None
            and first is not None
            and last is not None
            and (last - first) * FOLD_SHARE >= step.reach_us
        )

    def _widens(self, entry: Entry, watermark_us: int) -> bool:
        if not entry.rows:
            return True
        step = self.step(entry, watermark_us)
        return step is not None and step.width_us > entry.cuts.pane_us

    def _from(
        self, entries: Sequence[Entry], start: int, limit: int, step: Step, watermark_us: int
    ) -> Compaction | None:
        """Entries from `start` on that fold alike, and the neighbours before them."""
        first = self.cuts(entries[start], watermark_us)
        if first is None:
            return None
        cuts, stop, size = first, start + 1, entries[start].mark.size
        while stop < limit and self._is_like(
            entries[start], entries[stop], step, size, watermark_us
        ):
            both = self._together(cuts, entries[stop], watermark_us)
            if both is None:
                break
            cuts, size, stop = both, size + entries[stop].mark.size, stop + 1
        while start > 0 and self._may_join(entries[start - 1], entries[stop - 1], step, size):
            both = self._together(cuts, entries[start - 1], watermark_us)
            if both is None:
                break
            start -= 1
            cuts, size = both, size + entries[start].mark.size
        return Compaction(start, stop, step.width_us, cuts)

    def _is_like(
        self, first: Entry, entry: Entry, step: Step, size: int, watermark_us: int
    ) -> bool:
        """Whether an entry becomes as wide as the first, and there is room for it."""
        if size + entry.mark.size > self._bytes_max or not self._spans(first, entry, step):
            return False
        own = self.step(entry, watermark_us) or Step(0, entry.cuts.pane_us)
        return not entry.rows or own.width_us == step.width_us

    def _may_join(self, older: Entry, last: Entry, step: Step, size: int) -> bool:
        """Whether an older folded entry, which has its width already, goes along."""
        return (
            older.mark.size <= size
            and older.mark.size + size <= self._bytes_max
            and older.cuts.pane_us == step.width_us
            and self._spans(older, last, step)
        )

    def _spans(self, first: Entry, last: Entry, step: Step) -> bool:
        begin = first.newest_before_us
        if begin is None:  # the first of all: where a folded one begins is not known
            if first.is_folded:
                return False
            begin = first.newest_us
        if begin is None or last.newest_us is None:
            return True
        return last.newest_us - begin <= max(step.reach_us, step.width_us) // SPAN_SHARE
