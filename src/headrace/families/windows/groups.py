"""Group keys as small numbers: a ring's columns are groups, and keys are only looked at when new.

Rows of a round come grouped by the keys of a cut.  `KeyCodes` numbers the distinct keys of each cut,
once; a slot that groups by fewer of them (`Groups`) maps those numbers to its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints32 = NDArray[np.int32]
KeyRow = tuple[object, ...]


class Groups:
    """The groups of one slot: key values ↔ dense ids, in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[KeyRow, int] = {}
        self._arrays: list[pa.Array] | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, key: KeyRow) -> int:
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._ids)
            self._arrays = None
        return found

    def arrays(self, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """One array for each key, its values by group id."""
        if self._arrays is None:
            rows = list(self._ids)
            self._arrays = [_from_raw([r[j] for r in rows], t) for j, t in enumerate(types)]
        return self._arrays


class KeyCodes:
    """The distinct keys of one cut, numbered, and for each slot on it the group each of them falls in."""

    def __init__(self) -> None:
        self._ids: dict[KeyRow, int] = {}
        self._rows: list[KeyRow] = []
        self._maps: dict[int, Ints32] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def encode(self, columns: Sequence[pa.Array], rows: int) -> Ints32:
        """The number of each row's key."""
        if not columns:
            self._number(())
            return np.zeros(rows, np.int32)
        inverse, uniques = distinct(columns)
        numbers = np.fromiter((self._number(key) for key in uniques), np.int32, len(uniques))
        return numbers[inverse]

    def groups_of(self, groups: Groups, positions: Sequence[int]) -> Ints32:
        """For each number so far, the slot's group; `positions` are the slot's keys among the cut's."""
        known = self._maps.get(id(groups))
        done = 0 if known is None else len(known)
        if known is None or done < len(self._rows):
            new = [groups.id_of(tuple(row[p] for p in positions)) for row in self._rows[done:]]
            known = np.concatenate((np.zeros(0, np.int32) if known is None else known, np.array(new, np.int32)))
            self._maps[id(groups)] = known
        return known

    def forget(self, groups: Groups) -> None:
        self._maps.pop(id(groups), None)

    def _number(self, key: KeyRow) -> int:
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._rows)
            self._rows.append(key)
        return found


def distinct(columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], list[KeyRow]]:
    """Row → index of its key, and the distinct keys as raw values."""
    encoded = pc.dictionary_encode(_to_raw(columns[0]), null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys: list[KeyRow] = [(value,) for value in encoded.dictionary.to_pylist()]
    if len(columns) == 1:
        return codes, keys
    rest, rest_keys = distinct(columns[1:])
    width = len(rest_keys)
    unique, inverse = np.unique(codes * width + rest, return_inverse=True)
    return inverse, [(*keys[int(u) // width], *rest_keys[int(u) % width]) for u in unique]


def _to_raw(column: pa.Array) -> pa.Array:
    """Values that compare as Spark groups them: floats by their bits (NaN is one group), times as numbers."""
    kind = column.type
    if pa.types.is_float64(kind):
        return column.view(pa.int64())
    if pa.types.is_float32(kind):
        return column.view(pa.int32())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    return column


def _from_raw(values: list[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_float64(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_float32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)
