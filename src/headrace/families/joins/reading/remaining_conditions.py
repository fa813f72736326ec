"""What else a query asks of rows that were found for it, and the columns of its answers.

What `evaluation/` does not evaluate, Spark is asked for (`runtime/asking.py`): from the
first such part of the condition on for all of it, and once for all such columns.

An answer has the columns of the SELECT.  Where a table is joined, a last one, `change`, says
whether an answer comes (+1) or is taken back (-1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np
import pyarrow as pa

from headrace.errors import ServingError
from headrace.evaluation.arrow import arrow_type
from headrace.evaluation.finish import why_unsupported
from headrace.evaluation.vectors import FinishError
from headrace.families.joins.conditions import Conditions
from headrace.relations.arrays import Ints, Numbers
from headrace.relations.attributes import Mask, compiled, double_keys, keys, numbers, same
from headrace.relations.row_files import KIND
from headrace.runtime.answers import change_name
from headrace.sql.bands import LEAST, MOST, Band, conjunction
from headrace.sql.query import Query
from headrace.sql.tree import Column, Expr, walk

Rows = Sequence[pa.Table]
"""Of each side, as many: a pair is a row of each."""
Asked = Callable[[Sequence[Expr], Rows], list[pa.Array]]
"""Spark's values of expressions, for each pair."""


def never_asked(exprs: Sequence[Expr], rows: Rows) -> list[pa.Array]:
    raise AssertionError(f"nobody is there to evaluate {exprs}")


def answers_of(
    query: Query, residue: Conditions, rows: Rows, sign: Ints | None, ask: Asked
) -> pa.Table:
    """The answers among these rows; `sign` of each, where answers may be taken back."""
    passed = np.flatnonzero(_passes(query, residue, rows, ask))
    if passed.size < rows[0].num_rows:
        rows, sign = [side.take(passed) for side in rows], None if sign is None else sign[passed]
    values = _values(query, [o.expr for o in query.outputs], rows, ask)
    arrays = dict(zip((o.name for o in query.outputs), values, strict=True))
    if sign is not None:
        arrays[change_name(query)] = pa.array(sign, pa.int8())
    return pa.table(arrays)


def empty_answer(query: Query, has_table: bool = False) -> pa.Table:
    """The columns of an answer, without rows."""
    types = {o.name: arrow_type(o.expr.type) for o in query.outputs}
    if has_table:
        types[change_name(query)] = pa.int8()
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})


def columns_read(query: Query, side: int) -> list[str]:
    """The columns of a side that a query reads; without any, one that tells how many rows there
    are."""
    exprs = [o.expr for o in query.outputs] + ([] if query.where is None else [query.where])
    return sorted({n.name for e in exprs for n in _leaves(e) if n.side == side}) or [KIND]


def asked_of_spark(query: Query, residue: Conditions) -> list[str]:
    """What is not evaluated here, and why."""
    exprs = (*residue.rest, *(o.expr for o in query.outputs))
    return list(
        dict.fromkeys(reason for expr in exprs if (reason := why_unsupported(expr)) is not None)
    )


def _passes(query: Query, residue: Conditions, rows: Rows, ask: Asked) -> Mask:
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
    here = list(takewhile(lambda part: why_unsupported(part) is None, residue.rest))
    foreign = residue.rest[len(here) :]
    # asked only where all before it hold
    for part in (
        *here,
        *([conjunction(foreign)] if foreign else []),
    ):
        at = np.flatnonzero(passed)
        (found,) = _values(query, [part], [side.take(at) for side in rows], ask)
        passed[at] = found.fill_null(False).to_numpy(zero_copy_only=False)
    return passed


def _values(query: Query, exprs: Sequence[Expr], rows: Rows, ask: Asked) -> list[pa.Array]:
    foreign = [expr for expr in exprs if why_unsupported(expr) is not None]
    found = dict(zip(foreign, ask(foreign, rows), strict=True)) if foreign else {}
    return [found[expr] if expr in found else _run(query, expr, rows) for expr in exprs]


def _is_apart(left: Expr, right: Expr, band: Band, rows: Rows) -> Mask:
    a, b = numbers(left, rows[0]), numbers(right, rows[1])
    found: Mask = (a.valid | a.odd) & (b.valid | b.odd) & within(band, _apart(a.values, b.values))
    return found


def _apart(a: Numbers, b: Numbers) -> Ints:
    """Keys of differences, NaN and infinities among them; whole numbers beyond 64 bits are the last
    there are."""
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
    inputs: dict[Expr, pa.Array] = {
        n: rows[n.side].column(n.name).combine_chunks() for n in _leaves(expr)
    }
    try:
        return compiled(expr).run(inputs, rows[0].num_rows)
    except FinishError as error:
        raise ServingError(
            f"a row makes {query.name!r} fail",
            value=error.what,
            code=error.code,
            hint="drop it, mend it and add it: its rows are safe",
        ) from error


def _leaves(expr: Expr) -> list[Column]:
    return [node for node in walk(expr) if isinstance(node, Column)]
