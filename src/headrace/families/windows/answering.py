"""Answers of the rings → rows of the answers log.

All answers of one program, from whatever rings, are finished together; all answers with columns of
the same types are stored together.  So the cost of a round is arrays, not queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.families.windows.feed import KeySpace
from headrace.families.windows.finish import FinishError
from headrace.families.windows.measures import Column, Measure, finish_aggregate, measures_for
from headrace.families.windows.plan import Program
from headrace.families.windows.rings import Closed, ProgramSeats
from headrace.runtime.answers import ARROW_TIME, Block
from headrace.sql.tree import Aggregate, Bound, Expr, Key, walk

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """Answers of one program from one ring: rows of `ids[0]` first, `counts[0]` of them, and so on."""

    ids: Ints
    counts: Ints
    end_us: Ints
    start_us: Ints | None
    columns: Mapping[Measure, tuple[Column, ...]]
    keys: Mapping[int, pa.Array]

    def alone(self, i: int) -> Part:
        """The rows of one query."""
        stop = int(self.counts[: i + 1].sum())
        rows = slice(stop - int(self.counts[i]), stop)
        return Part(
            self.ids[i : i + 1], self.counts[i : i + 1], self.end_us[rows],
            None if self.start_us is None else self.start_us[rows],
            {m: tuple(c[rows] for c in columns) for m, columns in self.columns.items()},
            {k: a[rows] for k, a in self.keys.items()},
        )


@dataclass(frozen=True, slots=True)
class _Needs:
    """The leaves of a program's trees."""

    aggregates: tuple[Aggregate, ...]
    measures: tuple[Measure, ...]
    keys: tuple[Key, ...]
    bounds: tuple[Bound, ...]


class Answering:
    """Finishes what rings closed.  Remembers what each program needs."""

    def __init__(self) -> None:
        self._needs: dict[int, tuple[Program, _Needs]] = {}

    def finish(self, closed: Sequence[Closed], keys: KeySpace, faults: dict[int, str]) -> tuple[list[Block], int]:
        """Blocks of answers and their number; queries whose expressions fail go to `faults`."""
        parts: dict[int, list[Part]] = {}
        for ring in closed:
            given = _RingKeys(ring, keys)
            for seats in ring.seat.programs:
                needs = self._needs_of(seats.program)
                part = _part(ring, seats, needs, given)
                if part is not None:
                    parts.setdefault(id(seats.program), []).append(part)
        blocks: dict[tuple[pa.DataType, ...], list[Block]] = {}
        for key, group in parts.items():
            program, needs = self._needs[key]
            for block in _finish(program, needs, group, faults):
                blocks.setdefault(tuple(c.type for c in block.columns), []).append(block)
        joined = [_join(group) for group in blocks.values()]
        return joined, sum(len(b.end_us) for b in joined)

    def _needs_of(self, program: Program) -> _Needs:
        found = self._needs.get(id(program))
        if found is None:
            found = self._needs[id(program)] = (program, _needs(program))
        return found[1]


def _needs(program: Program) -> _Needs:
    trees: list[Expr] = [*program.outputs, *([] if program.having is None else [program.having])]
    leaves = dict.fromkeys(n for t in trees for n in walk(t) if isinstance(n, Key | Bound))
    return _Needs(
        program.aggregates,
        tuple(dict.fromkeys(m for a in program.aggregates for m in measures_for(a))),
        tuple(n for n in leaves if isinstance(n, Key)),
        tuple(n for n in leaves if isinstance(n, Bound)),
    )


class _RingKeys:
    """Key columns of all answers of a ring, made once; queries take slices of them."""

    def __init__(self, ring: Closed, keys: KeySpace) -> None:
        self._slot = ring.seat.plan.slot
        self._groups = ring.answers.group
        self._keys = keys
        self._made: dict[int, pa.Array] = {}

    def rows(self, index: int, rows: Ints | slice) -> pa.Array:
        if index not in self._made:
            values = self._keys.of_slot(self._slot).arrays([self._keys.types[k] for k in self._slot.keys])
            self._made[index] = values[index].take(pa.array(self._groups))
        whole = self._made[index]
        return whole[rows] if isinstance(rows, slice) else whole.take(pa.array(rows))


