"""Row files and levels of a home, each opened once, and images of rows that are brought up to date as files come.

Workers and readers have a store each.  A file never changes, so what is made of it is kept by its name; one that has
changed all the same is said to be damaged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headrace.families.joins.arrays import Ints
from headrace.families.joins.attributes import Attribute, Mask, key_marks, keys, marks, numbers
from headrace.families.joins.image import Image
from headrace.families.joins.level import Level, level_name
from headrace.families.joins.plan import BAND, Joint
from headrace.families.joins.probes import Prober, prober
from headrace.families.joins.rowfiles import COMES, GOES, KIND, SIGN, WAS, RowFile, State, file_state, map_table
from headrace.runtime.ledger import damaged

OK = 0
OPEN_MAX = 4_096
INDEX_BITS = 32
NO_ROWS: Ints = np.empty(0, np.int64)
K = TypeVar("K")
V = TypeVar("V")
OfFile = Callable[[RowFile], tuple[Attribute, Attribute]]


@dataclass(frozen=True, slots=True)
class _Kept:
    files: frozenset[RowFile]
    image: Image


class Store:
    """What is known of one home.  Rows are numbered by file and index: `row >> 32` is the file's number here."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tables: OrderedDict[RowFile, tuple[State | None, pa.Table]] = OrderedDict()
        self._levels: OrderedDict[str, Level] = OrderedDict()
        self._probers: OrderedDict[tuple[str, int], Prober] = OrderedDict()
        self._files: list[RowFile] = []
        self._numbers: dict[RowFile, int] = {}
        self._places: dict[tuple[str, int, int], int] = {}
        self._images: dict[Hashable, _Kept] = {}

    # -- files --------------------------------------------------------------------------------------

    def table(self, file: RowFile) -> pa.Table:
        """It is mapped, so a process that reads what has been cut off since would be ended: it is looked at first.
        One that is gone is still whole here."""
        path = self._root / file.path
        state = file_state(path)
        if file in self._tables and state is not None and state != self._tables[file][0]:
            del self._tables[file]
        return _opened(self._tables, file, lambda: (state, map_table(path, file.size, file.crc)))[1]

    def level(self, path: str) -> Level:
        return _opened(self._levels, path, lambda: _level(self._root / path))

    def prober(self, path: str, kind: str, side: int) -> Prober:
        """A level, arranged for events of one side."""
        return _opened(self._probers, (path, side), lambda: prober(kind, self.level(path), side))

    def place(self, number: int) -> tuple[int, int]:
        """Round and part of a file."""
        return self._files[number].round_id, self._files[number].part

    def number(self, relation: str, file: RowFile) -> int:
        """The file's number here."""
        if file not in self._numbers:
            self._numbers[file] = self._places[relation, file.round_id, file.part] = len(self._files)
            self._files.append(file)
        return self._numbers[file]

    def rows(self, numbers: Ints, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these numbers, of which there are some, in this order."""
        of_file, index = numbers >> INDEX_BITS, numbers & ((1 << INDEX_BITS) - 1)
        used = np.unique(of_file)
        tables = [self.table(self._files[f]) for f in used]
        tables = tables if columns is None else [table.select(columns) for table in tables]
        starts = np.cumsum([0, *(t.num_rows for t in tables)])[:-1]
        place = starts[np.searchsorted(used, of_file)] + index
        return pa.concat_tables(tables).take(pa.array(place)).combine_chunks()

    # -- images -------------------------------------------------------------------------------------

    def image(
        self, relation: str, files: Sequence[RowFile], joint: Joint, side: int, keep_all: bool = False
    ) -> Image:
        """The rows that are there with these files, as rows of one side of a joint, in order of what they meet by;
        with `keep_all` also those that have gone."""
        key = relation, joint.kind, joint.meets[side], joint.ranged[side], keep_all
        return self._image(key, relation, files, lambda file: attributes(joint, side, self.table(file)), keep_all)

    def keys(self, relation: str, columns: tuple[str, ...], files: Sequence[RowFile]) -> Image:
        """The rows of a table that are there, by key."""

        def by_key(file: RowFile) -> tuple[Attribute, Attribute]:
            rows = self.table(file)
            every, none = np.ones(rows.num_rows, np.bool_), np.zeros(rows.num_rows, np.bool_)
            return Attribute(key_marks(columns, rows), every, none), keys(None, rows)

        return self._image((relation, columns), relation, files, by_key)

    def _image(
        self, key: Hashable, relation: str, files: Sequence[RowFile], of_file: OfFile, keep_all: bool = False
    ) -> Image:
        kept, wanted = self._images.get(key, _Kept(frozenset(), Image())), frozenset(files)
        if any(file.goes for file in kept.files - wanted):  # of a round that failed: what went with it is there again
            kept = _Kept(frozenset(), Image())
        elif not kept.files <= wanted:
            left = [self.number(relation, file) for file in kept.files - wanted]
            kept = _Kept(kept.files & wanted, kept.image.without_files(np.array(left, np.int64), INDEX_BITS))
        new = [file for file in files if file not in kept.files]
        if new:
            image = self._with(kept.image, relation, new, of_file)
            gone = [] if keep_all else [was for file in new if (was := self.gone(relation, file)[1]).size]
            kept = _Kept(wanted, image.remove(np.concatenate(gone)) if gone else image)
        self._images[key] = kept
        return kept.image

    def _with(self, image: Image, relation: str, files: Sequence[RowFile], of_file: OfFile) -> Image:
        parts = []
        for file in files:
            b, c = of_file(file)
            here = np.flatnonzero(b.valid & c.valid & coming(self.table(file)))
            parts.append((b.values[here], c.values[here], (self.number(relation, file) << INDEX_BITS) | here))
        return image.add(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def gone(self, relation: str, file: RowFile) -> tuple[Ints, Ints]:
        """The numbers of rows that go with a file, here and when they came; those of files that are no longer there are
        left out."""
        table = self.table(file)
        if WAS[0] not in table.column_names:
            return NO_ROWS, NO_ROWS
        goes = np.flatnonzero(table.column(SIGN).to_numpy() == GOES)
        rounds, parts, index = (table.column(name).take(pa.array(goes)).to_numpy() for name in WAS)
        places = zip(rounds.tolist(), parts.tolist(), strict=True)
        found = np.array([self._places.get((relation, *place), -1) for place in places], np.int64)
        there = found >= 0
        return (self.number(relation, file) << INDEX_BITS) | goes[there], (found[there] << INDEX_BITS) | index[there]


def coming(rows: pa.Table) -> Mask:
    """Rows that count and that come."""
    found: Mask = (rows.column(KIND).to_numpy() == OK) & (rows.column(SIGN).to_numpy() == COMES)
    return found


def attributes(joint: Joint, side: int, rows: pa.Table) -> tuple[Attribute, Attribute]:
    """What rows of a side meet by, and what their range is of."""
    if joint.kind == BAND:
        return numbers(joint.meets[side][0], rows), keys(None, rows)
    return marks(joint.meets[side], rows), keys(joint.ranged[side], rows)


def _level(path: Path) -> Level:
    """Its name says what it holds."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    if path.name != level_name(data):
        raise damaged(path, "does not match its checksum")
    return Level.unpack(data)


def _opened(kept: OrderedDict[K, V], key: K, load: Callable[[], V]) -> V:
    """The newest few are kept open."""
    if key not in kept:
        kept[key] = load()
        while len(kept) > OPEN_MAX:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]
