"""What `headrace bench cluster` makes of its rounds; on executors it is run by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.bench import cluster
from headrace.bench.cluster import MASTERS, Bench, Drain, Extent, figures_of, together
from headrace.bench.report import benchmarks
from headrace.runtime.statistics import RoundStats

SMALL = Extent(1, 800, 20, 30, 2)


def drain(cycle_s: float, **seconds: float) -> Drain:
    own = {"total": sum(seconds.values()), "cycle": cycle_s, "wait": 9.0, **seconds}
    return Drain((RoundStats("r", 3, 100, 0, 0, 0, 2, 0, 0, own),))


def test_the_drivers_share_is_what_no_executor_works_on() -> None:
    assert drain(1.0, spark=0.6, roll=0.1, commit=0.3).driver_share == pytest.approx(0.4)
    assert drain(1.0, joins=0.9, commit=0.1).driver_share == pytest.approx(0.1)


def test_each_is_held_against_as_many_threads() -> None:
    slow, fast = drain(2.0, spark=1.0, roll=1.0), drain(0.5, spark=0.4, roll=0.1)
    own = {
        name: {"windows": slow if name.startswith("exec") else fast, "joins": fast}
        for name in MASTERS
    }
    figures = {f.name: f.value for f in figures_of(own, SMALL)}
    assert figures["windows_executors_1_ratio"] == 0.25 and figures["joins_executors_2_ratio"] == 1
    assert figures["windows_local_2_rows_per_s"] == 200
    assert figures["windows_executors_2_driver_share"] == 0.5
    assert together([own["local_1"], own["local_2"]])["joins"].rows_per_s == 200


def test_every_round_has_a_file_for_each_executor(tmp_path: Path) -> None:
    told: list[str] = []
    Bench(tmp_path, SMALL, told.append).prepare()
    rounds = cluster.WARM_ROUNDS + SMALL.rounds
    for name in ("trades", "r"):
        files = sorted((tmp_path / name).glob("*.parquet"))
        assert len(files) == rounds * cluster.FILES_PER_ROUND and told
        assert sum(pq.read_metadata(f).num_rows for f in files) == rounds * SMALL.rows
    assert "cluster" in benchmarks()
