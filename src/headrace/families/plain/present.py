"""The present answer of a query whose answers change, kept whole beside its log of changes.

The log says what came and what went, but its old rounds are let go of (`manifests_kept`).  So the
whole answer of the newest round that changed it is kept too: Parquet files that Spark wrote, named
by round, query and part.  A manifest holds those of each query until another round replaces them,
so readers, a restart, and the next round's differences find them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HomeError
from headrace.records import reading
from headrace.runtime.ledger import FileMark, Ledger

FOLDER = "present"
TRIES = 10


def present_path(folder: str, round_id: int, query_id: int, part: int) -> str:
    """Where one part of a query's whole answer lies, in the folder of its stream."""
    return f"{folder}/{FOLDER}/{round_id:012d}.{query_id}.{part:06d}.parquet"


def kept_answers(ledger: Ledger) -> Mapping[int, tuple[FileMark, ...]]:
    """The files of each query's present answer, in order, as the newest manifest names them."""
    found: dict[int, tuple[FileMark, ...]] = {}
    inside = f"{ledger.folder}/{FOLDER}/"
    for mark in () if ledger.newest is None else ledger.newest.held:
        if mark.path.startswith(inside):
            query_id = _query_of(ledger, mark)
            found[query_id] = (*found.get(query_id, ()), mark)
    return found


def read_present(ledger: Ledger, query_id: int) -> pa.Table | None:
    """The present answer, its columns numbered; None while there is none.

    Another process may commit a round meanwhile, and remove the files of the one before: then the
    newer ones are read."""
    for _ in range(TRIES):
        marks = kept_answers(ledger).get(query_id, ())
        try:
            parts = [_read(ledger, mark) for mark in marks]
        except HomeError:
            ledger.refresh()
            if kept_answers(ledger).get(query_id, ()) == marks:
                raise
        else:
            return pa.concat_tables(parts) if parts else None
    raise HomeError(
        "the present answer was replaced each time it was read",
        value=f"{TRIES} times",
        hint="read again, or less often than rounds are committed",
    )


def _read(ledger: Ledger, mark: FileMark) -> pa.Table:
    data = ledger.check(mark)
    with reading(Path(mark.path)):
        return pq.read_table(pa.BufferReader(data))


def _query_of(ledger: Ledger, mark: FileMark) -> int:
    with reading(Path(mark.path)):
        return int(PurePosixPath(mark.path).name.split(".")[1])
