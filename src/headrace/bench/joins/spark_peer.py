"""Who is affected by each event, by plain Spark: a batch range join of events with the table of
bands.

A band join of an event and a query has an answer if some row of S is between r.b + lo and r.b + hi.
Spark has no index for ranges, so it asks every pair of event and query.  As one would write it,

    events CROSS JOIN bands LEFT SEMI JOIN s ON s.b - r.b BETWEEN lo AND hi

asks every row of S for every pair besides: a hundred times slower than what is measured here.
Numbers are whole, so the least row of S at or above each number fits into an array, which Spark is
given, and a pair costs one look into it. Pairs that have a row are counted, not collected.  That
many events have the same b is of use neither to ours nor here.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.bench.joins.workload import DOMAIN, Bands
from headrace.relations.arrays import Ints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
WARM_SHARE = 10  # one in so many events warms up

_PAIRS = """
SELECT /*+ BROADCAST(q), BROADCAST(n) */ count(*)
FROM r CROSS JOIN n JOIN q ON n.next[r.b + q.lo - n.base] <= r.b + q.hi
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """Pairs of event and query, and the seconds it took to find them."""

    pairs: int
    seconds: float


class Peer:
    """Plain Spark with its query table and S."""

    def __init__(self, spark: SparkSession, bands: Bands, s: Ints) -> None:
        self._session = spark.newSession()
        self._session.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self._bands = pa.table({"lo": _ints(bands.lo), "hi": _ints(bands.hi)})
        self._next = _next(bands, s)

    def affected(self, events: pa.Table) -> Counted:
        with tempfile.TemporaryDirectory(prefix="headrace-peer-") as folder:
            for name, table in (("q", self._bands), ("n", self._next)):
                self._view(name, table, Path(folder) / name)
            few = events.slice(0, max(1, events.num_rows // WARM_SHARE))
            self._counted(few, Path(folder) / "few")
            return self._counted(events, Path(folder) / "r")

    def _counted(self, events: pa.Table, path: Path) -> Counted:
        self._view("r", events.select(["b"]), path)
        began = perf_counter()
        pairs: int = self._session.sql(_PAIRS).collect()[0][0]
        return Counted(pairs, perf_counter() - began)

    def _view(self, name: str, table: pa.Table, folder: Path) -> None:
        """As many files as there are cores, so that each has its share of the work."""
        folder.mkdir()
        size = -(-table.num_rows // PARTITIONS)
        for number in range(PARTITIONS):
            pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
        self._session.read.parquet(str(folder)).createOrReplaceTempView(name)


def _next(bands: Bands, s: Ints) -> pa.Table:
    """One row: the least of S at or above each number that may be asked for, from `base` on."""
    rows, base = np.append(np.unique(s), np.iinfo(np.int32).max), int(bands.lo.min())
    asked = np.arange(base, int(bands.lo.max()) + DOMAIN + 1)
    found = rows[np.searchsorted(rows, asked)].astype(np.int32)
    return pa.table(
        {"base": pa.array([base], pa.int32()), "next": pa.array([found], pa.list_(pa.int32()))}
    )


def _ints(values: Ints) -> pa.Array:
    return pa.array(values.astype(np.int32))
