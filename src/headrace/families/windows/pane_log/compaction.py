"""Rounds of the pane log folded into one: wider panes, rows of the same cut, keys and signature
joined.

What is folded has the columns of any round, so whoever reads the log need not know.  Parts that add
up are added and extremes joined; a variance is joined as moments, with the count and the sum it
stands beside, and written as a variance again.  Where a part had no value the folded one holds the
identity of its operation instead of null, as rings do.

Sketches cannot be merged here: rounds that have some are left as they are until nobody needs those,
and folded without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.families.windows.aggregation.aggregate import (
    PANE,
    cell_name,
    grouping,
    key_name,
    word_names,
)
from headrace.families.windows.aggregation.columns import (
    Part,
    float_identity,
    int_identity,
    part_names,
    parts_of,
)
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.rings.arrays import (
    ADD,
    MAX,
    MIN,
    MOMENTS_M2,
    MOMENTS_MEAN,
    MOMENTS_N,
)
from headrace.families.windows.rollup.codes import Pairs, codes_for
from headrace.families.windows.rollup.groups import to_raw
from headrace.families.windows.rollup.kernels import join_columns, roll_up
from headrace.sql.bands import LEAST
from headrace.sql.tree import Expr

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PARTS = {
    "count": ADD,
    "sum": ADD,
    "sum_high": ADD,
    "sum_low": ADD,
    "min": MIN,
    "max": MAX,
    "var_pop": MOMENTS_N,
}


@lru_cache(maxsize=100)
def without_sketches(cuts: Cuts) -> Cuts:
    """What of these cuts can be merged."""
    measures = tuple(m for m in cuts.measures if not m.is_sketch)
    return cuts if len(measures) == len(cuts.measures) else replace(cuts, measures=measures)


def same_groupings(left: Cuts, right: Cuts) -> bool:
    """Whether rows of both have the same columns, whatever the width of their panes."""
    return left is right or replace(left, pane_us=right.pane_us) == right


def common_groupings(left: Cuts, right: Cuts) -> Cuts | None:
    """What rows of both can tell: predicates and measures that both have, and all that follows from
    the keys.

    None if they are grouped by different keys.  The width is that of `left`."""
    if same_groupings(left, right):
        return left
    if len(left.cuts) != 1 or len(right.cuts) != 1:
        return None
    mine, other = grouping(left.cuts[0]), grouping(right.cuts[0])
    if mine.keys != other.keys or mine.cells != other.cells:
        return None
    if left.cuts[0].has_facts != right.cuts[0].has_facts:
        return None
    facts = dict.fromkeys((*mine.facts, *other.facts))
    named = {*left.cuts[0].keys, *right.cuts[0].keys}
    asked = {*left.cuts[0].predicates, *right.cuts[0].predicates}
    keys = (*mine.keys, *(f for f in facts if f in named))
    predicates = (
        *(p for p in mine.predicates if p in other.predicates),
        *(f for f in facts if f in asked),
    )
    edges = tuple(
        (key, tuple(e for e in own if e in set(right.edges_of(key)))) for key, own in left.edges
    )
    measures = tuple(m for m in left.measures if m in right.measures)
    cut = Cut(keys, predicates, mine.cells, left.cuts[0].has_facts)
    return Cuts(left.pane_us, (cut,), measures, edges)


def project(table: pa.Table, given: Cuts, wanted: Cuts) -> pa.Table:
    """Rows of the given cuts as those of what they have in common with others."""
    if same_groupings(given, wanted):
        return table.replace_schema_metadata(None)
    names, kept = part_names(given.measures), part_names(wanted.measures)
    parts = {name: table.column(names[part]) for part, name in kept.items()}
    if (given.cuts, given.edges) == (wanted.cuts, wanted.edges):
        marks = {
            name: table.column(name) for name in table.column_names if name not in names.values()
        }
        return pa.table({**marks, **parts})
    mine, words = (
        grouping(given.cuts[0]),
        [table.column(w).to_numpy() for w in word_names(given, 0)],
    )
    columns = {PANE: table.column(PANE)}
    columns |= {key_name(i): table.column(key_name(i)) for i in range(len(mine.keys))}
    columns |= {cell_name(wanted, key): _ranks(key, table, given, wanted) for key in mine.cells}
    own = grouping(wanted.cuts[0])
    made = [np.zeros(table.num_rows, np.int64) for _ in range(own.words)]
    for predicate in own.predicates:
        (word, bit), (place, to) = mine.place(predicate), own.place(predicate)
        made[place] |= ((words[word] >> bit) & 1) << to
    columns |= {
        name: pa.array(word) for name, word in zip(word_names(wanted, 0), made, strict=True)
    }
    return pa.table({**columns, **parts})


def _ranks(key: Expr, table: pa.Table, given: Cuts, wanted: Cuts) -> pa.ChunkedArray:
    """Of a cell, the rank among the edges that are left."""
    ranks = np.searchsorted(wanted.edges_of(key), [LEAST, *given.edges_of(key)], side="right")
    return pc.take(pa.array(ranks.astype(np.int32)), table.column(cell_name(given, key)))


def fold(cuts: Cuts, pane_us: int, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables, which are of these cuts but for their width, in panes of `pane_us`;
    sorted by pane."""
    # Spark says which columns are never null, a fold does not: only names and types count
    table = pa.concat_tables([pa.Table.from_arrays(t.columns, t.column_names) for t in tables])
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
        panes,
        numbers.astype(np.int32),
        panes,
        -1,
        stamp,
        place,
        rows,
        target,
        out_panes,
        out_groups,
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
        ints, floats = (
            np.empty((len(self._ints), size), np.int64),
            np.empty((len(self._floats), size)),
        )
        whole = np.stack(self._ints) if self._ints else np.empty((0, rows.size), np.int64)
        real = np.stack(self._floats) if self._floats else np.empty((0, rows.size))
        join_columns(
            rows,
            target,
            np.arange(len(ints)),
            np.array(self._int_ops, np.int64),
            whole,
            ints,
            np.arange(len(floats)),
            np.array(self._float_ops, np.int64),
            real,
            floats,
        )
        return {
            name: pa.array(self._line(ints, floats, *place)) for name, place in self._places.items()
        }

    def _line(self, ints: Ints, floats: Floats, is_float: bool, at: int) -> NDArray[np.generic]:
        line: NDArray[np.generic] = floats[at] if is_float else ints[at]
        if is_float and self._float_ops[at] == MOMENTS_N:
            line = floats[at + 2] / np.maximum(floats[at], 1.0)
        return line
