"""What a worker does with a batch of rows: keep them, and find whom they affect.  Pure but for the
files it writes.

A batch becomes a row file.  Seen from each shape the relation is part of, its rows are events: in
order of what they meet by, they are looked up among the rows of the other side, and who is affected
is written as *records*, prefixes of groups (`bands/kernels.py`, `selects/kernels.py`), one file for
each level of queries.  What goes back to the driver are the names and sizes of these files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluation.python_rows import python_rows
from headrace.families.joins.arrays import Ints, Numbers, spread
from headrace.families.joins.attributes import Mask, key_marks, keys, same
from headrace.families.joins.image import Image
from headrace.families.joins.levels.probes import Filters, Looked, Probes, Rates, Written
from headrace.families.joins.plan import FILTER, JoinShape
from headrace.families.joins.rounds import MORE, NONE
from headrace.families.joins.rowfiles import COMES, GOES, KIND, SIGN, WAS, RowFile, write_table
from headrace.families.joins.selects.kernels import joining
from headrace.families.joins.store import (
    INDEX_BITS,
    OK,
    Store,
    attributes,
    coming,
    image_key,
    keys_key,
)
from headrace.values import Relation

ODD_MAX = 100  # odd rows of a batch that are told; all are counted


@dataclass(frozen=True, slots=True)
class Look:
    """A shape seen from the side its events are on: the rows of the other side, and the levels of
    its queries."""

    number: int
    shape: JoinShape
    side: int
    files: tuple[RowFile, ...]
    levels: tuple[str, ...]
    rates: tuple[Rates | None, ...] = ()

    @property
    def other(self) -> str:
        return self.shape.relations[1 - self.side]


@dataclass(frozen=True, slots=True)
class Task:
    """What is the same for all batches of a round.  `own`: where rows of a table are found that now
    go; `holds`: what is kept (`rounds.py`), of a stream that is only filtered what somebody may
    read; `stamp`: part of the name of every file, so that none is written twice, whoever else still
    works on the round."""

    root: str
    folder: str
    round_id: int
    relation: Relation
    own: tuple[RowFile, ...]
    looks: tuple[Look, ...]
    holds: str = MORE
    stamp: str = ""


@dataclass(slots=True)
class Report:
    """What a batch has left: its row file, the files of records, what looking up took, odd rows; or
    what it found damaged."""

    file: RowFile | None
    written: list[Written] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    odd: int = 0
    odd_rows: list[dict[str, Any]] = field(default_factory=list)
    damage: dict[str, str] | None = None

    def pack(self) -> str:
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def unpack(text: str) -> Report:
        found: dict[str, Any] = json.loads(text)
        file = None if found["file"] is None else RowFile(**found["file"])
        written = [Written(**w) for w in found["written"]]
        looked = [Looked(**one) for one in found["looked"]]
        return Report(file, written, looked, found["odd"], found["odd_rows"], found["damage"])


def take_batch(rows: pa.Table, task: Task, part: int, store: Store) -> Report:
    """Rows have the relation's columns and their kind."""
    file = keep_batch(rows, task, part, store)
    return Report(None) if file is None else look_all(file, task, store)


# -- keeping ---------------------------------------------------------------------------------------


def keep_batch(rows: pa.Table, task: Task, part: int, store: Store) -> RowFile | None:
    """Write the batch as a row file; None if nothing has changed by it."""
    relation = task.relation
    if relation.is_table:
        rows = _changes(rows, task, store)
    else:
        rows = _signed(_passing(rows, task, store), relation, COMES)
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


def _passing(rows: pa.Table, task: Task, store: Store) -> pa.Table:
    """Rows that somebody may read: all, unless there are only filters."""
    if task.holds != NONE:
        return rows
    found = np.zeros(rows.num_rows, np.bool_)
    for look in task.looks:
        own = keys(look.shape.ranged[0], rows)
        for path in look.levels:
            level = store.prober(path, FILTER, look.side)
            assert isinstance(level, Filters)
            found |= (own.valid | own.odd) & level.pass_some(own.values)
    return rows.filter(pa.array(found))


def _changes(rows: pa.Table, task: Task, store: Store) -> pa.Table:
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
    return pa.concat_tables(
        [gone, _signed(rows.filter(pa.array(comes)), relation, COMES, (nowhere,) * 3)]
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


def _replaced(rows: pa.Table, task: Task, store: Store) -> tuple[Ints, Ints]:
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


# -- looking up ------------------------------------------------------------------------------------


class _Events(NamedTuple):
    """Rows of a file as events of a shape, in order of what they meet by; and which rows are
    odd."""

    rows: Ints
    b: Numbers
    a: Numbers
    odd: Mask


def _events(rows: pa.Table, look: Look) -> _Events:
    b, a = attributes(look.shape, look.side, rows)
    # late rows pass too, and NaN and infinities are compared as Spark does
    if look.shape.kind == FILTER:
        passing, by, odd = a.valid | a.odd, a.values, np.zeros(rows.num_rows, np.bool_)
    else:
        counts = rows.column(KIND).to_numpy() == OK
        passing, by, odd = counts & b.valid & a.valid, b.values, coming(rows) & (b.odd | a.odd)
    found = np.flatnonzero(passing)
    return _Events(found[np.argsort(by[found], kind="stable")], b.values, a.values, odd)


def look_up(file: RowFile, look: Look, task: Task, store: Store, report: Report) -> Mask:
    """Whom the rows of a file affect by one shape; the odd ones among them."""
    events = _events(store.table(file), look)
    is_filter = look.shape.kind == FILTER
    image = Image() if is_filter else store.image(look.other, look.files, look.shape, 1 - look.side)
    if events.rows.size and (is_filter or len(image)):
        probes = Probes(Path(task.root), f"{task.folder}/{file.part:08d}{task.stamp}", look.number)
        for number, path in enumerate(look.levels):
            rates = look.rates[number] if look.rates else None
            level = store.prober(path, look.shape.kind, look.side)
            report.written += probes.probe(
                number, level, image, events.rows, events.b, events.a, rates
            )
        report.looked += probes.looked
    return events.odd


def look_all(file: RowFile, task: Task, store: Store) -> Report:
    """Whom the rows of a file affect by any shape."""
    report = Report(file)
    odd = np.zeros(file.rows, np.bool_)
    for look in task.looks:
        odd |= look_up(file, look, task, store, report)
    if odd.any():
        report.odd = int(odd.sum())
        told = (
            store.table(file)
            .filter(pa.array(odd))
            .slice(0, ODD_MAX)
            .select([f.name for f in task.relation.fields])
        )
        report.odd_rows = python_rows(told)
    if task.looks:  # those of a relation joined with itself come when its rows are kept
        _keep(task, store)
    return report


def _keep(task: Task, store: Store) -> None:
    levels = [path for look in task.looks for path in look.levels]
    images = [
        image_key(look.other, look.shape, 1 - look.side)
        for look in task.looks
        if look.shape.kind != FILTER
    ]
    if task.relation.is_table:
        images.append(keys_key(task.relation.name, task.relation.key))
    store.keep(task.relation.name, levels, images)
