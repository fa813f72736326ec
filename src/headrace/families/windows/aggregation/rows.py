"""A round sent as rows (`aggregation/sending.py` says when): every row becomes the group it would
be alone.

Spark sends each thing once that the columns of the aggregate are made of; the columns are made
here, the same as those of groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.families.windows.aggregation.aggregate import (
    NEWEST,
    PANE,
    all_keys,
    cell_name,
    grouping,
    key_name,
    words,
)
from headrace.families.windows.aggregation.columns import KIND, LOW, ROWS_PART, counted, part_names
from headrace.families.windows.cells import attribute_sql, ranks_of
from headrace.families.windows.cuts import Cuts
from headrace.quoting import quote_name
from headrace.sql.emit import emit
from headrace.values import Relation

Make = Callable[[pa.Table], pa.ChunkedArray | pa.Array]


def rows_sql(cuts: Cuts, relation: Relation, kind: str, view: str) -> str:
    """The rows of `view` for one cut; `kind` is the SQL that tells whether a row counts."""
    return f"{_sent(cuts, relation)[0]} FROM (SELECT *, {kind} AS {KIND} FROM {view})"


def place_rows(cuts: Cuts, relation: Relation, table: pa.Table) -> pa.Table:
    """What was sent, as what the aggregate would have left of each row alone."""
    return pa.table({name: make(table) for name, make in _sent(cuts, relation)[1].items()})


@lru_cache(maxsize=16)
def _sent(cuts: Cuts, relation: Relation) -> tuple[str, dict[str, Make]]:
    """The SELECT, and how each column is made of its columns."""
    texts: dict[str, str] = {}

    def send(text: str) -> str:
        return texts.setdefault(text, f"x{len(texts)}")

    def as_is(text: str) -> Make:
        name = send(text)
        return lambda table: table.column(name)

    assert relation.time is not None
    (cut,) = cuts.cuts
    own, keys = grouping(cut), all_keys(cuts)
    made = {
        KIND: as_is(KIND),
        PANE: _pane(send(f"unix_micros({quote_name(relation.time)})"), cuts.pane_us),
    }
    made |= {key_name(keys.index(key)): as_is(counted(key, emit(key))) for key in own.keys}
    made |= {
        cell_name(cuts, key): _rank(send(attribute_sql(key)), cuts, i)
        for i, (key, _) in enumerate(cuts.edges)
    }
    made |= {name: as_is(text) for name, text in words(cuts, 0).items()}
    made[NEWEST] = as_is(f"unix_micros({quote_name(relation.time)})")
    parts = part_names(cuts.measures)
    values = {arg for function, arg in parts if function != "count"}
    for (function, arg), name in parts.items():
        if (function, arg) == ROWS_PART:
            made[name] = lambda table: np.ones(table.num_rows, np.int64)
        elif function == "count" and arg not in values:
            made[name] = _part("told", send(f"({arg}) IS NOT NULL"))
        else:
            made[name] = _part(function, send(arg))
    shown = ", ".join(f"{text} AS {name}" for text, name in texts.items())
    return f"SELECT {shown}", made


def _pane(time: str, pane_us: int) -> Make:
    def make(table: pa.Table) -> pa.Array:
        column = table.column(time)
        values = column.fill_null(0).to_numpy()
        return pa.array(
            values - values % pane_us,
            mask=column.is_null().to_numpy() if column.null_count else None,
        )

    return make


def _rank(name: str, cuts: Cuts, cell: int) -> Make:
    key, edges = cuts.edges[cell]
    return lambda table: ranks_of(key, edges, table.column(name))


def _part(function: str, name: str) -> Make:
    """The part of a group of one row."""

    def make(table: pa.Table) -> pa.ChunkedArray:
        column = table.column(name)
        match function:
            case "told":
                return column.cast(pa.int64())
            case "count":
                return column.is_valid().cast(pa.int64())
            case "sum_high":
                return pc.shift_right(column, 32)
            case "sum_low":
                return pc.bit_wise_and(column, LOW)
            case "var_pop":
                return pc.subtract(column, column)  # 0.0, or NaN of what has no variance
            case _:
                return column

    return make
