"""Pairs of rows that a query asks for: by box, found in the order of an image as runs of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.families.joins.bands.kernels import first_above, next_at_least
from headrace.families.joins.plan import BAND, Box
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Numbers, spread
from headrace.relations.image import Image
from headrace.relations.kernels import joining, reach


class Run(NamedTuple):
    """Of each event, the rows `first` … `last` - 1 of a segment."""

    rows: Ints
    first: Ints
    last: Ints

    @property
    def counts(self) -> Ints:
        found: Ints = np.maximum(self.last - self.first, 0)
        return found


def runs_of(
    kind: str, boxes: Sequence[Box], side: int, image: Image, b: Numbers, a: Numbers
) -> list[Run]:
    """What events join, by box and segment; `b` is in order."""
    found: list[Run] = []
    for box in boxes if b.size else ():
        own, other = (box[:2], box[2:]) if side == 0 else (box[2:], box[:2])
        for segment in image.segments:
            first, last = np.empty(b.size, np.int64), np.empty(b.size, np.int64)
            if kind == BAND:
                ends = np.array(box[:2] if side == 0 else (-box[1], -box[0]), b.dtype)
                _run_bands(segment.b, b, ends[0], ends[1], first, last)
            else:
                joining(segment.b, b, first, last)
                _narrow(segment.c, int(other[0]), int(other[1]), first, last)
                last[(a < own[0]) | (a > own[1])] = 0
            found.append(Run(segment.row, first, last))
    return found


def expanded(runs: Sequence[Run], event: Ints) -> tuple[Ints, Ints]:
    """Events and the rows they join, pair by pair."""
    found = [
        (np.empty(0, np.int64), np.empty(0, np.int64)),
        *(_expanded(run, event) for run in runs),
    ]
    return np.concatenate([e for e, _ in found]), np.concatenate([r for _, r in found])


def _expanded(run: Run, event: Ints) -> tuple[Ints, Ints]:
    counts = run.counts
    return np.repeat(event, counts), run.rows[spread(run.first, counts)]


@numba.njit(cache=True, nogil=True)
def _run_bands(rows: Numbers, b: Numbers, lo: float, hi: float, first: Ints, last: Ints) -> None:
    """The rows `first` … `last` - 1 whose difference from each event is within [lo, hi]; both only
    move forward."""
    begin = end = 0
    for e in range(b.size):
        begin = next_at_least(rows, b[e], lo, begin)
        end = first_above(rows, b[e], hi, max(begin, end))
        first[e], last[e] = begin, end


@numba.njit(cache=True, nogil=True)
def _narrow(row_c: Numbers, lo: int, hi: int, first: Ints, last: Ints) -> None:
    """Of the rows `first` … `last` - 1, in order of c, those with c within [lo, hi]."""
    for e in range(first.size):
        if first[e] < last[e]:
            end = last[e]
            first[e] = reach(row_c, first[e], end, lo, False)
            last[e] = reach(row_c, first[e], end, hi, True)
