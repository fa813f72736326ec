"""A ring and who sits on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.band_kernels import Bands
from headrace.families.windows.banding import bands_of
from headrace.families.windows.bands import Band
from headrace.families.windows.feed import SlotRows
from headrace.families.windows.measures import Arrangement, places_in
from headrace.families.windows.plan import Program, RingPlan
from headrace.families.windows.ring import Answers, Ring, Windows, bytes_a_group
from headrace.families.windows.ring_kernels import Ops
from headrace.families.windows.sketches.groves import Values
from headrace.sql.tree import Aggregate
from headrace.values import Window

Ints = NDArray[np.int64]
ALWAYS = -(1 << 60)


@dataclass(frozen=True, slots=True)
class Members:
    """Who sits on a ring: ids of queries, the window shape each answers with, and which of the programs it has.

    On a ring of cells a shape is a window of the ring (`ring_windows`) and bands of its cells."""

    windows: Windows
    ids: Ints
    shapes: Ints
    program: Ints
    programs: tuple[Program, ...]
    ring_windows: Windows
    bands: Bands | None = None


def members_of(plan: RingPlan, since: Mapping[int, int]) -> Members:
    """Window shapes and programs of a ring's members, as arrays; `since`: windows that start before lack rows."""
    windows: dict[tuple[Window, int], dict[tuple[Band, ...], None]] = {}
    programs: dict[int, tuple[int, Program]] = {}
    for query_id, asked in plan.members.items():
        windows.setdefault((asked.window, since[query_id]), {})[asked.bands] = None
        programs.setdefault(id(asked.program), (len(programs), asked.program))
    flat = [(window, bands) for window, asked_bands in windows.items() for bands in asked_bands]
    shapes = {shape: i for i, shape in enumerate(flat)}
    members = [
        (query_id, shapes[(asked.window, since[query_id]), asked.bands], programs[id(asked.program)][0])
        for query_id, asked in plan.members.items()
    ]
    ids, places, program = np.array(members, np.int64).T.copy()
    own = _windows([window for window, _ in flat], plan.grain_us)
    listed = tuple(p for _, p in programs.values())
    if not plan.slot.cells:
        return Members(own, ids, places, program, listed, own)
    ring_windows = _windows(list(windows), plan.grain_us)
    return Members(own, ids, places, program, listed, ring_windows, bands_of([list(b) for b in windows.values()]))


def _windows(windows: Sequence[tuple[Window, int]], grain_us: int) -> Windows:
    """Windows and the time from which on each has all its rows, in panes."""
    spans = [(w.range_us, w.slide_us, w.offset_us, grain_us - 1 + since) for w, since in windows]
    columns = np.array(spans, np.int64) // grain_us
    return Windows(*columns.T.copy())


@dataclass(slots=True)
class Seat:
    """A ring and who sits on it; `members` is None until they are listed, and again when they change.

    `is_barred`: there is no memory for its ring; those who sit here are taken out with the next plan."""

    plan: RingPlan
    arrangement: Arrangement
    ring: Ring | None = None
    members: Members | None = None
    given: Arrangement | None = None
    places: Ops | None = None
    is_barred: bool = False

    def nbytes(self, groups: int) -> int:
        """What the ring takes with so many groups, but for rows of open panes."""
        return groups * bytes_a_group(self.plan.length, self.arrangement.layout)

    def first_pane(self, before: int | None, after: int | None, rows: SlotRows) -> int:
        """The oldest pane that can still matter, by the watermarks before and after the round of these rows."""
        grain = self.plan.grain_us
        if before is not None:
            return before // grain - self.plan.length
        oldest = [int(rows.pane_us[0]) // grain] if rows.pane_us.size else []
        return min([*oldest, *([] if after is None else [after // grain])], default=0)

    def add(self, rows: SlotRows, given: Arrangement, oldest: int) -> None:
        """Rows of the slot, with the columns of this ring, from pane `oldest` on."""
        assert self.ring is not None
        if self.given is not given:
            self.given, self.places = given, Ops(*places_in(self.arrangement, given))
        panes = rows.pane_us // self.plan.grain_us
        groups, ints, floats = rows.groups, rows.ints, rows.floats
        if oldest > ALWAYS:
            start = int(np.searchsorted(panes, oldest))
            panes, groups = panes[start:], groups[start:]
            ints, floats = np.ascontiguousarray(ints[:, start:]), np.ascontiguousarray(floats[:, start:])
        self.ring.add(panes, groups, ints, floats, self.places)


@dataclass(frozen=True, slots=True)
class Closed:
    """What one ring answered in a round."""

    seat: Seat
    members: Members
    answers: Answers
    sketches: Mapping[Aggregate, Values]
