"""Rows of a crowd wait until their pane closes.

A pane and group whose rows are all there is folded once for each band (`bands/banding.py`); folded
as rows come, it would be once for each round that brings some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.measures import Arrangement

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]

ROWS_MAX = 1 << 20  # that wait, of one slot


@dataclass(frozen=True, slots=True)
class CellPick:
    """The rows of one round that a slot with cells selects, by pane.

    `ranks[c, row]` is the place among `edges[c]`; there is none of a null.  Of columns, the values
    are at `rows`."""

    pane_us: Ints
    groups: Ints32
    ranks: Ints32
    edges: tuple[tuple[int, ...], ...]
    rows: Ints
    ints: tuple[Ints, ...]
    floats: tuple[Floats, ...]

    @property
    def nbytes(self) -> int:
        own: tuple[NDArray[Any], ...] = (
            self.pane_us,
            self.groups,
            self.ranks,
            self.rows,
            *self.ints,
            *self.floats,
        )
        return sum(column.nbytes for column in own)

    @property
    def count(self) -> int:
        """Rows of the stream: the first column is how many a row stands for."""
        return int(self.ints[0][self.rows].sum())

    def until(self, cut: int) -> CellPick:
        return replace(
            self,
            pane_us=self.pane_us[:cut],
            groups=self.groups[:cut],
            ranks=self.ranks[:, :cut],
            rows=self.rows[:cut],
        )

    def since(self, cut: int) -> CellPick:
        """To be kept: what only the others needed is let go, if that is most of it."""
        rows = self.rows[cut:]
        kept = (
            self.pane_us[cut:].copy(),
            self.groups[cut:].copy(),
            self.ranks[:, cut:].copy(),
            self.edges,
        )
        if 2 * rows.size > self.ints[0].size:
            return CellPick(*kept, rows.copy(), self.ints, self.floats)
        ints, floats = tuple(c[rows] for c in self.ints), tuple(c[rows] for c in self.floats)
        return CellPick(*kept, np.arange(rows.size), ints, floats)


@dataclass(frozen=True, slots=True)
class CellRows:
    """Rows of a slot with cells, by pane, group and first cell; a group may have several of one
    cell."""

    pane_us: Ints
    groups: Ints32
    ranks: Ints32
    edges: tuple[tuple[int, ...], ...]
    ints: Ints
    floats: Floats


Due = tuple[CellRows, Arrangement]
"""Rows, and which columns they have."""


class Waiting:
    """Rows of one slot, round by round; those of one time have the same edges and columns."""

    def __init__(self) -> None:
        self._rounds: list[CellPick] = []
        self._given: Arrangement | None = None
        self._ordering = Ordering()

    @property
    def nbytes(self) -> int:
        return self._ordering.nbytes + sum(r.nbytes for r in self._rounds)

    def add(self, rows: CellPick, given: Arrangement, closed_us: int | None) -> Iterator[Due]:
        """One round more; what is due, as panes that begin at `closed_us` or before get no more
        rows.

        What is given must be taken before the next is asked for: its memory is used again."""
        is_same = given is self._given or given == self._given
        if self._rounds and not (is_same and rows.edges == self._rounds[0].edges):
            yield from self.flush()
        self._rounds.append(rows)
        self._given = given
        if sum(r.pane_us.size for r in self._rounds) > ROWS_MAX:
            yield from self.flush()
        elif closed_us is not None:
            yield from self.release(closed_us)

    def release(self, closed_us: int) -> Iterator[Due]:
        """What is due, without one round more."""
        rounds = [
            (r, int(np.searchsorted(r.pane_us, closed_us, side="right"))) for r in self._rounds
        ]
        due = [r.until(cut) for r, cut in rounds if cut]
        self._rounds = [r.since(cut) if cut else r for r, cut in rounds if cut < r.pane_us.size]
        if due:
            assert self._given is not None
            yield self._ordering.in_order(due), self._given

    def flush(self) -> Iterator[Due]:
        """Hand out all rows that wait, also those of panes that are still open."""
        rounds, self._rounds = self._rounds, []
        if rounds:
            assert self._given is not None
            yield self._ordering.in_order(rounds), self._given


class Ordering:
    """Where rows are put in order.  Memory is used again: it is slow when it is touched first."""

    def __init__(self) -> None:
        self._ints: Ints = np.empty(0, np.int64)
        self._floats: Floats = np.empty(0)
        self._column: Ints = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._ints.nbytes + self._floats.nbytes + self._column.nbytes

    def in_order(self, rounds: Sequence[CellPick]) -> CellRows:
        """Rows of the same pane, group and cell come as their rounds do."""
        panes, groups = (
            np.concatenate([r.pane_us for r in rounds]),
            np.concatenate([r.groups for r in rounds]),
        )
        ranks, edges = np.concatenate([r.ranks for r in rounds], axis=1), rounds[0].edges
        distinct, pane = np.unique(panes, return_inverse=True)
        width = int(groups.max(initial=0)) + 1
        order = np.argsort((pane * width + groups) * (len(edges[0]) + 1) + ranks[0], kind="stable")
        if self._column.size < order.size:
            self._column = np.empty(order.size, np.int64)
        self._ints, ints = _table(self._ints, len(rounds[0].ints), order.size)
        self._floats, floats = _table(self._floats, len(rounds[0].floats), order.size)
        for i, line in enumerate(ints):
            self._gather([(r.ints[i], r.rows) for r in rounds], order, line)
        for i, line in enumerate(floats):
            self._gather([(r.floats[i], r.rows) for r in rounds], order, line)
        return CellRows(distinct[pane[order]], groups[order], ranks[:, order], edges, ints, floats)

    def _gather(
        self, parts: Sequence[tuple[NDArray[Any], Ints]], order: Ints, out: NDArray[Any]
    ) -> None:
        column, start = self._column.view(out.dtype), 0
        for values, rows in parts:
            np.take(values, rows, out=column[start : start + rows.size], mode="clip")
            start += rows.size
        np.take(column, order, out=out, mode="clip")


def _table(flat: NDArray[Any], lines: int, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Room for so many lines, in what there is if it is large enough."""
    if flat.size < lines * width:
        flat = np.empty(lines * width, flat.dtype)
    return flat, flat[: lines * width].reshape(lines, width)
