"""Rows that Spark writes into the home as Parquet, by its own writer, and what came of it.

Spark's tasks write below `_temporary`, and the driver moves what it finds there.  An executor that
has another folder at the home's path would write in vain, and Spark would not notice.  So on a
cluster the rows are counted as they are written, and again in the files that are there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import expr

from headrace.disk import Disk, lost
from headrace.errors import RoundError
from headrace.runtime.cluster import cluster_of

TOLD_S_MAX = 60.0  # Spark says it a moment later, by its listeners
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Written:
    """Files and the rows in all of them."""

    paths: list[str]
    rows: int


def write_parquet(frame: DataFrame, disk: Disk, folder: str) -> Written:
    """Write the rows to a folder of the home; its files, durable."""
    told: Observation | None = None
    if cluster_of(frame.sparkSession, disk.root) is not None:
        told = Observation()
        frame = frame.observe(told, expr("count(1) AS n"))
    frame.write.mode("overwrite").parquet(disk.url(folder))
    paths = disk.adopt(folder)
    rows = sum(int(pq.read_metadata(disk.root / path).num_rows) for path in paths)
    if told is not None:
        said = _rows_of(told)
        if said != rows:
            raise lost(f"{said:,} rows to {folder}", f"{rows:,}")
    return Written(paths, rows)


def _rows_of(told: Observation) -> int:
    """`Observation.get` would wait for ever where Spark has dropped the event; its other ways differ
    from version to version."""
    java: Any = cast(Any, told)._jo
    start_s = time.monotonic()
    while time.monotonic() - start_s < TOLD_S_MAX:
        if java.future().isCompleted():
            return int(java.getAsJava().get("n"))
        time.sleep(POLL_S)
    raise RoundError(
        "Spark does not say how many rows its executors have written",
        value=f"nothing in {TOLD_S_MAX:.0f} s",
        hint="nothing of this round was committed: run again",
        code="WRITTEN_UNKNOWN",
    )
