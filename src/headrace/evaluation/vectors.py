"""Values of one expression over many answers: a numpy array and where it is null, to and from
Arrow.

Integers and times are int64 whatever their type (operators check the range of the type), booleans
bool, floats float32, doubles float64, strings and binaries objects of `bytes`: their order is
Spark's binary collation. What stands where a value is null is arbitrary but valid: 0, False or b"".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.errors import HeadraceError
from headrace.evaluation.arrow import ARROW
from headrace.values import Type

Mask = NDArray[np.bool_]
Values = NDArray[Any]

_NUMPY = {
    "boolean": np.bool_,
    "float": np.float32,
    "double": np.float64,
    "string": np.object_,
    "binary": np.object_,
}
_STORED = {"tinyint": np.int8, "smallint": np.int16, "int": np.int32, "date": np.int32}
BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


class FinishError(HeadraceError):
    """An answer Spark would refuse to compute; `code` is the class of Spark's error."""

    code = "FINISH"


class Vector(NamedTuple):
    values: Values
    nulls: Mask | None

    @property
    def valid(self) -> Mask:
        return np.ones(self.values.size, np.bool_) if self.nulls is None else ~self.nulls

    def take(self, rows: NDArray[np.int64]) -> Vector:
        return Vector(self.values[rows], None if self.nulls is None else self.nulls[rows])


def blank(kind: Type, size: int) -> Values:
    """Values to stand where the vector is null: zeros, or empty texts."""
    dtype = _NUMPY.get(kind.name, np.int64)
    return np.full(size, b"", np.object_) if dtype is np.object_ else np.zeros(size, dtype)


def all_null(kind: Type, size: int) -> Vector:
    return Vector(blank(kind, size), np.ones(size, np.bool_))


def merge_nulls(*nulls: Mask | None) -> Mask | None:
    found: Mask | None = None
    for mask in nulls:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def from_arrow(array: pa.Array, kind: Type) -> Vector:
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if _NUMPY.get(kind.name) is np.object_:
        texts = [b"" if t is None else t for t in array.cast(pa.binary()).to_pylist()]
        values = np.empty(len(texts), np.object_)
        values[:] = texts
        return Vector(values, nulls)
    if kind.is_time:
        array = array.view(pa.int32() if kind.name == "date" else pa.int64())
    if nulls is not None:
        array = array.fill_null(False if kind.name == "boolean" else 0)
    values = array.to_numpy(zero_copy_only=False)
    return Vector(values.astype(_NUMPY.get(kind.name, np.int64), copy=False), nulls)


def to_arrow(vector: Vector, kind: Type) -> pa.Array:
    values = vector.values
    if values.dtype == np.object_:
        return pa.array(values, pa.binary(), mask=vector.nulls).cast(ARROW[kind.name])
    if kind.name in _STORED:
        values = values.astype(_STORED[kind.name])
    array = pa.array(values, mask=vector.nulls)
    return array.view(ARROW[kind.name]) if kind.is_time else array
