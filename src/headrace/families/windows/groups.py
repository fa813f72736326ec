"""Group keys as small numbers: a ring's columns are groups, and keys are only looked at when new.

Rows of a round come grouped by the keys of a cut; `Groups` numbers the distinct keys, once.  A slot that groups
by fewer of them has `Groups` of its own, and a map from the finer numbers to the coarser ones.  What follows from the
keys (`aggregate.py` calls it a fact) is asked of Spark once for each new key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.sql.tree import Expr

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
KeyRow = tuple[object, ...]
Evaluate = Callable[[Sequence[Expr], Sequence[pa.Array], Sequence[Expr]], list[pa.Array]]
"""Keys, their values, facts → the values of the facts."""
FACTS_MIN = 64


class Groups:
    """Distinct keys ↔ dense numbers, in order of appearance."""

    def __init__(self, keys: tuple[Expr, ...]) -> None:
        self.keys = keys
        self._ids: dict[KeyRow, int] = {}
        self._rows: list[KeyRow] = []
        self._maps: dict[int, tuple[Groups, Ints32]] = {}
        self._arrays: list[pa.Array] | None = None
        self._facts: dict[Expr, list[object]] = {}
        self._flags: dict[Expr, Ints] = {}

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

    def into(self, coarser: Groups) -> Ints32:
        """For each number so far, the one in `coarser`, whose keys are among ours and our facts."""
        _, known = self._maps.get(id(coarser), (coarser, np.zeros(0, np.int32)))
        if len(known) < len(self._rows):
            columns = [self._values(key, len(known)) for key in coarser.keys]
            rows = zip(*columns, strict=True) if columns else [()] * (len(self._rows) - len(known))
            new = np.fromiter((coarser.number(row) for row in rows), np.int32, len(self._rows) - len(known))
            known = np.concatenate((known, new))
            self._maps[id(coarser)] = (coarser, known)  # holding it keeps its id its own
        return known

    def forget(self, coarser: Groups) -> None:
        self._maps.pop(id(coarser), None)

    def arrays(self, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """One array for each key, its values by number."""
        if self._arrays is None:
            self._arrays = self._arrays_from(0, types)
        return self._arrays

    def learn(self, facts: Sequence[Expr], types: dict[Expr, pa.DataType], evaluate: Evaluate) -> None:
        """Make sure these facts are known of every group."""
        missing = [f for f in facts if len(self._facts.get(f, ())) < len(self._rows)]
        if not missing:
            return
        if len(self._facts) > 2 * len(facts) + FACTS_MIN:  # most were for queries that have gone
            self._facts = {f: known for f, known in self._facts.items() if f in facts}
            self._flags.clear()
        start = min(len(self._facts.get(f, ())) for f in missing)
        values = self._arrays_from(start, [types[k] for k in self.keys])
        for fact, found in zip(missing, evaluate(self.keys, values, missing), strict=True):
            types[fact] = found.type
            self._facts[fact] = self._facts.get(fact, [])[:start] + _to_raw(found).to_pylist()

    def flags(self, fact: Expr) -> Ints:
        """By number, 1 where the fact is true, 0 where it is false or null."""
        known = self._flags.get(fact)
        if known is None or len(known) < len(self._rows):
            known = self._flags[fact] = np.array([value is True for value in self._facts.get(fact, ())], np.int64)
        return known

    def _values(self, key: Expr, start: int) -> list[object]:
        if key in self.keys:
            place = self.keys.index(key)
            return [row[place] for row in self._rows[start:]]
        return self._facts.get(key, [])[start:]

    def _arrays_from(self, start: int, types: Sequence[pa.DataType]) -> list[pa.Array]:
        return [_from_raw([row[j] for row in self._rows[start:]], t) for j, t in enumerate(types)]


def distinct(columns: Sequence[pa.Array]) -> tuple[Ints, list[KeyRow]]:
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
