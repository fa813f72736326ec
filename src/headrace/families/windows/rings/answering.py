"""Answers of the rings → rows of the answers log.

The answers of all rings of a round are one long table.  An expression is evaluated once, over the
rows of all queries that select it, whatever else they select; answers with columns of the same
types are stored together.  So the cost of a round is arrays and different expressions, not queries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.evaluation.arrow import ARROW_TIME
from headrace.evaluation.finish import Finish, FinishError, compile_finish
from headrace.families.windows.measures import (
    Arrangement,
    Column,
    Measure,
    arrange,
    finish_aggregate,
    measures_for,
    places_in,
)
from headrace.families.windows.plan import Program
from headrace.families.windows.rings.handing_over import NEVER, Until, counts_until
from headrace.families.windows.rings.ring_members import Closed
from headrace.families.windows.rollup.feed import Floats
from headrace.families.windows.rollup.key_space import KeySpace
from headrace.runtime.answers import Block
from headrace.sql.tree import Aggregate, Bound, Expr, Key, walk

Ints = NDArray[np.int64]
EXPRESSIONS_MAX = RINGS_MAX = 100_000
LINES_MIN = 64
ROWS_MAX = 1 << 21  # of queries, finished at once


class Answering:
    """Makes answers of what rings have closed: SELECT and HAVING over their aggregates."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._compiled: dict[Expr, Finish] = {}

    def finish(
        self, closed: Sequence[Closed], keys: KeySpace, faults: dict[int, str], until: Until = NEVER
    ) -> Iterator[tuple[list[Block], int]]:
        """Blocks of answers and their number, ROWS_MAX rows or little more at a time.

        Queries whose expressions fail go to `faults`; those that are there already are left out.
        What a query answered in an earlier piece of the round stays: it is right."""
        table = _RingTable(closed, keys, self._lines)
        due = _due(closed, until)
        if faults:
            due = due.at(np.flatnonzero(~np.isin(due.ids, list(faults))))
        before = np.cumsum(due.counts) - due.counts
        parts = np.flatnonzero(np.diff(before // ROWS_MAX, prepend=-1))
        for start, stop in itertools.pairwise([*parts, due.ids.size]):
            yield self._finish(due.at(np.arange(start, stop)), table, faults)

    def _finish(
        self, due: _Due, table: _RingTable, faults: dict[int, str]
    ) -> tuple[list[Block], int]:
        while due.ids.size:
            rows = _Rows(due, table)
            try:
                return self._blocks(rows)
            except _FailedError as failed:
                found = self._blame(failed)
                faults.update(found)
                due = due.at(np.flatnonzero(~np.isin(due.ids, list(found))))
        return [], 0

    def _blocks(self, rows: _Rows) -> tuple[list[Block], int]:
        havings = rows.uses(lambda p: () if p.having is None else (p.having,))
        if havings:
            passed = np.ones(rows.ring.size, np.bool_)
            for having, spans in havings.items():
                positions = rows.positions(spans)
                passed[positions] = self._evaluate(having, rows, positions).fill_null(False)
            rows = rows.keep(passed)
        pieces: dict[tuple[int, Expr], pa.Array] = {}
        for expr, spans in rows.uses(lambda p: p.outputs).items():
            values = self._evaluate(expr, rows, rows.positions(spans))
            at = 0
            for program, start, stop in spans:
                pieces[program, expr] = values.slice(at, stop - start)
                at += stop - start
        return rows.blocks(pieces), rows.ring.size

    def _evaluate(self, expr: Expr, rows: _Rows, positions: Ints | slice) -> pa.Array:
        """The values of an expression at these positions."""
        leaves: dict[Expr, pa.Array] = {}
        try:
            for leaf in dict.fromkeys(walk(expr)):
                if isinstance(leaf, Aggregate):
                    leaves[leaf] = finish_aggregate(leaf, rows.measures(leaf, positions))
                elif isinstance(leaf, Key | Bound):
                    leaves[leaf] = rows.leaf(leaf, positions)
            size = (
                positions.stop - positions.start if isinstance(positions, slice) else positions.size
            )
            return self._compile(expr).run(leaves, size)
        except (
            Exception
        ) as error:  # whatever it is: the queries that have the expression fail, not the round
            raise _FailedError(expr, rows) from error

    def _compile(self, expr: Expr) -> Finish:
        found = self._compiled.get(expr)
        if found is None:
            if len(self._compiled) >= EXPRESSIONS_MAX:
                self._compiled.clear()
            found = self._compiled[expr] = compile_finish(expr)
        return found

    def _blame(self, failed: _FailedError) -> dict[int, str]:
        """Query id → reason, for each query that the expression fails for; all that have it, if it
        is none alone."""
        faults: dict[int, str] = {}
        users = failed.rows.queries_with(failed.expr)
        for query_id, start, stop in users:
            try:
                self._evaluate(failed.expr, failed.rows, slice(start, stop))
            except _FailedError as alone:
                faults[query_id] = alone.reason
        return faults or {query_id: failed.reason for query_id, _, _ in users}


class _FailedError(Exception):
    """Evaluating this failed, for some of these rows."""

    def __init__(self, expr: Expr, rows: _Rows) -> None:
        self.expr = expr
        self.rows = rows

    @property
    def reason(self) -> str:
        error = self.__cause__
        if isinstance(error, FinishError):
            return f"{error.code}: {error.what}"
        return f"EVALUATION_FAILED: its answer cannot be computed ({type(error).__name__}: {str(error)[:200]})"


@dataclass(frozen=True, slots=True)
class _Due:
    """Queries with answers in this round: whose program, and which rows of the rings' table, from
    `starts` on."""

    programs: Sequence[Program]
    ids: Ints
    program: Ints
    starts: Ints
    counts: Ints
    range_us: Ints

    def at(self, places: Ints) -> _Due:
        arrays = (self.ids, self.program, self.starts, self.counts, self.range_us)
        return _Due(self.programs, *(a[places] for a in arrays))


def _due(closed: Sequence[Closed], until: Until) -> _Due:
    """The queries that have answers, those with columns of the same types together, then those of
    one program."""
    numbers: dict[int, int] = {}
    programs: list[Program] = []
    parts: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 5]
    base = 0
    for ring in closed:
        sitting, offsets = ring.members, ring.answers.offsets
        counts = counts_until(ring, (offsets[1:] - offsets[:-1])[sitting.shapes], until)
        due = counts.nonzero()[0]
        for program in sitting.programs:
            if id(program) not in numbers:
                numbers[id(program)] = len(programs)
                programs.append(program)
        own = np.array([numbers[id(p)] for p in sitting.programs], np.int64)
        shapes = sitting.shapes[due]
        range_us = sitting.windows.range_panes[shapes] * ring.standing.plan.grain_us
        parts.append(
            (
                sitting.ids[due],
                own[sitting.program[due]],
                offsets[shapes] + base,
                counts[due],
                range_us,
            )
        )
        base += ring.answers.end.size
    found = _Due(programs, *(np.concatenate(column) for column in zip(*parts, strict=True)))
    kinds: dict[tuple[object, ...], int] = {}
    kind = np.array([kinds.setdefault(p.types, len(kinds)) for p in programs], np.int64)
    return found.at(np.lexsort((found.program, kind[found.program]))) if programs else found


class _Lines:
    """The measures that rings keep, as lines of two matrices; kept from round to round while they
    fit."""

    def __init__(self) -> None:
        self.all = arrange(())
        self._places: dict[int, tuple[Arrangement, Ints, Ints]] = {}

    def fit(self, closed: Sequence[Closed]) -> None:
        """Lines for these rings; those of queries that have gone do not pile up."""
        needed = dict.fromkeys(m for ring in closed for m in ring.standing.arrangement.ints)
        missing = any(m not in self.all.ints for m in needed)
        if (
            missing
            or len(self.all.ints) > 2 * len(needed) + LINES_MIN
            or len(self._places) > RINGS_MAX
        ):
            kept = (
                self.all.ints
                if missing and len(self.all.ints) <= 2 * len(needed) + LINES_MIN
                else ()
            )
            self.all = arrange((*kept, *needed))
            self._places.clear()

    def places(self, own: Arrangement) -> tuple[Ints, Ints]:
        """The lines of a ring's columns."""
        found = self._places.get(id(own))
        if found is None:
            # holding it keeps its id its own
            found = self._places[id(own)] = (
                own,
                *places_in(own, self.all),
            )
        return found[1:]


class _RingTable:
    """The answers of all rings, one after another.  Where a ring does not keep a measure, nobody
    asks for it."""

    def __init__(self, closed: Sequence[Closed], keys: KeySpace, lines: _Lines) -> None:
        self._closed = closed
        self._keys = keys
        self._key_columns: dict[Key, tuple[pa.Array, Ints]] = {}
        lines.fit(closed)
        self._lines = lines.all
        size = sum(ring.answers.end.size for ring in closed)
        self.end_us: Ints = np.empty(size, np.int64)
        self._ints: Ints = np.empty((len(lines.all.layout.int_ops), size), np.int64)
        self._floats: Floats = np.empty((len(lines.all.layout.float_ops), size))
        at = 0
        for ring in closed:
            answers, (ints, floats) = ring.answers, lines.places(ring.standing.arrangement)
            rows = slice(at, at + answers.end.size)
            np.multiply(answers.end, ring.standing.plan.grain_us, out=self.end_us[rows])
            self._ints[ints, rows] = answers.ints
            self._floats[floats, rows] = answers.floats
            at = rows.stop

    def measure(self, measure: Measure) -> tuple[Column, ...]:
        return (*self._ints[self._lines.ints[measure]], *self._floats[self._lines.floats[measure]])

    def sketch(self, aggregate: Aggregate) -> Column:
        """The values of a sketched aggregate.  Where a ring has none, nobody asks for it, or no
        group has a value."""
        found = [ring.sketches[aggregate] for ring in self._closed if aggregate in ring.sketches]
        values = np.zeros(self.end_us.size, found[0].dtype if found else np.int64)
        at = 0
        for ring in self._closed:
            if aggregate in ring.sketches:
                values[at : at + ring.answers.end.size] = ring.sketches[aggregate]
            at += ring.answers.end.size
        return values

    def key(self, key: Key, rows: Ints) -> pa.Array:
        """The key of that position, of these rows."""
        if key not in self._key_columns:
            self._key_columns[key] = self._key_column(key)
        values, codes = self._key_columns[key]
        return values.take(pa.array(codes[rows]))

    def _key_column(self, key: Key) -> tuple[pa.Array, Ints]:
        """Distinct values, and for each row which: slots have few groups, and many rings."""
        values: list[pa.Array] = []
        places: dict[int, int] = {}
        codes: list[Ints] = []
        size = 0
        for ring in self._closed:
            slot, groups = ring.standing.plan.slot, ring.answers.group
            numbered = self._keys.of_slot(slot)
            if key.index >= len(slot.keys) or slot.keys[key.index].type != key.type:
                codes.append(np.zeros(groups.size, np.int64))
                continue
            place = places.get(id(numbered))
            if place is None:
                own = numbered.arrays([self._keys.types[k] for k in slot.keys])[key.index]
                values.append(own)
                place = places[id(numbered)] = size
                size += len(own)
            codes.append(groups + np.int64(place))
        return pa.concat_arrays(values), np.concatenate(codes)


Span = tuple[int, int, int]


class _Rows:
    """One row for each answer of each query, in the order of the due: row `ring[i]` of the rings'
    table."""

    def __init__(self, due: _Due, table: _RingTable, ring: Ints | None = None) -> None:
        before = np.cumsum(due.counts) - due.counts
        total = int(due.counts.sum())
        self.ring: Ints = (
            np.repeat(due.starts - before, due.counts) + np.arange(total) if ring is None else ring
        )
        self._due = due
        self._table = table
        self._edges: Ints = np.append(before, total)
        first = np.flatnonzero(np.diff(due.program, prepend=-1))
        self._spans: list[Span] = [
            (int(due.program[f]), int(self._edges[f]), int(self._edges[stop]))
            for f, stop in itertools.pairwise([*first, due.ids.size])
        ]

    def keep(self, passed: NDArray[np.bool_]) -> _Rows:
        """Only the rows that passed; queries without any are no longer due."""
        if passed.all():
            return self
        before = np.append(0, np.cumsum(passed))
        counts = np.diff(before[self._edges])
        left = np.flatnonzero(counts)
        return _Rows(
            replace(self._due.at(left), counts=counts[left]), self._table, self.ring[passed]
        )

    def uses(self, exprs_of: Callable[[Program], Sequence[Expr]]) -> dict[Expr, list[Span]]:
        """Each expression with the spans of the programs that have it."""
        found: dict[Expr, list[Span]] = {}
        for span in self._spans:
            for expr in dict.fromkeys(exprs_of(self._due.programs[span[0]])):
                found.setdefault(expr, []).append(span)
        return found

    def positions(self, spans: Sequence[Span]) -> Ints | slice:
        if len(spans) == 1:
            return slice(spans[0][1], spans[0][2])
        return np.concatenate([np.arange(start, stop) for _, start, stop in spans])

    def measures(
        self, aggregate: Aggregate, positions: Ints | slice
    ) -> dict[Measure, tuple[Column, ...]]:
        """The columns an aggregate is finished from."""
        rows = self.ring[positions]
        return {
            m: (self._table.sketch(aggregate)[rows],)
            if m.is_sketch
            else tuple(column[rows] for column in self._table.measure(m))
            for m in measures_for(aggregate)
        }

    def leaf(self, leaf: Key | Bound, positions: Ints | slice) -> pa.Array:
        rows = self.ring[positions]
        if isinstance(leaf, Key):
            return self._table.key(leaf, rows)
        times = self._table.end_us[rows]
        if leaf.which == "start":
            times = times - np.repeat(self._due.range_us, self._due.counts)[positions]
        return pa.array(times).cast(ARROW_TIME)

    def queries_with(self, expr: Expr) -> list[tuple[int, int, int]]:
        """Id and rows of each query that selects the expression or filters by it."""
        users = [expr in (*p.outputs, p.having) for p in self._due.programs]
        return [
            (int(query_id), int(self._edges[i]), int(self._edges[i + 1]))
            for i, query_id in enumerate(self._due.ids)
            if users[self._due.program[i]]
        ]

    def blocks(self, pieces: dict[tuple[int, Expr], pa.Array]) -> list[Block]:
        """Programs with columns of the same types follow each other: a block for each such run."""
        runs: dict[tuple[object, ...], list[Span]] = {}
        for span in self._spans:
            runs.setdefault(self._due.programs[span[0]].types, []).append(span)
        return [self._block(spans, pieces) for spans in runs.values()]

    def _block(self, spans: Sequence[Span], pieces: dict[tuple[int, Expr], pa.Array]) -> Block:
        start, stop = spans[0][1], spans[-1][2]
        first, last = np.searchsorted(self._edges, (start, stop))
        columns = zip(
            *([pieces[p, e] for e in self._due.programs[p].outputs] for p, _, _ in spans),
            strict=True,
        )
        return Block(
            self._due.ids[first:last],
            self._due.counts[first:last],
            self._table.end_us[self.ring[start:stop]],
            tuple(pa.concat_arrays(column) for column in columns),
        )
