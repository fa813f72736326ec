"""Python workers of Spark that are killed under their work: tried again, or told in our words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.errors import RoundError
from headrace.families.joins import job
from headrace.families.joins.levels.probing import Task
from headrace.runtime.cluster import Work
from tests.engine.race import said
from tests.engine.test_join_restarts import BOTH, feed
from tests.engine.test_joins import Joined


def kill_workers(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int) -> None:
    """The first so many workers of each round's work kill themselves; counted by files, for each is
    another process."""
    taking = job._taking
    folder.mkdir()

    def dying(task: Task) -> Work:
        work = taking(task)

        def take(batches):  # type: ignore[no-untyped-def]
            import os
            import signal

            felled = len(list(folder.iterdir()))
            if felled < times:
                (folder / str(felled)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield from work(batches)

        return take

    monkeypatch.setattr(job, "_taking", dying)


def test_a_killed_worker_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = Joined(spark, tmp_path, {"r": False, "s": True}, Config.of(worker_tries=3))
    joined.eng.add_many(BOTH)
    kill_workers(monkeypatch, tmp_path / "felled", 2)
    feed(joined, random.Random(1), 0)
    joined.eng.run()
    assert len(list((tmp_path / "felled").iterdir())) == 2
    joined.check(BOTH)


def test_workers_that_are_always_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = Joined(spark, tmp_path, {"r": False, "s": True}, Config.of(worker_tries=2))
    joined.eng.add_many(BOTH)
    feed(joined, random.Random(2), 0)
    with monkeypatch.context() as patched:
        kill_workers(patched, tmp_path / "felled", 1_000)
        with pytest.raises(RoundError) as found:
            joined.eng.run()
    said(found.value, "WORKER_GONE", "Python worker", "maxFilesPerTrigger")
    joined.eng.run()
    joined.check(BOTH)
