"""What a round of one relation keeps of its rows, and what of earlier rounds may be let go of.

The tasks of a family do the work on executors (`keeping.py`); what they leave is told here, and
committed with the round.  All rows of a table are kept, whether a query needs them or not, as the
next one may.  Of a stream they are kept while some query needs rows of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.relations.keeping import CompactTask, KeepTask
from headrace.relations.rounds import (
    ALL,
    FOLDER,
    MORE,
    NONE,
    KeptRound,
    round_folder,
    round_path,
)
from headrace.relations.row_files import RowFile
from headrace.relations.rows import Relations, Rows
from headrace.relations.wear import is_worn
from headrace.runtime.family import Place, Round
from headrace.runtime.ledger import FileMark, mark_of


class Readers(Protocol):
    """Who needs rows of earlier rounds."""

    @property
    def relations(self) -> Relations: ...

    def rows(self, relation: str) -> Rows:
        """What is committed of a relation's rows, without those no query needs any more."""

    def needs_rows(self, relation: str) -> bool:
        """Whether a query needs rows of earlier rounds."""

    def rests(self, relation: str) -> bool:
        """Whether a query in quarantine did, whose answers are still read."""

    def begins(self, relation: str) -> list[tuple[int, int]]:
        """When the queries began that are answered out of the rows (`KeptRounds.begins`)."""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """What a round keeps, before it is committed: `changes` are what comes and goes with it;
    `whole` is the table as it is then, if it was written anew."""

    turn: int
    holds: str
    changes: tuple[RowFile, ...] = ()
    whole: tuple[RowFile, ...] = ()

    @property
    def files(self) -> tuple[RowFile, ...]:
        """Those that are kept of the relation's rows, as `holds` says."""
        return self.whole if self.holds == ALL else self.changes


class Keeper:
    """Keeps the rows of one relation, round by round."""

    def __init__(self, place: Place, readers: Readers) -> None:
        self._place = place
        self._readers = readers
        self._name = place.relation.name

    # -- a round -----------------------------------------------------------------------------------

    def task(self, round: Round) -> KeepTask:
        """What the tasks of a round are told; its files are to hold all that comes, or nothing."""
        is_table = self._place.relation.is_table
        rows = self._readers.rows(self._name)
        files = tuple(rows.files) if is_table else ()
        return KeepTask(
            str(self._place.disk.root.absolute()),
            round_folder(self._place.folder, round.id),
            round.id,
            self._place.relation,
            files,
            {file.round_id: rows.rounds.turn_of(file.round_id) for file in files},
            MORE if is_table or self._readers.needs_rows(self._name) else NONE,
        )

    def make_room(self, task: KeepTask) -> None:
        """Clear what an attempt at the round has left; the folder stays, for tasks of it may still
        be writing."""
        disk = self._place.disk
        disk.make_folder(task.folder)
        for path in (disk.root / task.folder).iterdir():
            disk.remove(f"{task.folder}/{path.name}")

    def taken(self, task: KeepTask, files: Iterable[RowFile]) -> PendingRows:
        """What the tasks of a round have left, with the turn that the round would have."""
        return PendingRows(self._readers.relations.turn + 1, task.holds, tuple(files))

    def is_worn(self) -> bool:
        """Whether the round is to write the table anew."""
        return self._place.relation.is_table and is_worn(self._readers.rows(self._name))

    def rewritten(
        self,
        task: KeepTask,
        pending: PendingRows,
        compact: Callable[[CompactTask], Iterable[RowFile]],
    ) -> PendingRows:
        """The table written anew.  What came and went with the round stays for whoever reads
        answers of the round."""
        files = (*task.own, *pending.changes)
        found = compact(CompactTask(task, files, {**task.turns, task.round_id: pending.turn}))
        whole = tuple(sorted(found, key=lambda file: file.part))
        if self._is_read:
            return replace(pending, holds=ALL, whole=whole)
        for file in pending.changes:
            self._place.disk.remove(file.path)
        return replace(pending, holds=ALL, changes=(), whole=whole)

    @property
    def _is_read(self) -> bool:
        return self._readers.needs_rows(self._name) or self._readers.rests(self._name)

    def size(self, pending: PendingRows) -> int:
        """How many rows are kept with the round."""
        before = self._readers.rows(self._name).size if pending.holds == MORE else 0
        return before + sum(file.growth for file in pending.files)

    # -- what is committed -------------------------------------------------------------------------

    def has_to_tell(self, pending: PendingRows, round: Round) -> bool:
        """Whether the round leaves a record: of files, or that rows which came are not kept."""
        rounds = self._readers.rows(self._name).rounds
        is_told = pending.holds == MORE or (
            pending.holds == NONE and bool(rounds.rounds) and not rounds.joinable
        )
        return bool(pending.files) or (round.census.rows > 0 and not is_told)

    def write(
        self,
        pending: PendingRows,
        round: Round,
        looked_at: Mapping[str, Sequence[RowFile]],
        notes: Mapping[str, Any],
    ) -> list[FileMark]:
        """The record of the round, after its files; `looked_at`: rows of relations it found."""
        disk, relations = self._place.disk, self._readers.relations
        before = self._readers.rows(self._name).rounds.rounds
        is_whole = pending.holds == ALL
        done = KeptRound(
            pending.turn,
            round.id,
            0,
            pending.files,
            after=relations.newest(looked_at.keys() - {self._name}),
            since=relations.oldest(looked_at),
            before=before[-1].turn if before else -1,
            holds=pending.holds,
            notes=notes,
            changes=pending.changes if is_whole else (),
            begins=tuple(self._readers.begins(self._name)) if is_whole else (),
        )
        marks = [FileMark(f.path, f.size, f.crc) for f in (*done.changes, *done.files)]
        for mark in marks:
            disk.sync(mark.path)
        # there are rounds that took no rows
        disk.make_folder(round_folder(self._place.folder, round.id))
        path, data = round_path(self._place.folder, round.id), done.pack()
        disk.put(path, data)
        return [*marks, mark_of(path, data)]

    def first_kept(self, pending: PendingRows, round: Round) -> int:
        """The first round that stays; of a table that nobody reads, what the next query may
        need."""
        newest = self._place.ledger.newest
        # as before, unless something is let go of now: that is told apart from rounds without rows
        first = round.id if newest is None else newest.keep.get(FOLDER, round.id)
        if not self._place.relation.is_table or self._is_read:
            return max(first, self._oldest(round))
        if pending.holds == ALL and round.census.rows:
            return round.id
        return max(first, self._readers.rows(self._name).rounds.base - 1)

    def _oldest(self, round: Round) -> int:
        """What may still be looked up, and what the answers that are kept are made of."""
        kept = self._place.config.manifests_kept
        rounds = [file.round_id for file in self._readers.rows(self._name).files]
        needed = self._readers.relations.needed(self._name, kept)
        return min([round.id + 1 - kept, *rounds, *needed])
