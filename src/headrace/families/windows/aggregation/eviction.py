"""Who is to blame when the shared aggregate leaves too many groups: the queries with what tells
most of them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.families.windows.aggregation.aggregate import (
    PANE,
    all_keys,
    cell_name,
    key_name,
    word_names,
)
from headrace.families.windows.aggregation.columns import asked_for, parts_of
from headrace.families.windows.cells import cell
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.plan import Share
from headrace.families.windows.sketches.kinds import Limits
from headrace.sql.bands import split
from headrace.sql.tree import Expr, columns_of


@dataclass(frozen=True, slots=True)
class Factor:
    """Something groups differ in: by how many values, and for whose sake."""

    count: int
    what: str
    is_asked_by: Callable[[Share], bool]


def evicted_by_groups(
    cuts: Cuts, table: pa.Table, shares: Mapping[int, Share], limit: int
) -> dict[int, str]:
    """Query id → reason, for those to be taken out of a round with more than `limit` groups."""
    worst = max(_factors(cuts, table, shares), key=lambda factor: factor.count)
    reason = (
        f"CUT_ROWS: a round has {worst.count:,} {worst.what}, and the shared aggregate {table.num_rows:,} groups, "
        f"more than cut_rows_max = {limit:,}; use a coarser key or wider slides, or raise the limit"
    )
    return {query_id: reason for query_id, share in shares.items() if worst.is_asked_by(share)}


def evicted_by_sketches(
    cuts: Cuts, table: pa.Table, limits: Limits, shares: Mapping[int, Share], limit: int
) -> dict[int, str]:
    """Query id → reason, for those whose sketches are the largest in a round with more than `limit`
    bytes of them."""
    sources = asked_for(cuts.measures, limits).sources
    columns = {m: sources[parts_of(m)[0]] for m in cuts.measures if m.is_sketch}
    sizes = {name: table.column(name).nbytes for name in columns.values()}
    total = sum(sizes.values())
    if total <= limit:
        return {}
    worst = max(sizes, key=lambda name: sizes[name])
    reason = (
        f"SKETCH_BYTES: a round has {sizes[worst]:,} bytes of its sketches, {total:,} in all, more than "
        f"sketch_bytes_max = {limit:,}; use fewer groups or wider slides, or raise the limit"
    )
    asking = {m for m, name in columns.items() if name == worst}
    return {
        query_id: reason
        for query_id, share in shares.items()
        if asking.intersection(share.measures)
    }


def _factors(cuts: Cuts, table: pa.Table, shares: Mapping[int, Share]) -> Iterator[Factor]:
    finest = min(s.window.grain_us for s in shares.values())
    yield Factor(
        _distinct(table, PANE), f"panes of {finest:,} µs", lambda s: s.window.grain_us == finest
    )
    for i, key in enumerate(all_keys(cuts)):
        yield Factor(_distinct(table, key_name(i)), "values of a key", _groups_by(key))
    for key in dict.fromkeys(key for cut in cuts.cuts for key in cut.cells):
        yield Factor(
            _distinct(table, cell_name(cuts, key)), "cells of an attribute", _compares(key)
        )
    for name in dict.fromkeys(name for c in range(len(cuts.cuts)) for name in word_names(cuts, c)):
        yield Factor(
            _distinct(table, name), "combinations of predicates", lambda s: s.slot.where is not None
        )


def _compares(key: Expr) -> Callable[[Share], bool]:
    """Whether a query takes a band of this cell, or its predicate is told by it."""
    return lambda share: (
        key in (*share.slot.cells, *(cell(a) for a, _ in split(share.slot.where).bands))
    )


def _groups_by(key: Expr) -> Callable[[Share], bool]:
    """Whether a query groups by this, or by something made of it."""
    return lambda share: any(columns_of(key) & columns_of(own) for own in share.slot.keys)


def _distinct(table: pa.Table, name: str) -> int:
    return int(pc.count_distinct(table.column(name)).as_py())
