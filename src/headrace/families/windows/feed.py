"""From the rows of one Spark aggregate to the rings: roll up by slot, number the groups, add.

Pure.  Costs rows × slots, where rows are what Spark's aggregate left: panes × groups × signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.families.windows.aggregate import PANE, SET, all_keys, column_names, key_name, signature, word_names
from headrace.families.windows.branches import Branch, Twig
from headrace.families.windows.fold_kernels import join_columns, roll_up
from headrace.families.windows.groups import Groups
from headrace.families.windows.measures import COLUMNS, Arrangement, Measure
from headrace.families.windows.plan import Cuts, Slot
from headrace.families.windows.ring import Layout
from headrace.families.windows.ring_kernels import ADD, MAX, MIN, MOMENTS_N
from headrace.sql.tree import Expr

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]

_INT = np.iinfo(np.int64)


@dataclass(slots=True)
class KeySpace:
    """Numbers of keys, kept from round to round: by cut (its keys) and by slot."""

    cuts: dict[tuple[Expr, ...], Groups]
    slots: dict[Slot, Groups]
    types: dict[Expr, pa.DataType]

    @staticmethod
    def empty() -> KeySpace:
        return KeySpace({}, {}, {})

    def of_cut(self, keys: tuple[Expr, ...]) -> Groups:
        return self.cuts.setdefault(keys, Groups())

    def of_slot(self, slot: Slot) -> Groups:
        return self.slots.setdefault(slot, Groups())

    def forget(self, slot: Slot) -> None:
        gone = self.slots.pop(slot, None)
        if gone is not None:
            for groups in (*self.cuts.values(), *self.slots.values()):
                groups.forget(gone)


@dataclass(frozen=True, slots=True)
class SlotRows:
    """One row per pane and group of a slot, by pane; columns as in its arrangement."""

    pane_us: Ints
    groups: Ints32
    ints: Ints
    floats: Floats


class PaneRows:
    """One pane table, ready to be rolled up."""

    def __init__(self, cuts: Cuts, table: pa.Table, keys: KeySpace) -> None:
        self._cuts = cuts
        self._table = table
        self._keys = keys
        self._cut: dict[int, _CutRows] = {}
        for i, key in enumerate(all_keys(cuts)):
            keys.types[key] = table.schema.field(key_name(i)).type

    def roll(self, branch: Branch) -> Iterator[tuple[Twig, SlotRows]]:
        """The rows of each slot of a branch: the first out of the cut's, finer before coarser."""
        cut = self._cuts.cuts[branch.cut]
        rows = self._cut_rows(branch.cut)
        finest = self._keys.of_cut(cut.keys)
        made: list[tuple[SlotRows, Arrangement, Groups, tuple[Expr, ...]]] = []
        if branch.trunk is not None:
            trunk = rows.select(branch.where, None, len(finest), branch.trunk)
            made.append((trunk, branch.trunk, finest, cut.keys))
        for twig in branch.twigs:
            groups = self._keys.of_slot(twig.slot)
            if twig.parent is None:
                into = finest.into(groups, [cut.keys.index(k) for k in twig.slot.keys])
                found = rows.select(branch.where, into, len(groups), twig.arrangement)
            else:
                parent, given, finer, keys = made[twig.parent]
                into = finer.into(groups, [keys.index(k) for k in twig.slot.keys])
                found = _roll_again(parent, given, into, len(groups), twig.arrangement)
            made.append((found, twig.arrangement, groups, twig.slot.keys))
            yield twig, found

    def _cut_rows(self, c: int) -> _CutRows:
        if c not in self._cut:
            table = self._table
            if len(self._cuts.cuts) > 1:
                table = table.filter(pc.equal(table.column(SET), c))
            self._cut[c] = _CutRows(self._cuts, c, table, self._keys)
        return self._cut[c]


