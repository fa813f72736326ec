"""Attributes of rows as numbers: what a join looks rows up by.

- *Numbers* of a band are subtracted, so they are what they are: whole numbers, dates and times
  int64, doubles float64.
- *Keys* of a range are only compared: int64 in Spark's order (`sql/bands.py`).
- *Marks* of an equality are only told apart.  Of one whole number, date, time or double the mark is
  its key; of anything else, or of several, it is a hash: rows of one mark may still differ, and who
  needs to know compares them.

A row takes part if none of its attributes is null.  NaN and infinities, and whole numbers whose
difference might not fit, are *odd*: such a row takes part in nothing, and is a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.evaluation.finish import Finish, compile_finish
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Numbers
from headrace.relations.comparing import WIDEST, is_exact
from headrace.sql.bands import MOST
from headrace.sql.tree import Column, Expr, walk

Mask = NDArray[np.bool_]
_NAN_KEY = np.int64(np.array([np.inf]).view(np.int64)[0] + 1)
_SEED, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


class Attribute(NamedTuple):
    """Values, which of them count, and which rows are odd."""

    values: Numbers
    valid: Mask
    odd: Mask


def evaluate(expr: Expr, rows: pa.Table) -> pa.Array:
    """The expression, of each row; its columns are columns of `rows`."""
    inputs: dict[Expr, pa.Array] = {
        node: _column(rows, node.name) for node in walk(expr) if isinstance(node, Column)
    }
    return compiled(expr).run(inputs, rows.num_rows)


@lru_cache(maxsize=10_000)
def compiled(expr: Expr) -> Finish:
    return compile_finish(expr)


def _column(rows: pa.Table, name: str) -> pa.Array:
    found = rows.column(name)
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


# -- numbers and keys ------------------------------------------------------------------------------


def numbers(expr: Expr, rows: pa.Table) -> Attribute:
    """Values of an expression that differences are taken of; `odd` are those that cannot be
    placed."""
    values, valid = _plain(evaluate(expr, rows))
    if values.dtype == np.float64:
        fits = np.isfinite(values)
    else:
        fits = (values <= WIDEST) & (values >= -WIDEST)
    return Attribute(values, valid & fits, valid & ~fits)


def keys(expr: Expr | None, rows: pa.Table) -> Attribute:
    """As they are compared; without an expression all rows are alike."""
    if expr is None:
        size = rows.num_rows
        return Attribute(
            np.zeros(size, np.int64), np.ones(size, np.bool_), np.zeros(size, np.bool_)
        )
    values, valid = _plain(evaluate(expr, rows))
    if values.dtype != np.float64:
        return Attribute(values, valid, np.zeros(values.size, np.bool_))
    fits = np.isfinite(values)
    return Attribute(double_keys(values), valid & fits, valid & ~fits)


def double_keys(values: NDArray[np.float64]) -> Ints:
    """What `sql.bands.double_key` makes of each of these doubles."""
    with np.errstate(invalid="ignore"):  # there are NaNs that make any arithmetic warn
        bits: Ints = (values + 0.0).view(np.int64)  # both zeros are one
    found = np.where(bits >= 0, bits, -(bits & MOST))
    return np.where(np.isnan(values), _NAN_KEY, found)


def _plain(array: pa.Array) -> tuple[Numbers, Mask]:
    """int64 or float64, and where it is not null."""
    valid = _is_valid(array)
    if pa.types.is_floating(array.type):
        return array.cast(pa.float64()).fill_null(0.0).to_numpy(), valid
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    return array.cast(pa.int64()).fill_null(0).to_numpy(), valid


# -- marks -----------------------------------------------------------------------------------------


def marks(meets: Sequence[Expr], rows: pa.Table) -> Attribute:
    """One number for all values that must be equal; without any, all rows are alike."""
    none = np.zeros(rows.num_rows, np.bool_)
    if not meets:
        return Attribute(np.zeros(rows.num_rows, np.int64), ~none, none)
    if is_exact(meets):
        values, valid = _plain(evaluate(meets[0], rows))
        return Attribute(double_keys(values) if values.dtype == np.float64 else values, valid, none)
    arrays = [evaluate(expr, rows) for expr in meets]
    valid = ~none
    for array in arrays:
        valid &= _is_valid(array)
    return Attribute(_hashes(arrays, rows.num_rows), valid, none)


def key_marks(columns: Sequence[str], rows: pa.Table) -> Ints:
    """Of a table's key, which may hold nulls."""
    arrays = [_column(rows, name) for name in columns]
    return _hashes([a for array in arrays for a in (array.is_valid(), array)], rows.num_rows)


def same(a: pa.Array, b: pa.Array) -> Mask:
    """Where two arrays of one type have the same value, or are both null; NaN is a value, and both
    zeros one."""
    valid, other = _is_valid(a), _is_valid(b)
    if pa.types.is_floating(a.type):
        equal = double_keys(_plain(a)[0]) == double_keys(_plain(b)[0])
    else:
        equal = pc.equal(a, b).fill_null(False).to_numpy(zero_copy_only=False)
    found: Mask = (valid & other & equal) | ~(valid | other)
    return found


def _is_valid(array: pa.Array) -> Mask:
    found: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _hashes(arrays: Sequence[pa.Array], size: int) -> Ints:
    hashes = np.full(size, _SEED)
    for array in arrays:
        _mix(hashes, array)
    return hashes.view(np.int64)


def _mix(hashes: NDArray[np.uint64], array: pa.Array) -> None:
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        wide = array.cast(pa.large_binary()).fill_null(b"")
        _, offsets, data = wide.buffers()
        at = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        _mix_bytes(
            hashes, at, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        )
        return
    values, _ = _plain(array)
    values = double_keys(values) if values.dtype == np.float64 else values
    _mix_bytes(
        hashes, np.arange(0, 8 * values.size + 8, 8), np.ascontiguousarray(values).view(np.uint8)
    )


@numba.njit(cache=True, nogil=True)
def _mix_bytes(hashes: NDArray[np.uint64], at: Ints, data: NDArray[np.uint8]) -> None:
    """FNV-1a of each value's bytes and their number, stirred so that all bits count."""
    for i in range(hashes.size):
        found = hashes[i]
        for k in range(at[i], at[i + 1]):
            found = (found ^ np.uint64(data[k])) * _PRIME
        found = (found ^ np.uint64(at[i + 1] - at[i])) * _PRIME
        hashes[i] = found ^ (found >> np.uint64(32))
