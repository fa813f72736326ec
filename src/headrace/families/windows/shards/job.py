"""Rounds of shards as Spark jobs: one that leaves each shard its part, one that answers.

The first needs the rows of the round, and goes on while the round before is answered; the second
needs none.  What comes back to the driver are reports: counts, and names of files.  Only of a small
round the driver sees the panes: it writes the parts itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import DataFrame, SparkSession, functions

from headrace.families.windows.aggregation.aggregate import aggregate_sql, all_keys, key_name
from headrace.families.windows.aggregation.declaring import DeclaredEdges
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.shards.seating import Seat
from headrace.families.windows.shards.shard import (
    FoldTask,
    PartReport,
    PartTask,
    Place,
    ShardReport,
    ShardTask,
    answer_shard,
    fold_parts,
    write_part,
)
from headrace.quoting import quote_name
from headrace.runtime.cluster import as_carried, on_workers
from headrace.runtime.collecting import to_arrow
from headrace.runtime.family import Batch
from headrace.runtime.faults import is_worker_gone
from headrace.sql.tree import Column

VIEW = "headrace_sharded"
WHO = "shards"
REPORT = "report BINARY"
SHARD = "shard"
SENT_SHARE = 0.5  # of the rows of a round: where grouping leaves more, rows are sent as they are
WRITERS = 8  # that wait for the disk together
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
T = TypeVar("T", PartReport, ShardReport)


class SparkShards:
    """Runs the tasks of the shards of one stream."""

    def __init__(
        self, place: Place, edges: DeclaredEdges, keys: tuple[str, ...], count: int
    ) -> None:
        self._place = place
        self._edges = edges
        self._keys = keys
        self._count = count
        self._session: SparkSession | None = None
        self._rows_first = False
        self._writers = ThreadPoolExecutor(WRITERS, "headrace-parts")
        self._seats: tuple[str, Broadcast[Mapping[int, Seat]]] | None = None

    def take(self, batch: Batch, round_id: int, cuts: Cuts) -> list[PartReport]:
        """Aggregate the rows of a round, and write each shard its part."""
        # several groupings are columns of their own, by which Spark would exchange once more
        rows_first = self._rows_first and not batch.is_small and len(cuts.cuts) == 1
        cells = self._cells(batch, cuts, rows_first)
        names = [key_name(all_keys(cuts).index(key)) for key in self._columns(cuts)]
        # the number of a partition is that of its shard: Spark tells both by the same hash
        number = f"CAST(pmod(hash({', '.join(names)}), {self._count}) AS INT) AS {SHARD}"
        numbered = cells.selectExpr("*", number)
        task = PartTask(self._place, round_id, cuts, self._place.config.cut_rows_max)
        if batch.is_small:  # a task for each shard would take longer than the driver
            own = dict(by_shard(to_arrow(numbered)))
            return list(self._writers.map(lambda shard: write_part(own[shard], task, shard), own))
        shards = numbered if rows_first else numbered.repartition(self._count, *names)
        found = self._tried(lambda: self._collected(shards, _taking(task)))
        rows, left = sum(r.census.rows for r in found), sum(r.rows for r in found)
        self._rows_first = left > SENT_SHARE * rows
        return found

    def collect(self, batch: Batch, cuts: Cuts) -> None:
        """The aggregate alone, to see whether it fails."""
        self._cells(batch, cuts).write.format("noop").mode("overwrite").save()

    def answer(self, task: ShardTask, seats: Mapping[int, Seat]) -> list[ShardReport]:
        """The round of every shard."""
        told = self._told(task.seats, seats)

        def answer(shards: Iterable[int]) -> Iterator[ShardReport]:
            return (answer_shard(shard, task, lambda: told.value) for shard in shards)

        return self._each(answer)

    def fold(self, task: FoldTask) -> list[PartReport]:
        """The log of every shard."""

        def fold(shards: Iterable[int]) -> Iterator[PartReport]:
            return (fold_parts(shard, task) for shard in shards)

        return self._each(fold)

    def _each(self, work: Callable[[Iterable[int]], Iterator[T]]) -> list[T]:
        """A task for each shard.  They read no rows: planning a DataFrame would take as long as
        they do."""
        assert self._session is not None, "a round is taken first"
        session, home = self._session, Path(self._place.root)
        numbers = session.sparkContext.parallelize(range(self._count), self._count)
        return self._tried(lambda: numbers.mapPartitions(as_carried(session, work, home)).collect())

    def _collected(self, frame: DataFrame, work: Work) -> list[PartReport]:
        """What the tasks report."""
        told = on_workers(frame, work, REPORT, Path(self._place.root))
        found: list[PartReport] = [
            pickle.loads(one) for one in told.toArrow().column(0).to_pylist()
        ]
        return found

    def close(self) -> None:
        """Spark may be gone already."""
        if self._seats is not None:
            with suppress(Exception):
                self._seats[1].destroy()
            self._seats = None

    def _columns(self, cuts: Cuts) -> list[Column]:
        own = {key.name: key for key in all_keys(cuts) if isinstance(key, Column)}
        return [own[name] for name in self._keys]

    def _cells(self, batch: Batch, cuts: Cuts, rows_first: bool = False) -> DataFrame:
        """The aggregate.  `rows_first`: rows go to their shards before they are grouped there, which
        costs one exchange instead of two."""
        frame = batch.frame.coalesce(1) if batch.is_small else batch.frame
        if rows_first:
            keys = [functions.col(quote_name(name)) for name in self._keys]
            frame = frame.repartition(self._count, *keys)
        frame.createOrReplaceTempView(VIEW)
        self._session = session = frame.sparkSession
        self._edges.declare(session, WHO, cuts.edges)
        return session.sql(aggregate_sql(cuts, batch.relation, batch.kind(), VIEW))

    def _told(self, version: str, seats: Mapping[int, Seat]) -> Broadcast[Mapping[int, Seat]]:
        """The seats, sent to executors once for all rounds that have them."""
        if self._seats is None or self._seats[0] != version:
            self.close()
            assert self._session is not None
            self._seats = version, self._session.sparkContext.broadcast(dict(seats))
        return self._seats[1]

    def _tried(self, job: Callable[[], list[T]]) -> list[T]:
        """By shard.  Again when a worker was killed under it, which local Spark does not do: what it
        held is made anew, and each attempt names its own files."""
        for _ in range(self._place.config.worker_tries - 1):
            try:
                return _in_order(job())
            except Exception as error:
                if not is_worker_gone(error):
                    raise
        return _in_order(job())


def _in_order(reports: list[T]) -> list[T]:
    return sorted(reports, key=lambda report: report.shard)


def by_shard(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each shard that has some."""
    numbers = table.column(SHARD).to_numpy()
    order = np.argsort(numbers, kind="stable")
    table = table.drop_columns([SHARD]).take(pa.array(order))
    shards, starts = np.unique(numbers[order], return_index=True)
    for shard, (start, stop) in zip(
        shards.tolist(), pairwise([*starts.tolist(), numbers.size]), strict=True
    ):
        yield shard, table.slice(start, stop - start)


# -- on executors ------------------------------------------------------------------------------------


def _taking(task: PartTask) -> Work:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        context = TaskContext.get()
        assert context is not None
        ((shard, table),) = by_shard(pa.Table.from_batches(found))
        assert shard == context.partitionId(), "Spark has told shards apart by another hash"
        report = pickle.dumps(write_part(table, task, shard))
        yield pa.record_batch([pa.array([report], pa.binary())], names=["report"])

    return take
