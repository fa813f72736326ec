"""The rows of one relation in the order a join looks them up by: a few sorted segments.

Rows come round by round, and of a table they go.  A round is a segment of its own until it is
merged with those before it: each is at least eight times as long as the next, for every segment is
looked up for every event.  Segments never change; an image is a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Numbers

RATIO = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows by `b`, then `c`, then number."""

    b: Numbers
    c: Numbers
    row: Ints

    def __len__(self) -> int:
        return self.row.size

    @staticmethod
    def of(b: Numbers, c: Numbers, row: Ints) -> Segment:
        order = np.lexsort((row, c, b))
        return Segment(b[order], c[order], row[order])

    def without(self, b: Numbers, c: Numbers, row: Ints) -> Segment:
        """Without such of these rows as are here."""
        places = find_rows(self.b, self.c, self.row, b, c, row)
        kept = np.ones(len(self) if places.size else 0, np.bool_)
        kept[places] = False
        return self.where(kept)

    def where(self, kept: NDArray[np.bool_]) -> Segment:
        return self if kept.all() else Segment(self.b[kept], self.c[kept], self.row[kept])


@dataclass(frozen=True, slots=True)
class Image:
    segments: tuple[Segment, ...] = ()

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)

    def add(self, b: Numbers, c: Numbers, row: Ints) -> Image:
        """With these rows, whose numbers are new."""
        return Image(_merged([*self.segments, Segment.of(b, c, row)]))

    def remove(self, b: Numbers, c: Numbers, row: Ints) -> Image:
        """Without these rows, looked up where they would be; not all have to be there."""
        return Image(_merged(s.without(b, c, row) for s in self.segments))

    def where(self, chosen: Callable[[Ints], NDArray[np.bool_]]) -> Image:
        """The rows that are chosen by their numbers."""
        segments = (segment.where(chosen(segment.row)) for segment in self.segments)
        return Image(tuple(segment for segment in segments if len(segment)))

    def without_files(self, files: Ints, bits: int) -> Image:
        """Without rows whose number begins, above so many bits, with one of these."""
        return Image(_merged(s.where(~np.isin(s.row >> bits, files)) for s in self.segments))


def _merged(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Longest first, each at least RATIO times as long as the next."""
    found = sorted((s for s in segments if len(s)), key=len, reverse=True)
    while len(found) > 1:
        short = [i for i in range(len(found) - 1) if len(found[i]) < RATIO * len(found[i + 1])]
        if not short:
            break
        pair = found[short[-1] : short[-1] + 2]
        joined = Segment.of(
            *(np.concatenate([getattr(s, name) for s in pair]) for name in ("b", "c", "row"))
        )
        found[short[-1] : short[-1] + 2] = [joined]
        found.sort(key=len, reverse=True)
    return tuple(found)


@numba.njit(cache=True, nogil=True)
def find_rows(
    b: Numbers, c: Numbers, row: Ints, own_b: Numbers, own_c: Numbers, own_row: Ints
) -> Ints:
    """The places of those rows of the second three that are in the first, which are in order."""
    places, found = np.empty(own_row.size, np.int64), 0
    for k in range(own_row.size):
        low, high = 0, row.size
        while low < high:
            i = (low + high) // 2
            if b[i] < own_b[k] or (
                b[i] == own_b[k] and (c[i] < own_c[k] or (c[i] == own_c[k] and row[i] < own_row[k]))
            ):
                low = i + 1
            else:
                high = i
        if low < row.size and row[low] == own_row[k]:
            places[found] = low
            found += 1
    return places[:found]
