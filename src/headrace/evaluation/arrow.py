"""The Arrow type of each type of Spark's."""

from __future__ import annotations

import pyarrow as pa

from headrace.values import Type

ARROW_TIME = pa.timestamp("us", tz="UTC")
ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": ARROW_TIME,
    "timestamp_ntz": pa.timestamp("us"),
}
_ALL = {
    **ARROW,
    "void": pa.null(),
    "window": pa.struct([("start", ARROW_TIME), ("end", ARROW_TIME)]),
}


def arrow_type(kind: Type) -> pa.DataType:
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.name.startswith("array<"):
        return pa.list_(arrow_type(_atomic(kind.name[6:-1])))
    return _ALL.get(kind.name, pa.string())


def _atomic(text: str) -> Type:
    """The type that is written so: an element of an array."""
    name, _, numbers = text.partition("(")
    return Type(name, *map(int, numbers.rstrip(")").split(","))) if numbers else Type(name)
