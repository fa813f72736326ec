"""The rows of a round, read once for all families, and counted.

A work that reads every row anyway counts them and is asked first; where there is none, the runtime
counts.  So every other work knows how many rows there are when it is asked, whatever family it is
of.  What several read is kept in memory for them, and so are rows of text, where bad ones are
looked for afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from headrace.config import Config
from headrace.disk import Disk
from headrace.runtime.census import count_rows
from headrace.runtime.dead_letters import DeadLetters
from headrace.runtime.event_times import TimeLimits
from headrace.runtime.family import Batch, Reading, Round, Work
from headrace.runtime.ledger import FileMark
from headrace.runtime.prices import round_price
from headrace.runtime.sources import parse_source
from headrace.runtime.sparklogs import Listed
from headrace.runtime.statistics import Census, Stopwatch
from headrace.values import Relation


def in_order(works: Collection[Work]) -> list[Work]:
    """Who counts first, if somebody does."""
    return sorted(works, key=lambda work: not work.counts_rows)


def is_read_by_several(works: Collection[Work]) -> bool:
    """Whether rows of the next round are read more than once; the runtime reads them to count."""
    counts_itself = not any(work.counts_rows for work in works)
    return sum(work.reads_rows for work in works) + counts_itself > 1


@dataclass(frozen=True, slots=True)
class RowsRead:
    """What was taken from the rows of a round.  With `faults` it is read again without these
    queries."""

    round: Round
    readings: Sequence[Reading]
    faults: Mapping[int, str]
    files: tuple[FileMark, ...] = ()
    priced: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class RoundRows:
    """The rows of one round as Spark reads them: once, or, when queries fail on them, again.

    `folder`: of the stream, for dead letters."""

    frame: DataFrame
    relation: Relation
    files: Sequence[Listed]
    is_small: bool
    limits: TimeLimits
    config: Config
    disk: Disk
    folder: str
    _counted: Census | None = None

    def read(self, works: Collection[Work], round: Round, watch: Stopwatch) -> RowsRead:
        marks_bad = parse_source(self.relation.source).marks_bad_rows
        keep_rows = marks_bad or is_read_by_several(works)
        rows = self.frame.persist() if keep_rows else self.frame
        try:
            return self._read(rows, marks_bad, works, round, watch)
        finally:
            if keep_rows:
                rows.unpersist()

    def _read(
        self,
        rows: DataFrame,
        marks_bad: bool,
        works: Collection[Work],
        round: Round,
        watch: Stopwatch,
    ) -> RowsRead:
        marked, has_beyond = self.limits.marked(rows, self.relation.time, self.files)
        watermark_us = round.watermark_before_us
        batch = Batch(marked, self.relation, watermark_us, marks_bad, has_beyond, self.is_small)
        priced: Mapping[str, float] = {}
        if not any(work.counts_rows for work in works):
            round = replace(round, census=self._count(batch, watch))
            priced = round_price(round.census.rows)
        readings: list[Reading] = []
        for work in in_order(works):
            reading = work.read(batch, round, watch)
            readings.append(reading)
            if reading.faults:
                return RowsRead(round, readings, reading.faults)
            if reading.census is not None:
                round = replace(round, census=reading.census)
        letters: list[FileMark] = []
        if round.census.bad:
            dead = DeadLetters(rows, self.relation, self.limits, self.config)
            letters = dead.write(self.disk, self.folder, round)
        return RowsRead(round, readings, {}, tuple(letters), priced)

    def _count(self, batch: Batch, watch: Stopwatch) -> Census:
        """Counted once: the rows are the same when they are read again."""
        if self._counted is None:
            with watch.stage("count"):
                self._counted = count_rows(batch)
        return self._counted
