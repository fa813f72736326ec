"""Running: reading what is there, or going on in the background."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


from headrace.engine.state import EngineState
from headrace.errors import HeadraceError
from headrace.runtime.sparkuse import is_sparks


class Running(EngineState):
    """The part of an engine that runs."""

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        with self._naming_log():
            return self._spark.session

    def run(self) -> None:
        """Read what is there, answer it, return.  Every window that the newest row closes has then
        been answered."""
        with self._naming_log():
            self._pipelines.drain()

    def start(self) -> None:
        """Keep going in the background until `stop`."""
        with self._naming_log():
            self._pipelines.start()

    def stop(self) -> None:
        """Stop after the round under way; raises what made a stream fail meanwhile, if anything
        did."""
        with self._naming_log():
            self._pipelines.stop()

    def prepare(self, *, whole: bool = False) -> list[HeadraceError]:
        """Look whether the sources that queries read are there, and start Spark in the background.
        `run` and `start` do so too; whoever has something else to do first gains its time.  Returns
        what is not there; raises it where nothing is, or, with `whole`, anything is not."""
        self._refresh()
        return self._pipelines.prepare(whole=whole)

    @contextmanager
    def _naming_log(self) -> Iterator[None]:
        """An error that Spark caused says where Spark's own words are."""
        try:
            yield
        except HeadraceError as error:
            log = self._spark.log
            if log is not None and log.path.exists() and is_sparks(error):
                error.name_log(str(log.path))
            raise

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
