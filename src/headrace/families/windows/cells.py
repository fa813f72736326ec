"""Cells: where thousands of predicates compare one attribute with different constants, a row is
placed among all the constants by one binary search, in Spark, and grouped by where it falls.

The constants of all bands (`sql/bands.py`) are *edges*; between two edges lies a cell, and every
band is a run of cells.  Spark gives the number of edges at or below a value, its *rank* among them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.quoting import quote_text
from headrace.sql.bands import LEAST, double_of
from headrace.sql.emit import emit
from headrace.sql.tree import Call, Expr
from headrace.values import BIGINT

CELL = "cell"
Edges = tuple[tuple[Expr, tuple[int, ...]], ...]
"""Edges of each cell key, in order."""


def cell(attribute: Expr) -> Call:
    return Call(CELL, (attribute,), BIGINT)


def attribute_sql(key: Expr) -> str:
    """The attribute as what its edges are compared with."""
    assert isinstance(key, Call)
    (attribute,) = key.args
    text, kind = emit(attribute), attribute.type
    if kind.name == "double":
        return text
    if kind.name == "timestamp":
        return f"unix_micros({text})"
    return f"CAST({f'unix_date({text})' if kind.name == 'date' else text} AS BIGINT)"


def rank_sql(key: Expr, edges: tuple[int, ...], value: str) -> str:
    """How many edges are at or below `value`, by halving; past the end `get` is null, and a null is
    not below."""
    steps = ", ".join(str(1 << bit) for bit in reversed(range(len(edges).bit_length())))
    name = variable(key, edges)
    found = (
        f"aggregate(array({steps}), 0, (a, b) -> IF({value} >= get({name}, a + b - 1), a + b, a))"
    )
    return f"IF({value} IS NULL, NULL, {found})"


def ranks_of(key: Expr, edges: tuple[int, ...], values: pa.ChunkedArray) -> pa.Array:
    """The same for values that Spark has sent; null for a null."""
    ordered = _as_values(key, edges)
    valid = values.combine_chunks().is_valid()
    found = np.searchsorted(
        ordered, values.fill_null(0).to_numpy().astype(ordered.dtype, copy=False), side="right"
    )
    return pa.array(found.astype(np.int32), mask=~valid.to_numpy(zero_copy_only=False))


@lru_cache(maxsize=64)
def _as_values(key: Expr, edges: tuple[int, ...]) -> NDArray[Any]:
    """Edges as values of the attribute: NaN is above all for numpy too."""
    assert isinstance(key, Call)
    is_double = key.args[0].type.name == "double"
    return np.array([double_of(edge) for edge in edges]) if is_double else np.array(edges, np.int64)


def variable(key: Expr, edges: tuple[int, ...]) -> str:
    """The session variable that holds the edges: their text would be parsed anew each round."""
    return f"session.headrace_edges_{crc32(emit(key).encode()):08x}_{crc32(np.array(edges, np.int64).tobytes()):08x}"


def declare_sql(key: Expr, edges: tuple[int, ...]) -> str:
    assert isinstance(key, Call)
    if key.args[0].type.name == "double":
        kind, texts = "DOUBLE", [_double(edge) for edge in edges]
    else:
        kind, texts = (
            "BIGINT",
            [f"{edge}L" if edge > LEAST else f"({edge + 1}L - 1L)" for edge in edges],
        )
    return f"DECLARE OR REPLACE VARIABLE {variable(key, edges)} ARRAY<{kind}> DEFAULT array({', '.join(texts)})"


def drop_sql(key: Expr, edges: tuple[int, ...]) -> str:
    return f"DROP TEMPORARY VARIABLE IF EXISTS {variable(key, edges)}"


def _double(edge: int) -> str:
    value = double_of(edge)
    return f"{value!r}D" if np.isfinite(value) else f"CAST({quote_text(str(value))} AS DOUBLE)"
