"""Running: reading what is there, or going on in the background."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


from headrace.engine.state import EngineState


class Running(EngineState):
    """The part of an engine that runs."""

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        return self._spark.session

    def run(self) -> None:
        """Read what is there, answer it, return.  Every window that the newest row closes has then
        been answered."""
        self._pipelines.drain()

    def start(self) -> None:
        """Keep going in the background until `stop`."""
        self._pipelines.start()

    def stop(self) -> None:
        """Stop after the round under way; raises what made a stream fail meanwhile, if anything
        did."""
        self._pipelines.stop()

    @property
    def is_running(self) -> bool:
        """False also when a stream has failed, or Spark has died and was not started again: `stop`
        says why."""
        return self._pipelines.is_running

    def close(self) -> None:
        """Stop, and let Spark go if it is ours."""
        try:
            self.stop()
        finally:
            self._spark.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
