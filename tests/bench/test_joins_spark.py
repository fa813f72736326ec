"""Joins through Spark: ours and the peer count the same pairs, and what is read are the answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.bench.joins import on_spark
from headrace.bench.joins.on_spark import STAGES, Extent, beside, measure
from headrace.bench.joins.spark_peer import Counted, Peer
from headrace.bench.joins.workload import Bands, draw_bands, draw_events, draw_rows

SMALL = Extent(40, 300, 1, 50)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "ROWS", 200)


def test_the_peer_counts_every_pair_that_has_a_row(spark: SparkSession) -> None:
    rng = np.random.default_rng(1)
    bands, s, b = draw_bands(rng, 60, 600.0), draw_rows(rng, 20), draw_events(rng, 80)
    found = Peer(spark, bands, s).affected(pa.table({"b": pa.array(b, pa.int32())}))
    apart = s[:, None, None] - b[None, :, None]
    wanted = ((apart >= bands.lo) & (apart <= bands.hi)).any(axis=0).sum()
    assert found.pairs == wanted and 0 < wanted < 60 * 80 and found.seconds > 0


def test_a_short_run_has_all_figures(spark: SparkSession) -> None:
    told: list[str] = []
    figures = {f.name: f for f in measure(spark, SMALL, told.append)}
    for kind in ("band", "select"):
        assert {f"spark_{kind}_{stage}_s" for stage in STAGES} <= set(figures)
        assert (
            figures[f"spark_{kind}_record_bytes"].value > 0
            and figures[f"spark_{kind}_joins_s"].value > 0
        )
    assert 0 < figures["spark_band_affected"].value < SMALL.queries
    ours, peer = (figures[f"spark_band_{name}events_per_s"].value for name in ("", "peer_"))
    assert figures["spark_band_ratio"].value == pytest.approx(ours / peer)
    assert figures["spark_band_answers_per_s"].value > 0 and told
    assert figures["spark_change_ms"].value > 0


def test_counts_that_differ_are_no_figure() -> None:
    figures = {f.name: f for f in beside(3_000.0, SMALL, 70, Counted(70, 2.0))}
    assert figures["spark_band_ratio"].value == 120 and figures["spark_band_ratio"].note.endswith(
        "met"
    )
    assert beside(2_000.0, SMALL, 70, Counted(70, 2.0))[-1].note.endswith("MISSED")
    with pytest.raises(AssertionError, match="70 pairs in our records, 71 by Spark"):
        beside(3_000.0, SMALL, 70, Counted(71, 2.0))


def test_queries_that_are_read_have_answers_but_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_spark, "READ", 1)
    bands = Bands(np.array([0, 0, 90_000]), np.array([9_000, 10, 90_001]))
    s = np.arange(0, 10_000)
    monkeypatch.setattr(on_spark, "ANSWERS_MAX", 200_000)
    assert on_spark._modest(bands, s, 10_000) == [1]


def test_records_are_those_of_the_round(tmp_path: Path) -> None:
    """An event of each group; a pair by both ends counts once."""
    bands = Bands(np.array([0, 5, 100]), np.array([10, 12, 120]))
    columns = {"e": [0], "l0": [2], "r0": [1], "l1": [0], "r1": [1]}  # the larger group first
    path = tmp_path / "records.arrow"
    table = pa.table({name: pa.array(own, pa.int32()) for name, own in columns.items()})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    assert on_spark.affected_pairs(bands, [path]) == 3
