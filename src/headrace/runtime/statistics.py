"""What a round measured: its rows, its time by stage, and the figures of each family."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

from headrace.records import decode, reading

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Census:
    """The rows of a round: all of them, and those left out by reason."""

    rows: int = 0
    late: int = 0
    no_time: int = 0
    bad: int = 0
    newest_us: int | None = None


Figures = Mapping[str, Any]
"""What one family measured, as JSON has it."""
Stats = Mapping[str, Any]
"""A `RoundStats` as a manifest tells it."""
Histories = Mapping[str, Sequence[Stats]]
"""By relation: what its newest committed rounds measured, oldest first."""


def own_figures(stats: Stats, family: str, kind: type[T]) -> T:
    """What a family has noted of a round, as the dataclass it was written from; of one without
    notes, what `kind()` says.  What does not fit is told as any damaged manifest is."""
    told = stats.get("figures", {}).get(family, {})
    place = Path(str(stats.get("stream")), f"round {stats.get('round_id')}", "figures", family)
    with reading(place, "what a round has measured", "MANIFEST_DAMAGED"):
        if not _is_finite(told):
            raise ValueError("a figure is not a finite number")
        return decode(kind, told)


def _is_finite(told: Any) -> bool:
    if isinstance(told, Mapping):
        return all(map(_is_finite, told.values()))
    return not isinstance(told, float) or isfinite(told)


ROWS_ASSUMED = 100_000  # of a round of a relation that nobody has read yet


def rows_expected(history: Sequence[Stats]) -> float:
    """Rows of the next round, if it is like those before."""
    return float(median([s["rows"] for s in history if s["rows"]] or [ROWS_ASSUMED]))


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One committed round of one stream.

    `seconds` by stage: plan, count (the runtime's own), spark (of windows), turn (waiting for a
    joined relation), joins, plain, wait (for the round before), roll, answer, write, commit; their
    `total`; and beside it `trigger`, what Spark took to call for this round after the one before
    had been read, and `cycle`, from commit to commit, which is less than the total where rounds
    overlap.  `priced`: what the rates alone say of the stages.  `figures`: what each family has
    noted, by its name, as its own dataclass says (`families/<name>/figures.py`).  `process_bytes`:
    the most memory this process has had, Spark's JVM not counted."""

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
    watermark_before_us: int | None = None
    priced: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, Figures] = field(default_factory=dict)
    process_bytes: int = 0

    @property
    def unshared_s(self) -> float:
        """Spark time at the least, were each query a job of its own: as far as families say so."""
        return sum(float(own.get("unshared_s", 0.0)) for own in self.figures.values())

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
    )
    measured = (found.seconds, found.priced)
    is_finite = all(isfinite(value) for own in measured for value in own.values())
    # a watermark never goes away
    began_only = found.watermark_before_us is not None and found.watermark_us is None
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
