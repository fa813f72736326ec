"""How often Spark is started again when it dies under an engine."""

from __future__ import annotations

from headrace.config import Config


class Restarts:
    """How often in a row Spark is started again, after pauses that double; a committed round ends
    the row."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._used = 0

    @property
    def are_left(self) -> bool:
        return self._used < self._config.restart

    def next_pause_s(self) -> float:
        """One more is used up: how long to wait before it."""
        pause_ms = min(
            self._config.restart_pause_ms << min(self._used, 30), self._config.restart_pause_ms_max
        )
        self._used += 1
        return pause_ms / 1_000

    def end_row(self) -> None:
        self._used = 0
