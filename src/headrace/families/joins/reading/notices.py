"""Who is affected: the records of committed rounds, for whoever delivers answers.

A notice is a file of records (`levels/probes.py`) of some rows of a round: a few numbers for all
queries of a shape, which a thousand subscribers can share.  Names are looked up only for those who
ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.errors import ServingError
from headrace.families.joins.levels.level_store import LevelStore
from headrace.families.joins.levels.notes import notes_of, part_of
from headrace.records import reading
from headrace.relations.arrays import Ints
from headrace.relations.rounds import KeptRound, KeptRounds
from headrace.relations.row_files import map_table
from headrace.runtime.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Notice:
    """Records of the rows of one file of a round, `path`, for one level of queries.

    A query is affected if some row of the other side meets the event within the query's range; what
    else it asks for is tested when its answers are read."""

    round_id: int
    rows_path: str
    path: str
    records: pa.Table
    _kind: str
    _side: int
    _level: str
    _store: LevelStore

    def affected(self) -> tuple[Ints, Ints]:
        """Row (its place in the rows' file) and query id of each pair, each once."""
        with reading(Path(self.path), f"what round {self.round_id} says of its records"):
            prober = self._store.prober(self._level, self._kind, self._side)
            rows, ids = prober.affected(self.records)
        pairs = np.unique(np.stack((rows, ids)), axis=1)
        return pairs[0], pairs[1]


class Notices:
    """Of one relation, as far as is committed."""

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._root = root
        self._ledger = ledger
        self._store = LevelStore(root)

    def after(self, round_id: int) -> Iterator[Notice]:
        """Of rounds later than this one, oldest first."""
        self._ledger.refresh()
        for done in KeptRounds(self._ledger, round_id).refresh():
            yield from self._of(done)

    def _of(self, done: KeptRound) -> Iterator[Notice]:
        files: Mapping[int, str] = {file.part: file.path for file in done.events}
        notes = notes_of(done, self._ledger.folder)
        for written in notes.written:
            with reading(
                self._root / written.path, f"what round {done.round_id} says of its records"
            ):
                seen = notes.seen[written.look]
                level = seen.levels[written.level]
                is_there = (self._root / level).is_file()
            if not is_there:
                raise ServingError(
                    "records of this round cannot be read any more: queries have changed since",
                    value=f"round {done.round_id}",
                    code="RECORDS_GONE",
                    hint="read records while they are new, or answers with results() and watch()",
                )
            part = part_of(written.path)
            records = map_table(self._root / written.path, written.size, written.crc)
            yield Notice(
                done.round_id,
                files[part],
                written.path,
                records,
                seen.kind,
                seen.side,
                level,
                self._store,
            )
