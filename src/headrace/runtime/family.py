"""What a family gives the runtime, and what the runtime gives a family.

A family's `plan.py` says which queries it takes.  At work it is asked in this order: `open` once
for each stream, restoring from the newest committed round; then for each round `replan` with the
queries of that round, if they have changed, and `read` with its rows.  What `read` returns is asked
for the answers once the round before has been committed, perhaps while Spark reads the next round
already.  Both may leave files in the home, all named by the round; nothing is true before the
commit.  After an error out of either the work is thrown away and opened again from the last
committed round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.quoting import quote_name
from headrace.runtime.answers import Block
from headrace.runtime.ledger import Choices, FileMark, Ledger
from headrace.runtime.statistics import Census, Figures, Stopwatch
from headrace.values import Relation, watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OK, LATE, NO_TIME, BAD = range(4)
CORRUPT = "_headrace_corrupt"
BEYOND = "_headrace_beyond"


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a round.  Spark has read nothing yet; families build on `frame`.  A row whose
    event time is beyond what is taken (`event_times.py`) is bad and has no time there, so that
    nothing can overflow by it."""

    frame: DataFrame
    relation: Relation
    watermark_us: int | None
    has_corrupt: bool = False
    has_beyond: bool = False
    is_small: bool = False
    """One task is enough: no shuffle is then needed to group the rows."""

    def kind(self) -> str:
        """SQL: whether a row counts (OK), and if not, why."""
        cases = [f"WHEN {quote_name(CORRUPT)} IS NOT NULL THEN {BAD}"] if self.has_corrupt else []
        if self.has_beyond:
            cases.append(f"WHEN {quote_name(BEYOND)} THEN {BAD}")
        if self.relation.time is not None:
            time = quote_name(self.relation.time)
            cases.append(f"WHEN {time} IS NULL THEN {NO_TIME}")
            if self.watermark_us is not None:
                cases.append(
                    f"WHEN unix_micros({time}) < {steady(self.watermark_us, time)} THEN {LATE}"
                )
        return f"CASE {' '.join(cases)} ELSE {OK} END" if cases else str(OK)


def steady(value: int, column: str) -> str:
    """SQL for a number that changes from round to round.

    Written as a literal it would be part of the generated Java, and Spark would compile the whole
    stage again each round; as an element of an array, picked by something that cannot be folded
    away, it is data, and the compiled stage is found in Spark's cache."""
    return f"get(array({value}L), CAST({column} IS NULL AS INT))"


NOTHING_COUNTED = Census()


@dataclass(frozen=True, slots=True)
class Round:
    """One round: its id, what came before, and, once its rows have been counted, its census."""

    id: int
    newest_before_us: int | None
    late_us: int
    census: Census = NOTHING_COUNTED

    @property
    def newest_us(self) -> int | None:
        """Newest event time up to and with this round."""
        known = [t for t in (self.newest_before_us, self.census.newest_us) if t is not None]
        return max(known, default=None)

    @property
    def watermark_before_us(self) -> int | None:
        """Rows older than this are late."""
        return watermark(self.newest_before_us, self.late_us)

    @property
    def watermark_us(self) -> int | None:
        """Windows that end at or before this are closed by this round."""
        return watermark(self.newest_us, self.late_us)


@dataclass(slots=True)
class Outcome:
    """What a family's round leaves to commit."""

    blocks: list[Block] = field(default_factory=list)
    files: list[FileMark] = field(default_factory=list)
    keep: dict[str, int] = field(default_factory=dict)
    held: tuple[FileMark, ...] = ()
    faults: dict[int, str] = field(default_factory=dict)
    answers: int = 0
    priced: dict[str, float] = field(default_factory=dict)
    """Seconds by stage, by the rates alone; whoever counts the rows prices the whole round."""
    figures: dict[str, Figures] = field(default_factory=dict)
    """By family: what it measured, as its dataclass says."""
    choices: dict[str, Choices] = field(default_factory=dict)
    """By family; see `ledger.py`."""

    def add(self, part: Outcome) -> None:
        """What another family leaves, too."""
        self.blocks += part.blocks
        self.files += part.files
        self.keep.update(part.keep)
        self.faults.update(part.faults)
        self.answers += part.answers
        self.held += part.held
        self.priced.update(part.priced)
        self.figures.update(part.figures)
        self.choices.update(part.choices)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a family has taken from the rows of a round: the rest (`answer`) needs no rows any more.
    `census`: of a work that counts the rows.

    With `faults` (query id → reason) there is no answer: the round is read again without these
    queries."""

    answer: Callable[[Round, Stopwatch], Outcome]
    census: Census | None = None
    faults: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a family's work on one stream lives."""

    disk: Disk
    ledger: Ledger
    relation: Relation
    config: Config

    @property
    def folder(self) -> str:
        return self.ledger.folder

    def make_folders(self, parts: Iterable[str]) -> None:
        """Beside the stream's rounds, those that are missing."""
        for part in parts:
            self.disk.make_folder(f"{self.folder}/{part}")


@dataclass(frozen=True, slots=True)
class Change:
    """Queries of a family that come and go, and all there are then; after `open` all of them
    come."""

    comes: list[Registered]
    goes: list[int]
    queries: Mapping[int, Registered]

    @property
    def is_first(self) -> bool:
        return len(self.comes) == len(self.queries) and not self.goes


class Work(Protocol):
    """A family at work on one stream."""

    @property
    def reads_rows(self) -> bool:
        """Whether the next round's rows are read by this work: what several read is kept for
        them."""

    @property
    def counts_rows(self) -> bool:
        """Whether it counts the rows of the next round, as it reads all of them anyway: its
        reading then has a census.  It is asked first, and the runtime need not count."""

    @property
    def wants_replan(self) -> bool:
        """Whether rounds have taught it to plan otherwise for the same queries."""

    def replan(self, change: Change) -> None:
        """The queries of the next round.  Called after `open`, when they have changed, and when it
        wants it; no round is under way. `queries` is the caller's and changes later."""

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        """Take from the rows what the answers need.  The round before may still be being answered:
        what that changes must not be looked at.  May raise; never leaves half an answer."""

    def done(self) -> None:
        """The round that was read is committed, or will not be."""

    def rest(self) -> None:
        """No round follows: when this returns, nothing of this work writes to the home."""


class Job(Protocol):
    """A family at work in one engine.  `folders`: what it keeps beside a stream's rounds."""

    name: str

    @property
    def folders(self) -> tuple[str, ...]: ...

    def open(self, place: Place) -> Work:
        """Restore the family's work on a stream from the newest committed round."""
