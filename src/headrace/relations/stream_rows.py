"""The row log: rows that plain stateful queries still need, one folder of Parquet a round.

A round stays as long as a window over its rows may be open, or a query without a window counts it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from headrace.runtime.answers import file_mark
from headrace.runtime.parquet_files import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.catalog.catalog import Registered
    from headrace.runtime.family import Outcome, Place, Round


@dataclass(frozen=True, slots=True)
class Kept:
    """A round of the row log."""

    round_id: int
    newest_us: int | None
    rows: int


class RowLog:
    """The rounds still kept, oldest first."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.rounds = self._restore()

    @property
    def rows(self) -> int:
        return sum(kept.rows for kept in self.rounds)

    def append(self, good: DataFrame, round: Round, outcome: Outcome) -> None:
        """Write the rows of a round; they count once it is committed."""
        disk, folder = self._place.disk, f"{self._place.folder}/rows/{round.id:012d}"
        disk.clear(folder)
        written = write_parquet(good, disk, folder)
        outcome.files += [file_mark(disk, path) for path in written.paths]
        self.rounds.append(Kept(round.id, round.newest_us, written.rows))

    def read(self, spark: SparkSession, first: int = 0) -> DataFrame:
        """The rows of round `first` and later."""
        ddl = self._place.relation.ddl()
        disk, folder = self._place.disk, f"{self._place.folder}/rows"
        paths = [
            disk.url(f"{folder}/{kept.round_id:012d}")
            for kept in self.rounds
            if kept.round_id >= first
        ]
        return spark.read.schema(ddl).parquet(*paths) if paths else spark.createDataFrame([], ddl)

    def let_go(self, horizon_us: int | None) -> None:
        """Forget rounds whose rows are all older than this."""
        while (
            self.rounds and horizon_us is not None and (self.rounds[0].newest_us or 0) < horizon_us
        ):
            del self.rounds[0]

    def covered_from(self) -> int | None:
        """The time from which the log has all rows; None when it has all there ever were."""
        ledger = self._place.ledger
        logged = {kept.round_id for kept in self.rounds}
        for round_id in reversed(ledger.rounds):
            manifest = None if round_id in logged else ledger.read(round_id)
            if (
                manifest is not None
                and manifest.stats.get("rows")
                and manifest.newest_us is not None
            ):
                return manifest.newest_us + 1
        oldest = ledger.read(ledger.rounds[0]) if ledger.rounds and ledger.rounds[0] > 0 else None
        return None if oldest is None or oldest.newest_us is None else oldest.newest_us + 1

    def first_round_of(self, registered: Registered) -> int:
        """The first round that had the query, also when that was before a restart."""
        ledger = self._place.ledger
        rounds = ledger.rounds
        place = bisect_left(
            rounds, registered.version, key=lambda r: ledger.read(r).catalog_version
        )
        if place < len(rounds):
            return rounds[place]
        return 0 if ledger.newest is None else ledger.newest.round_id + 1

    def _restore(self) -> list[Kept]:
        ledger = self._place.ledger
        first = ledger.newest.keep.get("rows", 0) if ledger.newest else 0
        log = []
        for round_id in ledger.rounds:
            manifest = ledger.read(round_id) if round_id >= first else None
            marks = [m for m in manifest.files if "/rows/" in m.path] if manifest else []
            for mark in marks:
                ledger.check(mark)
            if marks and manifest is not None:
                log.append(
                    Kept(
                        round_id, manifest.newest_us, sum(_rows(self._place, m.path) for m in marks)
                    )
                )
        return log


def _rows(place: Place, path: str) -> int:
    return int(pq.read_metadata(place.disk.root / path).num_rows)
