"""A ring of panes that answers every window ending at its newest pane with one join, whatever the
range.

Totals are joined, never subtracted: 1e300 followed by 1.0 keeps the 1.0, and a NaN leaves with its
pane.

For a window of panes [a, b], b the newest, a < b, let l be the highest bit in which a and b differ
and mid = (b >> l) << l, so a < mid ≤ b.  The answer is  tail[a] ⊕ head[l]  with

    tail[a] = panes a … mid-1 joined          head[l] = panes mid … b joined.

* One tail per pane is enough.  The set bits l₁ > l₂ > … of b split what is below b into the runs
  [mid_l - 2^l, mid_l), and every a lies in exactly one: the one of its l.  (The two-stack trick,
  one pair of stacks per set bit, as in a Fenwick tree.)
* When b = odd · 2^k comes, the runs of levels 0 … k-1 of b-1 become one run of level k: tail[a] ⊕=
  tail[b - 2^j] for a in [b - 2^(j+1), b - 2^j), j = 0 … k-1; head[k] starts with pane b, and the
  heads of higher set bits take pane b in.  That is about log2(length) joins per pane.
* Levels stop at L with 2^L ≥ length; all higher ones share head[L] = panes (b >> L) << L … b.
  Proof: for l ≥ L, mid is a multiple of 2^l, so of 2^L; and (a, b] holds at most one multiple of
  2^L because b - a < length ≤ 2^L. So mid is the last multiple of 2^L not above b.
* Shifts are arithmetic, so all this holds for negative panes too (for a < 0 ≤ b the split is at mid
  = 0).

How an answer is bracketed depends on a and b only: not on `length`, nor on how panes were grouped
into calls of `close`.  An empty pane is neutral to the bit.  So a ring rebuilt from a log gives the
same bits again.

Memory: `length` rows of tails and log2(length) + 1 of heads, each of columns × groups × 8 bytes.

P. M. Fenwick, "A New Data Structure for Cumulative Frequency Tables", Software: Practice and
Experience 24(3), 1994.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.rings.answer_kernels import place, sort_blocks
from headrace.families.windows.rings.arrays import (
    ADD,
    BLOCKS,
    ENTERED,
    NEXT,
    USED,
    WRITTEN,
    Columns,
    Floats,
    Ints,
    Ints32,
    Ops,
    Rows,
)
from headrace.families.windows.rings.closing_kernels import advance
from headrace.families.windows.rings.join_kernels import clear_groups, keep_groups
from headrace.families.windows.rings.partials import Partials

CHUNK_ROWS = 1 << 18
PAGE_GROUPS = 512  # 4,096 bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The op code of each column.  The first int column is the row count of the group."""

    int_ops: tuple[int, ...]
    float_ops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """One entry per shape.  Window k of a shape covers panes [k·slide + offset, k·slide + offset +
    range).

    Windows that start before pane `first_start` are not answered: their history is incomplete.
    """

    range_panes: Ints
    slide_panes: Ints
    offset_panes: Ints
    first_start: Ints

    @staticmethod
    def none() -> Windows:
        empty = np.empty(0, np.int64)
        return Windows(empty, empty, empty, empty)


@dataclass(frozen=True, slots=True)
class Answers:
    """Groups with rows, by shape, then end, then group.  Those of shape i are `offsets[i]:offsets[i
    + 1]`.

    `end` is the pane edge the window ends at: its last pane + 1.  Columns are as in the Layout,
    `[column, answer]`.
    """

    shape: Ints32
    end: Ints
    group: Ints32
    ints: Ints
    floats: Floats
    offsets: Ints


def bytes_a_group(length: int, layout: Layout) -> int:
    """What a ring of so many panes keeps for one group: tails, heads, and one row to join in."""
    return (
        8 * (length + (length - 1).bit_length() + 2) * (len(layout.int_ops) + len(layout.float_ops))
    )


class _Chunk(NamedTuple):
    """What one call of `advance` wrote: blocks (shape, end, number of answers) and their
    answers."""

    blocks: Ints
    answers: Columns


