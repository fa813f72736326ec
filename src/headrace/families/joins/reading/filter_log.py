"""Answers of standing filters, made when they are read: rows of committed rounds that pass."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.families.joins.plan import Share
from headrace.families.joins.reading.remaining_conditions import (
    answers_of,
    empty_answer,
    never_asked,
)
from headrace.relations.attributes import keys
from headrace.relations.history import History
from headrace.relations.rounds import KeptRound
from headrace.relations.store import Store
from headrace.sql.query import Query


class FilterLog:
    """Answers of one filter by turn, as far as is committed now."""

    def __init__(
        self,
        registered: Registered,
        own: Share,
        history: History,
        store: Store,
        lock: threading.Lock,
    ) -> None:
        self._lock = lock
        self._query = registered.query
        self._share = own
        self._store = store
        self._gone = history.gone
        self.has_lost_some = history.has_lost_since(registered.version)
        self._turns = {
            done.turn: done for done in history.rounds if registered.is_answered_with(done.version)
        }

    def rounds(self, after: int = -1) -> list[int]:
        """Turns later than `after`."""
        return sorted(turn for turn in self._turns if turn > after)

    def has_lost(self, after: int) -> bool:
        return after < self._gone

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None:
        found = self._answers([self._turns[round_id]])
        return found if found.num_rows else None

    def read_all(self) -> pa.Table:
        return self._answers([self._turns[turn] for turn in self.rounds()])

    def present(self) -> pa.Table:
        """Of answers that are never taken back: all."""
        return self.read_all()

    def _answers(self, rounds: Sequence[KeptRound]) -> pa.Table:
        with self._lock:
            found = [self._store.table(file) for done in rounds for file in done.events]
        return pa.concat_tables([empty_answer(self._query), *map(self._of, found)])

    def _of(self, rows: pa.Table) -> pa.Table:
        own = keys(self._share.shape.ranged[0], rows)
        found = np.zeros(rows.num_rows, np.bool_)
        for lo, hi, _, _ in self._share.boxes:
            found |= (own.values >= lo) & (own.values <= hi)
        chosen = rows.take(np.flatnonzero(found & (own.valid | own.odd)))
        return answers_of(self._query, self._share.residue, [chosen], None, never_asked)
