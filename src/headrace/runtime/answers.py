"""The answers log: what a round answered, for thousands of queries, in one file.

Answers of all queries whose columns have the same types lie together in one Arrow block, sorted
by query; an index says where each query's rows are, so reading one query slices, not scans.
A round with very many answers has several such files, in order.

    block … block  index  <offset of index: 8 bytes>  "HRANSWER"

A block's first column is the end of the window in µs; its start follows from the query's range,
so neither `window_start` nor `window` is stored.  Answers of plain Spark queries are Parquet
files that Spark wrote, with all columns as the user reads them.  Where answers may be taken back
the last column, of either, is the change: +1 or −1.
"""

from __future__ import annotations

import io
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headrace.disk import Disk
from headrace.errors import HomeError
from headrace.evaluation.arrow import ARROW_TIME
from headrace.records import reading
from headrace.runtime.ledger import FileMark, Ledger, mark_of
from headrace.sql.query import Query
from headrace.sql.tree import Bound

MAGIC = b"HRANSWER"
WINDOW_COLUMNS = ("window_start", "window_end")
CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Block:
    """Answers of queries with like columns: rows of `ids[0]` first, `counts[0]` of them, and so
    on."""

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    end_us: NDArray[np.int64]
    columns: tuple[pa.Array, ...]


def pack(blocks: Sequence[Block]) -> memoryview:
    """The bytes of an answers file."""
    sink = io.BytesIO()
    index: list[pa.RecordBatch] = []
    for block in blocks:
        start = sink.tell()
        arrays = [pa.array(block.end_us), *block.columns]
        _write(sink, pa.record_batch(arrays, names=[f"c{i}" for i in range(len(arrays))]))
        rows = (
            np.concatenate(([0], np.cumsum(block.counts)[:-1]))
            if len(block.counts)
            else block.counts
        )
        place = np.full(len(block.ids), start, np.int64)
        index.append(
            pa.record_batch(
                [pa.array(a) for a in (block.ids, place, rows, block.counts)], names=list("qprc")
            )
        )
    offset = sink.tell()
    empty = pa.record_batch([pa.array([], pa.int64())] * 4, names=list("qprc"))
    filled = [part for part in index if part.num_rows]
    _write(
        sink, pa.Table.from_batches(filled).combine_chunks().to_batches()[0] if filled else empty
    )
    sink.write(offset.to_bytes(8, "little") + MAGIC)
    return sink.getbuffer()


