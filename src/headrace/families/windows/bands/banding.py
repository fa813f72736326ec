"""From the rows of a crowd to those of its rings, and from what these answer to the queries.

Each band takes its run of cells of every pane and group (`bands/kernels.py`), mostly once, when the
pane closes (`bands/waiting.py`); rings then keep what the queries ask for, and nothing of cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.bands import kernels
from headrace.families.windows.bands.arrays import (
    Bands,
    Ints,
    Ints32,
    Scratch,
    SharedRings,
    Stretches,
    Written,
)
from headrace.families.windows.bands.band_groups import BandGroups, RingBandGroups, Taken
from headrace.families.windows.bands.waiting import CellRows, Waiting
from headrace.families.windows.measures import Arrangement, arrange, places_in
from headrace.families.windows.plan import SharedRing
from headrace.families.windows.rings.arrays import Columns, Ops
from headrace.families.windows.rings.ring import Answers, answer_columns
from headrace.families.windows.rollup.feed import SlotRows
from headrace.sql.bands import LEAST, Interval

ROWS_MAX = 1 << 22  # rows of bands that may be made at once


class Banding:
    """Folds the rows of one slot for all its shared rings."""

    def __init__(self, band_groups: BandGroups) -> None:
        self.band_groups = band_groups
        self.waiting = Waiting()
        self._asked: tuple[int, _Asked] | None = None

    def fold(
        self, rows: CellRows, given: Arrangement
    ) -> Iterator[tuple[SharedRing, Arrangement, SlotRows]]:
        """The rows of each shared ring, by pane, all rows of some stretches at a time; the columns
        are those of the shared ring.

        Shared rings may be dropped while rows are taken."""
        ops = Ops(
            np.array(given.layout.int_ops, np.int64), np.array(given.layout.float_ops, np.int64)
        )
        starts, last = _starts(rows), 0
        while last < starts.size - 1 and self.band_groups.shared_rings:
            if self._asked is None or self._asked[0] != self.band_groups.changes:
                self._asked = (self.band_groups.changes, _Asked(self.band_groups))
            asked = self._asked[1]
            bands, stretches, room = (
                asked.bands(rows.edges),
                asked.stretches(rows, starts),
                asked.room(starts, ops),
            )
            first, last = last, min(last + max(1, ROWS_MAX // bands.number.size), starts.size - 1)
            shared_rings, out = asked.place(last - first, given)
            numbers = self.band_groups.numbers(int(rows.groups.max()) + 1, last - first)
            kernels.fold_stretches(
                first, last, stretches, ops, bands, shared_rings, numbers, room, out
            )
            self.band_groups.note(numbers)
            yield from asked.rows_of(shared_rings, out)


def _starts(rows: CellRows) -> Ints:
    """Where the stretches begin, and the last ends."""
    new = (rows.pane_us[1:] != rows.pane_us[:-1]) | (rows.groups[1:] != rows.groups[:-1])
    size = rows.pane_us.size
    return np.concatenate(([0], np.flatnonzero(new) + 1, [size] if size else [])).astype(np.int64)


class _Asked:
    """The bands of all shared rings as arrays, while none comes or goes."""

    def __init__(self, band_groups: BandGroups) -> None:
        self._shared_rings = [(key, arrange(key.measures)) for key in band_groups.shared_rings]
        own = [
            (shared_ring, taken, number)
            for shared_ring, spotted in enumerate(band_groups.shared_rings.values())
            for taken, number in spotted.bands.items()
        ]
        self._taken: list[Taken] = [taken for _, taken, _ in own]
        self._shared_ring: Ints = np.array([shared_ring for shared_ring, _, _ in own], np.int64)
        self._number: Ints = np.array([number for _, _, number in own], np.int64)
        firsts = [taken[0] for taken in self._taken]
        self._edges: Ints = np.array(
            sorted({e for band in set(firsts) for e in band.edges()}), np.int64
        )
        self._at, self._segments = _intervals([band.intervals for band in firsts], self._edges)
        self._known: tuple[object, Bands, Ints32] | None = None
        self._given: tuple[Arrangement, tuple[Ints, Ints, Ints, Ints]] | None = None
        self._out: Written | None = None

    def bands(self, edges: Sequence[tuple[int, ...]]) -> Bands:
        return self._by_edges(edges)[0]

    def _by_edges(self, edges: Sequence[tuple[int, ...]]) -> tuple[Bands, Ints32]:
        """The bands, and the segment of each rank of the first cell, for rows that were placed
        among these edges."""
        if self._known is None or self._known[0] != edges:
            others = [[taken[c].intervals for taken in self._taken] for c in range(1, len(edges))]
            placed = [
                _intervals(own, np.array(edges[c], np.int64)) for c, own in enumerate(others, 1)
            ]
            first, last = self._segments
            bands = Bands(
                self._number, self._shared_ring, self._at, first, last, *_interleaved(placed)
            )
            segments = np.searchsorted(self._edges, [LEAST, *edges[0]], side="right").astype(
                np.int32
            )
            self._known = (edges, bands, segments)
        return self._known[1], self._known[2]

    def stretches(self, rows: CellRows, starts: Ints) -> Stretches:
        segments = self._by_edges(rows.edges)[1][rows.ranks[0]]
        return Stretches(
            starts, rows.pane_us, rows.groups, segments, rows.ranks[1:], rows.ints, rows.floats
        )

    def room(self, starts: Ints, ops: Ops) -> Scratch:
        longest = int(np.diff(starts).max(initial=1))
        held = min(longest, self._edges.size + 1)
        levels = max(1, (held - 1).bit_length())
        ints, floats = (
            np.empty((levels, ops.ints.size, held), np.int64),
            np.empty((levels, ops.floats.size, held)),
        )
        return Scratch(
            np.empty(longest, np.int64),
            np.empty(self._edges.size + 2, np.int64),
            np.empty(held + 1, np.int64),
            ints,
            floats,
            np.empty(longest, np.int64),
            np.empty((ops.floats.size, longest), np.int64),
            np.empty(ops.ints.size, np.int64),
        )

    def place(self, stretches: int, given: Arrangement) -> tuple[SharedRings, Written]:
        """Where the rows of each shared ring go: at most one for each band and stretch."""
        if self._given is None or self._given[0] is not given:
            self._given = (given, _columns([own for _, own in self._shared_rings], given))
        int_at, int_columns, float_at, float_columns = self._given[1]
        room = np.bincount(self._shared_ring, minlength=len(self._shared_rings)) * stretches
        base, int_base, float_base = (
            np.cumsum(sizes) - sizes
            for sizes in (room, room * np.diff(int_at), room * np.diff(float_at))
        )
        sizes = tuple(int((room * n).sum()) for n in (1, np.diff(int_at), np.diff(float_at)))
        shared_rings = SharedRings(
            int_at, int_columns, float_at, float_columns, room, base, int_base, float_base
        )
        count = np.zeros(len(self._shared_rings), np.int64)
        if self._out is None or _is_short(sizes, self._out):
            rows, ints, floats = sizes
            self._out = Written(
                count,
                np.empty(rows, np.int64),
                np.empty(rows, np.int32),
                np.empty(ints, np.int64),
                np.empty(floats),
            )
        # the rest stays: memory is slow when it is touched first
        self._out = self._out._replace(rows=count)
        return shared_rings, self._out

    def rows_of(
        self, shared_rings: SharedRings, out: Written
    ) -> Iterator[tuple[SharedRing, Arrangement, SlotRows]]:
        for i, (key, arrangement) in enumerate(self._shared_rings):
            count, base = int(out.rows[i]), int(shared_rings.base[i])
            if count:
                ints = _lines(
                    out.ints,
                    shared_rings.int_base[i],
                    shared_rings.int_at[i : i + 2],
                    shared_rings.room[i],
                    count,
                )
                floats = _lines(
                    out.floats,
                    shared_rings.float_base[i],
                    shared_rings.float_at[i : i + 2],
                    shared_rings.room[i],
                    count,
                )
                own = slice(base, base + count)
                yield (
                    key,
                    arrangement,
                    SlotRows(out.pane[own].copy(), out.band_group[own].copy(), ints, floats),
                )


def _is_short(sizes: tuple[int, ...], out: Written) -> bool:
    return any(
        size > has
        for size, has in zip(
            sizes, (out.band_group.size, out.ints.size, out.floats.size), strict=True
        )
    )


def _lines(flat: NDArray[Any], base: int, at: Ints, room: int, count: int) -> NDArray[Any]:
    """The columns of a shared ring, as far as they are written."""
    columns = int(at[1] - at[0])
    return flat[base : base + columns * room].reshape(columns, room)[:, :count].copy()


def _intervals(bands: Sequence[Sequence[Interval]], edges: Ints) -> tuple[Ints, tuple[Ints, Ints]]:
    """Where the intervals of each band begin, and the first and last rank of each among the
    edges."""
    flat = np.array([i for own in bands for i in own], np.int64).reshape(-1, 2)
    ranks = np.searchsorted(edges, flat, side="right")
    return np.cumsum([0, *(len(own) for own in bands)]), (ranks[:, 0].copy(), ranks[:, 1].copy())


def _interleaved(placed: Sequence[tuple[Ints, tuple[Ints, Ints]]]) -> tuple[Ints, Ints32, Ints32]:
    """Intervals of several cells, those of one band together."""
    bands = placed[0][0].size - 1 if placed else 0
    spans = [
        (first[at[b] : at[b + 1]], last[at[b] : at[b + 1]])
        for b in range(bands)
        for at, (first, last) in placed
    ]
    firsts, lasts = (
        np.concatenate([np.empty(0, np.int64), *(span[i] for span in spans)]) for i in (0, 1)
    )
    return (
        np.cumsum([0, *(len(first) for first, _ in spans)]),
        firsts.astype(np.int32),
        lasts.astype(np.int32),
    )


def _columns(
    shared_rings: Sequence[Arrangement], given: Arrangement
) -> tuple[Ints, Ints, Ints, Ints]:
    """Where the columns of each shared ring are among the given ones, whole numbers first."""
    places = [places_in(own, given) for own in shared_rings]
    starts = [np.cumsum([0, *(p[kind].size for p in places)]) for kind in (0, 1)]
    return (
        starts[0],
        np.concatenate([p[0] for p in places]),
        starts[1],
        np.concatenate([p[1] for p in places]),
    )


# -- answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of each band of a shared ring, `of[at[band]]` …, and the first end each has all
    rows for."""

    at: Ints
    of: Ints
    first_end: Ints


