"""What a worker does with a batch of rows that are kept: a row file.

Rows of a stream only come.  Of a table's rows those that change something come, and the rows they
replace go: they are found by key in an image of the table, and written once more with the place
they had.  So a round costs what changes, however large the table is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.relations.arrays import Ints, spread
from headrace.relations.attributes import Mask, key_marks, same
from headrace.relations.image import Image
from headrace.relations.kernels import joining
from headrace.relations.rounds import MORE
from headrace.relations.row_files import CAME, COMES, GOES, KIND, SIGN, WAS, RowFile, write_table
from headrace.relations.store import INDEX_BITS, Store
from headrace.values import Relation

COMPACTED = 1 << 28  # parts of a round from this on are of rows that were there before
GROUP_ROWS = 1 << 20  # rows that are written as one file when a table is compacted


@dataclass(frozen=True, slots=True)
class KeepTask:
    """What is the same for all batches of a round.  `own`: where rows of a table are found that now
    go, and `turns` of the rounds that left them; `holds`: what is kept (`rounds.py`); `stamp`: part of
    the name of every file, so that none is written twice, whoever else still works on the round."""

    root: str
    folder: str
    round_id: int
    relation: Relation
    own: tuple[RowFile, ...]
    turns: Mapping[int, int]
    holds: str = MORE
    stamp: str = ""


def keep_batch(rows: pa.Table, task: KeepTask, part: int, store: Store) -> RowFile | None:
    """Write the batch as a row file; None if nothing has changed by it."""
    relation = task.relation
    if relation.is_table:
        rows = _changes(rows, task, store)
    else:
        rows = _signed(rows, relation, COMES)
    return _written(rows, task, part)


def _written(rows: pa.Table, task: KeepTask, part: int) -> RowFile | None:
    relation = task.relation
    if not rows.num_rows:
        return None
    path = f"{task.folder}/{part:08d}{task.stamp}.rows.arrow"
    size, crc = write_table(Path(task.root) / path, rows)
    newest = (
        None
        if relation.time is None
        else pc.max(rows.column(relation.time).cast(pa.int64())).as_py()
    )
    growth = int(rows.column(SIGN).to_numpy().sum(dtype=np.int64))
    return RowFile(path, task.round_id, part, rows.num_rows, growth, newest, size, crc)


def _changes(rows: pa.Table, task: KeepTask, store: Store) -> pa.Table:
    """A table's new rows, after those they replace; a row that says what is known already changes
    nothing."""
    relation = task.relation
    old, new = _replaced(rows, task, store)
    olds = store.rows(old) if old.size else rows.slice(0, 0)
    is_known = _agree(olds, rows.take(new), [f.name for f in relation.fields])
    comes = np.ones(rows.num_rows, np.bool_)
    comes[new[is_known]] = False
    if relation.deleted is not None:
        comes &= ~rows.column(relation.deleted).combine_chunks().fill_null(False).to_numpy(
            zero_copy_only=False
        )
    goes = ~is_known
    places = [store.place(int(number)) for number in old[goes] >> INDEX_BITS]
    was = [p[0] for p in places], [p[1] for p in places], old[goes] & ((1 << INDEX_BITS) - 1)
    nowhere = [None] * int(comes.sum())
    gone = _signed(olds.filter(pa.array(goes)), relation, GOES, was)
    come = _signed(rows.filter(pa.array(comes)), relation, COMES, (nowhere,) * 3)
    came = _came_of(old[goes], task.turns, store)
    return pa.concat_tables(
        [
            gone.append_column(CAME, pa.array(came)),
            come.append_column(CAME, pa.array(nowhere, pa.int64())),
        ]
    )


def _signed(rows: pa.Table, relation: Relation, sign: int, was: Sequence[Any] = ()) -> pa.Table:
    """Rows as they are kept; of a table's, where they were."""
    columns = {f.name: rows.column(f.name) for f in relation.fields}
    columns[KIND] = rows.column(KIND)
    columns[SIGN] = pa.array(np.full(rows.num_rows, sign, np.int8))
    for name, kind, places in zip(WAS, (pa.int64(), pa.int32(), pa.int32()), was, strict=False):
        columns[name] = pa.array(places, kind)
    return pa.table(columns)


