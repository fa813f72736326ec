"""A first plan, before the first round has one: Spark loads and compiles of itself what every plan
needs, and starts Python where rounds will run there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.runtime.cluster import is_one_process, on_workers
from headrace.runtime.collecting import to_arrow

_GROUPS = (
    "SELECT k, count(1) AS n, sum(x) AS s, max(x) AS m FROM "
    "(SELECT CAST(id % 3 AS STRING) AS k, CAST(id AS DOUBLE) AS x FROM range(0, 9, 1, 1)) GROUP BY k"
)


def warm(session: SparkSession, workers_of: Path | None = None) -> None:
    """`workers_of` a home are started, if it is named and they run in this Spark's own process.  What
    goes wrong here goes wrong in the round, too, and is told there."""
    with suppress(Exception):
        to_arrow(session.sql(_GROUPS))
    if workers_of is not None and is_one_process(session):
        with suppress(Exception):
            on_workers(session.range(0, 1, 1, 1), _as_it_is, "id BIGINT", workers_of).count()


def _as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
