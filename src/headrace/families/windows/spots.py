"""Who meets whom: a *spot* is a band and a group that have rows in common.

Queries of a crowd differ in the bands of cells they take (`sql/bands.py`).  Those with the same
window and the same measures share a ring, their *lane*; what a ring knows as groups are, on a lane,
spots.  They are numbered as they come, so a crowd takes memory for what occurs, not for bands ×
groups.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from headrace.families.windows.band_arrays import PAGE, Ints, Ints32, Numbers
from headrace.families.windows.plan import Lane
from headrace.sql.bands import Band

Taken = tuple[Band, ...]
"""What a query takes: a band of each cell."""


@dataclass(slots=True)
class LaneSpots:
    """The spots of a lane, by number; the band of one that nobody takes any more is -1.

    `begins_us`: the lane has all rows of a band from then on, and `takers` how many queries want
    it."""

    band: Ints32 = field(default_factory=lambda: np.empty(0, np.int32))
    group: Ints32 = field(default_factory=lambda: np.empty(0, np.int32))
    bands: dict[Taken, int] = field(default_factory=dict)
    begins_us: dict[Taken, int] = field(default_factory=dict)
    takers: Counter[Taken] = field(default_factory=Counter)


class Spots:
    """The spots of one slot.  Bands are numbered over all its lanes."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, LaneSpots] = {}
        self.changes = 0
        self._bands = 0
        self._free: list[int] = []
        self._gone: list[int] = []
        self._is_stale = False
        self._page: Ints32 = np.empty((0, 0), np.int32)
        self._pool: Ints32 = np.empty((0, PAGE), np.int32)
        self._pages = 0

    @property
    def nbytes(self) -> int:
        own = sum(lane.band.nbytes + lane.group.nbytes for lane in self.lanes.values())
        return own + self._page.nbytes + self._pages * PAGE * self._pool.itemsize

    # -- who takes what
    # -----------------------------------------------------------------------------

    def join(self, key: Lane, taken: Taken, begins_us: int) -> int:
        """One more query takes this; the time from which on the lane has all its rows."""
        lane = self.lanes.setdefault(key, LaneSpots())
        lane.takers[taken] += 1
        if taken not in lane.bands:
            lane.bands[taken], lane.begins_us[taken] = (
                self._free.pop() if self._free else self._bands,
                begins_us,
            )
            self._bands = max(self._bands, lane.bands[taken] + 1)
            self.changes += 1
        return lane.begins_us[taken]

    def leave(self, key: Lane, taken: Taken) -> None:
        lane = self.lanes.get(key)
        if lane is None:  # it has been dropped
            return
        lane.takers[taken] -= 1
        if not lane.takers[taken]:
            self._gone.append(lane.bands.pop(taken))
            del lane.takers[taken], lane.begins_us[taken]
            self.changes += 1
        if not lane.bands:
            self.drop(key)

    def drop(self, key: Lane) -> None:
        """A lane, whoever takes something of it."""
        self._gone += self.lanes.pop(key).bands.values()
        self._is_stale = True
        self.changes += 1

    def begin_anew(self, key: Lane, begins_us: int) -> None:
        """The lane's ring is made again, of all there is."""
        lane = self.lanes[key]
        lane.begins_us = dict.fromkeys(lane.bands, begins_us)

    # -- numbers
    # ------------------------------------------------------------------------------------

    def numbers(self, groups: int, stretches: int) -> Numbers:
        """All numbers so far, with room for those of so many stretches of groups below `groups`."""
        self._tidy()
        blocks = -(-self._bands // PAGE)
        if groups > self._page.shape[0] or blocks > self._page.shape[1]:
            held, known = self._page.shape
            wider = np.full(
                (held if groups <= held else max(groups, 2 * held), max(blocks, known)),
                -1,
                np.int32,
            )
            wider[:held, :known] = self._page
            self._page = wider
        if self._pages + stretches * blocks > self._pool.shape[0]:
            pool = np.empty((2 * self._pages + stretches * blocks, PAGE), np.int32)
            pool[: self._pages] = self._pool[: self._pages]
            self._pool = pool
        given = np.array([lane.band.size for lane in self.lanes.values()], np.int64)
        fresh = np.empty(
            (3, stretches * sum(len(lane.bands) for lane in self.lanes.values())), np.int64
        )
        return Numbers(self._page, self._pool, given, fresh, np.array([self._pages, 0]))

    def note(self, numbers: Numbers) -> None:
        """Spots that came."""
        self._pages = int(numbers.used[0])
        fresh = numbers.fresh[:, : numbers.used[1]]
        fresh = fresh[:, np.argsort(fresh[0], kind="stable")].astype(np.int32)
        edges = np.searchsorted(fresh[0], np.arange(len(self.lanes) + 1))
        for lane, start, stop in zip(self.lanes.values(), edges[:-1], edges[1:], strict=True):
            if start < stop:
                lane.band = np.concatenate((lane.band, fresh[1, start:stop]))
                lane.group = np.concatenate((lane.group, fresh[2, start:stop]))

    def keep(self, key: Lane, kept: Ints) -> None:
        """Only these spots of a lane from now on, in this order."""
        lane = self.lanes[key]
        lane.band, lane.group = lane.band[kept], lane.group[kept]
        self._is_stale = True

    def regroup(self, order: Ints) -> None:
        """Group g is from now on what was `order[g]`; no spot is left of the others."""
        for lane in self.lanes.values():
            numbers = np.full(
                max(order.max(initial=-1), lane.group.max(initial=-1)) + 1, -1, np.int32
            )
            numbers[order] = np.arange(order.size)
            lane.group = numbers[lane.group]
            assert lane.group.min(initial=0) >= 0, "a spot of a group that is gone"
        self._is_stale = True

    def _tidy(self) -> None:
        """Spots of bands that nobody takes are nobody's; pages are made again if anything was
        renumbered."""
        if not self._gone and not self._is_stale:
            return
        for lane in self.lanes.values():
            lane.band[np.isin(lane.band, self._gone)] = -1
        self._free += self._gone
        self._gone, self._is_stale = [], False
        spots = [(lane, np.flatnonzero(lane.band >= 0)) for lane in self.lanes.values()]
        band = np.concatenate([np.empty(0, np.int32), *(lane.band[own] for lane, own in spots)])
        group = np.concatenate([np.empty(0, np.int32), *(lane.group[own] for lane, own in spots)])
        held, blocks = self._page.shape
        self._page = np.full((max(held, int(group.max(initial=-1)) + 1), blocks), -1, np.int32)
        pages, page = np.unique(group.astype(np.int64) * blocks + band // PAGE, return_inverse=True)
        self._page.reshape(-1)[pages] = np.arange(pages.size)
        self._pages = pages.size
        self._pool = np.full((pages.size, PAGE), -1, np.int32)
        self._pool[page, band % PAGE] = np.concatenate(
            [np.empty(0, np.int64), *(own for _, own in spots)]
        )
