"""From the rows of one Spark aggregate to the rings: roll up by slot, number the groups, add.

Pure, but for asking Spark of keys never seen before (`Evaluate`).  Costs rows × slots, where rows
are what Spark's aggregate left: panes × groups × signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.families.windows.aggregation.aggregate import (
    PANE,
    SET,
    all_keys,
    cell_name,
    grouping,
    key_name,
    word_names,
)
from headrace.families.windows.aggregation.columns import (
    float_identity,
    int_identity,
    part_names,
    parts_of,
    ring_columns,
)
from headrace.families.windows.bands.waiting import CellPick
from headrace.families.windows.cells import cell
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import COLUMNS, Arrangement, Measure
from headrace.families.windows.plan import Slot
from headrace.families.windows.rings.arrays import (
    ADD,
    MAX,
    MIN,
    MOMENTS_N,
)
from headrace.families.windows.rings.ring import Layout
from headrace.families.windows.rollup.groups import Evaluate, Groups
from headrace.families.windows.rollup.kernels import (
    choose_by_bit,
    choose_within,
    join_columns,
    roll_up,
)
from headrace.families.windows.rollup.key_space import KeySpace
from headrace.families.windows.rollup.order import PredicateRollup, RollupStep
from headrace.families.windows.sketches.shipping import Picked
from headrace.sql.bands import split
from headrace.sql.tree import Expr

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SlotRows:
    """One row per pane and group of a slot, by pane; columns as in its arrangement."""

    pane_us: Ints
    groups: Ints32
    ints: Ints
    floats: Floats


class PaneRows:
    """One pane table, ready to be rolled up."""

    def __init__(self, cuts: Cuts, table: pa.Table, keys: KeySpace, evaluate: Evaluate) -> None:
        self._cuts = cuts
        self._table = table
        self._keys = keys
        self._evaluate = evaluate
        self._by_cut: dict[int, _CutRows] = {}
        for i, key in enumerate(all_keys(cuts)):
            keys.types[key] = table.schema.field(key_name(i)).type

    def roll(
        self, rollups: Sequence[PredicateRollup]
    ) -> Iterator[tuple[RollupStep, SlotRows | CellPick]]:
        """The rows of each slot of the rollups."""
        for c in dict.fromkeys(b.cut for b in rollups):
            mine = [b for b in rollups if b.cut == c]
            rows = self._cut_rows(c)
            own = grouping(self._cuts.cuts[c])
            wanted = dict.fromkeys(rows.asked(b.where) for b in mine)
            wanted |= dict.fromkeys(k for b in mine for t in b.steps for k in t.slot.keys)
            rows.finest.learn(
                [e for e in own.facts if e in wanted], self._keys.types, self._evaluate
            )
            for rollup in mine:
                yield from self._roll_up_predicate(rollup, rows)

    def _roll_up_predicate(
        self, rollup: PredicateRollup, rows: _CutRows
    ) -> Iterator[tuple[RollupStep, SlotRows | CellPick]]:
        """The first out of the cut's, finer before coarser."""
        if rollup.steps[0].slot.cells:
            (step,) = rollup.steps
            yield (
                step,
                rows.select_cells(step.slot, self._keys.of_slot(step.slot), step.arrangement),
            )
            return
        made: list[tuple[SlotRows, Groups]] = []
        if rollup.finest is not None:
            made.append((rows.select(rollup.where, None, rollup.finest), rows.finest))
        for step in rollup.steps:
            groups = self._keys.of_slot(step.slot)
            if step.parent is None:
                found = rows.select(rollup.where, groups, step.arrangement)
            else:
                parent, finer = made[step.parent]
                into = finer.into(groups)
                found = _roll_again(parent, into, len(groups), step)
            made.append((found, groups))
            yield step, found

    def pick(self, slot: Slot) -> Picked | None:
        """The rows a slot selects, as they are; None if these cuts cannot tell."""
        c = self._cuts.find(slot)
        if c is None:
            return None
        rows = self._cut_rows(c)
        wanted = {rows.asked(slot.where), *slot.keys}
        rows.finest.learn(
            [e for e in grouping(self._cuts.cuts[c]).facts if e in wanted],
            self._keys.types,
            self._evaluate,
        )
        return rows.pick(slot.where, self._keys.of_slot(slot))

    def _cut_rows(self, c: int) -> _CutRows:
        if c not in self._by_cut:
            table = self._table
            if len(self._cuts.cuts) > 1:
                table = table.filter(pc.equal(table.column(SET), c))
            self._by_cut[c] = _CutRows(self._cuts, c, table, self._keys)
        return self._by_cut[c]


