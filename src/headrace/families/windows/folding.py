"""Rounds of the pane log folded into one: wider panes, rows of the same cut, keys and signature joined.

What is folded has the columns of any round, so whoever reads the log need not know.  Parts that add up are added and
extremes joined; a variance is joined as moments, with the count and the sum it stands beside, and written as a variance
again.  Where a part had no value the folded one holds the identity of its operation instead of null, as rings do.

A part that is not among PARTS cannot be merged here: rounds that have one are left as they are (`can_fold`).  To fold
such a part, give it columns in `_Lines`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.families.windows.aggregate import PANE
from headrace.families.windows.codes import Pairs, codes_for
from headrace.families.windows.columns import Part, float_identity, int_identity, part_names, parts_of
from headrace.families.windows.fold_kernels import join_columns, roll_up
from headrace.families.windows.groups import to_raw
from headrace.families.windows.plan import Cuts
from headrace.families.windows.ring_kernels import ADD, MAX, MIN, MOMENTS_M2, MOMENTS_MEAN, MOMENTS_N

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PARTS = {"count": ADD, "sum": ADD, "sum_high": ADD, "sum_low": ADD, "min": MIN, "max": MAX, "var_pop": MOMENTS_N}


def can_fold(cuts: Cuts) -> bool:
    """Whether all that rounds of these cuts hold can be merged."""
    return all(function in PARTS for function, _ in part_names(cuts.measures))


def same_groupings(left: Cuts, right: Cuts) -> bool:
    """Whether rows of both have the same columns, whatever the width of their panes."""
    return left is right or replace(left, pane_us=right.pane_us) == right


def fold(cuts: Cuts, pane_us: int, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables, which are of these cuts but for their width, in panes of `pane_us`; sorted by pane."""
    table = pa.concat_tables([t.replace_schema_metadata(None) for t in tables])
    names = part_names(cuts.measures)
    marks = [name for name in table.column_names if name != PANE and name not in names.values()]
    panes: Ints = table.column(PANE).to_numpy()
    panes = panes - panes % pane_us
    order = np.argsort(panes, kind="stable")
    numbers = _number([table.column(name) for name in marks], table.num_rows)
    taken, target, panes = _meet(panes[order], numbers[order])
    rows = order[taken]
    lines = _Lines(cuts, table)
    made = lines.join(rows, target, panes.size)
    firsts = np.empty(panes.size, np.int64)
    firsts[target[::-1]] = rows[::-1]  # of several rows, the first is written last
    kept = table.select(marks).take(pa.array(firsts))
    columns = {PANE: pa.array(panes), **{n: kept.column(n) for n in marks}, **made}
    return pa.table({name: columns[name] for name in table.column_names})


def _number(columns: Sequence[pa.ChunkedArray], rows: int) -> Ints:
    """A number for each row: rows that agree in all columns have the same."""
    numbers: Ints | None = None
    for column in columns:
        raw = to_raw(column.combine_chunks())
        codes = codes_for(raw.type).encode(raw)
        numbers = codes if numbers is None else Pairs().number(numbers, codes)[0]
    return np.zeros(rows, np.int64) if numbers is None else numbers


def _meet(panes: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows, which folded row each falls in, and the panes of the folded rows."""
    size, width = panes.size, int(numbers.max()) + 1 if numbers.size else 0
    rows, target = np.empty(size, np.int64), np.empty(size, np.int64)
    out_panes, out_groups = np.empty(size, np.int64), np.empty(size, np.int32)
    stamp, place = np.empty(width, np.int64), np.empty(width, np.int64)
    _, written = roll_up(
        panes, numbers.astype(np.int32), panes, -1, stamp, place, rows, target, out_panes, out_groups
    )
    return rows, target, out_panes[:written].copy()


class _Lines:
    """The parts as lines of two matrices, each with its operation."""

    def __init__(self, cuts: Cuts, table: pa.Table) -> None:
        self._places: dict[str, tuple[bool, int]] = {}
        self._ints: list[Ints] = []
        self._floats: list[Floats] = []
        self._int_ops: list[int] = []
        self._float_ops: list[int] = []
        names = part_names(cuts.measures)
        moments = {parts_of(m)[2]: parts_of(m) for m in cuts.measures if m.kind == "moments"}
        for part, name in names.items():
            if part in moments:
                self._add_moments(name, [table.column(names[p]) for p in moments[part]])
            else:
                self._add(part, name, table.column(name))

    def _add(self, part: Part, name: str, column: pa.ChunkedArray) -> None:
        op, is_float = PARTS[part[0]], pa.types.is_floating(column.type)
        identity = float_identity(op) if is_float else int_identity(op)
        values = (column.fill_null(identity) if column.null_count else column).to_numpy()
        self._places[name] = (is_float, len(self._floats if is_float else self._ints))
        (self._floats if is_float else self._ints).append(values)
        (self._float_ops if is_float else self._int_ops).append(op)

    def _add_moments(self, name: str, parts: Sequence[pa.ChunkedArray]) -> None:
        count = parts[0].to_numpy().astype(np.float64)
        total, variance = (p.fill_null(0).to_numpy() for p in parts[1:])
        self._places[name] = (True, len(self._floats))
        self._floats += [count, total / np.maximum(count, 1.0), variance * count]
        self._float_ops += [MOMENTS_N, MOMENTS_MEAN, MOMENTS_M2]

    def join(self, rows: Ints, target: Ints, size: int) -> dict[str, pa.Array]:
        """The folded parts by name."""
        ints, floats = np.empty((len(self._ints), size), np.int64), np.empty((len(self._floats), size))
        whole = np.stack(self._ints) if self._ints else np.empty((0, rows.size), np.int64)
        real = np.stack(self._floats) if self._floats else np.empty((0, rows.size))
        join_columns(
            rows, target, np.arange(len(ints)), np.array(self._int_ops, np.int64), whole, ints,
            np.arange(len(floats)), np.array(self._float_ops, np.int64), real, floats,
        )  # fmt: skip
        return {name: pa.array(self._line(ints, floats, *place)) for name, place in self._places.items()}

    def _line(self, ints: Ints, floats: Floats, is_float: bool, at: int) -> NDArray[np.generic]:
        line: NDArray[np.generic] = floats[at] if is_float else ints[at]
        if is_float and self._float_ops[at] == MOMENTS_N:
            line = floats[at + 2] / np.maximum(floats[at], 1.0)
        return line
