"""The rings of one stream: seated by the plan, fed from the pane log, closed by the watermark.

Rings are a cache of the pane log.  One that is new, or must hold more than it was made for, is
rebuilt from the log before the next round; nothing else notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import PlanError
from headrace.families.windows.feed import KeySpace, PaneRows, SlotRows
from headrace.families.windows.measures import Arrangement, arrange
from headrace.families.windows.panes import PaneLog
from headrace.families.windows.plan import (
    Cuts,
    Program,
    Refusal,
    RingKey,
    RingPlan,
    Seating,
    Share,
    Slot,
    plan_cuts,
    share,
)
from headrace.families.windows.ring import Answers, Ring, Windows
from headrace.runtime.family import Round
from headrace.runtime.ledger import FileMark, Ledger
from headrace.sql.emit import emit
from headrace.values import US_PER_MS, Relation, Window

ALWAYS = -(1 << 60)
Picked = tuple[NDArray[np.intp], NDArray[np.intp]]
SELECTIVITIES_MAX = 32
MICRO_BATCH_S = 0.4  # what the smallest stateful micro-batch of Structured Streaming was seen to cost on two cores


@dataclass(frozen=True, slots=True)
class ProgramSeats:
    """Queries of one ring with the same program: their ids and the shape each answers with."""

    program: Program
    ids: NDArray[np.int64]
    shapes: NDArray[np.int64]


@dataclass(slots=True)
class Seat:
    """A ring and who sits on it."""

    plan: RingPlan
    arrangement: Arrangement
    ring: Ring | None = None
    windows: Windows = field(default_factory=Windows.none)
    programs: tuple[ProgramSeats, ...] = ()
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Roll:
    """A slot, the columns its rings want together, and its rings with where their own are among them."""

    slot: Slot
    arrangement: Arrangement
    seats: tuple[tuple[Seat, Picked | None], ...]


Rolled = tuple[Roll, SlotRows | None]


@dataclass(frozen=True, slots=True)
class Closed:
    """What one ring answered in a round."""

    seat: Seat
    answers: Answers


class Rings:
    """All rings of a stream."""

    def __init__(self, disk: Disk, ledger: Ledger, config: Config) -> None:
        self._config = config
        self._log = PaneLog(disk, ledger)
        self._seating = Seating()
        self._seats: dict[RingKey, Seat] = {}
        self._since: dict[int, int] = {}
        self._cuts: Cuts | None = None
        self._rolls: list[Roll] | None = None
        self.keys = KeySpace.empty()
        self.selectivity: dict[str, float] = {}

    # -- who sits where -----------------------------------------------------------------------------

    def seat(self, queries: Sequence[Registered], relation: Relation) -> None:
        """These are the queries now: seat the new, let go of the gone."""
        wanted = {r.id: r.query for r in queries}
        self.unseat([i for i in self._seating.shares if i not in wanted])
        for query_id, query in wanted.items():
            if query_id in self._seating.shares:
                continue
            asked = share(query, relation)
            assert not isinstance(asked, Refusal), asked
            self._since[query_id] = self._covered_from(asked)
            self._place(self._seating.add(query_id, asked), asked)
            self._cuts = self._rolls = None

    def unseat(self, ids: Iterable[int]) -> None:
        for query_id in ids:
            plan = self._seating.remove(query_id)
            del self._since[query_id]
            key = (plan.slot, plan.grain_us)
            if plan.members:
                self._seats[key].listed = False
            else:
                del self._seats[key]
                if not any(s.plan.slot == plan.slot for s in self._seats.values()):
                    self.keys.forget(plan.slot)
            self._cuts = self._rolls = None

    def shares(self) -> Mapping[int, Share]:
        return self._seating.shares

    def cuts(self) -> Cuts:
        """What Spark is to aggregate in the next round."""
        if self._cuts is None:
            self._cuts = plan_cuts(self._seating.rings.values())
        return self._cuts

    def _place(self, plan: RingPlan, asked: Share) -> None:
        """Make sure the ring can hold a new member; one that cannot is rebuilt from the log."""
        key = (plan.slot, plan.grain_us)
        seat = self._seats.get(key)
        if seat is None:
            self._seats[key] = Seat(plan, arrange(tuple(plan.measures)))
            return
        seat.listed = False
        short = seat.ring is not None and asked.window.range_us // plan.grain_us > seat.ring.length
        if short or any(m not in seat.arrangement.ints for m in asked.measures):
            seat.ring = None
            seat.arrangement = arrange(tuple(plan.measures))

    def _covered_from(self, asked: Share) -> int:
        """Windows that start before this lack rows."""
        whole, from_us = self._log.since(asked)
        return ALWAYS if whole else from_us

    # -- a round ------------------------------------------------------------------------------------

    def take(self, cuts: Cuts, panes: pa.Table, round: Round) -> FileMark:
        """Log the round's panes and add them to the rings."""
        if self._rolls is None:
            self._rolls = self._plan_rolls()
        rows = PaneRows(cuts, panes, self.keys)
        rolled = [(roll, rows.slot(roll.slot, roll.arrangement)) for roll in self._rolls]
        self._rebuild(round, rolled)
        for roll, found in rolled:
            assert found is not None
            for seat, columns in roll.seats:
                _add(seat, found, columns, ALWAYS)
        self._note_selectivity(rolled, round)
        self._check_memory()
        return self._log.append(round.id, round.newest_before_us, round.newest_us, cuts, panes)

    def close(self, watermark_us: int | None) -> list[Closed]:
        """Close what the watermark has passed; the rings that answered something."""
        if watermark_us is None:
            return []
        closed = []
        for seat in self._seats.values():
            assert seat.ring is not None
            through = watermark_us // seat.plan.grain_us - 1
            if through >= seat.ring.next_pane:
                if not seat.listed:
                    self._list(seat)
                answers = seat.ring.close(through, seat.windows)
                if answers.end.size:
                    closed.append(Closed(seat, answers))
        return closed

    def prune(self, watermark_us: int | None) -> int:
        """Forget panes no window can need; the first round of the log that stays."""
        if watermark_us is None:
            return self._log.keep_from(None)
        longest = max((s.window.range_us for s in self._seating.shares.values()), default=0)
        return self._log.keep_from(watermark_us - longest - self._config.history_ms * US_PER_MS)

    def unshared_s(self, rows: int, spark_s: float) -> float:
        """Spark time of the round with each query a job of its own, at the least: a micro-batch each.

        A bound, not a guess at the rest: expanding rows by r/s and keeping state come on top."""
        return len(self._seating.shares) * min(spark_s, MICRO_BATCH_S) if rows else 0.0

    # -- rebuilding -----------------------------------------------------------------------------------

    def _plan_rolls(self) -> list[Roll]:
        """Slots, the columns any of their rings wants, and where each ring's are among them."""
        by_slot: dict[Slot, list[Seat]] = {}
        for seat in self._seats.values():
            by_slot.setdefault(seat.plan.slot, []).append(seat)
        rolls = []
        for slot, seats in by_slot.items():
            arrangement = arrange(tuple(dict.fromkeys(m for s in seats for m in s.arrangement.ints)))
            rolls.append(Roll(slot, arrangement, tuple((s, _columns(s.arrangement, arrangement)) for s in seats)))
        return rolls

    def _rebuild(self, round: Round, rolled: Sequence[Rolled]) -> None:
        """Make the rings that are missing, with what the log holds up to the round before."""
        missing = [(roll, seat, found) for roll, found in rolled for seat, _ in roll.seats if seat.ring is None]
        if not missing:
            return
        before, after = round.watermark_before_us, round.watermark_us
        for _, seat, found in missing:
            seat.ring = Ring(seat.arrangement.layout, seat.plan.length, _first_pane(seat, before, after, found))
        if before is None:
            return
        new = {id(seat) for _, seat, _ in missing}
        rolls = list({id(roll): roll for roll, _, _ in missing}.values())
        for entry, table in self._log.replay():
            rows = PaneRows(entry.cuts, table, self.keys)
            for roll in rolls:
                fitting = [(s, c) for s, c in roll.seats if id(s) in new and s.plan.grain_us % entry.cuts.pane_us == 0]
                old = rows.slot(roll.slot, roll.arrangement) if fitting else None
                for seat, columns in fitting if old is not None else ():
                    assert old is not None and seat.ring is not None
                    _add(seat, old, columns, seat.ring.next_pane)
        for _, seat, _ in missing:
            assert seat.ring is not None
            seat.ring.close(before // seat.plan.grain_us - 1, Windows.none())

    def _list(self, seat: Seat) -> None:
        """Window shapes and programs of a ring's members, as arrays."""
        shapes: dict[tuple[Window, int], int] = {}
        programs: dict[int, tuple[Program, list[int], list[int]]] = {}
        for query_id, asked in seat.plan.members.items():
            shape = shapes.setdefault((asked.window, self._since[query_id]), len(shapes))
            _, ids, places = programs.setdefault(id(asked.program), (asked.program, [], []))
            ids.append(query_id)
            places.append(shape)
        grain = seat.plan.grain_us
        spans = [(w.range_us, w.slide_us, w.offset_us, grain - 1 + since) for w, since in shapes]
        columns = np.array(spans, np.int64) // grain
        seat.windows = Windows(*columns.T.copy())
        seat.programs = tuple(
            ProgramSeats(p, np.array(ids, np.int64), np.array(places, np.int64)) for p, ids, places in programs.values()
        )
        seat.listed = True

    # -- statistics and limits --------------------------------------------------------------------------

    def _note_selectivity(self, rolled: Sequence[Rolled], round: Round) -> None:
        """The share of the counted rows each predicate selects (the first ones; statistics are bounded)."""
        counted = round.census.rows - round.census.late - round.census.no_time - round.census.bad
        with_where = [(r.slot.where, found) for r, found in rolled if r.slot.where is not None and found is not None]
        self.selectivity = {
            emit(where): float(f"{int(found.ints[0].sum()) / counted:.4g}")
            for where, found in with_where[:SELECTIVITIES_MAX] if counted
        }

    def _check_memory(self) -> None:
        used = sum(s.ring.nbytes for s in self._seats.values() if s.ring is not None)
        if used > self._config.ring_bytes_max:
            raise PlanError(
                "the windows need more memory than allowed", value=f"{used:,} bytes in {len(self._seats)} rings",
                choices=(f"ring_bytes_max = {self._config.ring_bytes_max:,}",),
                hint="fewer groups, shorter ranges, slides that divide their ranges, or a higher limit",
                code="RING_BYTES",
            )


def _first_pane(seat: Seat, before: int | None, after: int | None, found: SlotRows | None) -> int:
    """The oldest pane that can still matter."""
    grain = seat.plan.grain_us
    if before is not None:
        return before // grain - seat.plan.length
    oldest = [int(found.pane_us[0]) // grain] if found is not None and found.pane_us.size else []
    return min([*oldest, *([] if after is None else [after // grain])], default=0)


def _add(seat: Seat, rows: SlotRows, columns: Picked | None, oldest: int) -> None:
    """Rows of the slot, with the columns of this ring, from pane `oldest` on."""
    assert seat.ring is not None
    panes = rows.pane_us // seat.plan.grain_us
    ints, floats = rows.ints, rows.floats
    if columns is not None:
        ints, floats = ints[columns[0]], floats[columns[1]]
    if oldest > ALWAYS:
        start = int(np.searchsorted(panes, oldest))
        seat.ring.add(panes[start:], rows.groups[start:], ints[:, start:], floats[:, start:])
    else:
        seat.ring.add(panes, rows.groups, ints, floats)


def _columns(wanted: Arrangement, given: Arrangement) -> Picked | None:
    """Where the wanted columns are among the given ones; None when they are the same."""
    if list(wanted.ints) == list(given.ints):
        return None
    ints = [i for m in wanted.ints for i in range(given.ints[m].start, given.ints[m].stop)]
    floats = [i for m in wanted.floats for i in range(given.floats[m].start, given.floats[m].stop)]
    return np.array(ints, np.intp), np.array(floats, np.intp)
