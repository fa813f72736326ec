"""What a round measured: rows, rates, selectivities, time by stage."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from statistics import median
from time import perf_counter
from typing import Any

from headrace.records import decode


@dataclass(frozen=True, slots=True)
class Census:
    """The rows of a round: all of them, and those left out by reason."""

    rows: int = 0
    late: int = 0
    no_time: int = 0
    bad: int = 0
    newest_us: int | None = None


@dataclass(frozen=True, slots=True)
class ShapeLoad:
    """Events of a round looked up for the ranges of a join shape: how many by which method; seconds
    an event that each method alone would take, by rates fitted on a worker, and that it took a
    worker (0: not known)."""

    ranges: int
    methods: Mapping[str, int]
    alone_s: Mapping[str, float]
    took_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """What explains the cost of a round: where the watermark was before, what Spark's aggregate
    left and how it was cut, groups by group-by, seconds by stage as the cost model prices them, and
    seconds of plain queries by id.

    Of joins: what looking up took by join shape, how many rows of this relation may still be
    joined, and how its queries stand (`Standing.tally`)."""

    before_us: int | None = None
    cells: int = 0
    pane_us: int = 0
    predicates: int = 0
    keys: tuple[str, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    priced: Mapping[str, float] = field(default_factory=dict)
    plain_s: Mapping[str, float] = field(default_factory=dict)
    shapes: Mapping[str, ShapeLoad] = field(default_factory=dict)
    kept_rows: int = 0
    standing: Mapping[str, float] = field(default_factory=dict)

    def and_of(self, other: Load) -> Load:
        """The load of two families in one round: what both have priced, and what only the other
        knows."""
        return replace(
            self,
            priced={**self.priced, **other.priced},
            plain_s={**self.plain_s, **other.plain_s},
            shapes={**self.shapes, **other.shapes},
            kept_rows=self.kept_rows + other.kept_rows,
            standing={**self.standing, **other.standing},
        )


NO_LOAD = Load()

Stats = Mapping[str, Any]
"""A `RoundStats` as a manifest tells it."""
Histories = Mapping[str, Sequence[Stats]]
"""By relation: what its newest committed rounds measured, oldest first."""


def load_of(stats: Stats) -> Load:
    """Rounds of earlier versions say less."""
    kept = stats.get("load")
    if not kept:
        return Load()
    known = {name: value for name, value in kept.items() if name in Load.__slots__}
    shapes = {name: ShapeLoad(**own) for name, own in known.get("shapes", {}).items()}
    return Load(**{**known, "keys": tuple(known.get("keys", ())), "shapes": shapes})


def newest_load(history: Sequence[Stats]) -> Load | None:
    return load_of(history[-1]) if history else None


ROWS_ASSUMED = 100_000  # of a round of a relation that nobody has read yet


def rows_expected(history: Sequence[Stats]) -> float:
    """Rows of the next round, if it is like those before."""
    return float(
        median([s["rows"] for s in history if s.get("load") and s["rows"]] or [ROWS_ASSUMED])
    )


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One committed round of one stream.

    `seconds` by stage: plan, spark, turn (waiting for a joined relation), joins, plain, wait (for
    the round before), roll, answer, write, commit; their `total`; and beside it `trigger`, what
    Spark took to call for this round after the one before had been read, and `cycle`, from commit
    to commit, which is less than the total where rounds overlap.  `groupings` of the shared
    aggregate; `ring_bytes` are weighed every few rounds; `log_bytes` in `log_files` are the pane
    log's, on disk; `process_bytes` the most memory this process has had, Spark's JVM not
    counted."""

    stream: str
    round_id: int
    rows: int
    late: int
    no_time: int
    bad: int
    queries: int
    answers: int
    watermark_us: int | None
    seconds: Mapping[str, float]
    unshared_s: float
    selectivity: Mapping[str, float] = field(default_factory=dict)
    groupings: int = 1
    ring_bytes: int = 0
    log_bytes: int = 0
    log_files: int = 0
    load: Load = NO_LOAD
    process_bytes: int = 0

    @property
    def cycle_s(self) -> float:
        """From the end of the round before to the end of this one; its total, where only the
        manifest tells of it."""
        return self.seconds.get("cycle", self.seconds["total"])


def check_stats(data: Mapping[str, Any]) -> None:
    """What a manifest says was measured is what `RoundStats` would say, or ValueError."""
    found = decode(RoundStats, data)
    numbers = (
        found.rows,
        found.late,
        found.no_time,
        found.bad,
        found.queries,
        found.answers,
        found.load.cells,
        found.load.pane_us,
        found.load.predicates,
        *found.load.groups.values(),
    )
    load = found.load
    measured = (found.seconds, load.priced, load.plain_s, load.standing, found.selectivity)
    is_finite = all(isfinite(value) for own in measured for value in own.values())
    # a watermark never goes away
    began_only = load.before_us is not None and found.watermark_us is None
    if min(numbers) < 0 or "total" not in found.seconds or not is_finite or began_only:
        raise ValueError("a round cannot have measured this")


def peak_bytes() -> int:
    """The most memory this process ever had resident."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Stopwatch:
    """Seconds by stage; a stage entered twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def total(self) -> dict[str, float]:
        return {**self.seconds, "total": perf_counter() - self._start}