class Ring:
    """All panes of one predicate and one group-by at one pane width, for every window shape on
    them.

    `length` is the range in panes of the longest window it can answer, `first` the first pane that
    can hold rows.
    """

    def __init__(self, layout: Layout, length: int, first: int) -> None:
        assert length >= 1 and layout.int_ops[0] == ADD
        self.layout = layout
        self.length = length
        self._ops = Ops(np.array(layout.int_ops, np.int64), np.array(layout.float_ops, np.int64))
        self._all = Ops(np.arange(len(layout.int_ops)), np.arange(len(layout.float_ops)))
        self._open = Partials(self._ops)
        self._groups = 0
        self._clock = np.array([first, first - length - 1, 0, 0, 0, 0, 0], np.int64)
        self._tail = self._rows(length, 0)
        self._head = self._rows((length - 1).bit_length() + 1, 0)
        self._row = self._rows(1, 0)
        self._windows: Windows | None = None
        self._spans_due = np.empty((4, 0), np.int64), np.empty(0, np.int64)

    @property
    def next_pane(self) -> int:
        """The first pane that is not closed."""
        return int(self._clock[NEXT])

    @property
    def nbytes(self) -> int:
        """What is in use; room for groups to come takes no memory until they come."""
        width: int = self._row.ints.shape[2]
        used = min(width, -(-self._groups // PAGE_GROUPS) * PAGE_GROUPS)
        return used * bytes_a_group(self.length, self.layout) + self._open.nbytes

    def keep(self, kept: Ints) -> None:
        """Forget all other groups: group g is from now on what `kept[g]` was.  Open panes hold none
        of the others."""
        self._widen(int(kept.max(initial=-1)) + 1)  # some it has not met yet
        for rows in (self._tail, self._head):
            keep_groups(rows, kept)
        numbers = np.full(self._groups, -1, np.int32)
        numbers[kept] = np.arange(kept.size)
        self._open.renumber(numbers, kept.size)
        self._groups = kept.size
        self._resize(_room(kept.size, 1))

    def held(self, groups: int) -> NDArray[np.bool_]:
        """Which of so many groups have rows in a pane that is open or may be asked for."""
        found = np.zeros(max(groups, self._groups), np.bool_)
        for rows in (self._tail, self._head):
            found[: self._groups] |= (rows.ints[:, 0, : self._groups] > 0).any(axis=0)
        found[self._open.groups] = True
        return found[:groups]

    def add(
        self, panes: Ints, groups: Ints32, ints: Ints, floats: Floats, places: Ops | None = None
    ) -> None:
        """Merge partial rows, by pane, into open panes, in the order given.

        `places` says which columns of `ints` and `floats` are the ring's; without it they are, in
        its order. Several rows may meet in one pane and group.  Rows are as wide as the largest
        group id: ids should be dense.
        """
        if not panes.size:
            return
        assert panes[0] >= self._clock[NEXT], "a partial for a closed pane"
        width = int(groups.max()) + 1
        self._open.append(
            Columns(panes, groups, ints, floats), self._all if places is None else places, width
        )
        self._widen(width)

    def is_behind(self, through: int) -> bool:
        """Whether panes up to `through` are still to be closed."""
        return bool(self._clock[NEXT] <= through)

    def close(self, through: int, windows: Windows, answers_max: int = 1 << 62) -> Answers:
        """Close every open pane up to `through`, in order; answer each window that ends at the
        right edge of one.

        Stops after the window that makes `answers_max` full: while the ring `is_behind`, the same
        call goes on where it stopped.  `windows` is taken to be unchanged if it is the object of
        the last call.
        """
        spans, due = self._spans(windows)
        order = self._open.due(through)
        self._clock[USED] = 0
        chunks: list[_Chunk] = []
        wanting = written = 0
        while self.is_behind(through) and written < answers_max:
            chunk = self._chunk(due.size, wanting, answers_max - written)
            wanting = self._advance(through, order, spans, due, chunk)
            written += int(self._clock[WRITTEN])
            if self._clock[WRITTEN]:
                chunks.append(chunk._replace(blocks=chunk.blocks[:, : self._clock[BLOCKS]]))
        self._open.drop(int(self._clock[NEXT] - 1 + self._clock[ENTERED]))
        return _gather(chunks, due.size) if chunks else _nothing(due.size, self.layout)

    def _advance(self, through: int, order: Ints, spans: Ints, due: Ints, chunk: _Chunk) -> int:
        """Close panes until done or the chunk is full; returns the answers the next chunk must have
        room for."""
        self._clock[WRITTEN] = self._clock[BLOCKS] = 0
        ring = (self._clock, self._ops, self._all, self._tail, self._head, self._row, self._groups)
        return int(advance(through, *ring, order, self._open.columns, spans, due, *chunk))

    def _spans(self, windows: Windows) -> tuple[Ints, Ints]:
        """The shapes as one array, and room for when each is due; kept, as most rounds have the
        shapes of the last."""
        if windows is not self._windows:
            spans = np.stack(
                [
                    windows.range_panes,
                    windows.slide_panes,
                    windows.offset_panes,
                    windows.first_start,
                ]
            )
            assert not spans.size or (spans[0].max() <= self.length and spans[:2].min() >= 1), (
                "a window must fit"
            )
            self._windows, self._spans_due = windows, (spans, np.empty(spans.shape[1], np.int64))
        return self._spans_due

    def _chunk(self, shapes: int, wanting: int, most: int) -> _Chunk:
        room = max(min(CHUNK_ROWS, shapes * self._groups, most), wanting)
        panes = max(1, min(64, CHUNK_ROWS // max(1, shapes)))
        blocks = np.empty((3, shapes * panes), np.int64)
        return _Chunk(blocks, answer_columns(self._ops.ints.size, self._ops.floats.size, room))

    def _rows(self, rows: int, width: int) -> Rows:
        """Rows that are not live, with nothing in them yet."""
        ints = np.empty((rows, self._ops.ints.size, width), np.int64)
        floats = np.empty((rows, self._ops.floats.size, width), np.float64)
        return Rows(ints, floats, np.zeros(rows, np.uint8))

    def _widen(self, groups: int) -> None:
        """Take in groups up to `groups`."""
        if groups <= self._groups:
            return
        if groups > self._row.ints.shape[2]:
            self._resize(_room(groups, self._row.ints.shape[2]))
        for rows in (self._tail, self._head):
            clear_groups(self._ops, rows, self._groups, groups)
        self._groups = groups

    def _resize(self, width: int) -> None:
        """Move to rows of this width, one kind after the other, so that only one of them is there
        twice."""
        if width != self._row.ints.shape[2]:
            self._tail = self._moved(self._tail, width)
            self._head = self._moved(self._head, width)
            self._row = self._rows(1, width)

    def _moved(self, old: Rows, width: int) -> Rows:
        new = self._rows(old.live.size, width)
        new.ints[:, :, : self._groups] = old.ints[:, :, : self._groups]
        new.floats[:, :, : self._groups] = old.floats[:, :, : self._groups]
        new.live[:] = old.live
        return new


def _room(groups: int, width: int) -> int:
    """How wide rows are to be that are `width` now: few groups exactly at first, others may double
    without a move."""
    return groups if not width and groups <= PAGE_GROUPS else 1 << max(groups - 1, 0).bit_length()


def answer_columns(ints: int, floats: int, room: int) -> Columns:
    return Columns(
        np.empty(0, np.int64),
        np.empty(room, np.int32),
        np.empty((ints, room), np.int64),
        np.empty((floats, room)),
    )


def _gather(chunks: list[_Chunk], shapes: int) -> Answers:
    """All chunks as one, blocks sorted by shape (within a shape they already come by end)."""
    blocks = (
        chunks[0].blocks if len(chunks) == 1 else np.concatenate([c.blocks for c in chunks], axis=1)
    )
    offsets, to, shape, end = sort_blocks(np.ascontiguousarray(blocks), shapes)
    total = end.size
    # of one pane: they have been written by shape
    if len(chunks) == 1 and blocks[1, 0] == blocks[1, -1]:
        answers = chunks[0].answers
    else:
        answers = _place(chunks, to, total)
    return Answers(
        shape,
        end,
        answers.group[:total],
        answers.ints[:, :total],
        answers.floats[:, :total],
        offsets,
    )


def _place(chunks: list[_Chunk], to: Ints, total: int) -> Columns:
    """Copy every block of all chunks to where it belongs."""
    out = answer_columns(chunks[0].answers.ints.shape[0], chunks[0].answers.floats.shape[0], total)
    done = 0
    for chunk in chunks:
        blocks = chunk.blocks.shape[1]
        place(to[done : done + blocks], chunk.blocks[2], chunk.answers, out)
        done += blocks
    return out


def _nothing(shapes: int, layout: Layout) -> Answers:
    none = answer_columns(len(layout.int_ops), len(layout.float_ops), 0)
    return Answers(
        none.group, none.pane, none.group, none.ints, none.floats, np.zeros(shapes + 1, np.int64)
    )
