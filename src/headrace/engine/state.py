"""What declaring, running and asking have in common: the home, its catalog, Spark, and what is open."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.arguments import check_opening
from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.families.contract import Reader
from headrace.runtime.answers import AnswerLog
from headrace.runtime.home import Home, check_place
from headrace.runtime.ledger import Ledger, check_catalog, check_folder
from headrace.runtime.sparkuse import SparkUse
from headrace.runtime.writing_places import settle
from headrace.supervision import Pipelines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.planning import Plans


class EngineState:
    """Of one engine on one home."""

    def __init__(
        self, home: str | Path, *, spark: SparkSession | None = None, config: Config | None = None
    ) -> None:
        check_opening(home, config)
        check_place(home)
        self.config = config or Config.from_environment()
        self.home = Home(Path(home))
        settle(self.home.root)
        self.catalog = Catalog(self.home.disk, self.config)
        self._spark = SparkUse(spark, self.config, self._packages, self.home.root)
        self._frames: dict[str, DataFrame] = {}
        self._pipelines = Pipelines(
            self.home, self.catalog, self.config, self._spark, self._frames, self._ledger
        )
        self._logs: dict[str, tuple[Ledger, AnswerLog]] = {}
        self._readers: dict[str, Reader] = {}
        self._is_checked = False

    @cached_property
    def _plans(self) -> Plans:
        """What EXPLAIN and `queries` know of the plan."""
        from headrace.planning import Plans

        return Plans(self.catalog)

    def _packages(self) -> list[str]:
        from headrace.runtime.versions import kafka_package

        sources = [relation.source for relation in self.catalog.relations.values()]
        return [kafka_package()] if any(source.startswith("kafka:") for source in sources) else []

    def _refresh(self) -> None:
        """Take in what others have changed; at first see that the catalog is the one the home was
        answered with."""
        self.catalog.refresh()
        if not self._is_checked:
            for folder in self.home.stream_folders():
                check_folder(self.home.disk, folder, self.catalog)
            self._is_checked = True

    def _answers(self, stream: str) -> AnswerLog:
        if stream not in self._logs:
            ledger = self._ledger(stream)
            self._logs[stream] = (ledger, AnswerLog(self.home.disk, ledger))
        ledger, log = self._logs[stream]
        ledger.refresh()
        check_catalog(ledger, self.catalog)
        return log

    def _ledger(self, stream: str) -> Ledger:
        return Ledger(self.home.disk, self.home.stream_folder(stream))
