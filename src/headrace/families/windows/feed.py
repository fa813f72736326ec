"""From the rows of one Spark aggregate to the rings: roll up by slot, number the groups, add.

Pure.  Costs rows × slots, where rows are what Spark's aggregate left: panes × groups × signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.families.windows.aggregate import PANE, SET, all_keys, column_names, key_name, word_names
from headrace.families.windows.fold_kernels import join_columns, roll_up
from headrace.families.windows.groups import Groups, KeyCodes
from headrace.families.windows.measures import COLUMNS, Arrangement, Measure
from headrace.families.windows.plan import SIGNATURE_BITS, Cuts, Slot
from headrace.families.windows.ring_kernels import ADD, MAX, MIN, MOMENTS_N
from headrace.sql.tree import Expr

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]

_INT = np.iinfo(np.int64)


@dataclass(slots=True)
class KeySpace:
    """Numbers of keys, kept from round to round: by cut (its keys) and by slot."""

    codes: dict[tuple[Expr, ...], KeyCodes]
    groups: dict[Slot, Groups]
    types: dict[Expr, pa.DataType]

    @staticmethod
    def empty() -> KeySpace:
        return KeySpace({}, {}, {})

    def groups_of(self, slot: Slot) -> Groups:
        return self.groups.setdefault(slot, Groups())

    def forget(self, slot: Slot) -> None:
        groups = self.groups.pop(slot, None)
        if groups is not None:
            for codes in self.codes.values():
                codes.forget(groups)


@dataclass(frozen=True, slots=True)
class SlotRows:
    """One row per pane and group of a slot, by pane; columns as in its arrangement."""

    pane_us: Ints
    groups: Ints32
    ints: Ints
    floats: Floats


class PaneRows:
    """One pane table, ready to be rolled up for any slot it can tell."""

    def __init__(self, cuts: Cuts, table: pa.Table, keys: KeySpace) -> None:
        self._cuts = cuts
        self._table = table
        self._keys = keys
        self._cut: dict[int, _CutRows] = {}
        for i, key in enumerate(all_keys(cuts)):
            keys.types[key] = table.schema.field(key_name(i)).type

    def slot(self, slot: Slot, arrangement: Arrangement) -> SlotRows | None:
        """The rows of the slot; None when this table's cuts cannot tell them.

        A measure the table lacks is left empty: the query that asked for it does not count these rows."""
        c = self._cuts.find(slot)
        if c is None:
            return None
        cut = self._cuts.cuts[c]
        rows = self._cut_rows(c)
        positions = [cut.keys.index(k) for k in slot.keys]
        known = self._keys.groups_of(slot)
        groups = self._keys.codes[cut.keys].groups_of(known, positions)
        bit = -1 if slot.where is None else cut.predicates.index(slot.where)
        word = rows.words[bit // SIGNATURE_BITS] if bit >= 0 else rows.panes
        return rows.roll_up(groups, len(known), word, bit % SIGNATURE_BITS if bit >= 0 else -1, arrangement)

    def _cut_rows(self, c: int) -> _CutRows:
        if c not in self._cut:
            table = self._table
            if len(self._cuts.cuts) > 1:
                table = table.filter(pc.equal(table.column(SET), c))
            self._cut[c] = _CutRows(self._cuts, c, table.combine_chunks(), self._keys)
        return self._cut[c]


class _CutRows:
    """The rows of one cut as arrays, by pane."""

    def __init__(self, cuts: Cuts, c: int, table: pa.Table, keys: KeySpace) -> None:
        cut, names = cuts.cuts[c], all_keys(cuts)
        order = np.argsort(np.asarray(table.column(PANE).to_numpy(), np.int64), kind="stable")
        table = table.take(pa.array(order)).combine_chunks()
        self.panes: Ints = np.asarray(table.column(PANE).to_numpy(), np.int64)
        self.words: list[Ints] = [np.asarray(table.column(w).to_numpy(), np.int64) for w in word_names(cuts, c)]
        columns = [table.column(key_name(names.index(k))).combine_chunks() for k in cut.keys]
        self._codes = keys.codes.setdefault(cut.keys, KeyCodes()).encode(columns, table.num_rows)
        self._ints = _matrix(cuts, table, "int_ops", _int_identity, np.int64)
        self._floats = _matrix(cuts, table, "float_ops", _float_identity, np.float64)
        self._places = _places(cuts)
        size = table.num_rows
        self._scratch = (np.empty(size, np.int64), np.empty(size, np.int64))

    def roll_up(self, groups: Ints32, width: int, word: Ints, bit: int, arrangement: Arrangement) -> SlotRows:
        size = self.panes.size
        panes, found = np.empty(size, np.int64), np.empty(size, np.int32)
        stamp, place = np.empty(width, np.int64), np.empty(width, np.int64)
        rows, target = self._scratch
        selected, written = roll_up(
            self.panes, groups, self._codes, word, bit, stamp, place, rows, target, panes, found
        )
        ints, floats = self._columns(arrangement)
        out, out_floats = np.empty((ints.size, written), np.int64), np.empty((floats.size, written))
        layout = arrangement.layout
        join_columns(
            rows[:selected], target[:selected], ints, np.array(layout.int_ops, np.int64), self._ints, out,
            floats, np.array(layout.float_ops, np.int64), self._floats, out_floats,
        )  # fmt: skip
        return SlotRows(panes[:written].copy(), found[:written].copy(), out, out_floats)

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
