"""Event times that are taken: from `time_min` to `time_max`, and not too far ahead of the clock.

One row in the year 9999 would move the watermark there, and every row after it would be late; one
in the year 200,000 does not fit the arithmetic of panes.  Such rows are dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.config import Config, utc_us
from headrace.quoting import quote_name
from headrace.runtime.family import BEYOND, steady
from headrace.runtime.sparklogs import Listed
from headrace.values import US_PER_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FOOTERS_MAX = 64
_TICKS_US = {"microseconds": 1, "milliseconds": 1_000}


def footer_span_us(path: Path | None, time: str) -> tuple[int, int] | None:
    """The least and the greatest time of a column, by the statistics of a Parquet file; None if it
    does not tell."""
    try:
        footer = pq.read_metadata(path)
        names = [footer.schema.column(i).path for i in range(footer.num_columns)]
        at = names.index(time)
        tick_us = _TICKS_US[json.loads(footer.schema.column(at).logical_type.to_json())["timeUnit"]]
        found = [footer.row_group(i).column(at).statistics for i in range(footer.num_row_groups)]
        if footer.schema.column(at).physical_type != "INT64" or any(
            s is None or not s.has_min_max for s in found
        ):
            return None
        ends = [end * tick_us for own in found for end in (own.min_raw, own.max_raw)]
        return (min(ends), max(ends)) if ends else None
    # no Parquet file, or one of other columns
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        pa.ArrowException,
    ):
        return None


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Of one round: µs since 1970, both taken; `ahead_us` is None where any distance from the clock
    is."""

    min_us: int
    max_us: int
    ahead_us: int | None

    @staticmethod
    def of(config: Config, now_us: int) -> TimeLimits:
        ahead_us = now_us + config.ahead_ms_max * US_PER_MS if config.ahead_ms_max else None
        return TimeLimits(
            utc_us(config.time_min, "time_min"), utc_us(config.time_max, "time_max"), ahead_us
        )

    @property
    def last_us(self) -> int:
        return self.max_us if self.ahead_us is None else min(self.max_us, self.ahead_us)

    def marked(
        self, frame: DataFrame, time: str | None, files: Sequence[Listed]
    ) -> tuple[DataFrame, bool]:
        """The same rows, but those beyond are marked, and have no time; and whether that was done:
        not where the files say that there are none, as the marks take Spark some milliseconds to
        plan."""
        if time is None or self._holds(files, time):
            return frame, False
        name = quote_name(time)
        us = f"unix_micros({name})"
        beyond = f"({us} < {self.min_us}L OR {us} > {steady(self.last_us, name)})"
        columns = [
            f"IF({beyond}, NULL, {name}) AS {name}" if c == time else quote_name(c)
            for c in frame.columns
        ]
        return frame.selectExpr(*columns, f"{beyond} AS {quote_name(BEYOND)}"), True

    def _holds(self, files: Sequence[Listed], time: str) -> bool:
        """Whether the footers of these Parquet files say that all event times are taken."""
        if not 0 < len(files) <= FOOTERS_MAX:
            return False
        spans = (footer_span_us(file.local, time) for file in files)
        return all(
            span is not None and self.min_us <= span[0] and span[1] <= self.last_us
            for span in spans
        )

    def reason(self, us: int, config: Config) -> str:
        """Why a time is not taken."""
        if us < self.min_us:
            return f"its event time is before time_min = {config.time_min}"
        if us > self.max_us:
            return f"its event time is after time_max = {config.time_max}"
        return f"its event time is further ahead of the clock than ahead_ms_max = {config.ahead_ms_max:,}"
