"""The rings of one stream: as placed by the plan, fed from the pane log, closed by the watermark.

Rings are a cache of the pane log.  One that is new, or must hold more than it was made for, is
rebuilt from the log before the next round; nothing else notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.aggregation.cutting import UNTRIED, ChoiceState, Cutting
from headrace.families.windows.bands.waiting import CellPick
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.figures import Elsewhere
from headrace.families.windows.pane_log.background import Compactor, FoldedByOthers, Folding
from headrace.families.windows.pane_log.compaction_plan import CompactionPlan
from headrace.families.windows.pane_log.panes import PaneLog, served_by
from headrace.families.windows.placement import Placements
from headrace.families.windows.plan import RingPlan, Share, Slot, share
from headrace.families.windows.rings.closing import Closing
from headrace.families.windows.rings.feeding import Feeding, add
from headrace.families.windows.rings.idle import Idle
from headrace.families.windows.rings.rebuilding import Rebuilding, Rolled
from headrace.families.windows.rings.ring_members import Closed
from headrace.families.windows.rings.standing_rings import StandingRings
from headrace.families.windows.rollup.feed import PaneRows
from headrace.families.windows.rollup.groups import Evaluate
from headrace.families.windows.rollup.key_space import KeySpace
from headrace.families.windows.sketches.sketch_stores import SketchStores
from headrace.runtime.family import Round
from headrace.runtime.ledger import FileMark, Ledger
from headrace.sql.emit import emit
from headrace.sql.query import Query
from headrace.values import ALWAYS_US, US_PER_MS, Relation

Ints = NDArray[np.int64]

SELECTIVITIES_MAX = 32
MEMORY_ROUNDS = 8
IDLE_ROUNDS = 16
# what the smallest stateful micro-batch of Structured Streaming was seen to cost on two cores
MICRO_BATCH_S = 0.4


class Rings:
    """All rings of a stream."""

    def __init__(
        self,
        disk: Disk,
        ledger: Ledger,
        config: Config,
        state: ChoiceState = UNTRIED,
        exceptions: Sequence[Elsewhere] = (),
        log: PaneLog | None = None,
    ) -> None:
        """`log`: one that others fold."""
        self._config = config
        self._log = PaneLog(disk, ledger) if log is None else log
        self._compactor: Folding = (
            Compactor(self._log, disk, ledger.folder) if log is None else FoldedByOthers()
        )
        self._compaction_plan: CompactionPlan | None = None
        self._placements = Placements(exceptions)
        self._assignment = self._placements.assignment
        self.cutting = Cutting(self._assignment, state)
        self._since: dict[int, int] = {}
        self._longest_us: int | None = None
        self._rounds = 0
        self._sketch_stores = SketchStores(config)
        self.bias = self._sketch_stores.bias
        self.keys = KeySpace.empty()
        self.selectivity: dict[str, float] = {}
        self.barred: dict[int, str] = {}
        self.nbytes = 0
        self._standing = StandingRings(config.ring_bytes_max, self.barred)
        self._idle = Idle(self.keys, self._standing.crowds)
        self._connect()

    def _connect(self) -> None:
        """What works on the rings, and keeps nothing itself."""
        self._feeding = Feeding(self._standing, self._idle)
        self._rebuilding = Rebuilding(self._standing, self._feeding, self.keys, self._log)
        self._closing = Closing(self._standing, self._sketch_stores, self._since, self.barred)

    # -- who sits where ----------------------------------------------------------------------------

    def assign(self, queries: Sequence[Registered], relation: Relation) -> None:
        """These are the queries now: place the new, let go of the gone."""
        wanted = {r.id: r.query for r in queries}
        if wanted.keys() != self._since.keys():
            for slot in self._standing.crowds:
                self._feeding.settle(slot)
        self.dismiss([i for i in self._assignment.shares if i not in wanted])
        new = [(i, _asked(query, relation)) for i, query in wanted.items() if i not in self._since]
        self._placements.expect(
            dict(new), [i for i in self._placements.best.asked if i not in wanted]
        )
        # finer rings first: coarser windows may sit on them
        for query_id, asked in sorted(new, key=_grain):
            since, form, plan = self._placements.add(query_id, asked, self._covered_from)
            self._since[query_id] = since
            self._standing.place(plan, form, since, self._log.newest_us)
            self._sketch_stores.join(query_id, form)
            self._replanned()
        self._placements.note_exceptions()

    def dismiss(self, ids: Iterable[int]) -> None:
        for query_id in ids:
            gone = self._assignment.shares[query_id]
            plan = self._assignment.remove(query_id)
            self._sketch_stores.leave(query_id)
            del self._since[query_id]
            if self._standing.leave(plan, gone):  # its groups get new numbers, if they come again
                self.keys.forget(plan.slot)
                self._idle.forget(plan.slot)
            self._replanned()

    def shares(self) -> Mapping[int, Share]:
        return self._assignment.shares

    @property
    def exceptions(self) -> tuple[Elsewhere, ...]:
        """Queries that sit elsewhere than is best for them, and where; committed with each
        round."""
        return self._placements.exceptions

    def plans(self) -> Iterable[RingPlan]:
        return self._assignment.rings.values()

    def sizes(self) -> Iterator[tuple[Slot, int, int]]:
        """Groups and bytes of each slot that has rings."""
        for slot, standing in self._standing.by_slot.items():
            held = sum(s.ring.nbytes for s in standing if s.ring is not None)
            yield slot, len(self.keys.of_slot(slot)), held

    def _covered_from(self, asked: Share) -> int:
        """Windows that start before this lack rows."""
        whole, from_us = self._log.since(asked)
        return ALWAYS_US if whole else from_us

    # -- a round -----------------------------------------------------------------------------------

    def take(self, cuts: Cuts, panes: pa.Table, round: Round, evaluate: Evaluate) -> FileMark:
        """Log the round's panes and add them to the rings, both at once."""
        logged = self._log.begin(round.id, round.newest_before_us, round.newest_us, cuts, panes)
        self._compactor.begin(self._plan_compactions(), round.watermark_before_us)
        found = PaneRows(cuts, panes, self.keys, evaluate)
        rolled = list(found.roll(self._feeding.rollups_of(cuts)))
        self._rebuilding.rebuild(cuts, round, rolled, evaluate)
        self._sketch_stores.take(cuts, found, self._history(evaluate), round.watermark_before_us)
        self._begin_later()
        closed_us = None if round.watermark_us is None else round.watermark_us - cuts.pane_us
        for step, rows in rolled:
            for fed in self._feeding.feed(step, rows, closed_us):
                add(*fed)
        self._note_selectivity(rolled, round)
        self._check_memory()
        self.barred.update(self._sketch_stores.faults)
        return logged()

    def skip(self, round: Round) -> FileMark:
        """A round without a query."""
        self.selectivity, self.nbytes = {}, 0
        return self._log.skip(round.id, round.newest_us)

    def _history(self, evaluate: Evaluate) -> Iterator[tuple[Cuts, PaneRows, int]]:
        """The rounds of the log, read as they are asked for."""
        for entry, table in self._log.replay(ALWAYS_US):
            assert entry.newest_us is not None, "a round with panes has rows"
            yield entry.cuts, PaneRows(entry.cuts, table, self.keys, evaluate), entry.newest_us

    def _begin_later(self) -> None:
        """Queries whose sketches the log does not hold whole answer windows that begin after what
        it lacks."""
        for query_id, since in self._sketch_stores.since.items():
            self._since[query_id] = max(self._since[query_id], since)
            plan = self._assignment.ring_of[query_id]
            self._standing.by_key[plan.key].members = None
        self._sketch_stores.since.clear()

    def close(self, watermark_us: int | None) -> Iterator[list[Closed]]:
        """Close what the watermark has passed; the rings that answered something, a bounded number
        of answers at a time.  All must be taken: rings are closed as they are asked for."""
        return self._closing.close(watermark_us)

    def prune(self, watermark_us: int | None) -> int:
        """Forget panes no window can need; the first round of the log that stays."""
        if watermark_us is None:
            return self._log.keep_from(None)
        if self._longest_us is None:
            self._longest_us = max(
                (s.window.range_us for s in self._assignment.shares.values()), default=0
            )
        longest = self._longest_us
        if self._rounds % IDLE_ROUNDS == 0:
            for slot in self._idle.retire(
                self._standing.by_slot, watermark_us, self._feeding.settle
            ):
                self._sketch_stores.forget(slot)
        self._compactor.end(self._plan_compactions(), watermark_us)
        return self._log.keep_from(watermark_us - longest - self._config.history_ms * US_PER_MS)

    def _plan_compactions(self) -> CompactionPlan:
        if self._compaction_plan is None:
            needs = {
                (s.window.range_us, s.window.grain_us) for s in self._assignment.shares.values()
            }
            config = self._config
            history_us = config.history_ms * US_PER_MS
            limits = (config.log_rounds_max, config.fold_bytes_max)
            shares = self._assignment.shares.values()
            served = served_by(s for s in shares if not s.has_sketches)
            sketches_us = max((s.window.range_us for s in shares if s.has_sketches), default=0)
            self._compaction_plan = CompactionPlan(needs, history_us, *limits, served, sketches_us)
        return self._compaction_plan

    @property
    def log(self) -> PaneLog:
        return self._log

    def rest(self) -> None:
        self._compactor.rest()

    def unshared_s(self, rows: int, spark_s: float) -> float:
        """Spark time of the round with each query a job of its own, at the least: a micro-batch
        each.

        A bound, not a guess at the rest: expanding rows by r/s and keeping state come on top."""
        return len(self._assignment.shares) * min(spark_s, MICRO_BATCH_S) if rows else 0.0

    def _replanned(self) -> None:
        self.cutting.replanned()
        self._longest_us = self._compaction_plan = None
        self._rounds = 0
        self._feeding.replanned()

    # -- statistics and limits ---------------------------------------------------------------------

    def _note_selectivity(self, rolled: Sequence[Rolled], round: Round) -> None:
        """The share of the counted rows each predicate selects (the first ones; statistics are
        bounded)."""
        counted = round.census.rows - round.census.late - round.census.no_time - round.census.bad
        rows = {w: r for t, r in rolled if (w := t.slot.where) is not None} if counted else {}
        self.selectivity = {
            emit(where): float(
                f"{(r.count if isinstance(r, CellPick) else int(r.ints[0].sum())) / counted:.4g}"
            )
            for where, r in list(rows.items())[:SELECTIVITIES_MAX]
        }

    def _check_memory(self) -> None:
        """Rings grow with groups, slowly: every few rounds is often enough."""
        self._rounds += 1
        if self._rounds % MEMORY_ROUNDS != 1:
            return
        rings_nbytes = self._standing.weigh()
        waiting_nbytes = self._standing.waiting_nbytes
        self.nbytes = rings_nbytes + waiting_nbytes + self.keys.nbytes + self._idle.nbytes


def _grain(item: tuple[int, Share]) -> int:
    return item[1].window.grain_us


def _asked(query: Query, relation: Relation) -> Share:
    asked = share(query, relation)
    assert isinstance(asked, Share), asked
    return asked
