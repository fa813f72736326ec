"""Row files of a home, each opened once, and images of rows that are brought up to date as files come.

Workers and readers have a store each.  A file never changes, so what is made of it is kept by its
name; one that has changed all the same is said to be damaged.  A worker lives long: it keeps what
the newest batch of each relation asked for (`Store.keep`).  A reader says nothing, and keeps what
it had.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headrace.relations.arrays import Ints
from headrace.relations.attributes import Attribute, Mask, key_marks, keys
from headrace.relations.image import Image
from headrace.relations.row_files import (
    CAME,
    COMES,
    GOES,
    KIND,
    SIGN,
    WAS,
    RowFile,
    State,
    file_state,
    map_table,
)

OK = 0
OPEN_MAX = 4_096
INDEX_BITS = 32
# batches of others, after which what a relation asked for is cheaper to make anew than to keep
IDLE_MAX = 1_000
SPARE = 64  # numbers of files that are in no image, and may wait
NO_ROWS: Ints = np.empty(0, np.int64)
K = TypeVar("K")
V = TypeVar("V")
OfFile = Callable[[RowFile], tuple[Attribute, Attribute]]
S = TypeVar("S", bound="Store")
_workers: dict[str, Store] = {}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a batch asked for, and how many batches there had been."""

    files: frozenset[str]
    images: frozenset[Hashable]
    at: int


@dataclass(frozen=True, slots=True)
class _Kept:
    files: frozenset[RowFile]
    image: Image


