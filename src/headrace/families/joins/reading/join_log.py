"""Answers of joins, made when they are read: pairs of committed rows that meet, by turn.

Where a table is joined, rows are replaced, and answers taken back
(`reading/remaining_conditions.py`).

A query begins with the first turn that knows of it.  From then on every turn counts, also one of
the other relation that was begun before: whatever pair of rows then comes is answered, and what was
answered is taken back when it goes.  It ends before the first turn that knows that it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.catalog import Registered
from headrace.errors import ServingError
from headrace.families.joins.plan import Share, filter_share, horizon_us, share
from headrace.families.joins.reading.filter_log import FilterLog
from headrace.families.joins.reading.meeting import (
    NO_PAIRS,
    Meeting,
    Pairs,
    events_of,
    image_of,
    paired,
)
from headrace.families.joins.reading.pairs import Run, expanded
from headrace.families.joins.reading.remaining_conditions import (
    Asked,
    answers_of,
    columns_read,
    empty_answer,
    never_asked,
)
from headrace.families.joins.reading.rows_there import RowsThere
from headrace.families.joins.reading.turn_batches import Events
from headrace.relations.arrays import Ints
from headrace.relations.history import NEVER, History
from headrace.relations.rounds import KeptRound
from headrace.relations.store import Store
from headrace.runtime.ledger import Ledger
from headrace.sql.query import Query
from headrace.values import Relation

PAIRS_AT_ONCE = 1 << 22


class JoinReader:
    """Committed answers of the joins of a home, for any number of threads: one at a time looks at
    the home, and what is computed of its rows is computed beside."""

    def __init__(
        self,
        root: Path,
        relation_of: Callable[[str], Relation],
        ledger_of: Callable[[str], Ledger],
        pairs_max: int = NEVER,
        ask: Asked = never_asked,
    ) -> None:
        self._lock = threading.Lock()
        self._store = Store(root)
        self._ask = ask
        self._pairs_max = pairs_max
        self._relation_of = relation_of
        self._ledger_of = ledger_of
        self._histories: dict[str, History] = {}

    def log(self, registered: Registered) -> JoinLog | FilterLog:
        with self._lock:
            return self._log(registered)

    def _log(self, registered: Registered) -> JoinLog | FilterLog:
        query = registered.query
        if query.joined is None:
            filtered = filter_share(query, self._relation_of(query.source))
            assert isinstance(filtered, Share)
            history = self._history(query.source)
            history.refresh()
            return FilterLog(registered, filtered, history, self._store, self._lock)
        own = share(query, self._relation_of(query.source), self._relation_of(query.joined))
        sides = self._history(query.source), self._history(query.joined)
        left, right = (self._relation_of(name) for name in own.shape.relations)
        return JoinLog(
            registered,
            own,
            sides,
            _newest_turn(sides),
            self._store,
            self._lock,
            (left, right),
            self._pairs_max,
            self._ask,
        )

    def _history(self, relation: str) -> History:
        if relation not in self._histories:
            self._histories[relation] = History(relation, self._ledger_of(relation), self._store)
        return self._histories[relation]


def _newest_turn(sides: tuple[History, History]) -> int:
    """A turn up to which all is there.  Rounds come while one side is looked at after the other;
    what came before the newest that was seen is there when both are looked at once more."""
    newest = 0
    for _ in range(2):
        newest = max(history.turn for history in sides)
        for history in sides:
            history.refresh()
    for own, other in (sides, sides[::-1]):
        own.check_after(other, newest)
    return newest


def _first_turn(sides: tuple[History, History], version: int, until: int) -> int:
    """Of either side with a version of the catalog, or a later one, if there is one `until` a
    turn."""
    turns = [history.first_turn(version) for history in sides]
    return min((turn for turn in turns if turn is not None and turn <= until), default=NEVER)


class JoinLog:
    """Answers of one query by turn, as far as is committed now: `until` a turn."""

    def __init__(
        self,
        registered: Registered,
        own: Share,
        sides: tuple[History, History],
        until: int,
        store: Store,
        lock: threading.Lock,
        relations: tuple[Relation, Relation],
        pairs_max: int,
        ask: Asked,
    ) -> None:
        self._lock = lock
        self._ask = ask
        self._query = registered.query
        self._share = own
        self._sides = sides
        self._store = store
        self._has_table = any(relation.is_table for relation in relations)
        self._times = [relation.time for relation in relations]
        self._relations = relations
        self._version = registered.version
        self._turns: dict[int, list[tuple[int, KeptRound]]] = {}
        turns = [
            (side, done)
            for side, history in enumerate(sides)
            for done in history.rounds
            if done.turn <= until
        ]
        self._since = _first_turn(sides, registered.version, until)
        end = NEVER if registered.until is None else _first_turn(sides, registered.until, until)
        self._until = min(until, end - 1)
        self._meeting = Meeting(registered.query.name, own, pairs_max)
        shortened = max(self._shortened(0), self._shortened(1))
        first = max(self._since, shortened + 1)
        self._let_go = [history.gone for history in sides]
        self._gone = max(shortened, *self._let_go)
        for side, done in turns:
            if first <= done.turn <= self._until:
                self._turns.setdefault(done.turn, []).append((side, done))
        rounds = [done for of_turn in self._turns.values() for _, done in of_turn]
        self._there = RowsThere(
            self._meeting, sides, relations, rounds, (self._since, self._until), store
        )

    def _shortened(self, side: int) -> int:
        """The newest turn of a side that has joined rows which are not kept any more: its answers
        are gone, and so are all before it, for there are no gaps."""
        other = self._sides[1 - side]
        for done in reversed(self._sides[side].rounds):
            if other.relation in done.since and not other.has_since(done.since[other.relation]):
                return done.turn
        return -1

    def rounds(self, after: int = -1) -> list[int]:
        """Turns later than `after`."""
        return sorted(turn for turn in self._turns if turn > after)

    def has_lost(self, after: int) -> bool:
        return after < self._gone

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None:
        found = self._answers([round_id])
        return found if found.num_rows else None

    def read_all(self) -> pa.Table:
        return self._answers(self.rounds())

    def _answers(self, turns: Sequence[int]) -> pa.Table:
        with self._lock:
            self._check_kept(turns)
            parts = [NO_PAIRS]
            for side in (0, 1):
                found = sum(part.sign.size for part in parts)
                parts += self._pairs(side, self._rounds(side, turns), found)
        return self._tables(parts, self._has_table)

    def _tables(self, parts: Sequence[Pairs], has_change: bool) -> pa.Table:
        left, right, sign, order = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        at = np.lexsort((right, left, order))
        tables = [
            self._table(left[chosen], right[chosen], sign[chosen] if has_change else None)
            for chosen in _pieces(at)
        ]
        return pa.concat_tables(tables or [empty_answer(self._query, has_change)])

    def _check_kept(self, turns: Sequence[int]) -> None:
        """Another reader may have seen, since this log was made, that rows were let go of: answers
        would be too few."""
        let_go = [history.gone for history in self._sides]
        if let_go != self._let_go and min(turns, default=NEVER) <= max(
            self._shortened(0), self._shortened(1), *let_go
        ):
            raise ServingError(
                "answers have been removed while they were read",
                value=f"turn {min(turns)}",
                code="SINCE_GONE",
                hint="read again: results(), or watch() without since",
            )

    def _rounds(self, side: int, turns: Sequence[int]) -> list[KeptRound]:
        return [done for turn in turns for own, done in self._turns[turn] if own == side]

    def _table(self, left: Ints, right: Ints, sign: Ints | None) -> pa.Table:
        sides = zip(
            (left, right), (columns_read(self._query, 0), columns_read(self._query, 1)), strict=True
        )
        with self._lock:
            rows = [self._store.rows(numbers, columns) for numbers, columns in sides]
        return answers_of(self._query, self._share.residue, rows, sign, self._ask)

    # -- pairs -------------------------------------------------------------------------------------

    def _pairs(self, side: int, rounds: Sequence[KeptRound], size: int) -> list[Pairs]:
        """Of the events of a side, beside so many pairs that were found."""
        events, other = self._events(side, rounds), self._sides[1 - side]
        if not events.row.size:
            return []
        image = image_of(self._store, self._share.shape, 1 - side, other, events.span)
        return self._meeting.pairs(side, events, image, other.narrowed, self._answered, size)

    def _answered(self, side: int, events: Events, runs: Sequence[Run]) -> Pairs:
        """Pairs of an event and a row that was there for it."""
        history, other = self._sides[side], self._sides[1 - side]
        own, rows = expanded(runs, np.arange(events.row.size))
        mine, at = events.row[own], events.at[own]
        there = other.are_there(rows, at, side)
        there &= np.maximum(history.came(mine), other.came(rows)) >= self._since
        there &= other.turns(rows) >= events.since[own]
        return paired(side, events.where(own[there]), rows[there])

    # -- what is there -----------------------------------------------------------------------------

    def present(self) -> pa.Table:
        """What has come and was not taken back, without the change."""
        if not self._has_table:
            return self.read_all()
        with self._lock:
            parts = [NO_PAIRS, *self._there.pairs()]
        return self._tables(parts, has_change=False)

    @property
    def has_lost_some(self) -> bool:
        """Whether the present answer would lack some."""
        return any(self._has_lost_rows(side) for side in (0, 1))

    def _has_lost_rows(self, side: int) -> bool:
        if self._relations[side].is_table:
            return not self._there.is_whole(side)
        return (
            self._sides[side].has_lost_since(self._version)
            or self._shortened(1 - side) >= self._since
        )

    def _events(self, side: int, rounds: Sequence[KeptRound]) -> Events:
        """Rows of rounds that are events of the shape, in order of what they meet by."""
        parts = []
        for done, file in [(own, file) for own in rounds for file in own.events]:
            events = events_of(self._store, self._share.shape, side, file, done.turn)
            if events.row.size:
                since = self._found_since(side, done, self._store.rows(events.row))
                parts.append(events._replace(since=np.full(events.row.size, since)))
        return Events.of(parts)

    def _found_since(self, side: int, done: KeptRound, events: pa.Table) -> int:
        """When the oldest rows came that events of a turn may find.  Older ones may be kept, for
        others: it has not looked at them, or they are too old for this query."""
        found = done.since.get(self._sides[1 - side].relation, done.turn)
        time, bound = self._times[side], self._share.bound
        if time is None or bound is None:
            return found
        limit = horizon_us(bound, 1 - side, pc.min(events.column(time).cast(pa.int64())).as_py())
        return (
            found
            if limit is None
            else max(found, min(self._sides[1 - side].first_newer(limit), done.turn))
        )


def _pieces(at: Ints) -> Iterator[Ints]:
    for start in range(0, at.size, PAIRS_AT_ONCE):
        yield at[start : start + PAIRS_AT_ONCE]