def _agree(a: pa.Table, b: pa.Table, columns: Sequence[str]) -> Mask:
    """Where two tables have the same in these columns."""
    found = np.ones(a.num_rows, np.bool_)
    for name in columns:
        found &= same(a.column(name).combine_chunks(), b.column(name).combine_chunks())
    return found


def _replaced(rows: pa.Table, task: KeepTask, store: Store) -> tuple[Ints, Ints]:
    """Rows of the table that have the key of a new one, and which new one."""
    key = task.relation.key
    image = store.keys(task.relation.name, key, task.own)
    mark = key_marks(key, rows)
    order = np.argsort(mark, kind="stable")
    olds, news = _meeting(image, mark[order])
    news = order[news]
    is_same = _agree(store.rows(olds) if olds.size else rows.slice(0, 0), rows.take(news), key)
    return olds[is_same], news[is_same]


def _meeting(image: Image, marks: Ints) -> tuple[Ints, Ints]:
    """Rows of an image that have one of these marks, which are in order, and the place of that."""
    olds, news = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first, last = np.empty(marks.size, np.int64), np.empty(marks.size, np.int64)
    for segment in image.segments:
        joining(segment.b, marks, first, last)
        counts = last - first
        olds.append(segment.row[spread(first, counts)])
        news.append(np.repeat(np.arange(marks.size), counts))
    return np.concatenate(olds), np.concatenate(news)


# -- what is there ---------------------------------------------------------------------------------


def rows_there(
    store: Store, relation: Relation, files: Sequence[RowFile], file: RowFile
) -> pa.Table:
    """The rows of one file that are still in a table, which is held by all of these files."""
    there = store.there(relation.name, relation.key, files)
    first = store.number(relation.name, file) << INDEX_BITS
    own = there[np.searchsorted(there, first) : np.searchsorted(there, first + (1 << INDEX_BITS))]
    rows = store.table(file)
    return rows if own.size == rows.num_rows else rows.take(pa.array(own - first))


def grouped(files: Sequence[RowFile]) -> list[list[RowFile]]:
    """Files that lie one after the other and together have not too many rows."""
    groups: list[list[RowFile]] = []
    rows = 0
    for file in files:
        if not groups or rows + file.rows > GROUP_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(file)
        rows += file.rows
    return groups


@dataclass(frozen=True, slots=True)
class CompactTask:
    """A table is written anew with a round: the files that hold it, its changes of the round among
    them, and the turn of each round that has left one."""

    keep: KeepTask
    files: tuple[RowFile, ...]
    turns: Mapping[int, int]


def compact_files(
    files: Sequence[RowFile], task: CompactTask, part: int, store: Store
) -> RowFile | None:
    """The rows of some files that are still in the table as one file, in the same order, so that
    answers are made of them in the same order too."""
    parts = []
    for file in files:
        rows = rows_there(store, task.keep.relation, task.files, file)
        parts.append(_signed(rows, task.keep.relation, COMES, ([None] * rows.num_rows,) * 3))
        came = _came(rows, task.turns[file.round_id])
        parts[-1] = parts[-1].append_column(CAME, pa.array(came))
    return _written(pa.concat_tables(parts), task.keep, part)


def _came_of(numbers: Ints, turns: Mapping[int, int], store: Store) -> Ints:
    """The turns in which rows came."""
    found = np.empty(numbers.size, np.int64)
    of_file, index = numbers >> INDEX_BITS, numbers & ((1 << INDEX_BITS) - 1)
    for number in np.unique(of_file).tolist():
        here, file = np.flatnonzero(of_file == number), store.file(number)
        found[here] = _came(store.table(file).take(index[here]), turns[file.round_id])
    return found


def _came(rows: pa.Table, turn: int) -> Ints:
    """The turns in which rows of a file came, whose own round had this one: those say it that were
    there before."""
    if CAME not in rows.column_names:
        return np.full(rows.num_rows, turn, np.int64)
    came: Ints = rows.column(CAME).fill_null(turn).to_numpy()
    return came
