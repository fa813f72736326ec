"""What else a query asks of rows that were found for it, and the columns of its answers.

An answer has the columns of the SELECT.  Where a table is joined, `change` says whether an answer comes (+1) or is
taken back (-1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.errors import ServingError
from headrace.evaluation.arrow import arrow_type
from headrace.evaluation.vectors import FinishError
from headrace.families.joins.arrays import Ints, Numbers
from headrace.families.joins.attributes import Mask, compiled, double_keys, keys, numbers, same
from headrace.families.joins.conditions import Conditions
from headrace.families.joins.rowfiles import KIND
from headrace.sql.bands import LEAST, MOST, Band
from headrace.sql.query import Query
from headrace.sql.tree import Column, Expr, walk

CHANGE = "change"
Rows = Sequence[pa.Table]
"""Of each side, as many: a pair is a row of each."""


def answers_of(query: Query, residue: Conditions, rows: Rows, sign: Ints | None) -> pa.Table:
    """The answers among these rows; `sign` of each, where answers may be taken back."""
    passed = np.flatnonzero(_passes(query, residue, rows))
    if passed.size < rows[0].num_rows:
        rows, sign = [side.take(passed) for side in rows], None if sign is None else sign[passed]
    arrays = {o.name: _run(query, o.expr, rows) for o in query.outputs}
    if sign is not None:
        arrays[_change_name(query)] = pa.array(sign, pa.int8())
    return pa.table(arrays)


def empty_answer(query: Query, has_table: bool = False) -> pa.Table:
    """The columns of an answer, without rows."""
    types = {o.name: arrow_type(o.expr.type) for o in query.outputs}
    if has_table:
        types[_change_name(query)] = pa.int8()
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})


def columns_read(query: Query, side: int) -> list[str]:
    """The columns of a side that a query reads; without any, one that tells how many rows there are."""
    exprs = [o.expr for o in query.outputs] + ([] if query.where is None else [query.where])
    return sorted({n.name for e in exprs for n in _leaves(e) if n.side == side}) or [KIND]


def _change_name(query: Query) -> str:
    return CHANGE if CHANGE not in {o.name for o in query.outputs} else f"_{CHANGE}"


def _passes(query: Query, residue: Conditions, rows: Rows) -> Mask:
    passed = np.ones(rows[0].num_rows, np.bool_)
    for left, right in residue.equalities:
        a, b = _run(query, left, rows), _run(query, right, rows)
        passed &= same(a, b) & a.is_valid().to_numpy(zero_copy_only=False)
    for (left, right), band in residue.differences:
        passed &= _is_apart(left, right, band, rows)
    for side, ranges in enumerate(residue.ranges):
        for attribute, band in ranges:
            own = keys(attribute, rows[side])
            passed &= (own.valid | own.odd) & within(band, own.values)
    for part in residue.rest:  # asked only where all before it hold
        at = np.flatnonzero(passed)
        found = _run(query, part, [side.take(at) for side in rows])
        passed[at] = found.fill_null(False).to_numpy(zero_copy_only=False)
    return passed


def _is_apart(left: Expr, right: Expr, band: Band, rows: Rows) -> Mask:
    a, b = numbers(left, rows[0]), numbers(right, rows[1])
    found: Mask = (a.valid | a.odd) & (b.valid | b.odd) & within(band, _apart(a.values, b.values))
    return found


def _apart(a: Numbers, b: Numbers) -> Ints:
    """Keys of differences, NaN and infinities among them; whole numbers beyond 64 bits are the last there are."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = b - a
    if apart.dtype == np.float64:
        return double_keys(apart)
    is_over = ((b ^ a) & (b ^ apart)) < 0
    return np.where(is_over, np.where(b < 0, LEAST, MOST), apart)


def within(band: Band, found: Ints) -> Mask:
    inside = np.zeros(found.size, np.bool_)
    for first, last in band.intervals:
        inside |= (found >= first) & (found <= last)
    return inside


def _run(query: Query, expr: Expr, rows: Rows) -> pa.Array:
    inputs: dict[Expr, pa.Array] = {n: rows[n.side].column(n.name).combine_chunks() for n in _leaves(expr)}
    try:
        return compiled(expr).run(inputs, rows[0].num_rows)
    except FinishError as error:
        raise ServingError(f"a row makes {query.name!r} fail", value=error.what, code=error.code,
                           hint="drop it, mend it and add it: its rows are safe") from error


def _leaves(expr: Expr) -> list[Column]:
    return [node for node in walk(expr) if isinstance(node, Column)]
