"""Partial rows of panes that are still open: one row per pane and group, by pane.

As rows, because an open stretch may be long and sparse (a month read at once).
"""

from __future__ import annotations

import numpy as np

from headrace.families.windows.rings.arrays import (
    Columns,
    Ints,
    Ints32,
    Ops,
)
from headrace.families.windows.rollup import kernels as fold_kernels


class Partials:
    """Rows (pane, group, columns).  New ones are folded into what is there, in order of arrival."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._rows = 0
        self._turn = np.zeros(1, np.int64)
        self._stamp = np.zeros(0, np.int64)
        self._place = np.zeros(0, np.int64)
        self.columns = self._empty(0)
        """Room beyond the rows included; positions from `due` point into it."""

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in (*self.columns, self._stamp, self._place))

    @property
    def groups(self) -> Ints32:
        """The group of every partial row that waits."""
        return self.columns.group[: self._rows]

    def append(self, new: Columns, places: Ops, groups: int) -> None:
        """Rows by pane; our columns are at these places among theirs, and their groups are below
        `groups`."""
        self._widen(groups)
        old, self.columns = self.columns, self._empty(self._rows + new.pane.size)
        scratch = (self._turn, self._stamp, self._place)
        self._rows = fold_kernels.absorb(
            self._ops, old, self._rows, new, places, *scratch, self.columns
        )

    def due(self, through: int) -> Ints:
        """Positions of the rows of panes up to `through`, by pane."""
        return np.arange(self._count(through))

    def drop(self, through: int) -> None:
        """Forget the rows of panes up to `through`."""
        done = self._count(through)
        if done:
            old, left = self.columns, slice(done, self._rows)
            self.columns = Columns(
                old.pane[left].copy(),
                old.group[left].copy(),
                old.ints[:, left].copy(),
                old.floats[:, left].copy(),
            )
            self._rows -= done

    def renumber(self, numbers: Ints32, groups: int) -> None:
        """Group g is called `numbers[g]` from now on, which is below `groups`."""
        mine = self.columns.group[: self._rows]
        mine[:] = numbers[mine]
        assert not mine.size or mine.min() >= 0, "a group of an open pane is still needed"
        self._stamp, self._place = np.zeros(groups, np.int64), np.zeros(groups, np.int64)

    def _count(self, through: int) -> int:
        return int(np.searchsorted(self.columns.pane[: self._rows], through, side="right"))

    def _widen(self, groups: int) -> None:
        if groups > self._stamp.size:
            width = max(groups, 2 * self._stamp.size)
            self._stamp, self._place = np.zeros(width, np.int64), np.zeros(width, np.int64)

    def _empty(self, room: int) -> Columns:
        ints, floats = (
            np.empty((self._ops.ints.size, room), np.int64),
            np.empty((self._ops.floats.size, room)),
        )
        return Columns(np.empty(room, np.int64), np.empty(room, np.int32), ints, floats)