class _CutRows:
    """The rows of one cut, numbered by pane."""

    def __init__(self, cuts: Cuts, c: int, table: pa.Table, keys: KeySpace) -> None:
        self._grouping, names = grouping(cuts.cuts[c]), all_keys(cuts)
        panes: Ints = table.column(PANE).to_numpy()
        order = np.argsort(panes, kind="stable")
        columns = [
            table.column(key_name(names.index(k))).combine_chunks() for k in self._grouping.keys
        ]
        self.finest = keys.of_cut(self._grouping.keys)
        self._groups: Ints32 = self.finest.encode(columns, table.num_rows)[order]
        self._panes: Ints = panes[order]
        self._order, self._table = order, table
        self._words: list[Ints] = [table.column(w).to_numpy()[order] for w in word_names(cuts, c)]
        self._ranks = {
            key: _ranks(table.column(cell_name(cuts, key)))[order] for key in self._grouping.cells
        }
        self._lines = _lines(cuts, table)
        self._matrices: tuple[Ints, Floats] | None = None
        self._places = _places(cuts)
        self._cuts, self._cut = cuts, cuts.cuts[c]
        self._edges = {key: np.array(cuts.edges_of(key), np.int64) for key in self._grouping.cells}
        self._scratch: Ints = np.empty(self._panes.size if self._edges else 0, np.int64)

    def select(
        self, where: Expr | None, coarser: Groups | None, arrangement: Arrangement
    ) -> SlotRows:
        """Rows the predicate selects, by pane and group of `coarser` (of the cut, if none)."""
        into = None if coarser is None else self.finest.into(coarser)
        width = len(self.finest if coarser is None else coarser)
        columns, layout = self._columns(arrangement), arrangement.layout
        if self._is_told(where):
            chosen = self._told(where)
            groups = self._groups[chosen] if into is None else into[self._groups[chosen]]
            rows = SlotRows(self._panes[chosen], groups, *self._matrix())
            return _roll(rows, rows.pane_us, -1, width, columns, layout, chosen)
        word, bit = self._bit(where)
        groups = self._groups if into is None else into[self._groups]
        return _roll(
            SlotRows(self._panes, groups, *self._matrix()), word, bit, width, columns, layout
        )

    def _matrix(self) -> tuple[Ints, Floats]:
        """All columns of each number type, by pane; made when they are first asked for."""
        if self._matrices is None:
            self._matrices = (
                _ordered(self._lines[0], self._order),
                _ordered(self._lines[1], self._order),
            )
        return self._matrices

    def select_cells(self, slot: Slot, coarser: Groups, arrangement: Arrangement) -> CellPick:
        """Rows the predicate selects, each with the cells it is in."""
        word, bit = self._bit(slot.where)
        chosen = np.arange(word.size) if bit < 0 else np.flatnonzero(word >> bit & 1)
        ranks = np.stack([self._ranks[key] for key in slot.cells])
        if ranks.size and ranks.min() < 0:
            chosen = chosen[(ranks[:, chosen] >= 0).all(axis=0)]
        groups = self.finest.into(coarser)[self._groups[chosen]]
        edges = tuple(self._cuts.edges_of(key) for key in slot.cells)
        ints, floats = self._columns(arrangement)
        return CellPick(
            self._panes[chosen],
            groups,
            ranks[:, chosen],
            edges,
            self._order[chosen],
            tuple(self._lines[0][i] for i in ints),
            tuple(self._lines[1][i] for i in floats),
        )

    def pick(self, where: Expr | None, coarser: Groups) -> Picked:
        """Where the rows are that the predicate selects, by pane, and their groups in `coarser`."""
        word, bit = self._bit(where)
        chosen = np.arange(word.size) if bit < 0 else np.flatnonzero(word >> bit & 1)
        groups = self.finest.into(coarser)[self._groups[chosen]]
        return Picked(self._table, self._order[chosen], self._panes[chosen], groups)

    def asked(self, where: Expr | None) -> Expr | None:
        """The predicate that must be known to tell this one."""
        return None if where is None else self._cuts.asked(self._cut, where)

    def _bit(self, where: Expr | None) -> tuple[Ints, int]:
        """The word and bit of each row that tell whether the predicate selects it; without one bit
        -1."""
        if where is None:
            return self._panes, -1
        if where in self._grouping.facts:
            return self.finest.flags(where)[self._groups], 0
        if self._is_told(where):
            word = np.zeros(self._panes.size, np.int64)
            word[self._told(where)] = 1
            return word, 0
        place, bit = self._grouping.place(where)
        return self._words[place], bit

    def _is_told(self, where: Expr | None) -> TypeGuard[Expr]:
        """Whether a predicate is told by cells: neither a bit nor a fact does."""
        return (
            where is not None
            and where not in self._grouping.facts
            and where not in self._grouping.predicates
        )

    def _told(self, where: Expr) -> Ints:
        """The rows whose cells lie in the bands of a predicate, and for which the rest of it
        holds."""
        rest, chosen, count = self.asked(where), self._scratch, -1
        if rest is not None:
            count = choose_by_bit(*self._bit(rest), chosen)
        for attribute in self._cuts.told_by(self._cut, where):
            key, intervals = cell(attribute), np.array(split(where).band(attribute).intervals)
            within = np.searchsorted(self._edges[key], intervals, side="right")
            count = choose_within(self._ranks[key], within, count, chosen)
        return chosen[:count].copy()

    def _columns(self, arrangement: Arrangement) -> tuple[Ints, Ints]:
        """Where each column of the arrangement is; a missing measure is read from the empty column
        at the end."""
        ints: list[int] = []
        floats: list[int] = []
        for measure in arrangement.ints:
            own = COLUMNS[measure.kind]
            place = self._places.get(measure)
            for i, op in enumerate(own.int_ops):
                ints.append(self._empty(op, self._lines[0]) if place is None else place[0] + i)
            for i, op in enumerate(own.float_ops):
                floats.append(self._empty(op, self._lines[1]) if place is None else place[1] + i)
        return np.array(ints, np.int64), np.array(floats, np.int64)

    def _empty(self, op: int, lines: Sequence[NDArray[Any]]) -> int:
        """Lines end with one empty for each kind of identity."""
        kind = ADD if op >= MOMENTS_N else op
        return len(lines) - len(_EMPTY) + _EMPTY.index(kind)


