"""The census of a round out of its aggregate: rows that do not count are groups of their own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.families.windows.aggregation.aggregate import NEWEST, SET
from headrace.families.windows.aggregation.columns import KIND, ROWS_PART, part_names
from headrace.runtime.family import BAD, LATE, NO_TIME, OK
from headrace.runtime.statistics import Census


def count_kinds(table: pa.Table) -> tuple[Census, pa.Table]:
    """Count rows by kind (in the first cut: each cut has all rows), and keep the panes."""
    each = table.filter(pc.equal(table.column(SET), 0)) if SET in table.column_names else table
    kinds = each.column(KIND).to_numpy()
    counts = np.bincount(kinds, each.column(part_names(())[ROWS_PART]).to_numpy(), BAD + 1).astype(
        np.int64
    )
    newest = pc.max(each.filter(pa.array(kinds <= LATE)).column(NEWEST)).as_py()
    census = Census(
        int(counts.sum()), int(counts[LATE]), int(counts[NO_TIME]), int(counts[BAD]), newest
    )
    if counts[OK] < counts.sum():
        table = table.filter(pc.equal(table.column(KIND), OK))
    return census, table.drop_columns([KIND, NEWEST])


def total_census(parts: Iterable[Census]) -> Census:
    """Of rows that were counted in parts."""
    found = list(parts)
    newest = [p.newest_us for p in found if p.newest_us is not None]
    return Census(
        sum(p.rows for p in found),
        sum(p.late for p in found),
        sum(p.no_time for p in found),
        sum(p.bad for p in found),
        max(newest, default=None),
    )