def shapes_of(taken: Sequence[Taken], first_end: Ints, shared_ring: RingBandGroups) -> Shapes:
    """Shapes take these bands, in their order."""
    bands = np.array([shared_ring.bands[own] for own in taken], np.int64)
    at = np.append(0, np.cumsum(np.bincount(bands)))
    return Shapes(at, np.argsort(bands, kind="stable"), first_end)


def answers_of(answers: Answers, shared_ring: RingBandGroups, shapes: Shapes) -> Answers:
    """From answers by band group to answers by shape, end and group."""
    band = np.where(shared_ring.band < shapes.at.size - 1, shared_ring.band, -1)
    counts = np.zeros(shapes.first_end.size, np.int64)
    kernels.count_answers(
        answers.group, answers.end, band, shapes.at, shapes.of, shapes.first_end, counts
    )
    offsets = np.append(0, np.cumsum(counts))
    out = answer_columns(answers.ints.shape[0], answers.floats.shape[0], int(offsets[-1]))
    ends, source = (
        np.empty(out.group.size, np.int64),
        Columns(
            np.empty(0, np.int64),
            answers.group,
            np.ascontiguousarray(answers.ints),
            np.ascontiguousarray(answers.floats),
        ),
    )
    kernels.place_answers(
        answers.end,
        source,
        band,
        shared_ring.group,
        shapes.at,
        shapes.of,
        shapes.first_end,
        offsets[:-1].copy(),
        ends,
        out,
    )
    shape = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    return Answers(shape, ends, out.group, out.ints, out.floats, offsets)