class Store:
    """What is known of one home.  Rows are numbered by file and index: `row >> 32` is the file's
    number here."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tables: OrderedDict[RowFile, tuple[State | None, pa.Table]] = OrderedDict()
        self._files: dict[int, RowFile] = {}
        self._numbers: dict[RowFile, int] = {}
        self._places: dict[tuple[str, int, int], int] = {}
        self._images: dict[Hashable, _Kept] = {}
        self._there: dict[Hashable, tuple[Image, Ints]] = {}
        self._asked: dict[str, _Asked] = {}
        self._batches = self._numbered = 0

    # -- files -------------------------------------------------------------------------------------

    def table(self, file: RowFile) -> pa.Table:
        """It is mapped, so a process that reads what has been cut off since would be ended: it is
        looked at first. One that is gone is still whole here."""
        path = self._root / file.path
        state = file_state(path)
        if file in self._tables and state is not None and state != self._tables[file][0]:
            del self._tables[file]
        return opened(self._tables, file, lambda: (state, map_table(path, file.size, file.crc)))[1]

    def file(self, number: int) -> RowFile:
        return self._files[number]

    def place(self, number: int) -> tuple[int, int]:
        """Round and part of a file."""
        return self._files[number].round_id, self._files[number].part

    def number(self, relation: str, file: RowFile) -> int:
        """The number of a row file in this store; one that is new gets the next."""
        if file not in self._numbers:
            self._numbers[file] = self._places[relation, file.round_id, file.part] = self._numbered
            self._files[self._numbered] = file
            self._numbered += 1
        return self._numbers[file]

    def rows(self, numbers: Ints, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these numbers, of which there are some, in this order; all columns but
        `CAME`, which not every file has."""
        of_file, index = numbers >> INDEX_BITS, numbers & ((1 << INDEX_BITS) - 1)
        used = np.unique(of_file)
        tables = [self.table(self._files[int(f)]) for f in used]
        if columns is None:
            columns = [name for name in tables[0].column_names if name != CAME]
        tables = [table.select(columns) for table in tables]
        starts = np.cumsum([0, *(t.num_rows for t in tables)])[:-1]
        place = starts[np.searchsorted(used, of_file)] + index
        return pa.concat_tables(tables).take(pa.array(place)).combine_chunks()

    # -- images ------------------------------------------------------------------------------------

    def keys(self, relation: str, columns: tuple[str, ...], files: Sequence[RowFile]) -> Image:
        """The rows of a table that are there, by key."""

        def by_key(file: RowFile) -> tuple[Attribute, Attribute]:
            rows = self.table(file)
            every, none = np.ones(rows.num_rows, np.bool_), np.zeros(rows.num_rows, np.bool_)
            return Attribute(key_marks(columns, rows), every, none), keys(None, rows)

        return self._image(keys_key(relation, columns), relation, files, by_key)

    def there(self, relation: str, columns: tuple[str, ...], files: Sequence[RowFile]) -> Ints:
        """The numbers of the rows of a table that are there, in order."""
        image, key = self.keys(relation, columns, files), keys_key(relation, columns)
        known = self._there.get(key)
        if known is None or known[0] is not image:
            rows = np.sort(np.concatenate([NO_ROWS, *(s.row for s in image.segments)]))
            known = self._there[key] = image, rows
        return known[1]

    def _image(
        self, key: Hashable, relation: str, files: Sequence[RowFile], of_file: OfFile
    ) -> Image:
        kept, wanted = self._images.get(key, _Kept(frozenset(), Image())), frozenset(files)
        # of a round that failed: what went with it is there again
        if any(file.goes for file in kept.files - wanted):
            kept = _Kept(frozenset(), Image())
        elif not kept.files <= wanted:
            left = [self.number(relation, file) for file in kept.files - wanted]
            kept = _Kept(
                kept.files & wanted, kept.image.without_files(np.array(left, np.int64), INDEX_BITS)
            )
        new = [file for file in files if file not in kept.files]
        if new:
            image = self._with(kept.image, relation, new, of_file)
            kept = _Kept(wanted, self._without(image, relation, new, of_file))
        self._images[key] = kept
        return kept.image

    def _with(
        self, image: Image, relation: str, files: Sequence[RowFile], of_file: OfFile
    ) -> Image:
        parts = []
        for file in files:
            b, c = of_file(file)
            here = np.flatnonzero(b.valid & c.valid & coming(self.table(file)))
            parts.append(
                (b.values[here], c.values[here], (self.number(relation, file) << INDEX_BITS) | here)
            )
        return image.add(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _without(
        self, image: Image, relation: str, files: Sequence[RowFile], of_file: OfFile
    ) -> Image:
        """A row that goes is written once more, so it says by itself where it is."""
        parts = []
        for file in files:
            goes, were = self.gone(relation, file)
            if goes.size:
                (b, c), index = of_file(file), goes & ((1 << INDEX_BITS) - 1)
                parts.append((b.values[index], c.values[index], were))
        return (
            image.remove(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
            if parts
            else image
        )

    def gone(self, relation: str, file: RowFile) -> tuple[Ints, Ints]:
        """The numbers of rows that go with a file, here and when they came; those of files that are
        no longer there are left out."""
        table = self.table(file)
        if WAS[0] not in table.column_names:
            return NO_ROWS, NO_ROWS
        goes = np.flatnonzero(table.column(SIGN).to_numpy() == GOES)
        rounds, parts, index = (table.column(name).take(pa.array(goes)).to_numpy() for name in WAS)
        places = zip(rounds.tolist(), parts.tolist(), strict=True)
        found = np.array([self._places.get((relation, *place), -1) for place in places], np.int64)
        there = found >= 0
        return (self.number(relation, file) << INDEX_BITS) | goes[there], (
            found[there] << INDEX_BITS
        ) | index[there]

    # -- what is kept ------------------------------------------------------------------------------

    def keep(
        self, relation: str, images: Collection[Hashable], files: Collection[str] = ()
    ) -> None:
        """A batch of the relation asked for these images, and for these other files: what it asked
        for before may go.  What others asked for stays, as relations take turns, unless they have
        been idle for long."""
        self._batches += 1
        self._asked[relation] = _Asked(frozenset(files), frozenset(images), self._batches)
        self._asked = {r: o for r, o in self._asked.items() if self._batches - o.at <= IDLE_MAX}
        asked = self._asked.values()
        self._keep_files(frozenset[str]().union(*(own.files for own in asked)))
        kept = frozenset[Hashable]().union(*(own.images for own in asked))
        for name in self._images.keys() - kept:
            del self._images[name]
            self._there.pop(name, None)
        self._drop_numbers()

    def _keep_files(self, kept: Collection[str]) -> None:
        """Let go of what was made of other files than these; row files are let go of by number."""

    def _drop_numbers(self) -> None:
        """Of files in no image; many at a time, for all images are gone through."""
        if len(self._numbers) <= 2 * sum(len(kept.files) for kept in self._images.values()) + SPARE:
            return
        used = frozenset[RowFile]().union(*(kept.files for kept in self._images.values()))
        for file in self._numbers.keys() - used:
            del self._files[self._numbers.pop(file)]
            self._tables.pop(file, None)
        self._places = {
            place: number for place, number in self._places.items() if number in self._files
        }


def worker_store(root: str, kind: type[S]) -> S:
    """A worker's own, for as long as it lives; of the kind with the most that it was asked for."""
    found = _workers.get(root)
    if not isinstance(found, kind):
        found = _workers[root] = kind(Path(root))
    return found


def keys_key(relation: str, columns: tuple[str, ...]) -> Hashable:
    """By which the image of a table's keys is."""
    return relation, columns


def coming(rows: pa.Table) -> Mask:
    """Rows that count and that come."""
    found: Mask = (rows.column(KIND).to_numpy() == OK) & (rows.column(SIGN).to_numpy() == COMES)
    return found


def opened(kept: OrderedDict[K, V], key: K, load: Callable[[], V]) -> V:
    """The newest few are kept open."""
    if key not in kept:
        kept[key] = load()
        while len(kept) > OPEN_MAX:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]
