"""Rows of a relation as its rounds brought them: one Arrow file for each batch that a worker was
given.

A file has the columns of the relation, and of each row its kind (`runtime/family.py`) and whether
it comes or goes.  A row of a table that goes is written once more, with the place it had: round,
part and index, and the turn in which it came: its own file may be let go of before the round in which
it goes.  Where a table is written anew, each row says in which turn it came (`rounds.py`).
Files are mapped: a row costs nothing until somebody looks at it, but its checksum.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.disk import private
from headrace.records import reading
from headrace.runtime.ledger import damaged

KIND, SIGN = "_headrace_kind", "_headrace_sign"
WAS = ("_headrace_was_round", "_headrace_was_part", "_headrace_was_index")
CAME = "_headrace_came"
COMES, GOES = 1, -1


@dataclass(frozen=True, slots=True)
class RowFile:
    """`rows` in the file; `growth`: how many more there are of the relation with it; `newest_us`:
    newest event time."""

    path: str
    round_id: int
    part: int
    rows: int
    growth: int
    newest_us: int | None
    size: int
    crc: int

    @property
    def goes(self) -> int:
        """How many of the rows only go."""
        return (self.rows - self.growth) // 2


def write_table(path: Path, table: pa.Table, compression: str | None = None) -> tuple[int, int]:
    """An Arrow file; its size and checksum.  It lasts once whoever commits it has synced it."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    part = path.with_name(path.name + f".{os.getpid()}")
    with open(part, "wb", opener=private) as file:
        file.write(data)
    part.rename(path)
    return data.size, zlib.crc32(data)


def map_table(path: Path, size: int, crc: int) -> pa.Table:
    """A committed file's table, in one chunk a column."""
    state = file_state(path)
    if state is None:
        raise damaged(path, "is missing")
    if state[0] != size:
        raise damaged(path, "has another size than was committed")
    with reading(path), pa.memory_map(str(path)) as file:
        if zlib.crc32(file.read_buffer()) != crc:
            raise damaged(path, "does not match its checksum")
        file.seek(0)
        table: pa.Table = pa.ipc.open_file(file).read_all()
    return table.combine_chunks()


State = tuple[int, int, int]


def file_state(path: Path) -> State | None:
    """Size, time and inode: another content has another state."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
