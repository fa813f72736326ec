"""From the answers of a ring of cells to those of queries: each takes its band of cells of every group.

A ring of a slot with a cell holds pairs of group and cell as its groups.  What it answers for a window is folded by
group, once for each band that somebody asks of that window.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headrace.families.windows import band_kernels as kernels
from headrace.families.windows.band_kernels import Bands, Ints, Pairs, Table
from headrace.families.windows.bands import Band
from headrace.families.windows.groups import Groups
from headrace.families.windows.ring import Answers, Layout, answer_columns
from headrace.families.windows.ring_kernels import Columns, Ops
from headrace.sql.tree import Expr


class CellOrder:
    """The pairs of a slot in order of group and cell; kept while pairs only come."""

    def __init__(self, pairs: Groups, groups: Groups, cell: Expr) -> None:
        self.pairs = pairs
        self.groups = groups
        self._cell = cell
        self._cells: Ints = np.empty(0, np.int64)
        self._order: Ints = np.empty(0, np.int64)
        self._pairs = Pairs(np.empty(0, np.int64), np.empty(0, np.int32), self._cells)

    def numbered(self) -> Pairs:
        """All pairs so far."""
        known = self._cells.size
        if known < len(self.pairs):
            values = self.pairs.values_from(self._cell, known)
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            self._cells = np.concatenate((self._cells, values.fill_null(0).to_numpy()))
            group = self.pairs.into(self.groups)
            self._insert(known + np.flatnonzero(valid), group)
            rank = np.full(self._cells.size, -1, np.int64)
            rank[self._order] = np.arange(self._order.size)
            self._pairs = Pairs(rank, group, self._cells)
        return self._pairs

    def _insert(self, new: Ints, group: kernels.Ints32) -> None:
        new = new[np.lexsort((self._cells[new], group[new]))]
        merged = np.empty(self._order.size + new.size, np.int64)
        kernels.merge_orders(self._order, new, group, self._cells, merged)
        self._order = merged


def bands_of(bands: Sequence[Sequence[Band]]) -> Bands:
    """The bands of each window shape, as arrays."""
    flat = [band for own in bands for band in own]
    intervals = np.array([i for band in flat for i in band.intervals], np.int64).reshape(-1, 2)
    of = np.cumsum([0, *(len(own) for own in bands)])
    at = np.cumsum([0, *(len(band.intervals) for band in flat)])
    return Bands(of, at, intervals[:, 0].copy(), intervals[:, 1].copy())


def fold_bands(answers: Answers, layout: Layout, bands: Bands, pairs: Pairs) -> Answers:
    """Answers by band (numbered as they come, shape after shape), end and group."""
    ops = Ops(np.array(layout.int_ops, np.int64), np.array(layout.float_ops, np.int64))
    source = Columns(np.empty(0, np.int64), answers.group, np.ascontiguousarray(answers.ints),
                     np.ascontiguousarray(answers.floats))  # fmt: skip
    blocks = _blocks(answers)
    rows, edges = _sorted_rows(answers, blocks, pairs)
    widest = _widest(rows, edges, answers, pairs)
    cells = np.empty(widest, np.int64)
    counts = np.zeros(bands.at.size - 1, np.int64)
    for (shape, _, _), own in zip(blocks, edges, strict=True):
        kernels.count_bands(rows[own], answers.group, pairs, shape, bands, cells, counts)
    offsets = np.append(0, np.cumsum(counts))
    out = answer_columns(ops.ints.size, ops.floats.size, int(offsets[-1]))
    ends, cursor = np.empty(out.group.size, np.int64), offsets[:-1].copy()
    levels = max(1, (widest - 1).bit_length())
    table = Table(np.empty((levels, ops.ints.size, widest), np.int64), np.empty((levels, ops.floats.size, widest)))
    for (shape, start, _), own in zip(blocks, edges, strict=True):
        kernels.write_bands(rows[own], int(answers.end[start]), answers.group, pairs, shape, bands, ops, source, cells,
                            table, cursor, ends, out)  # fmt: skip
    band_of = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    return Answers(band_of, ends, out.group, out.ints, out.floats, offsets)


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
