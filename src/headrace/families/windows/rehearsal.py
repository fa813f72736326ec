"""A rehearsal: two rounds of made-up rows through rings of their own, before Spark is there.

Compiling the kernels takes longer than starting Spark, and loading compiled ones half a second.  What
is compiled depends on the queries (which measures, how many keys), so it is these queries that are
rehearsed, a few of each kind; home and rings of the real ones are not touched.  Sketches arrive as
Spark makes them, and are left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.evaluation.arrow import arrow_type
from headrace.families.windows.aggregation.aggregate import (
    PANE,
    SET,
    all_keys,
    cell_name,
    key_name,
    word_names,
)
from headrace.families.windows.aggregation.columns import ROWS_PART, part_names, parts_of
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.plan import Share, share
from headrace.families.windows.rings.answering import Answering
from headrace.families.windows.rings.rings import Rings
from headrace.runtime.family import Round
from headrace.runtime.ledger import Ledger
from headrace.runtime.statistics import Census
from headrace.sql.tree import Expr
from headrace.values import Relation

LOOKED_AT_MAX, REHEARSED_MAX = 1_000, 24
RANGE_US_MAX = 3_600_000_000 * 24  # longer windows take memory, and no other kernels
START_US = 1_700_000_000_000_000
FOLDER = "streams/rehearsal"
ROWS = 500  # so many keys that their tables grow


class _Unsynced(Disk):
    """What is gone in a second need not be durable."""

    def sync(self, path: str) -> None:
        pass


def rehearse(queries: Iterable[Registered], relation: Relation, config: Config) -> None:
    """Nothing of it stays but compiled code."""
    chosen = _of_each_kind(queries, relation)
    if not chosen:
        return
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as made:
        disk = _Unsynced(Path(made) / "home")
        disk.make_root()
        for part in ("panes", "folded", "rounds"):
            disk.make_folder(f"{FOLDER}/{part}")
        rings = Rings(disk, Ledger(disk, FOLDER), config)
        rings.assign(chosen, relation)
        try:
            _play(rings, relation)
        finally:
            rings.rest()


def _play(rings: Rings, relation: Relation) -> None:
    """The second round closes windows of the first."""
    answering, cuts, newest_us = Answering(), rings.cutting.cuts(), None
    longest_us = max(own.window.range_us for own in rings.shares().values())
    at_us = START_US - START_US % cuts.pane_us
    for number in range(2):
        panes, now_us = _panes(cuts, at_us), at_us + cuts.pane_us - 1
        round = Round(number, newest_us, relation.late_us, Census(ROWS, newest_us=now_us))
        rings.take(cuts, panes, round, _of_every_key)
        for closed in rings.close(round.watermark_us):
            for _ in answering.finish(closed, rings.keys, {}):
                pass
        newest_us = now_us
        ahead_us = longest_us + relation.late_us + 2 * cuts.pane_us
        at_us += ahead_us - ahead_us % cuts.pane_us


def _of_each_kind(queries: Iterable[Registered], relation: Relation) -> list[Registered]:
    """Some of the queries that need different kernels, as far as can be told."""
    kinds: dict[object, Registered] = {}
    for registered in islice(queries, LOOKED_AT_MAX):
        asked = share(registered.query, relation)
        if isinstance(asked, Share) and asked.window.range_us <= RANGE_US_MAX:
            measures = frozenset((m.kind, parts_of(m)[0][0]) for m in asked.measures)
            if not any(m.is_sketch for m in asked.measures):
                kinds.setdefault((measures, len(asked.slot.keys), bool(asked.bands)), registered)
    return list(kinds.values())[:REHEARSED_MAX]


def _panes(cuts: Cuts, at_us: int) -> pa.Table:
    """What Spark's aggregate might leave of some rows in one pane, for each cut."""
    rows = ROWS * len(cuts.cuts)
    columns: dict[str, pa.Array] = {PANE: pa.array([at_us] * rows, pa.int64())}
    for i, key in enumerate(all_keys(cuts)):
        columns[key_name(i)] = _keys(key, rows)
    for c in range(len(cuts.cuts)):
        for word in word_names(cuts, c):
            columns[word] = pa.array([-1] * rows, pa.int64())
    for key, _ in cuts.edges:
        columns[cell_name(cuts, key)] = pa.array([0] * rows, pa.int32())
    if len(cuts.cuts) > 1:
        columns[SET] = pa.array([i // ROWS for i in range(rows)], pa.int64())
    floats = _float_parts(cuts)
    for part, name in part_names(cuts.measures).items():
        kind = pa.float64() if part in floats else pa.int64()
        columns[name] = pa.array([1] * rows, kind)
    counts = {name for (call, _), name in part_names(cuts.measures).items() if call == "count"}
    schema = [pa.field(n, column.type, nullable=n not in counts) for n, column in columns.items()]
    return pa.table(columns, schema=pa.schema(schema))


def _float_parts(cuts: Cuts) -> set[tuple[str, str]]:
    """Parts that Spark computes as doubles: what is kept as a double, but for counts and for sums
    of integers."""
    found = set()
    for measure in cuts.measures:
        is_float = measure.kind in ("sum_float", "moments", "min_float", "max_float")
        for part in parts_of(measure) if is_float and measure.arg is not None else ():
            whole = part[0] == "sum" and part[1].startswith("CAST(") and "AS BIGINT" in part[1]
            if part[0] != "count" and part != ROWS_PART and not whole:
                found.add(part)
    return found


def _keys(key: Expr, rows: int) -> pa.Array:
    """Different ones, or none where they are not easily made."""
    values = pa.array([i % ROWS for i in range(rows)], pa.int64())
    try:
        return values.cast(arrow_type(key.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(rows, arrow_type(key.type))


def _of_every_key(
    _keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]
) -> list[pa.Array]:
    """Whatever is asked is so."""
    rows = len(values[0]) if values else ROWS
    return [
        pa.array([True] * rows)
        if fact.type.name == "boolean"
        else pa.nulls(rows, arrow_type(fact.type))
        for fact in facts
    ]
