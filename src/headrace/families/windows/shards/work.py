"""The windows of one stream whose state is in shards, as the driver sees them: what it tells the
shards, and what of their work it commits."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from headrace.families.windows.aggregation.blaming import Blaming
from headrace.families.windows.aggregation.counting import total_census
from headrace.families.windows.aggregation.cutting import ChoiceState
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.figures import Elsewhere, ShardsFigures
from headrace.families.windows.plan import Share
from headrace.families.windows.shards.choice import Sharding
from headrace.families.windows.shards.folding import PartCompactor
from headrace.families.windows.shards.part_log import FOLDER, PartLog
from headrace.families.windows.shards.seating import Seat, Seating
from headrace.families.windows.shards.shard import (
    FoldTask,
    PartReport,
    RoundParts,
    ShardReport,
    ShardTask,
)
from headrace.families.windows.shards.shard import Place as ShardPlace
from headrace.families.windows.shards.state_files import places, remove
from headrace.runtime.family import Batch, Outcome, Place, Reading, Round
from headrace.runtime.ledger import FileMark
from headrace.runtime.statistics import Stopwatch
from headrace.values import US_PER_MS

N = TypeVar("N", int, float)
WAITING_ROUNDS_MAX, WAITING_BYTES_MAX = 8, 64 << 20


class Tasks(Protocol):
    """Runs the tasks of the shards (`job.py`)."""

    def take(self, batch: Batch, round_id: int, cuts: Cuts) -> list[PartReport]: ...

    def collect(self, batch: Batch, cuts: Cuts) -> None: ...

    def answer(self, task: ShardTask, seats: Mapping[int, Seat]) -> list[ShardReport]: ...

    def fold(self, task: FoldTask) -> list[PartReport]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A round whose parts are written: the cuts they are of, the parts by shard, how many rows they
    have, and how the next round is cut."""

    cuts: Cuts
    parts: Mapping[int, FileMark]
    cells: int
    cutting: ChoiceState


@dataclass(slots=True)
class ShardsOutcome:
    """What the shards leave of a round, beside files and answers."""

    outcome: Outcome
    taken: Taken
    figures: ShardsFigures
    sharding: Sharding
    groups: Mapping[str, int] = field(default_factory=dict)
    selectivity: Mapping[str, float] = field(default_factory=dict)

    @property
    def cutting(self) -> ChoiceState:
        return self.taken.cutting


def shard_place(place: Place) -> ShardPlace:
    """As tasks are told; the run is another one whenever a stream is opened."""
    root = str(place.disk.root.absolute())
    stream = hashlib.sha1(f"{root}/{place.folder}".encode(), usedforsecurity=False).hexdigest()[:16]
    return ShardPlace(root, place.folder, stream, uuid.uuid4().hex[:12], place.config)


