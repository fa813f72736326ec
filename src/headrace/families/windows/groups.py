"""Group keys as small numbers: a ring's columns are groups, and keys are only looked at when new.

Rows of a round come grouped by the keys of a cut; `Groups` numbers the distinct keys, once.  A slot that groups
by fewer of them has `Groups` of its own, and a map from the finer numbers to the coarser ones.
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
    """Distinct keys ↔ dense numbers, in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[KeyRow, int] = {}
        self._rows: list[KeyRow] = []
        self._maps: dict[int, tuple[Groups, Ints32]] = {}
        self._arrays: list[pa.Array] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, key: KeyRow) -> int:
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._rows)
            self._rows.append(key)
            self._arrays = None
        return found

    def encode(self, columns: Sequence[pa.Array], rows: int) -> Ints32:
        """The number of each row's key."""
        if not columns:
            self.number(())
            return np.zeros(rows, np.int32)
        inverse, uniques = distinct(columns)
        numbers = np.fromiter((self.number(key) for key in uniques), np.int32, len(uniques))
        return numbers[inverse]

    def into(self, coarser: Groups, positions: Sequence[int]) -> Ints32:
        """For each number so far, the one in `coarser`, whose keys are ours at these positions."""
        _, known = self._maps.get(id(coarser), (coarser, np.zeros(0, np.int32)))
        if len(known) < len(self._rows):
            new = [coarser.number(tuple([row[p] for p in positions])) for row in self._rows[len(known) :]]
            known = np.concatenate((known, np.array(new, np.int32)))
            self._maps[id(coarser)] = (coarser, known)  # holding it keeps its id its own
        return known

    def forget(self, coarser: Groups) -> None:
        self._maps.pop(id(coarser), None)

    def arrays(self, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """One array for each key, its values by number."""
        if self._arrays is None:
            self._arrays = [_from_raw([row[j] for row in self._rows], t) for j, t in enumerate(types)]
        return self._arrays


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