def _part(ring: Closed, seats: ProgramSeats, needs: _Needs, keys: _RingKeys) -> Part | None:
    """The answers of these seats, out of all the ring's."""
    answers, plan = ring.answers, ring.seat.plan
    starts = answers.offsets[seats.shapes]
    counts = answers.offsets[seats.shapes + 1] - starts
    due = np.flatnonzero(counts)
    if not due.size:
        return None
    starts, counts, ids, shapes = starts[due], counts[due], seats.ids[due], seats.shapes[due]
    rows = _spread(starts, counts)
    end_us = answers.end[rows] * plan.grain_us
    start_us = None
    if needs.bounds:
        start_us = end_us - np.repeat(ring.seat.windows.range_panes[shapes], counts) * plan.grain_us
    arrangement = ring.seat.arrangement
    columns = {
        m: (
            *(answers.ints[i][rows] for i in _places(arrangement.ints[m])),
            *(answers.floats[i][rows] for i in _places(arrangement.floats[m])),
        )
        for m in needs.measures
    }
    arrays = {k.index: keys.rows(k.index, rows) for k in needs.keys}
    return Part(ids, counts, end_us, start_us, columns, arrays)


def _spread(starts: Ints, counts: Ints) -> Ints | slice:
    """starts[0] … starts[0] + counts[0] - 1, then the same for the next."""
    if len(starts) == 1:
        return slice(int(starts[0]), int(starts[0] + counts[0]))
    before = np.cumsum(counts) - counts
    total = int(before[-1] + counts[-1])
    if np.array_equal(starts[1:], starts[:-1] + counts[:-1]):
        return slice(int(starts[0]), int(starts[0]) + total)
    return np.repeat(starts - before, counts) + np.arange(total)


def _places(columns: slice) -> range:
    return range(columns.start, columns.stop)


def _finish(program: Program, needs: _Needs, parts: Sequence[Part], faults: dict[int, str]) -> list[Block]:
    try:
        return [_run(program, needs, parts)]
    except FinishError:
        return _finish_apart(program, needs, parts, faults)


def _finish_apart(program: Program, needs: _Needs, parts: Sequence[Part], faults: dict[int, str]) -> list[Block]:
    """Some query's expression fails on some answer: find which, keep the others."""
    blocks = []
    for part in parts:
        for i, query_id in enumerate(part.ids.tolist()):
            try:
                blocks.append(_run(program, needs, [part.alone(i)]))
            except FinishError as error:
                faults[query_id] = f"{error.code}: {error.what}"
    return blocks


def _run(program: Program, needs: _Needs, parts: Sequence[Part]) -> Block:
    """SELECT and HAVING over these parts."""
    ids = np.concatenate([p.ids for p in parts])
    counts = np.concatenate([p.counts for p in parts])
    end_us = np.concatenate([p.end_us for p in parts])
    columns = {
        m: tuple(np.concatenate(c) for c in zip(*(p.columns[m] for p in parts), strict=True)) for m in needs.measures
    }
    inputs: dict[Expr, pa.Array] = {a: finish_aggregate(a, columns) for a in needs.aggregates}
    inputs |= {k: pa.concat_arrays([p.keys[k.index] for p in parts]) for k in needs.keys}
    for bound in needs.bounds:
        starts = [p.start_us for p in parts if p.start_us is not None]
        inputs[bound] = pa.array(end_us if bound.which == "end" else np.concatenate(starts)).cast(ARROW_TIME)
    done = program.finish.run(inputs, len(end_us))
    if done.kept is not None:
        order = np.repeat(np.arange(len(ids)), counts)[done.kept]
        counts = np.bincount(order, minlength=len(ids))
        end_us = end_us[done.kept]
    return Block(ids, counts, end_us, done.outputs)


def _join(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*(b.columns for b in blocks), strict=True)
    return Block(
        np.concatenate([b.ids for b in blocks]),
        np.concatenate([b.counts for b in blocks]),
        np.concatenate([b.end_us for b in blocks]),
        tuple(pa.concat_arrays(c) for c in columns),
    )
