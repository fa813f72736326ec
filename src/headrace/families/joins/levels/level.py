"""An index that never changes of the ranges of some queries of a shape, as a file of the home.

Ranges are grouped by what they have in common (`stabbing/partition.py`): of a band by its
differences, of a select-join by the range of side 1 for rows of side 0, and the other way round.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from headrace.families.joins.plan import BAND, FILTER, Box, JoinShape
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Ints, Ints32, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Ranges of queries (a query may have several) with their group for rows of each side."""

    ids: Ints
    lo: tuple[Numbers, Numbers]
    hi: tuple[Numbers, Numbers]
    group: tuple[Ints32, Ints32]

    def __len__(self) -> int:
        return self.ids.size

    @staticmethod
    def build(
        shape: JoinShape, ids: Ints, lo: tuple[Numbers, Numbers], hi: tuple[Numbers, Numbers]
    ) -> Level:
        of_side_1 = canonical(lo[1], hi[1]).group
        of_side_0 = of_side_1 if shape.kind == BAND else canonical(lo[0], hi[0]).group
        return Level(ids, lo, hi, (of_side_1, of_side_0))

    def groups(self, which: int) -> int:
        return int(self.group[which].max()) + 1 if self.ids.size else 0

    def groups_for(self, shape: JoinShape, relation: str) -> int:
        """How many a row of the relation is looked up for."""
        return sum(self.groups(grouping(shape, side)) for side in sides_of(shape, relation))

    def pack(self) -> bytes:
        sink = io.BytesIO()
        arrays = {
            "ids": self.ids,
            "lo0": self.lo[0],
            "lo1": self.lo[1],
            "hi0": self.hi[0],
            "hi1": self.hi[1],
            "group0": self.group[0],
            "group1": self.group[1],
        }
        np.savez(sink, allow_pickle=False, **arrays)
        return sink.getvalue()

    @staticmethod
    def unpack(data: bytes) -> Level:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            a = {name: found[name] for name in found.files}
        return Level(
            a["ids"], (a["lo0"], a["lo1"]), (a["hi0"], a["hi1"]), (a["group0"], a["group1"])
        )


def sides_of(shape: JoinShape, relation: str) -> list[int]:
    """Both, where it is joined with itself."""
    return [side for side in (0, 1) if shape.relations[side] == relation]


def grouping(shape: JoinShape, side: int) -> int:
    """Which grouping of a level rows of a side are looked up in: that of a filter is by the
    attribute itself, and those of a band are the same."""
    return {BAND: 0, FILTER: 1}.get(shape.kind, side)


def groupings(shape: JoinShape) -> list[int]:
    """The ways of grouping that the two sides of a shape need; often they need the same."""
    return sorted({grouping(shape, side) for side in (0, 1)})


def level_name(data: bytes) -> str:
    """The file of a packed level: named by its content, it is never another."""
    return f"{sha256(data).hexdigest()[:32]}.npz"


def level_of(shape: JoinShape, queries: Mapping[int, Sequence[Box]]) -> Level:
    """A level of these queries, each with all of its ranges."""
    ids = np.array([i for i, boxes in queries.items() for _ in boxes], np.int64)
    kind = np.float64 if is_double(shape) else np.int64
    ends = np.array([box for boxes in queries.values() for box in boxes], kind).reshape(-1, 4)
    columns = [np.ascontiguousarray(ends[:, i]) for i in range(4)]
    return Level.build(shape, ids, (columns[0], columns[2]), (columns[1], columns[3]))


def is_double(shape: JoinShape) -> bool:
    """Whether ranges of this shape are of doubles; others are of whole numbers, or of keys."""
    return shape.kind == BAND and shape.meets[0][0].type.is_fractional


def merged(shape: JoinShape, levels: Sequence[Level], kept: NDArray[np.bool_]) -> Level:
    """Of the ranges of all that are `kept`."""
    ids = np.concatenate([level.ids for level in levels])
    lo, hi = (
        tuple(
            np.concatenate([getattr(level, name)[side] for level in levels])[kept]
            for side in (0, 1)
        )
        for name in ("lo", "hi")
    )
    return Level.build(shape, ids[kept], (lo[0], lo[1]), (hi[0], hi[1]))