class ShardedWork:
    """Of one stream; opened anew after any failure, so that a round always follows one that was
    committed."""

    def __init__(
        self,
        place: Place,
        sharding: Sharding,
        cutting: ChoiceState,
        exceptions: Sequence[Elsewhere],
        shards: ShardPlace,
        tasks: Tasks,
    ) -> None:
        self._place = place
        self.sharding = sharding
        self._log = PartLog(place.disk, place.ledger)
        self.seating = Seating(self._log, cutting, exceptions)
        self._shards = shards
        self._tasks = tasks
        self._blaming = Blaming(self.seating, place.config.quarantine_probes_max, tasks.collect)
        self._left = ""
        self._waiting: list[RoundParts] = []
        self._reports: Sequence[ShardReport] = ()
        self._remove_leftovers()
        self._folding = PartCompactor(self._log, place.disk, shards, tasks.fold)

    def replan(self, wanted: Mapping[int, Share]) -> None:
        """These are its queries now."""
        self.seating.assign(wanted, self.sharding.covers_us)

    # -- a round -----------------------------------------------------------------------------------

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> tuple[Reading, Taken | None]:
        """Have the parts of the round written; what was taken is None if it is to be read again
        without some queries."""
        while True:
            cuts = self.seating.cutting.cuts()
            with watch.stage("spark"):
                reports, faults = self._take_or_blame(batch, round, cuts)
            if faults:
                return Reading(_nothing, faults=faults), None
            if reports is None:
                continue
            if max((r.rows for r in reports), default=0) > self._place.config.cut_rows_max:
                if self.seating.cut_apart():
                    continue
                return Reading(_nothing, faults=self._evicted(reports)), None
            return self._taken(reports, cuts)

    def _take_or_blame(
        self, batch: Batch, round: Round, cuts: Cuts
    ) -> tuple[list[PartReport] | None, dict[int, str]]:
        try:
            reports = self._tasks.take(batch, round.id, cuts)
        except Exception as error:  # noqa: BLE001 - whatever Spark says, it may be one query's doing
            return None, self._blaming.find(batch, cuts, error)
        self._blaming.passed()
        return reports, {}

    def _taken(self, reports: Sequence[PartReport], cuts: Cuts) -> tuple[Reading, Taken]:
        census = total_census(r.census for r in reports)
        cells = sum(r.rows for r in reports)
        self.seating.cutting.note(census.rows, cells)
        parts = {r.shard: r.mark for r in reports if r.mark is not None}
        return Reading(_nothing, census), Taken(cuts, parts, cells, self.seating.cutting.state)

    def _evicted(self, reports: Sequence[PartReport]) -> dict[int, str]:
        """The queries that tell most groups apart, where a shard would have too many."""
        shares = self.seating.shares()
        most = max(len(s.slot.keys) for s in shares.values())
        worst = max(r.rows for r in reports)
        reason = (
            f"CUT_ROWS: in a round one of {self.sharding.count} shards has {worst:,} groups, more than "
            f"cut_rows_max = {self._place.config.cut_rows_max:,}; use a coarser key or wider slides, "
            f"or raise the limit"
        )
        return {i: reason for i, s in shares.items() if len(s.slot.keys) == most}

    def answer(self, taken: Taken, round: Round, watch: Stopwatch) -> ShardsOutcome:
        """Have every shard take its part, and answer; where no pane closes, its part may wait until
        one does."""
        self._waiting.append(RoundParts(round, taken.cuts, taken.parts))
        outcome = Outcome(files=list(taken.parts.values()))
        reports = self._reports if self._may_wait() else self._answered(outcome, watch)
        self._log.rounds.append(
            self._log.add(
                round.id, round.newest_before_us, round.newest_us, taken.cuts, taken.parts
            )
        )
        self._prune(round, outcome)
        return ShardsOutcome(
            outcome,
            taken,
            self._figures(taken, reports),
            self.sharding,
            _summed(r.groups for r in reports),
            _summed(r.selectivity for r in reports),
        )

    def _may_wait(self) -> bool:
        """Whether the newest round closes no pane, and those that wait are few."""
        newest, pane_us = self._waiting[-1].round, self._waiting[-1].cuts.pane_us
        before, after = newest.watermark_before_us, newest.watermark_us
        if not self._left or before is None or after is None:
            return False
        is_little = sum(own.nbytes for own in self._waiting) <= WAITING_BYTES_MAX
        closes = before // pane_us != after // pane_us
        return not closes and is_little and len(self._waiting) < WAITING_ROUNDS_MAX

    def _answered(self, outcome: Outcome, watch: Stopwatch) -> Sequence[ShardReport]:
        """All rounds that wait are taken, and answered."""
        newest = self._waiting[-1].round
        self._folding.begin(
            self.seating.compactions(self._place.config), newest.watermark_before_us
        )
        leaves, seats = uuid.uuid4().hex[:16], self.seating.version
        task = ShardTask(self._shards, tuple(self._waiting), seats, self._left, leaves)
        with watch.stage("answer"):
            reports = self._tasks.answer(task, self.seating.seats)
        self._left = leaves
        self._waiting.clear()
        for report in reports:
            outcome.files += report.files
            outcome.answers += report.answers
            outcome.faults.update(report.faults)
        self._reports = [
            replace(r, files=[], answers=0, faults={}, is_anew=False, seconds=0.0) for r in reports
        ]
        return reports

    def skip(self, round: Round) -> Outcome:
        """A round without a query of the shards: who comes later must know that its rows are not
        there."""
        newest_us = round.newest_us
        if newest_us is not None:
            self.sharding = replace(self.sharding, covers_us=newest_us + 1)
        self._log.rounds.clear()
        self._waiting.clear()
        return Outcome(keep={FOLDER: round.id + 1})

    def _prune(self, round: Round, outcome: Outcome) -> None:
        horizon = None
        if round.watermark_us is not None:
            history_us = self._place.config.history_ms * US_PER_MS
            horizon = round.watermark_us - self.seating.longest_us - history_us
        self._folding.end(self.seating.compactions(self._place.config), round.watermark_us)
        outcome.keep[FOLDER] = self._log.keep_from(horizon)
        outcome.held = self._log.held

    def _figures(self, taken: Taken, reports: Sequence[ShardReport]) -> ShardsFigures:
        return ShardsFigures(
            self.sharding.keys,
            self.sharding.count,
            self.sharding.why,
            len(self.seating.seats),
            sum(r.nbytes for r in reports),
            self._log.nbytes,
            len(self._log.rounds) * self.sharding.count,
            sum(r.is_anew for r in reports),
            sum(not r.is_kept for r in reports),
            sum(r.seconds for r in reports),
            max((r.seconds for r in reports), default=0.0),
            max((r.process_bytes for r in reports), default=0),
            self.seating.placements.exceptions,
            taken.cutting.united,
        )

    # -- rest --------------------------------------------------------------------------------------

    def rest(self) -> None:
        """States on this machine go with the run; those of others with the next one there."""
        self._folding.rest()
        self._tasks.close()
        self._left = ""
        self._waiting.clear()
        for base in places(self._place.config.shard_folder):
            remove(base, self._shards.stream, self._shards.run)

    def _remove_leftovers(self) -> None:
        """Parts of rounds that were not committed."""
        kept = {m.path for e in self._log.rounds for m in self._log.parts_of(e).values()}
        root = self._place.disk.root
        for place in (root / self._place.folder / FOLDER).rglob("*.arrow"):
            path = place.relative_to(root).as_posix()
            if path not in kept:
                self._place.disk.remove(path)


def _nothing(round: Round, watch: Stopwatch) -> Outcome:
    return Outcome()


def _summed(found: Iterable[Mapping[str, N]]) -> dict[str, N]:
    """Of all shards: each has groups, and rows, that no other has."""
    total: dict[str, N] = {}
    for own in found:
        for key, value in own.items():
            total[key] = total[key] + value if key in total else value
    return total
