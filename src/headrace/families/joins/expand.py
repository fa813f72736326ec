"""Answers of joins, made when they are read: pairs of committed rows that meet, by turn.

An answer has the columns of the SELECT.  Where a table is joined, rows are replaced: then `change` says whether an
answer comes (+1) or is taken back (-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.errors import ServingError
from headrace.evaluation.arrow import arrow_type
from headrace.evaluation.finish import Finish, compile_finish
from headrace.evaluation.vectors import FinishError
from headrace.families.joins.arrays import Ints, Numbers
from headrace.families.joins.attributes import Mask, double_keys, keys, numbers, same
from headrace.families.joins.history import History
from headrace.families.joins.pairs import pairs_of
from headrace.families.joins.plan import Share, share
from headrace.families.joins.rounds import JoinRound
from headrace.families.joins.rowfiles import KIND, SIGN
from headrace.families.joins.store import INDEX_BITS, OK, Store, attributes
from headrace.runtime.ledger import Ledger
from headrace.sql.bands import Band
from headrace.sql.query import Query
from headrace.sql.tree import Column, Expr, walk
from headrace.values import Relation

CHANGE = "change"
PAIRS_AT_ONCE = 1 << 22


class JoinReader:
    """Committed answers of the joins of a home."""

    def __init__(
        self, root: Path, relation_of: Callable[[str], Relation], ledger_of: Callable[[str], Ledger]
    ) -> None:
        self._store = Store(root)
        self._relation_of = relation_of
        self._ledger_of = ledger_of
        self._histories: dict[str, History] = {}

    def log(self, registered: Registered) -> JoinLog:
        query = registered.query
        assert query.joined is not None
        own = share(query, self._relation_of(query.source), self._relation_of(query.joined))
        sides = self._history(query.source), self._history(query.joined)
        has_table = any(self._relation_of(name).is_table for name in own.joint.relations)
        return JoinLog(registered, own, sides, _newest_turn(sides), self._store, has_table)

    def _history(self, relation: str) -> History:
        if relation not in self._histories:
            self._histories[relation] = History(relation, self._ledger_of(relation), self._store)
        return self._histories[relation]


def _newest_turn(sides: tuple[History, History]) -> int:
    """A turn up to which all is there.  Rounds come while one side is looked at after the other; what came before the
    newest that was seen is there when both are looked at once more."""
    newest = 0
    for _ in range(2):
        newest = max(history.tick for history in sides)
        for history in sides:
            history.refresh()
    for own, other in (sides, sides[::-1]):
        own.check_after(other, newest)
    return newest


class JoinLog:
    """Answers of one query by turn, as far as is committed now: `until` a turn."""

    def __init__(
        self, registered: Registered, own: Share, sides: tuple[History, History], until: int, store: Store,
        has_table: bool,
    ) -> None:  # fmt: skip
        self._query = registered.query
        self._share = own
        self._sides = sides
        self._store = store
        self._has_table = has_table
        self._turns: dict[int, list[tuple[int, JoinRound]]] = {}
        whole_after = max(self._shortened(0), self._shortened(1))
        for side, history in enumerate(sides):
            for done in history.rounds:
                if done.version >= registered.version and whole_after < done.tick <= until:
                    self._turns.setdefault(done.tick, []).append((side, done))

    def _shortened(self, side: int) -> int:
        """The newest turn of a side that has joined rows which are not kept any more: its answers are gone, and so are
        all before it, for there are no gaps."""
        other = self._sides[1 - side]
        for done in reversed(self._sides[side].rounds):
            if other.relation in done.since and not other.has_since(done.since[other.relation]):
                return done.tick
        return -1

    def rounds(self, after: int = -1) -> list[int]:
        """Turns later than `after`."""
        return sorted(tick for tick in self._turns if tick > after)

    def read(self, query_id: int, query: Query, round_id: int) -> pa.Table | None:
        found = self._answers([round_id])
        return found if found.num_rows else None

    def read_all(self) -> pa.Table:
        return self._answers(self.rounds())

    def _answers(self, ticks: Sequence[int]) -> pa.Table:
        parts = []
        for side in (0, 1):
            rounds = [done for tick in ticks for own, done in self._turns[tick] if own == side]
            parts.append(self._pairs(side, rounds))
        left, right, sign, order = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        at = np.lexsort((right, left, order))
        tables = [self._table(left[chosen], right[chosen], sign[chosen]) for chosen in _pieces(at)]
        return pa.concat_tables(tables or [empty_join(self._query, self._has_table)])

    # -- pairs --------------------------------------------------------------------------------------

    def _pairs(self, side: int, rounds: Sequence[JoinRound]) -> tuple[Ints, Ints, Ints, Ints]:
        """Rows of side 0 and of side 1, the change, and a number to sort by: turn, then side."""
        history, other = self._sides[side], self._sides[1 - side]
        event, b, a, sign = self._events(side, rounds)
        image = other.image(self._share.joint, 1 - side)
        own, rows = pairs_of(self._share.joint.kind, self._share.boxes, side, image, np.arange(event.size), b, a)
        mine = event[own]
        at = history.ticks(mine)
        there = other.are_there(rows, at, side) & (other.ticks(rows) >= self._since(side, rounds, at))
        mine, rows, own, at = mine[there], rows[there], own[there], at[there]
        left, right = (mine, rows) if side == 0 else (rows, mine)
        return left, right, sign[own], at * 2 + side

    def _since(self, side: int, rounds: Sequence[JoinRound], at: Ints) -> Ints:
        """By turn: when the oldest rows came that its events found.  Older ones may be kept, for others."""
        other = self._sides[1 - side].relation
        ticks = np.array([done.tick for done in rounds], np.int64)
        first = np.array([done.since.get(other, done.tick) for done in rounds], np.int64)
        order = np.argsort(ticks)
        found: Ints = first[order][np.searchsorted(ticks[order], at)] if ticks.size else at
        return found

    def _events(self, side: int, rounds: Sequence[JoinRound]) -> tuple[Ints, Numbers, Numbers, Ints]:
        """Rows of rounds that are events of the joint, in order of what they meet by."""
        parts: list[tuple[Ints, Numbers, Numbers, Ints]] = []
        for file in (file for done in rounds for file in done.files):
            rows = self._store.table(file)
            b, a = attributes(self._share.joint, side, rows)
            here = np.flatnonzero(b.valid & a.valid & (rows.column(KIND).to_numpy() == OK))
            number = self._store.number(self._sides[side].relation, file) << INDEX_BITS
            sign = rows.column(SIGN).to_numpy()[here].astype(np.int64)
            parts.append((number | here, b.values[here], a.values[here], sign))
        if not parts:
            none = np.empty(0, np.int64)
            return none, none, none, none
        event, b_all, a_all, sign = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(b_all, kind="stable")
        return event[order], b_all[order], a_all[order], sign[order]

    # -- what else is asked for, and the columns -----------------------------------------------------

    def _table(self, left: Ints, right: Ints, sign: Ints) -> pa.Table:
        rows = self._store.rows(left, _columns(self._query, 0)), self._store.rows(right, _columns(self._query, 1))
        passed = np.flatnonzero(self._passes(rows))
        if passed.size < left.size:
            rows, sign = (rows[0].take(passed), rows[1].take(passed)), sign[passed]
        arrays = {o.name: self._run(o.expr, rows) for o in self._query.outputs}
        if self._has_table:
            arrays[CHANGE if CHANGE not in arrays else f"_{CHANGE}"] = pa.array(sign, pa.int8())
        return pa.table(arrays)

    def _passes(self, rows: tuple[pa.Table, pa.Table]) -> Mask:
        residue, size = self._share.residue, rows[0].num_rows
        passed = np.ones(size, np.bool_)
        for left, right in residue.equalities:
            a, b = self._run(left, rows), self._run(right, rows)
            passed &= same(a, b) & a.is_valid().to_numpy(zero_copy_only=False)
        for (left, right), band in residue.differences:
            a, b = numbers(left, rows[0]), numbers(right, rows[1])
            apart = b.values - a.values
            if apart.dtype == np.float64:  # Spark compares NaN and infinities too
                passed &= (a.valid | a.odd) & (b.valid | b.odd) & _within(band, double_keys(apart))
            else:
                passed &= a.valid & b.valid & _within(band, apart)
        for side in (0, 1):
            for attribute, band in residue.ranges[side]:
                own = keys(attribute, rows[side])
                passed &= (own.valid | own.odd) & _within(band, own.values)
        for part in residue.rest:  # asked only where all before it hold
            at = np.flatnonzero(passed)
            found = self._run(part, (rows[0].take(at), rows[1].take(at)))
            passed[at] = found.fill_null(False).to_numpy(zero_copy_only=False)
        return passed

    def _run(self, expr: Expr, rows: tuple[pa.Table, pa.Table]) -> pa.Array:
        inputs: dict[Expr, pa.Array] = {n: rows[n.side].column(n.name).combine_chunks() for n in _leaves(expr)}
        try:
            return _compiled(expr).run(inputs, rows[0].num_rows)
        except FinishError as error:
            raise ServingError(f"a pair of rows makes {self._query.name!r} fail", value=error.what, code=error.code,
                               hint="drop it, mend it and add it: its rows are safe") from error


def _leaves(expr: Expr) -> list[Column]:
    return [node for node in walk(expr) if isinstance(node, Column)]


def _within(band: Band, found: Ints) -> Mask:
    inside = np.zeros(found.size, np.bool_)
    for first, last in band.intervals:
        inside |= (found >= first) & (found <= last)
    return inside


def _columns(query: Query, side: int) -> list[str]:
    """The columns of a side that a query reads."""
    exprs = [o.expr for o in query.outputs] + ([] if query.where is None else [query.where])
    return sorted({n.name for e in exprs for n in _leaves(e) if n.side == side})


def _pieces(at: Ints) -> Iterator[Ints]:
    for start in range(0, at.size, PAIRS_AT_ONCE):
        yield at[start : start + PAIRS_AT_ONCE]


@lru_cache(maxsize=10_000)
def _compiled(expr: Expr) -> Finish:
    return compile_finish(expr)


def empty_join(query: Query, has_table: bool) -> pa.Table:
    """The columns of an answer, without rows."""
    types = {o.name: arrow_type(o.expr.type) for o in query.outputs}
    if has_table:
        types[CHANGE if CHANGE not in types else f"_{CHANGE}"] = pa.int8()
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})