class _CutRows:
    """The rows of one cut as arrays, by pane."""

    def __init__(self, cuts: Cuts, c: int, table: pa.Table, keys: KeySpace) -> None:
        self._cut, names = cuts.cuts[c], all_keys(cuts)
        self._signature = signature(self._cut)
        order = np.argsort(np.asarray(table.column(PANE).to_numpy(), np.int64), kind="stable")
        table = table.take(pa.array(order)).combine_chunks()
        self._panes: Ints = np.asarray(table.column(PANE).to_numpy(), np.int64)
        self._words: list[Ints] = [np.asarray(table.column(w).to_numpy(), np.int64) for w in word_names(cuts, c)]
        columns = [table.column(key_name(names.index(k))).combine_chunks() for k in self._cut.keys]
        self._groups = keys.of_cut(self._cut.keys).encode(columns, table.num_rows)
        self._ints = _matrix(cuts, table, "int_ops", _int_identity, np.int64)
        self._floats = _matrix(cuts, table, "float_ops", _float_identity, np.float64)
        self._places = _places(cuts)

    def select(self, where: Expr | None, into: Ints32 | None, width: int, arrangement: Arrangement) -> SlotRows:
        """Rows the predicate selects, by pane and group; `into` maps the cut's groups to coarser ones."""
        word, bit = self._panes, -1
        if where is not None:
            place, bit = self._signature.place(where)
            word = self._words[place]
        groups = self._groups if into is None else into[self._groups]
        rows = SlotRows(self._panes, groups, self._ints, self._floats)
        return _roll(rows, word, bit, width, self._columns(arrangement), arrangement.layout)

    def _columns(self, arrangement: Arrangement) -> tuple[Ints, Ints]:
        """Where each column of the arrangement is; a missing measure is read from the empty column at the end."""
        ints: list[int] = []
        floats: list[int] = []
        for measure in arrangement.ints:
            own = COLUMNS[measure.kind]
            place = self._places.get(measure)
            for i, op in enumerate(own.int_ops):
                ints.append(self._empty(op, self._ints, _INT_EMPTY) if place is None else place[0] + i)
            for i, op in enumerate(own.float_ops):
                floats.append(self._empty(op, self._floats, _FLOAT_EMPTY) if place is None else place[1] + i)
        return np.array(ints, np.int64), np.array(floats, np.int64)

    def _empty(self, op: int, matrix: NDArray[np.generic], empties: Sequence[int]) -> int:
        """Matrices end with one empty line for each kind of identity."""
        kind = ADD if op >= MOMENTS_N else op
        return len(matrix) - len(empties) + empties.index(kind)


_INT_EMPTY = _FLOAT_EMPTY = (ADD, MIN, MAX)


def _roll_again(rows: SlotRows, given: Arrangement, into: Ints32, width: int, wanted: Arrangement) -> SlotRows:
    """A coarser slot out of a finer one with the same predicate."""
    ints, floats = places_in(wanted, given)
    rows = SlotRows(rows.pane_us, into[rows.groups], rows.ints, rows.floats)
    return _roll(rows, rows.pane_us, -1, width, (ints, floats), wanted.layout)


def places_in(wanted: Arrangement, given: Arrangement) -> tuple[Ints, Ints]:
    """Where the wanted columns are among the given ones."""
    ints = [i for m in wanted.ints for i in range(given.ints[m].start, given.ints[m].stop)]
    floats = [i for m in wanted.floats for i in range(given.floats[m].start, given.floats[m].stop)]
    return np.array(ints, np.int64), np.array(floats, np.int64)


def _roll(
    rows: SlotRows, word: Ints, bit: int, width: int, columns: tuple[Ints, Ints], layout: Layout
) -> SlotRows:
    """Join rows by pane and group."""
    size = rows.pane_us.size
    panes, groups = np.empty(size, np.int64), np.empty(size, np.int32)
    taken, target = np.empty(size, np.int64), np.empty(size, np.int64)
    stamp, place = np.empty(width, np.int64), np.empty(width, np.int64)
    selected, written = roll_up(rows.pane_us, rows.groups, word, bit, stamp, place, taken, target, panes, groups)
    out, out_floats = np.empty((columns[0].size, written), np.int64), np.empty((columns[1].size, written))
    join_columns(
        taken[:selected], target[:selected], columns[0], np.array(layout.int_ops, np.int64), rows.ints, out,
        columns[1], np.array(layout.float_ops, np.int64), rows.floats, out_floats,
    )  # fmt: skip
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


def _matrix(cuts: Cuts, table: pa.Table, which: str, identity: Callable[[int], float], kind: type) -> NDArray[Any]:
    """All columns of one number type; nulls are identities, and empty columns follow."""
    columns: list[NDArray[Any]] = []
    for m, measure in enumerate(cuts.measures):
        own = COLUMNS[measure.kind]
        first = len(own.int_ops) if which == "float_ops" else 0
        for i, op in enumerate(getattr(own, which)):
            values = table.column(column_names(m, measure)[first + i]).fill_null(identity(op))
            columns.append(np.asarray(values.to_numpy(), kind))
    columns += [np.full(table.num_rows, identity(op), kind) for op in _INT_EMPTY]
    return np.stack(columns)


def _int_identity(op: int) -> int:
    return 0 if op == ADD else int(_INT.max if op == MIN else _INT.min)


def _float_identity(op: int) -> float:
    """Empty as the ring knows it: NaN is above every number, so it is the identity of MIN."""
    if op == ADD or op >= MOMENTS_N:
        return 0.0
    return float("nan") if op == MIN else float("-inf")
