"""From the rows of one Spark aggregate to the rings: roll up by slot, number the groups, add.

Pure numpy.  Costs rows × slots, where rows are what Spark's aggregate left: panes × groups × signatures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.families.windows.aggregate import PANE, SET, all_keys, column_names, key_name, word_name
from headrace.families.windows.groups import Groups, KeyCodes
from headrace.families.windows.measures import COLUMNS, ROWS, Measure
from headrace.families.windows.plan import SIGNATURE_BITS, Cuts, Slot
from headrace.families.windows.ring_kernels import ADD, MIN, MOMENTS_N
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
    """The rows of one slot: where each falls, and which rows of the table they are."""

    pane_us: Ints
    groups: Ints32
    index: NDArray[np.intp]


class PaneRows:
    """One pane table, ready to be handed to rings."""

    def __init__(self, cuts: Cuts, table: pa.Table, keys: KeySpace) -> None:
        self._cuts = cuts
        self._table = table
        self._keys = keys
        self._int_columns: dict[str, Ints] = {}
        self._float_columns: dict[str, Floats] = {}
        self._codes: dict[int, Ints32] = {}
        self._measures = {m: i for i, m in enumerate(cuts.measures)}
        for i, key in enumerate(all_keys(cuts)):
            keys.types[key] = table.schema.field(key_name(i)).type

    @cached_property
    def _cut_rows(self) -> list[NDArray[np.intp]]:
        which = self._table.column(SET).to_numpy()
        return [np.flatnonzero(which == c) for c in range(len(self._cuts.cuts))]

    @cached_property
    def _pane_us(self) -> Ints:
        return np.asarray(self._table.column(PANE).to_numpy(), np.int64)

    def slot(self, slot: Slot) -> SlotRows | None:
        """The rows of the slot; None when this table's cuts cannot tell them."""
        c = self._cuts.find(slot)
        if c is None:
            return None
        cut = self._cuts.cuts[c]
        rows = self._cut_rows[c]
        codes = self._codes_of(c, rows)
        if slot.where is not None:
            bit = cut.predicates.index(slot.where)
            word = self._ints(word_name(c, bit // SIGNATURE_BITS), ADD)[rows]
            inside = np.flatnonzero((word >> (bit % SIGNATURE_BITS)) & 1)
            rows, codes = rows[inside], codes[inside]
        positions = [cut.keys.index(k) for k in slot.keys]
        groups = self._keys.codes[cut.keys].groups_of(self._keys.groups_of(slot), positions)
        return SlotRows(self._pane_us[rows], groups[codes], rows)

    def measures(self, measures: Iterable[Measure], index: NDArray[np.intp]) -> tuple[Ints, Floats]:
        """Ring columns of these measures at these rows; a measure the table lacks is left empty."""
        ints: list[Ints] = []
        floats: list[Floats] = []
        for measure in measures:
            found = self._measures.get(measure)
            names = None if found is None else column_names(found, measure)
            own = COLUMNS[measure.kind]
            for i, op in enumerate(own.int_ops):
                whole = None if names is None else self._ints(names[i], op)[index]
                ints.append(np.full(len(index), _int_identity(op), np.int64) if whole is None else whole)
            for i, op in enumerate(own.float_ops, len(own.int_ops)):
                part = None if names is None else self._floats(names[i], op)[index]
                floats.append(np.full(len(index), _float_identity(op)) if part is None else part)
        return (
            np.stack(ints) if ints else np.empty((0, len(index)), np.int64),
            np.stack(floats) if floats else np.empty((0, len(index)), np.float64),
        )

    def rows_of(self, rows: NDArray[np.intp]) -> int:
        """How many stream rows these table rows stand for."""
        return int(self._ints(column_names(self._measures[ROWS], ROWS)[0], ADD)[rows].sum())

    def _codes_of(self, c: int, rows: NDArray[np.intp]) -> Ints32:
        if c not in self._codes:
            cut = self._cuts.cuts[c]
            keys = all_keys(self._cuts)
            part = self._table if len(self._cuts.cuts) == 1 else self._table.take(pa.array(rows))
            columns = [part.column(key_name(keys.index(k))).combine_chunks() for k in cut.keys]
            codes = self._keys.codes.setdefault(cut.keys, KeyCodes())
            self._codes[c] = codes.encode(columns, len(rows))
        return self._codes[c]

    def _ints(self, name: str, op: int) -> Ints:
        found = self._int_columns.get(name)
        if found is None:
            filled = self._table.column(name).fill_null(_int_identity(op))
            found = self._int_columns[name] = np.asarray(filled.to_numpy(), np.int64)
        return found

    def _floats(self, name: str, op: int) -> Floats:
        found = self._float_columns.get(name)
        if found is None:
            filled = self._table.column(name).fill_null(_float_identity(op))
            found = self._float_columns[name] = np.asarray(filled.to_numpy(), np.float64)
        return found


def _int_identity(op: int) -> int:
    return 0 if op == ADD else int(_INT.max if op == MIN else _INT.min)


def _float_identity(op: int) -> float:
    """Empty as the ring knows it: NaN is above every number, so it is the identity of MIN."""
    if op == ADD or op >= MOMENTS_N:
        return 0.0
    return float("nan") if op == MIN else float("-inf")