_EMPTY = (ADD, MIN, MAX)


def _ranks(column: pa.ChunkedArray) -> Ints32:
    """Of a null, -1: in no band."""
    found: Ints32 = column.fill_null(-1).to_numpy().astype(np.int32, copy=False)
    return found


def _roll_again(rows: SlotRows, into: Ints32, width: int, step: RollupStep) -> SlotRows:
    """A coarser slot out of a finer one with the same predicate."""
    assert step.places is not None
    rows = SlotRows(rows.pane_us, into[rows.groups], rows.ints, rows.floats)
    return _roll(rows, rows.pane_us, -1, width, step.places, step.arrangement.layout)


def _roll(
    rows: SlotRows,
    word: Ints,
    bit: int,
    width: int,
    columns: tuple[Ints, Ints],
    layout: Layout,
    chosen: Ints | None = None,
) -> SlotRows:
    """Join rows by pane and group; panes and groups may be those of `chosen` rows only."""
    size = rows.pane_us.size
    panes, groups = np.empty(size, np.int64), np.empty(size, np.int32)
    taken, target = np.empty(size, np.int64), np.empty(size, np.int64)
    stamp, place = np.empty(width, np.int64), np.empty(width, np.int64)
    selected, written = roll_up(
        rows.pane_us, rows.groups, word, bit, stamp, place, taken, target, panes, groups
    )
    out, out_floats = (
        np.empty((columns[0].size, written), np.int64),
        np.empty((columns[1].size, written)),
    )
    if chosen is not None:
        taken = chosen[taken[:selected]]
    join_columns(
        taken[:selected],
        target[:selected],
        columns[0],
        np.array(layout.int_ops, np.int64),
        rows.ints,
        out,
        columns[1],
        np.array(layout.float_ops, np.int64),
        rows.floats,
        out_floats,
    )
    return SlotRows(panes[:written].copy(), groups[:written].copy(), out, out_floats)


def _places(cuts: Cuts) -> dict[Measure, tuple[int, int]]:
    """The first int and float column of each measure in the matrices."""
    places: dict[Measure, tuple[int, int]] = {}
    ints = floats = 0
    for measure in cuts.measures:
        places[measure] = (ints, floats)
        ints += len(COLUMNS[measure.kind].int_ops)
        floats += len(COLUMNS[measure.kind].float_ops)
    return places


def _lines(cuts: Cuts, table: pa.Table) -> tuple[list[Ints], list[Floats]]:
    """All columns of each number type; empty ones follow."""
    names = part_names(cuts.measures)
    ints: list[Ints] = []
    floats: list[Floats] = []
    for measure in (m for m in cuts.measures if not m.is_sketch):
        made = ring_columns(measure, [table.column(names[part]) for part in parts_of(measure)])
        split = len(COLUMNS[measure.kind].int_ops)
        ints += made[:split]
        floats += made[split:]
    ints += [np.broadcast_to(np.int64(int_identity(op)), table.num_rows) for op in _EMPTY]
    floats += [np.broadcast_to(np.float64(float_identity(op)), table.num_rows) for op in _EMPTY]
    return ints, floats


def _ordered(lines: Sequence[NDArray[Any]], order: Ints) -> NDArray[Any]:
    matrix = np.empty((len(lines), order.size), lines[-1].dtype)
    for column, line in zip(lines, matrix, strict=True):
        np.take(column, order, out=line)
    return matrix
