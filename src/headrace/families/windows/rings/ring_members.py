"""A ring and who sits on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.bands.band_groups import RingBandGroups, Taken
from headrace.families.windows.bands.banding import Shapes, shapes_of
from headrace.families.windows.measures import Arrangement, places_in
from headrace.families.windows.plan import Program, RingPlan
from headrace.families.windows.rings.arrays import Ops
from headrace.families.windows.rings.ring import Answers, Ring, Windows, bytes_a_group
from headrace.families.windows.rollup.feed import SlotRows
from headrace.families.windows.sketches.sketch_stores import Values
from headrace.sql.tree import Aggregate
from headrace.values import ALWAYS_US, Window

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Members:
    """Who sits on a ring: ids of queries, the window shape each answers with, and which of the
    programs it has.

    On a shared ring there is one window; a shape is a band of it, and the time from which on its
    query has all rows."""

    windows: Windows
    ids: Ints
    shapes: Ints
    program: Ints
    programs: tuple[Program, ...]
    ring_windows: Windows
    shared_ring: Shapes | None = None


def members_of(
    plan: RingPlan, since: Mapping[int, int], band_groups: RingBandGroups | None
) -> Members:
    """Window shapes and programs of a ring's members, as arrays; `since`: windows that start before
    lack rows."""
    shapes: dict[tuple[Window, int, Taken], int] = {}
    programs: dict[int, tuple[int, Program]] = {}
    members: list[tuple[int, int, int]] = []
    for query_id, asked in plan.members.items():
        shape = shapes.setdefault((asked.window, since[query_id], asked.bands), len(shapes))
        number, _ = programs.setdefault(id(asked.program), (len(programs), asked.program))
        members.append((query_id, shape, number))
    ids, places, program = np.array(members, np.int64).T.copy()
    own = _windows([(window, from_us) for window, from_us, _ in shapes], plan.grain_us)
    listed = tuple(p for _, p in programs.values())
    if band_groups is None:
        return Members(own, ids, places, program, listed, own)
    earliest = [
        min(((window, from_us) for window, from_us, _ in shapes), key=lambda shape: shape[1])
    ]
    shared_ring = shapes_of(
        [taken for _, _, taken in shapes], own.first_start + own.range_panes, band_groups
    )
    return Members(
        own, ids, places, program, listed, _windows(earliest, plan.grain_us), shared_ring
    )


def _windows(windows: Sequence[tuple[Window, int]], grain_us: int) -> Windows:
    """Windows and the time from which on each has all its rows, in panes."""
    spans = [(w.range_us, w.slide_us, w.offset_us, grain_us - 1 + since) for w, since in windows]
    columns = np.array(spans, np.int64) // grain_us
    return Windows(*columns.T.copy())


@dataclass(slots=True)
class StandingRing:
    """A ring and who sits on it; `members` is None until they are listed, and again when they
    change.

    `is_barred`: there is no memory for its ring; those who sit here are taken out with the next
    plan."""

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

    def first_pane(self, before: int | None, after: int | None, oldest_us: int | None) -> int:
        """The oldest pane that can still matter, by the watermarks before and after a round, and
        its oldest row."""
        grain = self.plan.grain_us
        if before is not None:
            return before // grain - self.plan.length
        known = [t for t in (oldest_us, after) if t is not None]
        return min(known, default=ALWAYS_US) // grain

    def add(self, rows: SlotRows, given: Arrangement, oldest: int | None = None) -> None:
        """Rows of the slot, with the columns of this ring, from pane `oldest` on if that is
        given."""
        assert self.ring is not None
        if self.given is not given:
            self.given, self.places = given, Ops(*places_in(self.arrangement, given))
        panes = rows.pane_us // self.plan.grain_us
        groups, ints, floats = rows.groups, rows.ints, rows.floats
        if oldest is not None:
            start = int(np.searchsorted(panes, oldest))
            panes, groups = panes[start:], groups[start:]
            ints, floats = (
                np.ascontiguousarray(ints[:, start:]),
                np.ascontiguousarray(floats[:, start:]),
            )
        self.ring.add(panes, groups, ints, floats, self.places)


@dataclass(frozen=True, slots=True)
class Closed:
    """What one ring answered in a round."""

    standing: StandingRing
    members: Members
    answers: Answers
    sketches: Mapping[Aggregate, Values]
