"""Totals and rates of an engine's rounds, as seen from outside.

The engine keeps only its recent rounds; a tally takes in each once, and remembers when it saw it.
The clock is passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.statistics import RoundStats

RATE_SPAN_S = 8.0
ROUND_TIMES_KEPT = 10_000


class Tally:
    """Feed it `engine.statistics()` as often as you like."""

    def __init__(self) -> None:
        self.rounds = self.rows = self.late = self.bad = self.answers = self.queries = 0
        self.busy_s = self.unshared_s = 0.0
        self.first_s: float | None = None
        self.first_rows = self.first_answers = 0
        self.watermarks_us: dict[str, tuple[int, int]] = {}
        self.round_times_s: deque[float] = deque(maxlen=ROUND_TIMES_KEPT)
        self._newest: dict[str, int] = {}
        self._recent: deque[tuple[float, RoundStats]] = deque()

    def skip(self, rounds: Iterable[RoundStats]) -> None:
        """Leave out what was there before this run."""
        for stats in rounds:
            self._newest[stats.stream] = max(stats.round_id, self._newest.get(stats.stream, -1))

    def absorb(self, rounds: Iterable[RoundStats], now_s: float) -> None:
        for stats in sorted(rounds, key=lambda s: s.round_id):
            if stats.round_id > self._newest.get(stats.stream, -1):
                self._newest[stats.stream] = stats.round_id
                self._take(stats, now_s)
        while self._recent and self._recent[0][0] < now_s - RATE_SPAN_S:
            self._recent.popleft()

    def _take(self, stats: RoundStats, now_s: float) -> None:
        if self.first_s is None:
            self.first_s = now_s
            self.first_rows, self.first_answers = stats.rows, stats.answers
        self.rounds += 1
        self.rows += stats.rows
        self.late += stats.late
        self.bad += stats.bad
        self.answers += stats.answers
        self.queries = stats.queries
        self.busy_s += stats.seconds.get("total", 0.0) - stats.seconds.get("wait", 0.0)
        self.unshared_s += stats.unshared_s
        self.round_times_s.append(stats.seconds.get("total", 0.0))
        if stats.watermark_us is not None:
            first, _ = self.watermarks_us.get(stats.stream, (stats.watermark_us, 0))
            self.watermarks_us[stats.stream] = (first, stats.watermark_us)
        self._recent.append((now_s, stats))

    # -- what people want to know ------------------------------------------------------------------

    def elapsed_s(self, now_s: float) -> float:
        return 0.0 if self.first_s is None else now_s - self.first_s

    @property
    def event_s(self) -> float:
        """Event time passed, of the stream that went furthest."""
        return max(
            ((last - first) / 1e6 for first, last in self.watermarks_us.values()), default=0.0
        )

    def rows_per_s(self, now_s: float) -> float:
        return sum(stats.rows for _, stats in self._recent) / self._span_s(now_s)

    def answers_per_s(self, now_s: float) -> float:
        return sum(stats.answers for _, stats in self._recent) / self._span_s(now_s)

    def steady(self, now_s: float) -> tuple[float, float]:
        """Rows and answers a second since the first round, which warms everything up; of that, if
        it is all."""
        if self.rounds > 1:
            past_s = max(self.elapsed_s(now_s), 1e-3)
            return (self.rows - self.first_rows) / past_s, (
                self.answers - self.first_answers
            ) / past_s
        return self.rows / max(self.busy_s, 1e-3), self.answers / max(self.busy_s, 1e-3)

    def _span_s(self, now_s: float) -> float:
        """How long the recent rounds took: up to now, from the start of the first of them."""
        if not self._recent:
            return RATE_SPAN_S
        seen_s, stats = self._recent[0]
        return max(now_s - seen_s + stats.seconds.get("total", 0.0), 1e-3)

    @property
    def round_s(self) -> float:
        """The median round."""
        return median(self.round_times_s) if self.round_times_s else 0.0

    @property
    def saving(self) -> float:
        """How many times the work of these rounds the queries would have been as jobs of their
        own."""
        return self.unshared_s / self.busy_s if self.busy_s else 0.0
