"""What a worker or a reader of joins has at hand: row files and images (`relations/store.py`), and levels of queries.

Each change of queries makes new levels: those that nobody asks for any more are let go of.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path

import pyarrow as pa

from headrace.families.joins.levels.level import Level, level_name
from headrace.families.joins.levels.probes import Prober, prober
from headrace.families.joins.plan import BAND, JoinShape
from headrace.records import reading
from headrace.relations.attributes import Attribute, keys, marks, numbers
from headrace.relations.image import Image
from headrace.relations.row_files import RowFile
from headrace.relations.store import Store, opened
from headrace.runtime.ledger import damaged


class LevelStore(Store):
    """Rows, images of them as a join shape looks them up, and levels."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._levels: OrderedDict[str, Level] = OrderedDict()
        self._probers: OrderedDict[tuple[str, int], Prober] = OrderedDict()

    def level(self, path: str) -> Level:
        return opened(self._levels, path, lambda: _level(self._root / path))

    def prober(self, path: str, kind: str, side: int) -> Prober:
        """A level, arranged for events of one side."""
        return opened(self._probers, (path, side), lambda: prober(kind, self.level(path), side))

    def image(self, relation: str, files: Sequence[RowFile], shape: JoinShape, side: int) -> Image:
        """The rows that are there with these files, as rows of one side of a shape, in order of
        what they meet by."""
        key = image_key(relation, shape, side)
        return self._image(
            key, relation, files, lambda file: attributes(shape, side, self.table(file))
        )

    def _keep_files(self, kept: Collection[str]) -> None:
        for path in self._levels.keys() - set(kept):
            del self._levels[path]
        for key in [key for key in self._probers if key[0] not in kept]:
            del self._probers[key]


def image_key(relation: str, shape: JoinShape, side: int) -> Hashable:
    """By which an image of rows is kept."""
    return relation, shape.kind, shape.meets[side], shape.ranged[side]


def attributes(shape: JoinShape, side: int, rows: pa.Table) -> tuple[Attribute, Attribute]:
    """What rows of a side meet by, and what their range is of."""
    if shape.kind == BAND:
        return numbers(shape.meets[side][0], rows), keys(None, rows)
    return marks(shape.meets[side], rows), keys(shape.ranged[side], rows)


def _level(path: Path) -> Level:
    """Its name says what it holds."""
    with reading(path):
        data = path.read_bytes()
    if path.name != level_name(data):
        raise damaged(path, "does not match its checksum")
    with reading(path):
        return Level.unpack(data)
