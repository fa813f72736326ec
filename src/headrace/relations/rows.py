"""The relations of one engine: what is committed of the rows of each, what the round under way adds,
and the order in which their rounds commit.

A round that looks at the rows of another relation must not miss what that one commits meanwhile.
So only one such round is under way at a time: `commit_lock` is held from that look to the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.relations.rounds import ALL, MORE, KeptRounds
from headrace.relations.row_files import RowFile
from headrace.runtime.ledger import Ledger
from headrace.values import Relation, watermark


@dataclass(slots=True)
class Rows:
    """The rows of a relation that may still be looked up, and how far its event time is."""

    relation: Relation
    rounds: KeptRounds
    ledger: Ledger
    files: list[RowFile] = field(default_factory=list)
    horizon_us: int | None = None

    @property
    def watermark_us(self) -> int | None:
        newest = self.ledger.newest
        return None if newest is None else watermark(newest.newest_us, self.relation.late_us)

    @property
    def size(self) -> int:
        return sum(file.growth for file in self.files)


class Relations:
    """`ledger_of`: the ledger of a relation, whoever runs it."""

    def __init__(
        self, relation_of: Callable[[str], Relation], ledger_of: Callable[[str], Ledger]
    ) -> None:
        self.commit_lock = threading.Lock()
        self._relation_of = relation_of
        self._ledger_of = ledger_of
        self._rows: dict[str, Rows] = {}
        self._pending: dict[str, tuple[str, Sequence[RowFile]]] = {}
        self.turn = 0

    def entry(self, relation: str) -> Rows:
        """A relation with its ledger up to date, and the files that were found before."""
        if relation not in self._rows:
            ledger = self._ledger_of(relation)
            self._rows[relation] = Rows(self._relation_of(relation), KeptRounds(ledger), ledger)
        self._rows[relation].ledger.refresh()
        return self._rows[relation]

    def rows(self, relation: str, horizon_us: int | None = None) -> Rows:
        """What is committed of a relation's rows, without files that are older than the horizon."""
        rows = self.entry(relation)
        oldest, new = rows.rounds.oldest_id, rows.rounds.refresh()
        self.turn = max([self.turn, *(done.turn for done in new)])
        is_cut = oldest != rows.rounds.oldest_id or any(done.holds != MORE for done in new)
        if horizon_us is not None or rows.horizon_us is not None or is_cut:
            rows.files, new = [], rows.rounds.joinable
        rows.files += [
            file for done in new for file in done.files if not _is_past(file, horizon_us)
        ]
        rows.horizon_us = horizon_us
        return rows

    def forget(self, relation: str) -> None:
        """Read the relation's rows anew from what is committed.  Not while another looks at
        them."""
        with self.commit_lock:
            self._rows.pop(relation, None)
            self._pending.pop(relation, None)

    # -- the round under way -----------------------------------------------------------------------

    def add(self, relation: str, holds: str, files: Sequence[RowFile]) -> None:
        """What the round under way keeps, until it is committed, or given up."""
        self._pending[relation] = holds, files

    def settle(self, relation: str) -> None:
        """The round is committed, or will not be."""
        self._pending.pop(relation, None)

    def files(self, relation: str) -> Sequence[RowFile]:
        """The files that hold a table as it is with the round under way."""
        holds, new = self._pending.get(relation, (MORE, ()))
        return list(new) if holds == ALL else [*self.rows(relation).files, *new]

    # -- what rounds saw of each other -------------------------------------------------------------

    def check(self, relations: Iterable[str]) -> None:
        """Is all there that their newest rounds have looked at?"""
        rounds = {name: self._rows[name].rounds for name in relations}
        for own in rounds.values():
            own.check_after(rounds)

    def newest(self, relations: Iterable[str]) -> dict[str, int]:
        """The id of the newest committed round of each of these relations."""
        return {name: self._rows[name].rounds.newest_id for name in relations}

    def oldest(self, looked_at: Mapping[str, Sequence[RowFile]]) -> dict[str, int]:
        """By relation: the turn in which the oldest of these rows came."""
        rounds = {
            name: min(f.round_id for f in files) for name, files in looked_at.items() if files
        }
        return {name: self._rows[name].rounds.turn_of(first) for name, first in rounds.items()}

    def needed(self, relation: str, kept: int) -> list[int]:
        """The oldest rounds of a relation that answers of the newest so many rounds, of any
        relation, are made of."""
        turns = [rows.rounds.found_by(kept, relation) for rows in list(self._rows.values())]
        rounds = [
            self._rows[relation].rounds.first_since(turn) for turn in turns if turn is not None
        ]
        return [round_id for round_id in rounds if round_id is not None]


def _is_past(file: RowFile, horizon_us: int | None) -> bool:
    return horizon_us is not None and file.newest_us is not None and file.newest_us < horizon_us
