"""Who meets whom: a *band group* is a band and a group that have rows in common.

Queries of a crowd differ in the bands of cells they take (`sql/bands.py`).  Those with the same
window and the same measures share a ring, their *shared ring*; what a ring knows as groups are, on
a shared ring, band groups.  They are numbered as they come, so a crowd takes memory for what
occurs, not for bands × groups.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from headrace.families.windows.bands.arrays import PAGE, Ints, Ints32, Numbers
from headrace.families.windows.plan import SharedRing
from headrace.sql.bands import Band

Taken = tuple[Band, ...]
"""What a query takes: a band of each cell."""


@dataclass(slots=True)
class RingBandGroups:
    """The band groups of a shared ring, by number; the band of one that nobody takes any more is
    -1.

    `begins_us`: the shared ring has all rows of a band from then on, and `takers` how many queries
    want it."""

    band: Ints32 = field(default_factory=lambda: np.empty(0, np.int32))
    group: Ints32 = field(default_factory=lambda: np.empty(0, np.int32))
    bands: dict[Taken, int] = field(default_factory=dict)
    begins_us: dict[Taken, int] = field(default_factory=dict)
    takers: Counter[Taken] = field(default_factory=Counter)


class BandGroups:
    """The band groups of one slot.  Bands are numbered over all its shared rings."""

    def __init__(self) -> None:
        self.shared_rings: dict[SharedRing, RingBandGroups] = {}
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
        own = sum(
            shared_ring.band.nbytes + shared_ring.group.nbytes
            for shared_ring in self.shared_rings.values()
        )
        return own + self._page.nbytes + self._pages * PAGE * self._pool.itemsize

    # -- who takes what ----------------------------------------------------------------------------

    def join(self, key: SharedRing, taken: Taken, begins_us: int) -> int:
        """One more query takes this; the time from which on the shared ring has all its rows."""
        shared_ring = self.shared_rings.setdefault(key, RingBandGroups())
        shared_ring.takers[taken] += 1
        if taken not in shared_ring.bands:
            shared_ring.bands[taken], shared_ring.begins_us[taken] = (
                self._free.pop() if self._free else self._bands,
                begins_us,
            )
            self._bands = max(self._bands, shared_ring.bands[taken] + 1)
            self.changes += 1
        return shared_ring.begins_us[taken]

    def leave(self, key: SharedRing, taken: Taken) -> None:
        shared_ring = self.shared_rings.get(key)
        if shared_ring is None:  # it has been dropped
            return
        shared_ring.takers[taken] -= 1
        if not shared_ring.takers[taken]:
            self._gone.append(shared_ring.bands.pop(taken))
            del shared_ring.takers[taken], shared_ring.begins_us[taken]
            self.changes += 1
        if not shared_ring.bands:
            self.drop(key)

    def drop(self, key: SharedRing) -> None:
        """A shared ring, whoever takes something of it."""
        self._gone += self.shared_rings.pop(key).bands.values()
        self._is_stale = True
        self.changes += 1

    def begin_anew(self, key: SharedRing, begins_us: int) -> None:
        """The shared ring's ring is made again, of all there is."""
        shared_ring = self.shared_rings[key]
        shared_ring.begins_us = dict.fromkeys(shared_ring.bands, begins_us)

    # -- numbers -----------------------------------------------------------------------------------

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
        given = np.array(
            [shared_ring.band.size for shared_ring in self.shared_rings.values()], np.int64
        )
        fresh = np.empty(
            (
                3,
                stretches
                * sum(len(shared_ring.bands) for shared_ring in self.shared_rings.values()),
            ),
            np.int64,
        )
        return Numbers(self._page, self._pool, given, fresh, np.array([self._pages, 0]))

    def note(self, numbers: Numbers) -> None:
        """Take in the band groups that a stretch of rows has shown for the first time."""
        self._pages = int(numbers.used[0])
        fresh = numbers.fresh[:, : numbers.used[1]]
        fresh = fresh[:, np.argsort(fresh[0], kind="stable")].astype(np.int32)
        edges = np.searchsorted(fresh[0], np.arange(len(self.shared_rings) + 1))
        for shared_ring, start, stop in zip(
            self.shared_rings.values(), edges[:-1], edges[1:], strict=True
        ):
            if start < stop:
                shared_ring.band = np.concatenate((shared_ring.band, fresh[1, start:stop]))
                shared_ring.group = np.concatenate((shared_ring.group, fresh[2, start:stop]))

    def keep(self, key: SharedRing, kept: Ints) -> None:
        """Only these band groups of a shared ring from now on, in this order."""
        shared_ring = self.shared_rings[key]
        shared_ring.band, shared_ring.group = shared_ring.band[kept], shared_ring.group[kept]
        self._is_stale = True

    def regroup(self, order: Ints) -> None:
        """Group g is from now on what was `order[g]`; no band group is left of the others."""
        for shared_ring in self.shared_rings.values():
            numbers = np.full(
                max(order.max(initial=-1), shared_ring.group.max(initial=-1)) + 1, -1, np.int32
            )
            numbers[order] = np.arange(order.size)
            shared_ring.group = numbers[shared_ring.group]
            assert shared_ring.group.min(initial=0) >= 0, "a spot of a group that is gone"
        self._is_stale = True

    def _tidy(self) -> None:
        """Band groups of bands that nobody takes are nobody's; pages are made again if anything was
        renumbered."""
        if not self._gone and not self._is_stale:
            return
        for shared_ring in self.shared_rings.values():
            shared_ring.band[np.isin(shared_ring.band, self._gone)] = -1
        self._free += self._gone
        self._gone, self._is_stale = [], False
        band_groups = [
            (shared_ring, np.flatnonzero(shared_ring.band >= 0))
            for shared_ring in self.shared_rings.values()
        ]
        band = np.concatenate(
            [np.empty(0, np.int32), *(shared_ring.band[own] for shared_ring, own in band_groups)]
        )
        group = np.concatenate(
            [np.empty(0, np.int32), *(shared_ring.group[own] for shared_ring, own in band_groups)]
        )
        held, blocks = self._page.shape
        self._page = np.full((max(held, int(group.max(initial=-1)) + 1), blocks), -1, np.int32)
        pages, page = np.unique(group.astype(np.int64) * blocks + band // PAGE, return_inverse=True)
        self._page.reshape(-1)[pages] = np.arange(pages.size)
        self._pages = pages.size
        self._pool = np.full((pages.size, PAGE), -1, np.int32)
        self._pool[page, band % PAGE] = np.concatenate(
            [np.empty(0, np.int64), *(own for _, own in band_groups)]
        )
