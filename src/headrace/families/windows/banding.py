"""From the answers of a ring of cells to those of queries: each takes its band of cells of every group.

A ring of a slot with a cell holds pairs of group and cell as its groups.  What it answers for a window is folded by
group, once for each band that somebody asks of that window.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headrace.families.windows import band_kernels as kernels
from headrace.families.windows.band_kernels import Bands, Ints, Others, Pairs, Scratch
from headrace.families.windows.bands import Band
from headrace.families.windows.groups import Groups
from headrace.families.windows.ring import Answers, Layout, answer_columns
from headrace.families.windows.ring_kernels import Columns, Ops
from headrace.sql.tree import Expr


class CellOrder:
    """The pairs of a slot in order of group and first cell; kept while pairs only come."""

    def __init__(self, pairs: Groups, groups: Groups, cells: Sequence[Expr]) -> None:
        self.pairs = pairs
        self.groups = groups
        self._keys = cells
        self._cells: Ints = np.empty((len(cells), 0), np.int64)
        self._order: Ints = np.empty(0, np.int64)
        self._pairs = Pairs(np.empty(0, np.int64), np.empty(0, np.int32), self._cells)

    def numbered(self) -> Pairs:
        """All pairs so far."""
        known = self._cells.shape[1]
        if known < len(self.pairs):
            values = [self.pairs.values_from(key, known) for key in self._keys]
            valid = np.all([v.is_valid().to_numpy(zero_copy_only=False) for v in values], axis=0)
            self._cells = np.hstack((self._cells, np.stack([v.fill_null(0).to_numpy() for v in values])))
            group = self.pairs.into(self.groups)
            self._insert(known + np.flatnonzero(valid), group)
            rank = np.full(self._cells.shape[1], -1, np.int64)
            rank[self._order] = np.arange(self._order.size)
            self._pairs = Pairs(rank, group, self._cells)
        return self._pairs

    def _insert(self, new: Ints, group: kernels.Ints32) -> None:
        new = new[np.lexsort((self._cells[0, new], group[new]))]
        merged = np.empty(self._order.size + new.size, np.int64)
        kernels.merge_orders(self._order, new, group, self._cells[0], merged)
        self._order = merged


def bands_of(bands: Sequence[Sequence[tuple[Band, ...]]]) -> Bands:
    """The bands of each window shape, as arrays."""
    edges = [np.array(sorted({e for of_cells in own for e in of_cells[0].edges()}), np.int64) for own in bands]
    segments: list[Ints] = []
    for own, cuts in zip(bands, edges, strict=True):
        ends = np.array([i for of_cells in own for i in of_cells[0].intervals], np.int64).reshape(-1, 2)
        segments.append(np.searchsorted(cuts, ends, side="right"))
    flat = [of_cells for own in bands for of_cells in own]
    first, last = np.concatenate(segments).T.copy()
    at = np.cumsum([0, *(len(of_cells[0].intervals) for of_cells in flat)])
    others = [band for of_cells in flat for band in of_cells[1:]]
    ranges = np.array([i for band in others for i in band.intervals], np.int64).reshape(-1, 2).T.copy()
    also = Others(np.cumsum([0, *(len(band.intervals) for band in others)]), ranges[0], ranges[1])
    return Bands(_starts(bands), at, first, last, _starts(edges), np.concatenate(edges), also)


def _starts(lists: Sequence[Sequence[tuple[Band, ...]] | Ints]) -> Ints:
    return np.cumsum([0, *(len(own) for own in lists)])


def fold_bands(answers: Answers, layout: Layout, bands: Bands, pairs: Pairs) -> Answers:
    """Answers by band (numbered as they come, shape after shape), end and group."""
    ops = Ops(np.array(layout.int_ops, np.int64), np.array(layout.float_ops, np.int64))
    source = Columns(np.empty(0, np.int64), answers.group, np.ascontiguousarray(answers.ints),
                     np.ascontiguousarray(answers.floats))  # fmt: skip
    blocks = _blocks(answers)
    rows, edges = _sorted_rows(answers, blocks, pairs)
    room = _room(ops, _widest(rows, edges, answers, pairs), int(np.diff(bands.cuts).max()))
    counts = np.zeros(bands.at.size - 1, np.int64)
    for (shape, _, _), own in zip(blocks, edges, strict=True):
        kernels.count_bands(rows[own], answers.group, pairs, shape, bands, room, counts)
    offsets = np.append(0, np.cumsum(counts))
    out = answer_columns(ops.ints.size, ops.floats.size, int(offsets[-1]))
    ends, cursor = np.empty(out.group.size, np.int64), offsets[:-1].copy()
    for (shape, start, _), own in zip(blocks, edges, strict=True):
        kernels.write_bands(rows[own], int(answers.end[start]), answers.group, pairs, shape, bands, ops, source, room,
                            cursor, ends, out)  # fmt: skip
    band_of = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    return Answers(band_of, ends, out.group, out.ints, out.floats, offsets)


def _room(ops: Ops, widest: int, edges: int) -> Scratch:
    """For groups of so many cells, in as many segments as so many edges make."""
    held = min(widest, edges + 1)
    levels = max(1, (held - 1).bit_length())
    ints, floats = np.empty((levels, ops.ints.size, held), np.int64), np.empty((levels, ops.floats.size, held))
    return Scratch(np.empty(widest, np.int64), np.empty(edges + 2, np.int64), ints, floats)


Block = tuple[int, int, int]
"""A shape, and the first row of one of its windows and the row after its last."""


def _blocks(answers: Answers) -> list[Block]:
    if not answers.end.size:
        return []
    shape, end = answers.shape, answers.end
    new = np.flatnonzero((shape[1:] != shape[:-1]) | (end[1:] != end[:-1])) + 1
    edges = [0, *new.tolist(), end.size]
    return [(int(shape[a]), a, b) for a, b in pairwise(edges)]


def _sorted_rows(answers: Answers, blocks: Sequence[Block], pairs: Pairs) -> tuple[Ints, list[slice]]:
    """Rows of each window by group and cell, one window after another, and where each window's are."""
    rows, spots = np.empty(answers.end.size, np.int64), np.zeros(pairs.rank.size, np.int64)
    edges: list[slice] = []
    done = 0
    for _, start, stop in blocks:
        found = kernels.sort_rows(start, stop, answers.group, pairs, spots, rows[done:])
        edges.append(slice(done, done + found))
        done += found
    return rows[:done], edges


def _widest(rows: Ints, edges: Sequence[slice], answers: Answers, pairs: Pairs) -> int:
    """The most cells any group has in a window."""
    group = pairs.group[answers.group[rows]]
    new = np.append(True, group[1:] != group[:-1]) if rows.size else np.empty(0, np.bool_)
    new[[own.start for own in edges if own.start < rows.size]] = True
    return int(np.diff(np.append(np.flatnonzero(new), rows.size)).max(initial=1))
