"""The rings of one stream: seated by the plan, fed from the pane log, closed by the watermark.

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
from headrace.families.contract import Refusal
from headrace.families.windows.banding import Banding, answers_of
from headrace.families.windows.branches import Branch, Twig, plan_branches
from headrace.families.windows.crowd import Crowd
from headrace.families.windows.cutting import UNTRIED, ChoiceState, Cutting
from headrace.families.windows.feed import KeySpace, PaneRows, SlotRows
from headrace.families.windows.fold_plan import FoldPlan
from headrace.families.windows.folds import Folds
from headrace.families.windows.groups import Evaluate
from headrace.families.windows.idle import Idle
from headrace.families.windows.measures import Arrangement, arrange
from headrace.families.windows.panes import PaneLog, served_by
from headrace.families.windows.plan import Cuts, RingKey, RingPlan, Seating, Share, Slot, share
from headrace.families.windows.ring import Ring, Windows
from headrace.families.windows.seats import Closed, Seat, members_of
from headrace.families.windows.sketches.groves import Groves
from headrace.families.windows.spots import LaneSpots, Spots
from headrace.families.windows.waiting import CellPick, CellRows, Due, Ordering
from headrace.runtime.family import Round
from headrace.runtime.ledger import FileMark, Ledger
from headrace.sql.emit import emit
from headrace.sql.tree import Expr
from headrace.values import ALWAYS_US, US_PER_MS, Relation

Ints = NDArray[np.int64]

Rolled = tuple[Twig, SlotRows | CellPick]
Fed = tuple[Sequence[Seat], Arrangement, SlotRows]
"""Rows for some seats, and which columns they have."""
SELECTIVITIES_MAX = 32
ANSWERS_MAX = 1 << 20  # of rings, held at once
MEMORY_ROUNDS = 8
FED_MAX = 1 << 20  # rows of lanes between two looks at the memory
IDLE_ROUNDS = 16
# what the smallest stateful micro-batch of Structured Streaming was seen to cost on two cores
MICRO_BATCH_S = 0.4


class Rings:
    """All rings of a stream."""

    def __init__(
        self, disk: Disk, ledger: Ledger, config: Config, state: ChoiceState = UNTRIED
    ) -> None:
        self._config = config
        self._log = PaneLog(disk, ledger)
        self._folds = Folds(self._log, disk, ledger.folder)
        self._fold_plan: FoldPlan | None = None
        self._seating = Seating()
        self.cutting = Cutting(self._seating.rings, state)
        self._seats: dict[RingKey, Seat] = {}
        self._crowd = Crowd()
        self._wheres: dict[int, Expr | None] = {}
        self._crowds: dict[Slot, Banding] = {}
        self._since: dict[int, int] = {}
        self._longest_us: int | None = None
        self._rounds = 0
        self._branches: dict[int, tuple[Cuts, list[Branch]]] = {}
        self._by_slot: dict[Slot, list[Seat]] = {}
        self._groves = Groves(config)
        self.bias = self._groves.bias
        self.keys = KeySpace.empty()
        self._idle = Idle(self.keys, self._crowds)
        self.selectivity: dict[str, float] = {}
        self.barred: dict[int, str] = {}
        self.nbytes = 0

    # -- who sits where
    # -----------------------------------------------------------------------------

    def seat(self, queries: Sequence[Registered], relation: Relation) -> None:
        """These are the queries now: seat the new, let go of the gone."""
        wanted = {r.id: r.query for r in queries}
        if wanted.keys() != self._since.keys():
            for slot in self._crowds:
                self._settle(slot)
        self.unseat([i for i in self._seating.shares if i not in wanted])
        new = [
            (query_id, share(query, relation))
            for query_id, query in wanted.items()
            if query_id not in self._since
        ]
        for query_id, asked in new:
            assert not isinstance(asked, Refusal), asked
            self._wheres[query_id] = asked.slot.where
            self._crowd.add(asked.slot.where)
        for query_id, asked in sorted(
            new, key=_grain
        ):  # finer rings first: coarser windows may sit on them
            assert isinstance(asked, Share)
            forms = [(self._covered_from(form), form) for form in self._crowd.forms(asked)]
            since, form = min(
                forms, key=lambda item: item[0]
            )  # of equal history, the form that is preferred
            self._since[query_id] = since
            self._place(self._seating.add(query_id, form), form, since)
            self._groves.join(query_id, form)
            self._replanned()

    def unseat(self, ids: Iterable[int]) -> None:
        for query_id in ids:
            gone = self._seating.shares[query_id]
            plan = self._seating.remove(query_id)
            self._groves.leave(query_id)
            del self._since[query_id]
            self._crowd.remove(self._wheres.pop(query_id))
            if plan.lane is not None:
                self._crowds[plan.slot].spots.leave(plan.lane, gone.bands)
            if plan.members:
                self._seats[plan.key].members = None
            else:
                del self._seats[plan.key]
                if not any(s.plan.slot == plan.slot for s in self._seats.values()):
                    self._forget(plan.slot)
            self._replanned()

    def shares(self) -> Mapping[int, Share]:
        return self._seating.shares

    def plans(self) -> Iterable[RingPlan]:
        return self._seating.rings.values()

    def _place(self, plan: RingPlan, asked: Share, since_us: int) -> None:
        """Make sure the ring can hold a new member; one that cannot is rebuilt from the log."""
        seat = self._seats.get(plan.key)
        begins_us = ALWAYS_US
        if plan.lane is not None:
            spots = self._crowds.setdefault(plan.slot, Banding(Spots())).spots
            newest_us = None if seat is None or seat.ring is None else self._log.newest_us
            begins_us = spots.join(
                plan.lane, asked.bands, ALWAYS_US if newest_us is None else newest_us + 1
            )
        if seat is None:
            self._seats[plan.key] = Seat(plan, arrange(tuple(plan.measures)))
            return
        seat.members = None
        short = seat.ring is not None and asked.window.range_us // plan.grain_us > seat.ring.length
        if (
            short
            or since_us < begins_us
            or any(m not in seat.arrangement.ints for m in asked.measures)
        ):
            seat.ring = None
            seat.arrangement = arrange(tuple(plan.measures))

    def _covered_from(self, asked: Share) -> int:
        """Windows that start before this lack rows."""
        whole, from_us = self._log.since(asked)
        return ALWAYS_US if whole else from_us

    # -- a round
    # ------------------------------------------------------------------------------------

    def take(self, cuts: Cuts, panes: pa.Table, round: Round, evaluate: Evaluate) -> FileMark:
        """Log the round's panes and add them to the rings, both at once."""
        logged = self._log.begin(round.id, round.newest_before_us, round.newest_us, cuts, panes)
        self._folds.begin(self._plan_folds(), round.watermark_before_us)
        found = PaneRows(cuts, panes, self.keys, evaluate)
        rolled = list(found.roll(self._branches_of(cuts)))
        self._rebuild(cuts, round, rolled, evaluate)
        self._groves.take(cuts, found, self._history(evaluate), round.watermark_before_us)
        self._begin_later()
        closed_us = None if round.watermark_us is None else round.watermark_us - cuts.pane_us
        for twig, rows in rolled:
            for fed in self._feed(twig, rows, closed_us):
                self._add(*fed)
        self._note_selectivity(rolled, round)
        self._check_memory()
        self.barred.update(self._groves.faults)
        return logged()

    def _add(self, seats: Sequence[Seat], given: Arrangement, rows: SlotRows) -> None:
        for seat in seats:
            if seat.ring is not None:
                seat.add(rows, given)

    def _feed(
        self, twig: Twig, rows: SlotRows | CellPick, closed_us: int | None, waits: bool = True
    ) -> Iterator[Fed]:
        """Rows of a slot for its rings; those of a crowd when their pane has closed, or at once."""
        self._idle.note(twig.slot, rows)
        if isinstance(rows, SlotRows):
            yield self._by_slot[twig.slot], twig.arrangement, rows
        elif waits:
            waiting = self._crowds[twig.slot].waiting
            yield from self._fold_due(twig.slot, waiting.add(rows, twig.arrangement, closed_us))
        else:
            yield from self._fold(twig.slot, Ordering().in_order([rows]), twig.arrangement)

    def _fold_due(self, slot: Slot, due: Iterable[Due]) -> Iterator[Fed]:
        for rows, given in due:
            yield from self._fold(slot, rows, given)

    def _fold(self, slot: Slot, rows: CellRows, given: Arrangement) -> Iterator[Fed]:
        """What each lane of the slot takes of these rows."""
        by_lane, fed = {seat.plan.lane: seat for seat in self._by_slot[slot]}, 0
        for lane, own, folded in self._crowds[slot].fold(rows, given):
            yield [by_lane[lane]], own, folded
            fed += folded.groups.size
            if fed > FED_MAX:  # few rows may be many spots
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
        for query_id, since in self._groves.since.items():
            self._since[query_id] = max(self._since[query_id], since)
            plan = self._seating.ring_of[query_id]
            self._seats[plan.key].members = None
        self._groves.since.clear()

    def close(self, watermark_us: int | None) -> Iterator[list[Closed]]:
        """Close what the watermark has passed; the rings that answered something, ANSWERS_MAX
        answers or little more at a time.  All must be taken: rings are closed as they are asked
        for."""
        closed: list[Closed] = []
        room = ANSWERS_MAX
        if watermark_us is not None:
            self._groves.close(watermark_us)
        for seat in self._seats.values() if watermark_us is not None else ():
            if seat.is_barred:
                continue
            assert seat.ring is not None and watermark_us is not None
            through = watermark_us // seat.plan.grain_us - 1
            while seat.ring.is_behind(through):
                lane = self._lane_of(seat)
                if seat.members is None:
                    seat.members = members_of(seat.plan, self._since, lane)
                answers = seat.ring.close(through, seat.members.ring_windows, room)
                if lane is not None and seat.members.lane is not None and answers.end.size:
                    answers = answers_of(answers, lane, seat.members.lane)
                room -= answers.end.size
                if answers.end.size:
                    sketches = self._groves.answer(
                        seat.plan.slot, seat.plan.grain_us, seat.members, answers
                    )
                    closed.append(Closed(seat, seat.members, answers, sketches))
                    self.barred.update(self._groves.faults)
                    self._groves.faults.clear()
                if room <= 0:
                    yield closed
                    closed, room = [], ANSWERS_MAX
        self._groves.tidy()
        self.barred.update(self._groves.faults)
        self._groves.faults.clear()
        yield closed

    def _lane_of(self, seat: Seat) -> LaneSpots | None:
        plan = seat.plan
        return None if plan.lane is None else self._crowds[plan.slot].spots.lanes.get(plan.lane)

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
                (s.window.range_us for s in self._seating.shares.values()), default=0
            )
        longest = self._longest_us
        if self._rounds % IDLE_ROUNDS == 0:
            for slot in self._idle.retire(self._by_slot, watermark_us, self._settle):
                self._groves.forget(slot)
        self._folds.end(self._plan_folds(), watermark_us)
        return self._log.keep_from(watermark_us - longest - self._config.history_ms * US_PER_MS)

    def _plan_folds(self) -> FoldPlan:
        if self._fold_plan is None:
            needs = {(s.window.range_us, s.window.grain_us) for s in self._seating.shares.values()}
            config = self._config
            history_us = config.history_ms * US_PER_MS
            limits = (config.log_rounds_max, config.fold_bytes_max)
            shares = self._seating.shares.values()
            served = served_by(s for s in shares if not s.has_sketches)
            sketches_us = max((s.window.range_us for s in shares if s.has_sketches), default=0)
            self._fold_plan = FoldPlan(needs, history_us, *limits, served, sketches_us)
        return self._fold_plan

    @property
    def log(self) -> PaneLog:
        return self._log

    def rest(self) -> None:
        self._folds.rest()

    def unshared_s(self, rows: int, spark_s: float) -> float:
        """Spark time of the round with each query a job of its own, at the least: a micro-batch
        each.

        A bound, not a guess at the rest: expanding rows by r/s and keeping state come on top."""
        return len(self._seating.shares) * min(spark_s, MICRO_BATCH_S) if rows else 0.0

    # -- rebuilding
    # -----------------------------------------------------------------------------------

    def _branches_of(self, cuts: Cuts) -> list[Branch]:
        """How rows of these cuts are rolled up for the rings there are; planned once for each."""
        if id(cuts) not in self._branches:
            if not self._by_slot:
                for seat in self._seats.values():
                    self._by_slot.setdefault(seat.plan.slot, []).append(seat)
            wanted = {
                slot: tuple(dict.fromkeys(m for s in seats for m in s.arrangement.ints))
                for slot, seats in self._by_slot.items()
            }
            self._branches[id(cuts)] = (cuts, plan_branches(cuts, wanted))
        return self._branches[id(cuts)][1]

    def _replanned(self) -> None:
        self.cutting.replanned()
        self._longest_us = self._fold_plan = None
        self._rounds = 0
        self._branches.clear()
        self._by_slot.clear()

    def _rebuild(
        self, cuts: Cuts, round: Round, rolled: Sequence[Rolled], evaluate: Evaluate
    ) -> None:
        """Make the rings that are missing, with what the log holds up to the round before."""
        found = [
            seat
            for slot in self._by_slot.values()
            for seat in slot
            if seat.ring is None and not seat.is_barred
        ]
        if not found:
            return
        # before anything is allocated: a ring is as wide as the slot has groups
        self._bar({id(seat): (seat, seat.nbytes(self._width(seat))) for seat in found})
        missing = [seat for seat in found if not seat.is_barred]
        oldest_us = {twig.slot: int(rows.pane_us[0]) for twig, rows in rolled if rows.pane_us.size}
        before, after = round.watermark_before_us, round.watermark_us
        for seat in missing:
            first = seat.first_pane(before, after, oldest_us.get(seat.plan.slot))
            seat.ring = Ring(seat.arrangement.layout, seat.plan.length, first)
        if before is not None:
            self._replay(missing, before, round.late_us, cuts.pane_us, evaluate)

    def _width(self, seat: Seat) -> int:
        """Groups a ring is for, as far as they are known."""
        lane = self._lane_of(seat)
        return len(self.keys.of_slot(seat.plan.slot)) if lane is None else lane.band.size

    def _replay(
        self,
        missing: Sequence[Seat],
        before_us: int,
        late_us: int,
        pane_us: int,
        evaluate: Evaluate,
    ) -> None:
        """Feed the log to these rings, and close what was closed before the round.

        Rows of a crowd wait for their panes as they did when they came, where all its rings are
        made anew: so each band is folded of the same rows, and those of open panes wait on."""
        new, slots = {id(seat) for seat in missing}, {seat.plan.slot for seat in missing}
        crowds = {
            slot
            for slot in slots
            if slot.cells and all(id(seat) in new for seat in self._by_slot[slot])
        }
        for seat in missing:
            if seat.plan.lane is not None:
                self._crowds[seat.plan.slot].spots.begin_anew(seat.plan.lane, ALWAYS_US)
        first_us = min(
            (s.ring.next_pane * s.plan.grain_us for s in missing if s.ring is not None), default=0
        )
        for entry, table in self._log.replay(first_us):
            assert entry.newest_us is not None, "a round with panes has rows"
            closed_us = entry.newest_us - late_us - pane_us
            branches = [
                b for b in self._branches_of(entry.cuts) if any(t.slot in slots for t in b.twigs)
            ]
            for twig, rows in PaneRows(entry.cuts, table, self.keys, evaluate).roll(branches):
                waits = twig.slot in crowds and entry.cuts.pane_us == pane_us
                self._add_to(new, self._feed(twig, rows, closed_us, waits))
        for slot in crowds:
            self._add_to(
                new, self._fold_due(slot, self._crowds[slot].waiting.release(before_us - pane_us))
            )
        for seat in missing:
            if seat.ring is not None:
                seat.ring.close(before_us // seat.plan.grain_us - 1, Windows.none())

    def _add_to(self, new: Container[int], fed: Iterable[Fed]) -> None:
        """Old rows, to these seats.

        Panes wider than the ring's go in where they begin: whoever has edges inside of them does
        not count this round (`since`), and for all others that is the same window."""
        for seats, given, rows in fed:
            for seat in seats:
                if id(seat) in new and seat.ring is not None:
                    seat.add(rows, given, seat.ring.next_pane)

    # -- statistics and limits
    # --------------------------------------------------------------------------

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
        spots = sum(crowd.spots.nbytes + crowd.waiting.nbytes for crowd in self._crowds.values())
        self.nbytes = self._weigh() + self.keys.nbytes + spots + self._idle.nbytes

    def _weigh(self) -> int:
        """Bytes of all rings; past the limit, the dearest are taken away."""
        return self._bar(
            {id(s): (s, s.ring.nbytes) for s in self._seats.values() if s.ring is not None}
        )

    def _bar(self, seats: Mapping[int, tuple[Seat, int]]) -> int:
        """Take the dearest of these (seat, bytes) away, until all rings fit the memory they are
        allowed; their bytes.

        Only marked here: who sits where is for the next plan to change, which may be being read
        already."""
        limit = self._config.ring_bytes_max
        held = sum(
            s.ring.nbytes for s in self._seats.values() if s.ring is not None and id(s) not in seats
        )
        used = held + sum(nbytes for _, nbytes in seats.values())
        for seat, nbytes in sorted(seats.values(), key=lambda item: -item[1]):
            if used <= limit:
                break
            seat.is_barred, seat.ring = True, None
            if seat.plan.lane is not None:
                self._crowds[seat.plan.slot].spots.drop(seat.plan.lane)
            used -= nbytes
            reason = (
                f"RING_BYTES: its ring takes {nbytes:,} bytes ({seat.plan.length:,} panes), and with all others "
                f"more than ring_bytes_max = {limit:,}; use fewer groups, a shorter range, or raise the limit"
            )
            self.barred.update(dict.fromkeys(seat.plan.members, reason))
        return used


def _grain(item: tuple[int, Share | Refusal]) -> int:
    return item[1].window.grain_us if isinstance(item[1], Share) else 0
