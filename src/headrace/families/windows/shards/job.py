"""Rounds of shards as Spark jobs: one that leaves each shard its part, one that answers.

The first needs the rows of the round, and goes on while the round before is answered; the second
needs none.  What comes back to the driver are reports: counts, and names of files.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import DataFrame, SparkSession

from headrace.families.windows.aggregation.aggregate import aggregate_sql, all_keys, key_name
from headrace.families.windows.aggregation.declaring import DeclaredEdges
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.shards.seating import Seat
from headrace.families.windows.shards.shard import (
    FoldTask,
    PartReport,
    Place,
    ShardReport,
    ShardTask,
    answer_shard,
    fold_parts,
    write_part,
)
from headrace.runtime.family import Batch
from headrace.runtime.faults import is_worker_gone
from headrace.sql.tree import Column

VIEW = "headrace_sharded"
WHO = "shards"
REPORT = "report BINARY"
SHARD = "shard"
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
        self._seats: tuple[str, Broadcast[Mapping[int, Seat]]] | None = None

    def take(self, batch: Batch, round_id: int, cuts: Cuts) -> list[PartReport]:
        """Aggregate the rows of a round, and write each shard its part."""
        cells = self._cells(batch, cuts)
        names = [key_name(all_keys(cuts).index(key)) for key in self._columns(cuts)]
        # the number of a partition is that of its shard: Spark tells both by the same hash
        number = f"CAST(pmod(hash({', '.join(names)}), {self._count}) AS INT) AS {SHARD}"
        shards = cells.selectExpr("*", number).repartition(self._count, *names)
        work = _taking(self._place, round_id, cuts, self._place.config.cut_rows_max)
        return self._tried(shards, work, PartReport)

    def collect(self, batch: Batch, cuts: Cuts) -> None:
        """The aggregate alone, to see whether it fails."""
        self._cells(batch, cuts).write.format("noop").mode("overwrite").save()

    def answer(self, task: ShardTask, seats: Mapping[int, Seat]) -> list[ShardReport]:
        """The round of every shard."""
        assert self._session is not None, "a round is taken before it is answered"
        work = _answering(task, self._told(task.seats, seats))
        numbers = self._session.range(0, self._count, 1, self._count)
        return self._tried(numbers, work, ShardReport)

    def fold(self, task: FoldTask) -> list[PartReport]:
        """The log of every shard."""
        assert self._session is not None, "a round is taken before one is folded"
        numbers = self._session.range(0, self._count, 1, self._count)
        return self._tried(numbers, _folding(task), PartReport)

    def close(self) -> None:
        if self._seats is not None:
            self._seats[1].unpersist()
            self._seats = None

    def _columns(self, cuts: Cuts) -> list[Column]:
        own = {key.name: key for key in all_keys(cuts) if isinstance(key, Column)}
        return [own[name] for name in self._keys]

    def _cells(self, batch: Batch, cuts: Cuts) -> DataFrame:
        frame = batch.frame.coalesce(1) if batch.is_small else batch.frame
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

    def _tried(self, frame: DataFrame, work: Work, kind: type[T]) -> list[T]:
        """Again when a worker was killed under it, which local Spark does not do: what it held is
        made anew, and each attempt names its own files."""
        for _ in range(self._place.config.worker_tries - 1):
            try:
                return _collected(frame, work, kind)
            except Exception as error:
                if not is_worker_gone(error):
                    raise
        return _collected(frame, work, kind)


def _collected(frame: DataFrame, work: Work, kind: type[T]) -> list[T]:
    """What the tasks report, by shard."""
    packed = frame.mapInArrow(work, REPORT).toArrow().column(0).to_pylist()
    found = [one for one in map(pickle.loads, packed) if isinstance(one, kind)]
    return sorted(found, key=lambda report: report.shard)


# -- on executors ------------------------------------------------------------------------------------


def _taking(place: Place, round_id: int, cuts: Cuts, rows_max: int) -> Work:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        context = TaskContext.get()
        assert context is not None
        shard = context.partitionId()
        table = pa.Table.from_batches(found)
        assert table.column(SHARD).to_numpy().min() == table.column(SHARD).to_numpy().max() == shard
        table = table.drop_columns([SHARD])
        yield _packed(write_part(table, place, round_id, cuts, shard, rows_max))

    return take


def _answering(task: ShardTask, seats: Broadcast[Mapping[int, Seat]]) -> Work:
    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield _packed(answer_shard(shard, task, lambda: seats.value))

    return answer


def _folding(task: FoldTask) -> Work:
    def folding(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield _packed(fold_parts(shard, task))

    return folding


def _packed(report: object) -> pa.RecordBatch:
    return pa.record_batch([pa.array([pickle.dumps(report)], pa.binary())], names=["report"])
