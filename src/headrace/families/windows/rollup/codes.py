"""Values of one key ↔ codes, dense, given as values come; and pairs of codes ↔ numbers.

Text and whole numbers are kept in arrays and found by compiled tables (`rollup/group_kernels.py`):
a round may bring hundreds of thousands of keys.  Other types are few, and go through a dict.  Null
is a value like others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.families.windows.rollup.group_kernels import (
    NOTHING,
    Bytes,
    Flags,
    Ints,
    Ints32,
    move,
    number_text,
    number_whole,
)

ROOM_MIN = 1 << 10
T = TypeVar("T", bound=np.generic)


class Codes(Protocol):
    def __len__(self) -> int: ...

    def encode(self, column: pa.Array) -> Ints:
        """The code of each value; new ones are added."""

    def values(self, start: int = 0) -> pa.Array:
        """The value of each code from `start` on."""

    @property
    def nbytes(self) -> int:
        """Memory taken."""


def codes_for(kind: pa.DataType) -> Codes:
    if pa.types.is_string(kind):
        return _Text()
    return _Whole(kind) if pa.types.is_integer(kind) else _Other(kind)


class Table:
    """An open hash table, and how many numbers it has given; see `rollup/group_kernels.py`."""

    def __init__(self) -> None:
        self.keys: Ints = np.empty(ROOM_MIN, np.int64)
        self.numbers: Ints32 = np.full(ROOM_MIN, NOTHING, np.int32)
        self.size = 0

    def number(self, keys: Ints) -> tuple[Ints, Ints]:
        """The number of each key, and for each new one the first row that has it."""
        self.make_room(keys.size)
        found, firsts = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
        before = self.size
        self.size = number_whole(keys, self.keys, self.numbers, before, found, firsts)
        return found, firsts[: self.size - before]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.numbers.nbytes

    def make_room(self, more: int) -> None:
        """For so many more keys, if all are new."""
        room = self.keys.size
        while room < 2 * (self.size + more):
            room *= 2
        if room > self.keys.size:
            keys, numbers = np.empty(room, np.int64), np.full(room, NOTHING, np.int32)
            move(self.keys, self.numbers, keys, numbers)
            self.keys, self.numbers = keys, numbers


class Pairs:
    """Distinct pairs of numbers below 2³¹."""

    def __init__(self) -> None:
        self._table = Table()

    def __len__(self) -> int:
        return self._table.size

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    def number(self, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """The number of each pair, and for each new one the first row that has it."""
        return self._table.number((left << 32) | right)


class _Nullable(ABC):
    """Codes with one for null, which is given it after the values it first comes with."""

    def __init__(self) -> None:
        self._null = NOTHING
        self._table = Table()

    def __len__(self) -> int:
        return self._table.size

    def encode(self, column: pa.Array) -> Ints:
        if not column.null_count:
            return self._encode(column)
        found = np.empty(len(column), np.int64)
        there: Flags = column.is_valid().to_numpy(zero_copy_only=False)
        found[there] = self._encode(column.drop_null())
        if self._null == NOTHING:
            self._null = self._table.size
            self._add_null()
            self._table.size += 1
        found[~there] = self._null
        return found

    @abstractmethod
    def _encode(self, column: pa.Array) -> Ints:
        """The codes of values that are not null."""

    @abstractmethod
    def _add_null(self) -> None:
        """Something stands in its place among the values."""

    def _mask(self, start: int) -> Flags:
        mask: Flags = np.arange(start, len(self)) == self._null
        return mask


class _Whole(_Nullable):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__()
        self._kind = kind
        self._values: Ints = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._values.nbytes

    def _encode(self, column: pa.Array) -> Ints:
        keys: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
        before = len(self)
        found, firsts = self._table.number(keys)
        self._values = _longer(self._values, len(self))
        self._values[before : len(self)] = keys[firsts]
        return found

    def _add_null(self) -> None:
        self._values = _longer(self._values, len(self) + 1)
        self._values[len(self)] = 0

    def values(self, start: int = 0) -> pa.Array:
        return pa.array(self._values[start : len(self)], mask=self._mask(start)).cast(self._kind)


class _Text(_Nullable):
    def __init__(self) -> None:
        super().__init__()
        self._starts: Ints = np.zeros(1, np.int64)
        self._text: Bytes = np.empty(0, np.uint8)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._starts.nbytes + self._text.nbytes

    def _encode(self, column: pa.Array) -> Ints:
        starts, text = _buffers(column)
        self._make_room(starts.size, int(starts[-1] - starts[0]))
        table = self._table
        table.make_room(starts.size)
        found = np.empty(starts.size - 1, np.int64)
        table.size = number_text(
            starts, text, table.keys, table.numbers, table.size, found, self._starts, self._text
        )
        return found

    def _make_room(self, more: int, text: int) -> None:
        """For the worst case, that all are new."""
        self._starts = _longer(self._starts, len(self) + more + 1)
        self._text = _longer(self._text, int(self._starts[len(self)]) + text)

    def _add_null(self) -> None:
        self._make_room(1, 0)
        self._starts[len(self) + 1] = self._starts[len(self)]

    def values(self, start: int = 0) -> pa.Array:
        first = self._starts[start]
        starts = self._starts[start : len(self) + 1] - first
        text = self._text[first : first + starts[-1]].copy()
        plain = pa.LargeStringArray.from_buffers(
            len(self) - start, pa.py_buffer(starts), pa.py_buffer(text)
        )
        return pc.if_else(
            pa.array(self._mask(start)), pa.scalar(None, pa.large_string()), plain
        ).cast(pa.string())


class _Other:
    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._codes: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, column: pa.Array) -> Ints:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = [
            self._codes.setdefault(value, len(self._codes))
            for value in encoded.dictionary.to_pylist()
        ]
        places: Ints32 = encoded.indices.to_numpy(zero_copy_only=False)
        return np.array(codes, np.int64)[places]

    @property
    def nbytes(self) -> int:
        return 200 * len(self._codes)  # about what Python takes for an entry and a small value

    def values(self, start: int = 0) -> pa.Array:
        return pa.array(list(self._codes)[start:], self._kind)


def _buffers(column: pa.Array) -> tuple[Ints, Bytes]:
    """Where each text starts, and all text."""
    _, starts, text = column.buffers()
    span = slice(column.offset, column.offset + len(column) + 1)
    places = (
        np.frombuffer(starts, np.int32)[span].astype(np.int64)
        if len(column)
        else np.zeros(1, np.int64)
    )
    return places, np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)


def _longer(array: NDArray[T], size: int) -> NDArray[T]:
    """With room for so many, doubling."""
    if size <= array.size:
        return array
    longer = np.empty(max(size, 2 * array.size), array.dtype)
    longer[: array.size] = array
    return longer