def _write(sink: io.BytesIO, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


class Pieces:
    """The answers of a round that come in pieces: all but the last are written as they come."""

    def __init__(self, disk: Disk, folder: str, round_id: int) -> None:
        self._disk = disk
        self._folder = folder
        self._round_id = round_id
        self.marks: list[FileMark] = []
        self.last: list[Block] = []

    def add(self, blocks: list[Block]) -> None:
        """One more piece; nothing is written as long as it is the only one."""
        if self.last and blocks:
            path = shared_path(self._folder, self._round_id, len(self.marks))
            data = pack(self.last)
            self._disk.put(path, data)
            self.marks.append(mark_of(path, data))
        self.last = blocks or self.last


class AnswerFile:
    """An answers file, mapped into memory."""

    def __init__(self, data: pa.Buffer) -> None:
        self._data = data
        tail = data.slice(max(0, data.size - 16)).to_pybytes()
        if tail[8:] != MAGIC:
            raise HomeError("not an answers file", value=tail[8:])
        index = pa.ipc.open_stream(data.slice(int.from_bytes(tail[:8], "little"))).read_all()
        self._ids, self._places, self._rows, self._counts = (
            index.column(i).combine_chunks().to_numpy() if index.num_rows else np.zeros(0, np.int64)
            for i in range(4)
        )
        self._blocks: dict[int, pa.Table] = {}

    def rows(self, query_id: int) -> pa.Table | None:
        found = np.flatnonzero(self._ids == query_id)
        parts = [self._slice(int(i)) for i in found]
        return pa.concat_tables(parts) if parts else None

    def counts(self) -> dict[int, int]:
        return dict(zip(self._ids.tolist(), self._counts.tolist(), strict=True))

    def _slice(self, i: int) -> pa.Table:
        place = int(self._places[i])
        block = self._blocks.get(place)
        if block is None:
            block = self._blocks[place] = pa.ipc.open_stream(self._data.slice(place)).read_all()
        return block.slice(int(self._rows[i]), int(self._counts[i]))


class AnswerLog:
    """Committed answers of one stream, by query and round."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self._disk = disk
        self.ledger = ledger
        self._marks: dict[int, tuple[FileMark, ...]] = {}
        self._checked: set[str] = set()

    def rounds(self, after: int = -1) -> list[int]:
        """Committed rounds later than `after`."""
        return [r for r in self.ledger.rounds if r > after]

    def has_lost(self, after: int) -> bool:
        return bool(self.ledger.rounds) and after < self.ledger.rounds[0] - 1

    def has_lost_since(self, version: int) -> bool:
        """Whether rounds that had this version of the catalog, or a later one, may be gone."""
        rounds = self.ledger.rounds
        return bool(rounds and rounds[0]) and self.ledger.read(rounds[0]).catalog_version >= version

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None:
        """What a committed round answered to the query, with the columns of its SELECT."""
        plain = f"{self._plain(round_id)}/{query_id}/"
        parts: list[pa.Table] = []
        for mark in self._marks_of(round_id):
            with reading(self._disk.root / mark.path):
                if _is_shared(mark):
                    rows = AnswerFile(self._map(mark)).rows(query_id)
                    parts += [] if rows is None else [dress(query, rows)]
                elif mark.path.startswith(plain):
                    self._map(mark)
                    rows = pq.read_table(self._disk.root / mark.path, partitioning=None)
                    parts.append(rows.rename_columns(_names_of(query, rows)))
        return _in_order(query, pa.concat_tables(parts)) if parts else None

    def read_all(
        self, query_id: int, query: Query, after: int = -1
    ) -> Iterator[tuple[int, pa.Table]]:
        for round_id in self.rounds(after):
            table = self.read(query_id, query, round_id)
            if table is not None:
                yield round_id, table

    def counts(self, rounds: Sequence[int] | None = None) -> dict[int, int]:
        """Answers by query id, so far or of these rounds."""
        total: Counter[int] = Counter()
        for round_id in self.rounds() if rounds is None else rounds:
            for mark in self._marks_of(round_id):
                with reading(self._disk.root / mark.path):
                    total.update(self._counts(mark))
        return dict(total)

    def _counts(self, mark: FileMark) -> dict[int, int]:
        data = self._map(mark)
        if _is_shared(mark):
            return AnswerFile(data).counts()
        return {
            int(mark.path.split("/")[-2]): pq.read_metadata(self._disk.root / mark.path).num_rows
        }

    def _plain(self, round_id: int) -> str:
        return plain_folder(self.ledger.folder, round_id)

    def _marks_of(self, round_id: int) -> tuple[FileMark, ...]:
        if round_id not in self._marks:
            files = self.ledger.read(round_id).files
            self._marks[round_id] = tuple(m for m in files if "/answers/" in m.path)
        return self._marks[round_id]

    def _map(self, mark: FileMark) -> pa.Buffer:
        """The file's bytes, its checksum verified the first time."""
        if mark.path not in self._checked:
            self.ledger.check(mark)
            self._checked.add(mark.path)
        with pa.memory_map(str(self._disk.root / mark.path)) as file:
            return file.read_buffer()


def shared_path(folder: str, round_id: int, piece: int | None = None, stamp: str = "") -> str:
    """The answers file of a round, or one of several: pieces come before it.  `stamp`: of an
    attempt at it that others may repeat."""
    parts = [
        f"{round_id:012d}",
        *([] if piece is None else [f"{piece:06d}"]),
        *filter(None, [stamp]),
    ]
    return f"{folder}/answers/{'.'.join(parts)}.arrow"


def _is_shared(mark: FileMark) -> bool:
    """Whether it is an answers file; those of plain Spark lie in folders by query."""
    return mark.path.endswith(".arrow")


def plain_folder(folder: str, round_id: int) -> str:
    return f"{folder}/answers/{round_id:012d}.plain"


def dress(query: Query, rows: pa.Table) -> pa.Table:
    """Stored columns → the columns of the SELECT, then window_start and window_end, if it has a
    window; then the change, if that is stored too."""
    own = sum(not isinstance(output.expr, Bound) for output in query.outputs)
    if rows.num_columns not in (1 + own, 2 + own):
        raise ValueError(f"answers of {rows.num_columns} columns are not those of {query.name!r}")
    stored, bounds = iter(rows.columns[1:]), _bounds(query, rows)
    arrays: dict[str, Any] = {}
    for output in query.outputs:
        arrays[output.name] = (
            bounds[output.expr.which] if isinstance(output.expr, Bound) else next(stored)
        )
    if bounds:
        for name, which in zip(WINDOW_COLUMNS, ("start", "end"), strict=True):
            arrays.setdefault(name, bounds[which])
    if rows.num_columns == 2 + own:
        arrays[change_name(query)] = next(stored)
    return pa.table(arrays)


def _bounds(query: Query, rows: pa.Table) -> dict[str, pa.Array]:
    """Where the window of each answer starts and ends; nothing where there is none."""
    if query.window is None:
        return {}
    ends = rows.column(0).combine_chunks().to_numpy() if rows.num_rows else np.zeros(0, np.int64)
    start, end = (
        pa.array(ends - query.window.range_us).cast(ARROW_TIME),
        pa.array(ends).cast(ARROW_TIME),
    )
    return {
        "start": start,
        "end": end,
        "window": pa.StructArray.from_arrays([start, end], names=["start", "end"]),
    }


def column_names(query: Query) -> list[str]:
    """The columns of an answer, in order."""
    names = [output.name for output in query.outputs]
    return (
        names if query.window is None else [*names, *(n for n in WINDOW_COLUMNS if n not in names)]
    )


def change_name(query: Query) -> str:
    """`change`, or with as many `_` before it as make it a name of its own; Spark does not tell
    cases apart."""
    taken = {name.lower() for name in column_names(query)}
    return next(
        name for count in range(len(taken) + 1) if (name := "_" * count + CHANGE) not in taken
    )


def _names_of(query: Query, rows: pa.Table) -> list[str]:
    """Spark's files have the columns of an answer, and the change if it may be taken back."""
    names = column_names(query)
    return names if rows.num_columns == len(names) else [*names, change_name(query)]


def _in_order(query: Query, rows: pa.Table) -> pa.Table:
    """What a round takes back comes first; else rows are as they were written."""
    if rows.num_columns == len(column_names(query)):
        return rows
    goes = pc.less(rows.column(change_name(query)), 0)
    return pa.concat_tables([rows.filter(goes), rows.filter(pc.invert(goes))])


def file_mark(disk: Disk, path: str) -> FileMark:
    """The mark of a file that Spark wrote."""
    crc = size = 0
    with open(disk.root / path, "rb") as file:
        while chunk := file.read(1 << 20):
            crc = zlib.crc32(chunk, crc)
            size += len(chunk)
    return FileMark(path, size, crc)
