"""Partial rows of panes that are still open, kept as rows until their pane closes.

As rows, because an open stretch may be long and sparse (a month read at once); folded to one row per pane and
group whenever they have doubled, because a pane may stay open for thousands of rounds.
"""

from __future__ import annotations

import numpy as np

from headrace.families.windows import ring_kernels as kernels
from headrace.families.windows.ring_kernels import Columns, Floats, Ints, Ints32, Ops

FOLD_ROWS_MIN = 1 << 14


class Partials:
    """Rows (pane, group, columns) in order of arrival within each pane and group."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._rows = 0
        self._folded = 0
        self._first = 0
        self.columns = self._empty(0)
        """Room beyond the rows included; positions from `due` point into it."""

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self.columns)

    def append(self, panes: Ints, groups: Ints32, ints: Ints, floats: Floats) -> None:
        if self._rows > max(FOLD_ROWS_MIN, 2 * self._folded):
            self._fold()
        start, stop = self._rows, self._rows + panes.size
        if stop > self.columns.pane.size:
            self._keep(slice(0, start), start, max(stop, 2 * start))
        self.columns.pane[start:stop] = panes
        self.columns.group[start:stop] = groups
        self.columns.ints[:, start:stop] = ints
        self.columns.floats[:, start:stop] = floats
        first = int(panes.min())
        self._first = min(self._first, first) if start else first
        self._rows = stop

    def due(self, through: int) -> Ints:
        """Positions of the rows of panes up to `through`, by pane, then arrival."""
        if not self._rows or self._first > through:
            return np.empty(0, np.int64)
        panes = self.columns.pane[: self._rows]
        at = np.flatnonzero(panes <= through)
        key = panes[at] - self._first
        # numpy sorts 16-bit keys by radix, several times faster.
        return at[np.argsort(key.astype(np.uint16) if key.max() < 1 << 16 else key, kind="stable")]

    def drop(self, through: int) -> None:
        """Forget the rows of panes up to `through`."""
        if not self._rows or self._first > through:
            return
        keep = np.flatnonzero(self.columns.pane[: self._rows] > through)
        self._folded = min(self._folded, keep.size)
        self._keep(keep, keep.size, 2 * keep.size)
        if keep.size:
            self._first = int(self.columns.pane[: keep.size].min())

    def _fold(self) -> None:
        old = self.columns
        order = np.lexsort((old.group[: self._rows], old.pane[: self._rows]))
        self.columns = self._empty(old.pane.size)
        self._rows = self._folded = kernels.fold(self._ops, order, old, self.columns)

    def _keep(self, at: Ints | slice, rows: int, room: int) -> None:
        """Move the rows `at` into new columns with `room`."""
        old, self.columns = self.columns, self._empty(room)
        self.columns.pane[:rows] = old.pane[at]
        self.columns.group[:rows] = old.group[at]
        self.columns.ints[:, :rows] = old.ints[:, at]
        self.columns.floats[:, :rows] = old.floats[:, at]
        self._rows = rows

    def _empty(self, room: int) -> Columns:
        ints, floats = np.empty((self._ops.ints.size, room), np.int64), np.empty((self._ops.floats.size, room))
        return Columns(np.empty(room, np.int64), np.empty(room, np.int32), ints, floats)
