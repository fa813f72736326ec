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
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.evaluation.python_rows import python_rows
from headrace.families.joins.levels.level_store import LevelStore, attributes, image_key
from headrace.families.joins.levels.probes import Filters, Looked, Probes, Rates, Written
from headrace.families.joins.plan import FILTER, JoinShape
from headrace.relations.arrays import Ints, Numbers
from headrace.relations.attributes import Mask, keys
from headrace.relations.image import Image
from headrace.relations.keeping import KeepTask, keep_batch
from headrace.relations.rounds import NONE
from headrace.relations.row_files import KIND, RowFile
from headrace.relations.store import OK, coming, keys_key

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
class Task(KeepTask):
    """The rows are kept, and looked up in these; of a stream that is only filtered, what somebody
    may read is kept."""

    looks: tuple[Look, ...] = ()

    @staticmethod
    def of(keep: KeepTask, looks: Sequence[Look]) -> Task:
        own = {f.name: getattr(keep, f.name) for f in fields(keep)}
        return Task(**own, looks=tuple(looks))


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

    def left(self) -> list[tuple[str, int]]:
        """Its files, with their sizes."""
        own = [] if self.file is None else [(self.file.path, self.file.size)]
        return own + [(w.path, w.size) for w in self.written]

    def pack(self) -> str:
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def unpack(text: str) -> Report:
        found: dict[str, Any] = json.loads(text)
        file = None if found["file"] is None else RowFile(**found["file"])
        written = [Written(**w) for w in found["written"]]
        looked = [Looked(**one) for one in found["looked"]]
        return Report(file, written, looked, found["odd"], found["odd_rows"], found["damage"])


def take_batch(rows: pa.Table, task: Task, part: int, store: LevelStore) -> Report:
    """Rows have the relation's columns and their kind."""
    if not task.relation.is_table:
        rows = _passing(rows, task, store)
    file = keep_batch(rows, task, part, store)
    return Report(None) if file is None else look_all(file, task, store)


def _passing(rows: pa.Table, task: Task, store: LevelStore) -> pa.Table:
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


def look_up(file: RowFile, look: Look, task: Task, store: LevelStore, report: Report) -> Mask:
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


def look_all(file: RowFile, task: Task, store: LevelStore) -> Report:
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


def _keep(task: Task, store: LevelStore) -> None:
    levels = [path for look in task.looks for path in look.levels]
    images = [
        image_key(look.other, look.shape, 1 - look.side)
        for look in task.looks
        if look.shape.kind != FILTER
    ]
    if task.relation.is_table:
        images.append(keys_key(task.relation.name, task.relation.key))
    store.keep(task.relation.name, images, levels)
