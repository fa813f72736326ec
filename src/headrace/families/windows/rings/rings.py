"""The rings of one stream: as placed by the plan, fed from the pane log, closed by the watermark.

Rings are a cache of the pane log.  One that is new, or must hold more than it was made for, is
rebuilt from the log before the next round; nothing else notices.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.aggregation.cutting import UNTRIED, ChoiceState, Cutting
from headrace.families.windows.bands.band_groups import BandGroups, RingBandGroups
from headrace.families.windows.bands.banding import Banding, answers_of
from headrace.families.windows.bands.waiting import CellPick, CellRows, Due, Ordering
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.figures import Elsewhere
from headrace.families.windows.measures import Arrangement, arrange
from headrace.families.windows.pane_log.background import Compactor, FoldedByOthers, Folding
from headrace.families.windows.pane_log.compaction_plan import CompactionPlan
from headrace.families.windows.pane_log.panes import PaneLog, served_by
from headrace.families.windows.placement import Placements
from headrace.families.windows.plan import RingKey, RingPlan, Share, Slot, share
from headrace.families.windows.rings.idle import Idle
from headrace.families.windows.rings.ring import Ring, Windows
from headrace.families.windows.rings.ring_members import Closed, StandingRing, members_of
from headrace.families.windows.rollup.feed import PaneRows, SlotRows
from headrace.families.windows.rollup.groups import Evaluate
from headrace.families.windows.rollup.key_space import KeySpace
from headrace.families.windows.rollup.order import PredicateRollup, RollupStep, plan_rollups
from headrace.families.windows.sketches.sketch_stores import SketchStores
from headrace.runtime.family import Round
from headrace.runtime.ledger import FileMark, Ledger
from headrace.sql.emit import emit
from headrace.sql.query import Query
from headrace.values import ALWAYS_US, US_PER_MS, Relation, watermark

Ints = NDArray[np.int64]

Rolled = tuple[RollupStep, SlotRows | CellPick]
Fed = tuple[Sequence[StandingRing], Arrangement, SlotRows]
"""Rows for some rings, and which columns they have."""
SELECTIVITIES_MAX = 32
ANSWERS_MAX = 1 << 20  # of rings, held at once
MEMORY_ROUNDS = 8
FED_MAX = 1 << 20  # rows of shared rings between two looks at the memory
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
        self._standing: dict[RingKey, StandingRing] = {}
        self._crowds: dict[Slot, Banding] = {}
        self._since: dict[int, int] = {}
        self._longest_us: int | None = None
        self._rounds = 0
        self._rollups: dict[int, tuple[Cuts, list[PredicateRollup]]] = {}
        self._by_slot: dict[Slot, list[StandingRing]] = {}
        self._sketch_stores = SketchStores(config)
        self.bias = self._sketch_stores.bias
        self.keys = KeySpace.empty()
        self._idle = Idle(self.keys, self._crowds)
        self.selectivity: dict[str, float] = {}
        self.barred: dict[int, str] = {}
        self.nbytes = 0

    # -- who sits where ----------------------------------------------------------------------------

    def assign(self, queries: Sequence[Registered], relation: Relation) -> None:
        """These are the queries now: place the new, let go of the gone."""
        wanted = {r.id: r.query for r in queries}
        if wanted.keys() != self._since.keys():
            for slot in self._crowds:
                self._settle(slot)
        self.dismiss([i for i in self._assignment.shares if i not in wanted])
        new = [(i, _asked(query, relation)) for i, query in wanted.items() if i not in self._since]
        self._placements.expect(
            dict(new), [i for i in self._placements.best.asked if i not in wanted]
        )
        # finer rings first: coarser windows may sit on them
        for query_id, asked in sorted(new, key=_grain):
            since, form, plan = self._placements.add(query_id, asked, self._covered_from)
            self._since[query_id] = since
            self._place(plan, form, since)
            self._sketch_stores.join(query_id, form)
            self._replanned()
        self._placements.note_exceptions()

    def dismiss(self, ids: Iterable[int]) -> None:
        for query_id in ids:
            gone = self._assignment.shares[query_id]
            plan = self._assignment.remove(query_id)
            self._sketch_stores.leave(query_id)
            del self._since[query_id]
            if plan.shared_ring is not None:
                self._crowds[plan.slot].band_groups.leave(plan.shared_ring, gone.bands)
            if plan.members:
                self._standing[plan.key].members = None
            else:
                del self._standing[plan.key]
                if not any(s.plan.slot == plan.slot for s in self._standing.values()):
                    self._forget(plan.slot)
            self._replanned()

    def shares(self) -> Mapping[int, Share]:
        return self._assignment.shares

    @property
    def exceptions(self) -> tuple[Elsewhere, ...]:
        """Who sits elsewhere than best."""
        return self._placements.exceptions

    def plans(self) -> Iterable[RingPlan]:
        return self._assignment.rings.values()

    def sizes(self) -> Iterator[tuple[Slot, int, int]]:
        """Groups and bytes of each slot that has rings."""
        for slot, standing_rings in self._by_slot.items():
            held = sum(s.ring.nbytes for s in standing_rings if s.ring is not None)
            yield slot, len(self.keys.of_slot(slot)), held

    def _place(self, plan: RingPlan, asked: Share, since_us: int) -> None:
        """Make sure the ring can hold a new member; one that cannot is rebuilt from the log."""
        standing = self._standing.get(plan.key)
        begins_us = ALWAYS_US
        if plan.shared_ring is not None:
            band_groups = self._crowds.setdefault(plan.slot, Banding(BandGroups())).band_groups
            newest_us = None if standing is None or standing.ring is None else self._log.newest_us
            begins_us = band_groups.join(
                plan.shared_ring, asked.bands, ALWAYS_US if newest_us is None else newest_us + 1
            )
        if standing is None:
            self._standing[plan.key] = StandingRing(plan, arrange(tuple(plan.measures)))
            return
        standing.members = None
        short = (
            standing.ring is not None
            and asked.window.range_us // plan.grain_us > standing.ring.length
        )
        if (
            short
            or since_us < begins_us
            or any(m not in standing.arrangement.ints for m in asked.measures)
        ):
            standing.ring = None
            standing.arrangement = arrange(tuple(plan.measures))

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
        rolled = list(found.roll(self._rollups_of(cuts)))
        self._rebuild(cuts, round, rolled, evaluate)
        self._sketch_stores.take(cuts, found, self._history(evaluate), round.watermark_before_us)
        self._begin_later()
        closed_us = None if round.watermark_us is None else round.watermark_us - cuts.pane_us
        for step, rows in rolled:
            for fed in self._feed(step, rows, closed_us):
                self._add(*fed)
        self._note_selectivity(rolled, round)
        self._check_memory()
        self.barred.update(self._sketch_stores.faults)
        return logged()

    def skip(self, round: Round) -> FileMark:
        """A round without a query."""
        self.selectivity, self.nbytes = {}, 0
        return self._log.skip(round.id, round.newest_us)

    def _add(
        self, standing_rings: Sequence[StandingRing], given: Arrangement, rows: SlotRows
    ) -> None:
        for standing in standing_rings:
            if standing.ring is not None:
                standing.add(rows, given)

    def _feed(
        self, step: RollupStep, rows: SlotRows | CellPick, closed_us: int | None, waits: bool = True
    ) -> Iterator[Fed]:
        """Rows of a slot for its rings; those of a crowd when their pane has closed, or at once."""
        self._idle.note(step.slot, rows)
        if isinstance(rows, SlotRows):
            yield self._by_slot[step.slot], step.arrangement, rows
        elif waits:
            waiting = self._crowds[step.slot].waiting
            yield from self._fold_due(step.slot, waiting.add(rows, step.arrangement, closed_us))
        else:
            yield from self._fold(step.slot, Ordering().in_order([rows]), step.arrangement)

    def _fold_due(self, slot: Slot, due: Iterable[Due]) -> Iterator[Fed]:
        for rows, given in due:
            yield from self._fold(slot, rows, given)

    def _fold(self, slot: Slot, rows: CellRows, given: Arrangement) -> Iterator[Fed]:
        """What each shared ring of the slot takes of these rows."""
        by_shared_ring, fed = (
            {standing.plan.shared_ring: standing for standing in self._by_slot[slot]},
            0,
        )
        for shared_ring, own, folded in self._crowds[slot].fold(rows, given):
            yield [by_shared_ring[shared_ring]], own, folded
            fed += folded.groups.size
            if fed > FED_MAX:  # few rows may be many band groups
                self._weigh()
                fed = 0

    def _settle(self, slot: Slot) -> None:
        """Rows of this slot wait no longer: who sits on its rings, or the numbers of its groups,
        will change."""
        if slot in self._crowds:
            for fed in self._fold_due(slot, self._crowds[slot].waiting.flush()):
                self._add(*fed)

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
            self._standing[plan.key].members = None
        self._sketch_stores.since.clear()

    def close(self, watermark_us: int | None) -> Iterator[list[Closed]]:
        """Close what the watermark has passed; the rings that answered something, ANSWERS_MAX
        answers or little more at a time.  All must be taken: rings are closed as they are asked
        for."""
        closed: list[Closed] = []
        room = ANSWERS_MAX
        if watermark_us is not None:
            self._sketch_stores.close(watermark_us)
        for standing in self._standing.values() if watermark_us is not None else ():
            if standing.is_barred:
                continue
            assert standing.ring is not None and watermark_us is not None
            through = watermark_us // standing.plan.grain_us - 1
            while standing.ring.is_behind(through):
                shared_ring = self._shared_ring_of(standing)
                if standing.members is None:
                    standing.members = members_of(standing.plan, self._since, shared_ring)
                answers = standing.ring.close(through, standing.members.ring_windows, room)
                if (
                    shared_ring is not None
                    and standing.members.shared_ring is not None
                    and answers.end.size
                ):
                    answers = answers_of(answers, shared_ring, standing.members.shared_ring)
                room -= answers.end.size
                if answers.end.size:
                    sketches = self._sketch_stores.answer(
                        standing.plan.slot, standing.plan.grain_us, standing.members, answers
                    )
                    closed.append(Closed(standing, standing.members, answers, sketches))
                    self.barred.update(self._sketch_stores.faults)
                    self._sketch_stores.faults.clear()
                if room <= 0:
                    yield closed
                    closed, room = [], ANSWERS_MAX
        self._sketch_stores.tidy()
        self.barred.update(self._sketch_stores.faults)
        self._sketch_stores.faults.clear()
        yield closed

    def _shared_ring_of(self, standing: StandingRing) -> RingBandGroups | None:
        plan = standing.plan
        return (
            None
            if plan.shared_ring is None
            else self._crowds[plan.slot].band_groups.shared_rings.get(plan.shared_ring)
        )

    def _forget(self, slot: Slot) -> None:
        """Its groups get new numbers, if they come again."""
        self.keys.forget(slot)
        self._idle.forget(slot)
        self._crowds.pop(slot, None)

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
            for slot in self._idle.retire(self._by_slot, watermark_us, self._settle):
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

    # -- rebuilding --------------------------------------------------------------------------------

    def _rollups_of(self, cuts: Cuts) -> list[PredicateRollup]:
        """How rows of these cuts are rolled up for the rings there are; planned once for each."""
        if id(cuts) not in self._rollups:
            if not self._by_slot:
                for standing in self._standing.values():
                    self._by_slot.setdefault(standing.plan.slot, []).append(standing)
            wanted = {
                slot: tuple(dict.fromkeys(m for s in standing_rings for m in s.arrangement.ints))
                for slot, standing_rings in self._by_slot.items()
            }
            self._rollups[id(cuts)] = (cuts, plan_rollups(cuts, wanted))
        return self._rollups[id(cuts)][1]

    def _replanned(self) -> None:
        self.cutting.replanned()
        self._longest_us = self._compaction_plan = None
        self._rounds = 0
        self._rollups.clear()
        self._by_slot.clear()

    def _rebuild(
        self, cuts: Cuts, round: Round, rolled: Sequence[Rolled], evaluate: Evaluate
    ) -> None:
        """Make the rings that are missing, with what the log holds up to the round before."""
        found = [
            standing
            for slot in self._by_slot.values()
            for standing in slot
            if standing.ring is None and not standing.is_barred
        ]
        if not found:
            return
        # before anything is allocated: a ring is as wide as the slot has groups
        self._bar(
            {id(standing): (standing, standing.nbytes(self._width(standing))) for standing in found}
        )
        missing = [standing for standing in found if not standing.is_barred]
        oldest_us = {step.slot: int(rows.pane_us[0]) for step, rows in rolled if rows.pane_us.size}
        before, after = round.watermark_before_us, round.watermark_us
        for standing in missing:
            first = standing.first_pane(before, after, oldest_us.get(standing.plan.slot))
            standing.ring = Ring(standing.arrangement.layout, standing.plan.length, first)
        if before is not None:
            self._replay(missing, before, round.late_us, cuts.pane_us, evaluate)

    def _width(self, standing: StandingRing) -> int:
        """Groups a ring is for, as far as they are known."""
        shared_ring = self._shared_ring_of(standing)
        return (
            len(self.keys.of_slot(standing.plan.slot))
            if shared_ring is None
            else shared_ring.band.size
        )

    def _replay(
        self,
        missing: Sequence[StandingRing],
        before_us: int,
        late_us: int,
        pane_us: int,
        evaluate: Evaluate,
    ) -> None:
        """Feed the log to these rings, and close what was closed before the round.

        Rows of a crowd wait for their panes as they did when they came, where all its rings are
        made anew: so each band is folded of the same rows, and those of open panes wait on."""
        new, slots = (
            {id(standing) for standing in missing},
            {standing.plan.slot for standing in missing},
        )
        crowds = {
            slot
            for slot in slots
            if slot.cells and all(id(standing) in new for standing in self._by_slot[slot])
        }
        for standing in missing:
            if standing.plan.shared_ring is not None:
                self._crowds[standing.plan.slot].band_groups.begin_anew(
                    standing.plan.shared_ring, ALWAYS_US
                )
        first_us = min(
            (s.ring.next_pane * s.plan.grain_us for s in missing if s.ring is not None), default=0
        )
        for entry, table in self._log.replay(first_us):
            assert entry.newest_us is not None, "a round with panes has rows"
            # panes that the watermark of then had passed
            closed_us = watermark(entry.newest_us, late_us + pane_us)
            rollups = [
                b for b in self._rollups_of(entry.cuts) if any(t.slot in slots for t in b.steps)
            ]
            for step, rows in PaneRows(entry.cuts, table, self.keys, evaluate).roll(rollups):
                waits = step.slot in crowds and entry.cuts.pane_us == pane_us
                self._add_to(new, self._feed(step, rows, closed_us, waits))
        for slot in crowds:
            self._add_to(
                new, self._fold_due(slot, self._crowds[slot].waiting.release(before_us - pane_us))
            )
        for standing in missing:
            if standing.ring is not None:
                standing.ring.close(before_us // standing.plan.grain_us - 1, Windows.none())

    def _add_to(self, new: Container[int], fed: Iterable[Fed]) -> None:
        """Old rows, to these rings.

        Panes wider than the ring's go in where they begin: whoever has edges inside of them does
        not count this round (`since`), and for all others that is the same window."""
        for standing_rings, given, rows in fed:
            for standing in standing_rings:
                if id(standing) in new and standing.ring is not None:
                    standing.add(rows, given, standing.ring.next_pane)

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
        band_groups = sum(
            crowd.band_groups.nbytes + crowd.waiting.nbytes for crowd in self._crowds.values()
        )
        self.nbytes = self._weigh() + self.keys.nbytes + band_groups + self._idle.nbytes

    def _weigh(self) -> int:
        """Bytes of all rings; past the limit, the dearest are taken away."""
        return self._bar(
            {id(s): (s, s.ring.nbytes) for s in self._standing.values() if s.ring is not None}
        )

    def _bar(self, standing_rings: Mapping[int, tuple[StandingRing, int]]) -> int:
        """Take the dearest of these (seat, bytes) away, until all rings fit the memory they are
        allowed; their bytes.

        Only marked here: who sits where is for the next plan to change, which may be being read
        already."""
        limit = self._config.ring_bytes_max
        held = sum(
            s.ring.nbytes
            for s in self._standing.values()
            if s.ring is not None and id(s) not in standing_rings
        )
        used = held + sum(nbytes for _, nbytes in standing_rings.values())
        for standing, nbytes in sorted(standing_rings.values(), key=lambda item: -item[1]):
            if used <= limit:
                break
            standing.is_barred, standing.ring = True, None
            if standing.plan.shared_ring is not None:
                self._crowds[standing.plan.slot].band_groups.drop(standing.plan.shared_ring)
            used -= nbytes
            reason = (
                f"RING_BYTES: its ring takes {nbytes:,} bytes ({standing.plan.length:,} panes), and with all others "
                f"more than ring_bytes_max = {limit:,}; use fewer groups, a shorter range, or raise the limit"
            )
            self.barred.update(dict.fromkeys(standing.plan.members, reason))
        return used


def _grain(item: tuple[int, Share]) -> int:
    return item[1].window.grain_us


def _asked(query: Query, relation: Relation) -> Share:
    asked = share(query, relation)
    assert isinstance(asked, Share), asked
    return asked
