"""A round is answered while Spark reads the next: what goes wrong there stays with the round it
belongs to."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.runtime.ledger import Ledger, Manifest
from tests.engine.race import DDL, Race, row, rows_of

W = "window(ts, '10 seconds')"
QUERIES = {
    "sums": f"SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, {W}",
    "long": "SELECT max(x) AS m, window.end AS we FROM s WHERE n > 2 GROUP BY window(ts, '30 seconds', '5 seconds')",
}
PATIENCE_S = 60.0


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, at_round: int) -> None:
    """The manifest of this round cannot be written."""
    commit = Ledger.commit

    def full(self: Ledger, manifest: Manifest) -> None:
        if manifest.round_id == at_round:
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(self, manifest)

    monkeypatch.setattr(Ledger, "commit", full)


def test_a_round_spark_takes_for_done_is_done_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(*(rows_of(20 * i, 20) for i in range(4)))
    with monkeypatch.context() as broken:
        fill_the_disk(broken, 1)
        with pytest.raises(HeadraceError) as found:
            race.eng.run()
        assert found.value.code == "DISK_FULL"
    done = {p.name for p in (tmp_path / "race").glob("streams/s/checkpoint/commits/*")}
    assert "1" in done, "Spark has not gone ahead: this test shows nothing"
    race.eng.run()
    race.check(*QUERIES)
    assert len(race.eng.statistics()) == 4


def test_a_given_dataframe_is_not_read_ahead(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source may be told to delete what Spark has done with."""
    race = Race(spark, tmp_path)
    race.feed(*(rows_of(20 * i, 20) for i in range(3)))
    frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(race.src))
    race.eng.create_stream("given", frame, time="ts")
    race.eng.add(f"SELECT k, sum(n) AS t FROM given GROUP BY k, {W}", name="q")
    with monkeypatch.context() as broken:
        fill_the_disk(broken, 1)
        with pytest.raises(HeadraceError):
            race.eng.run()
    done = {p.name for p in (tmp_path / "race").glob("streams/given/checkpoint/commits/*")}
    assert "0" in done and "1" not in done
    race.eng.run()
    assert race.eng.results("q").num_rows == 15


def test_a_failure_after_the_last_round_is_said(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other round comes that could say it."""
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.feed(rows_of(0, 20), rows_of(20, 20))
    with monkeypatch.context() as broken:
        fill_the_disk(broken, 1)
        race.eng.start()
        until = time.monotonic() + PATIENCE_S
        while race.eng.is_running and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(HeadraceError, match="disk"):
            race.eng.stop()
    race.eng.run()
    race.check(*QUERIES)


def test_who_fails_in_its_answer_is_not_in_the_next_round(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The next round has been read with it already."""
    race = Race(spark, tmp_path)
    race.eng.add_many(
        {**QUERIES, "bad": f"SELECT sum(x) / min(n) AS r, window.end AS we FROM s GROUP BY {W}"}
    )
    race.feed(rows_of(0, 11), [row(11, n=0), *rows_of(12, 18)], rows_of(30, 20), rows_of(50, 20))
    race.eng.run()
    assert race.state("bad")[0] == "quarantined"
    assert race.eng.results("bad").num_rows == 1
    race.check(*QUERIES)


def test_queries_that_come_while_a_round_is_answered(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    race.eng.start()
    for i in range(6):
        race.feed(rows_of(20 * i, 20))
        race.eng.add(QUERIES["sums"], name=f"sums{i}")
        if i > 1:
            race.eng.drop(f"sums{i - 2}")
        time.sleep(0.2)
    until = time.monotonic() + PATIENCE_S
    while len(race.eng.statistics()) < 6 and time.monotonic() < until:
        time.sleep(0.05)
    race.eng.stop()
    race.check(*QUERIES)
    race.check("sums4", "sums5", whole=False)
