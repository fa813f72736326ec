"""Group keys as small numbers: a ring's columns are groups, and values of keys are only looked at
when new.

Rows of a round come grouped by the keys of a cut; `Groups` numbers the distinct keys, once.  A slot
that groups by fewer of them has `Groups` of its own, and a map from the finer numbers to the
coarser ones.  What follows from the keys (`aggregation/aggregate.py` calls it a fact) is asked of
Spark once for each new key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.families.windows.rollup.codes import Codes, Pairs, codes_for
from headrace.families.windows.rollup.group_kernels import Ints, Ints32
from headrace.sql.tree import Expr

Evaluate = Callable[[Sequence[Expr], Sequence[pa.Array], Sequence[Expr]], list[pa.Array]]
"""Keys, their values, facts → the values of the facts."""
FACTS_MIN = 64


class Groups:
    """Distinct keys ↔ dense numbers, given as keys come.

    Each key column has codes of its own (`rollup/codes.py`); a number is a pair of the number of
    all columns before and a code."""

    def __init__(self, keys: tuple[Expr, ...]) -> None:
        self.keys = keys
        self._size = 0
        self._codes: dict[int, Codes] = {}
        self._pairs = [Pairs() for _ in keys[1:]]
        self._coded: list[Ints] = [np.empty(0, np.int64) for _ in keys]
        self._maps: dict[int, tuple[Groups, Ints32]] = {}
        self._values: dict[int, pa.Array] = {}
        self._arrays: list[pa.Array] = []
        self._facts: dict[Expr, pa.Array] = {}
        self._flags: dict[Expr, Ints] = {}

    def __getstate__(self) -> dict[str, Any]:
        """An id is another in another process."""
        return {**self.__dict__, "_maps": list(self._maps.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._maps = {id(coarser): (coarser, known) for coarser, known in state["_maps"]}

    def __len__(self) -> int:
        return self._size

    def encode(self, columns: Sequence[pa.Array], rows: int) -> Ints32:
        """The number of each row's key."""
        return self._encode([to_raw(column) for column in columns], rows)

    def _encode(self, raw: Sequence[pa.Array], rows: int) -> Ints32:
        if not raw:
            self._size = 1
            return np.zeros(rows, np.int32)
        codes = [self._codes.setdefault(i, codes_for(c.type)).encode(c) for i, c in enumerate(raw)]
        numbers = codes[0]
        if not self._pairs:  # with one key, its codes are the numbers
            self._add([np.arange(self._size, len(self._codes[0]))])
        for pairs, more in zip(self._pairs, codes[1:], strict=True):
            numbers, firsts = pairs.number(numbers, more)
            if pairs is self._pairs[-1]:
                self._add([column[firsts] for column in codes])
        return numbers.astype(np.int32)

    def _add(self, codes: Sequence[Ints]) -> None:
        """The codes of new keys."""
        if codes[0].size:
            self._size += codes[0].size
            self._coded = [np.concatenate(pair) for pair in zip(self._coded, codes, strict=True)]

    def into(self, coarser: Groups) -> Ints32:
        """For each number so far, the one in `coarser`, whose keys are among ours and our facts."""
        _, known = self._maps.get(id(coarser), (coarser, np.zeros(0, np.int32)))
        if len(known) < self._size:
            start = len(known)
            columns = [self._values_from(key, start) for key in coarser.keys]
            known = np.concatenate((known, coarser._encode(columns, self._size - start)))
            self._maps[id(coarser)] = (coarser, known)  # holding it keeps its id its own
        return known

    def _values_from(self, key: Expr, start: int) -> pa.Array:
        """The values of a key of ours, or of a fact, from group `start` on."""
        if key not in self.keys:
            return self._facts[key].slice(start)
        place = self.keys.index(key)
        codes, known = self._codes[place], self._values.get(place)
        if known is None:
            known = codes.values()
        elif len(known) < len(codes):
            known = pa.concat_arrays([known, codes.values(len(known))])
        self._values[place] = known
        return known.take(pa.array(self._coded[place][start:]))

    def forget(self, coarser: Groups) -> None:
        self._maps.pop(id(coarser), None)

    def arrays(self, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """One array for each key, its values by number."""
        known = len(self._arrays[0]) if self._arrays else 0
        if self.keys and known < self._size:
            new = self._arrays_from(known, types)
            both = zip(self._arrays, new, strict=True)
            self._arrays = [pa.concat_arrays(pair) for pair in both] if self._arrays else new
        return self._arrays

    @property
    def nbytes(self) -> int:
        """Memory taken by the keys and their numbers."""
        held = [*self._coded, *(known for _, known in self._maps.values()), *self._flags.values()]
        arrays = [*self._arrays, *self._values.values(), *self._facts.values()]
        tables = [*self._codes.values(), *self._pairs]
        return sum(x.nbytes for x in (*held, *arrays, *tables))

    def learn(
        self, facts: Sequence[Expr], types: dict[Expr, pa.DataType], evaluate: Evaluate
    ) -> None:
        """Make sure these facts are known of every group."""
        missing = [f for f in facts if self._learned(f) < self._size]
        if not missing:
            return
        if len(self._facts) > 2 * len(facts) + FACTS_MIN:  # most were for queries that have gone
            self._facts = {f: known for f, known in self._facts.items() if f in facts}
            self._flags.clear()
        start = min(self._learned(f) for f in missing)
        values = self._arrays_from(start, [types[k] for k in self.keys])
        for fact, found in zip(missing, evaluate(self.keys, values, missing), strict=True):
            types[fact] = found.type
            new = to_raw(found)
            self._facts[fact] = (
                pa.concat_arrays([self._facts[fact].slice(0, start), new]) if start else new
            )

    def _learned(self, fact: Expr) -> int:
        return len(self._facts[fact]) if fact in self._facts else 0

    def flags(self, fact: Expr) -> Ints:
        """By number, 1 where the fact is true, 0 where it is false or null."""
        known = self._flags.get(fact, np.empty(0, np.int64))
        if len(known) < self._learned(fact):
            new = (
                self._facts[fact].slice(len(known)).fill_null(False).to_numpy(zero_copy_only=False)
            )
            known = self._flags[fact] = np.concatenate((known, new.astype(np.int64)))
        return known

    def _arrays_from(self, start: int, types: Sequence[pa.DataType]) -> list[pa.Array]:
        return [
            _from_raw(self._values_from(key, start), kind)
            for key, kind in zip(self.keys, types, strict=True)
        ]


def to_raw(column: pa.Array) -> pa.Array:
    """Values that compare as Spark groups them: floats by the bits of their normal form, times as
    numbers.

    Every key goes through here, whoever made it: Spark's GROUP BY leaves normal forms, its
    expressions and rows that are sent as they are do not."""
    kind = column.type
    if pa.types.is_float64(kind):
        return _normal(column, np.float64).view(pa.int64())
    if pa.types.is_float32(kind):
        return _normal(column, np.float32).view(pa.int32())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    return column


def _normal(column: pa.Array, kind: type[np.floating[Any]]) -> pa.Array:
    """With one zero and one NaN."""
    values = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):  # a NaN may be one that signals
        values = np.where(np.isnan(values), kind("nan"), values + kind(0))
    return pa.array(
        values, mask=column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    )


def _from_raw(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.view(kind) if pa.types.is_floating(kind) else values.cast(kind)
