"""Event times that are taken: from `time_min` to `time_max`, and not too far ahead of the clock.

One row in the year 9999 would move the watermark there, and every row after it would be late; one in the year 200,000
does not fit the arithmetic of panes.  Such rows are dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.config import Config, utc_us
from headrace.quoting import quote_name
from headrace.runtime.family import BEYOND, steady
from headrace.values import US_PER_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Of one round: µs since 1970, both taken; `ahead_us` is None where any distance from the clock is."""

    min_us: int
    max_us: int
    ahead_us: int | None

    @staticmethod
    def of(config: Config, now_us: int) -> TimeLimits:
        ahead_us = now_us + config.ahead_ms_max * US_PER_MS if config.ahead_ms_max else None
        return TimeLimits(utc_us(config.time_min, "time_min"), utc_us(config.time_max, "time_max"), ahead_us)

    @property
    def last_us(self) -> int:
        return self.max_us if self.ahead_us is None else min(self.max_us, self.ahead_us)

    def marked(self, frame: DataFrame, time: str) -> DataFrame:
        """The same rows, but those beyond are marked, and have no time."""
        name = quote_name(time)
        us = f"unix_micros({name})"
        beyond = f"({us} < {self.min_us}L OR {us} > {steady(self.last_us, name)})"
        columns = [f"IF({beyond}, NULL, {name}) AS {name}" if c == time else quote_name(c) for c in frame.columns]
        return frame.selectExpr(*columns, f"{beyond} AS {quote_name(BEYOND)}")

    def reason(self, us: int, config: Config) -> str:
        """Why a time is not taken."""
        if us < self.min_us:
            return f"its event time is before time_min = {config.time_min}"
        if us > self.max_us:
            return f"its event time is after time_max = {config.time_max}"
        return f"its event time is further ahead of the clock than ahead_ms_max = {config.ahead_ms_max:,}"
