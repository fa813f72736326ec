"""The runtime counts the rows of a round: all of them, those left out by reason, and the newest event
time.

A family that reads every row anyway counts them by the way (`Work.counts_rows`).  Where none does,
this is a Spark job of its own.  It asks for the event time only, so that of Parquet files no other
column is read; a small round is one task, without a shuffle.
"""

from __future__ import annotations

from headrace.quoting import quote_name
from headrace.runtime.collecting import to_arrow
from headrace.runtime.family import BAD, LATE, NO_TIME, Batch
from headrace.runtime.statistics import Census

VIEW = "headrace_counted"


def count_rows(batch: Batch) -> Census:
    """Rows by kind; late ones have a time too."""
    frame = batch.frame.coalesce(1) if batch.is_small else batch.frame
    frame.createOrReplaceTempView(VIEW)
    time = batch.relation.time
    newest = "CAST(NULL AS BIGINT)" if time is None else f"unix_micros({quote_name(time)})"
    found = to_arrow(
        frame.sparkSession.sql(
            f"SELECT kind, count(1) AS n, max(t) AS newest FROM "
            f"(SELECT {batch.kind()} AS kind, {newest} AS t FROM {VIEW}) GROUP BY kind"
        )
    ).to_pylist()
    counts = {row["kind"]: row["n"] for row in found}
    times = [r["newest"] for r in found if r["kind"] <= LATE and r["newest"] is not None]
    return Census(
        sum(counts.values()),
        counts.get(LATE, 0),
        counts.get(NO_TIME, 0),
        counts.get(BAD, 0),
        max(times, default=None),
    )
