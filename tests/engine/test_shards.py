"""Windows in shards have the answers of windows that the driver holds, and of Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.families.windows.figures import figures_of
from headrace.families.windows.job import WindowsWork
from headrace.families.windows.shards import job
from headrace.families.windows.shards.shard import ShardTask, answer_shard
from headrace.families.windows.sharing import WindowsPlan
from headrace.forecast import recent_stats
from headrace.runtime.ledger import Ledger
from tests.streams import EPOCH_US, write_file

DDL = "k BIGINT, side STRING, x DOUBLE, n INT, ts TIMESTAMP"
SHARDED = Config.of(driver_state_bytes_max=0, shards=3)
QUERIES = {
    "sums": "SELECT k, sum(x) AS s, count(*) AS c FROM s GROUP BY k, window(ts, '20 seconds', '10 seconds')",
    "alerts": "SELECT k, side, avg(n) AS a FROM s WHERE n > 2 GROUP BY k, side, window(ts, '10 seconds') "
    "HAVING count(*) > 1",
    "odd": "SELECT k, max(x) - min(x) AS gap FROM s WHERE k % 3 = 0 GROUP BY k, window(ts, '30 seconds', '10 seconds')",
    "sides": "SELECT side, avg(x) AS d FROM s GROUP BY side, window(ts, '10 seconds')",
    "all": "SELECT count(DISTINCT k) AS kinds FROM s GROUP BY window(ts, '20 seconds', '10 seconds')",
}


def rows_of(index: int, groups: int = 200, rows: int = 600) -> pa.Table:
    """Ten seconds of rows; some are late, some groups come and go, some keys are null."""
    ids = range(rows)
    start = EPOCH_US + index * 10_000_000
    keys = [None if i % 97 == 5 else (i * 7919 + index * 13) % groups + index * 10 for i in ids]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "side": pa.array([["buy", "sell", None][(i + index) % 3] for i in ids]),
            "x": pa.array([((i * 31 + index) % 1000) / 8 for i in ids]),
            "n": pa.array([i % 11 - 2 for i in ids], pa.int32()),
            "ts": pa.array(
                [start + i * 10_000_000 // rows - (40_000_000 if i % 50 == 3 else 0) for i in ids],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


class Race:
    """One home, fed file by file."""

    def __init__(self, spark: SparkSession, folder: Path, config: Config) -> None:
        self.spark, self.folder, self.config, self.files = spark, folder, config, 0

    def open(self) -> headrace.Engine:
        eng = headrace.Engine(self.folder / "race", spark=self.spark, config=self.config)
        source = f"parquet:{self.folder / 'src'}?maxFilesPerTrigger=1"
        eng.create_stream("s", source, schema=DDL, time="ts", late="2 seconds")
        return eng

    def feed(self, files: int) -> None:
        for _ in range(files):
            write_file(self.folder / "src", self.files, rows_of(self.files))
            self.files += 1


def answers(eng: headrace.Engine, names: Any) -> dict[str, list[Any]]:
    return {
        name: sorted(map(repr, (r.values() for r in eng.results(name).to_pylist())))
        for name in names
    }


def shards_of(eng: headrace.Engine) -> dict[str, Any]:
    found: dict[str, Any] = eng.statistics("s")[-1].figures["windows"]["shards"]
    return found


def run(race: Race, steps: Any) -> dict[str, list[Any]]:
    """Files are fed, queries added (text) and dropped (None), engines closed and opened again."""
    names: list[str] = []
    found: dict[str, list[Any]] = {}
    for step in steps:
        with race.open() as eng:
            for name, sql in step.items():
                if sql is None:
                    eng.drop(name)
                    names.remove(name)
                else:
                    eng.add(sql, name=name)
                    names.append(name)
            race.feed(4)
            eng.run()
            found = answers(eng, names)
            assert all(q.state == "live" for q in eng.queries()), eng.queries()
    return found


def compare(spark: SparkSession, folder: Path, config: Config, *steps: Any) -> headrace.Engine:
    """The engine that had shards; both answer alike."""
    held = run(Race(spark, folder / "driver", Config()), steps)
    race = Race(spark, folder / "shards", config)
    sharded = run(race, steps)
    assert sharded == held
    assert all(held.values())
    return race.open()


def test_shards_answer_as_the_driver_does(spark: SparkSession, tmp_path: Path) -> None:
    with compare(spark, tmp_path, SHARDED, QUERIES) as eng:
        told = shards_of(eng)
        assert (told["queries"], told["keys"], told["count"], told["anew"]) == (3, ["k"], 3, 0)
        first = eng.statistics("s")[0].figures["windows"]["shards"]
        assert first["anew"] == 3 and not told["homeless"]
        shown = eng.explain()
        assert "windows in shards, on executors: 3 queries" in shown
        assert "told apart by k, into 3, as driver_state_bytes_max = 0" in shown
        assert "in shards" in eng.explain("sums") and "in shards" not in eng.explain("sides")


def test_shards_are_opened_again_in_the_same_process(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path, SHARDED)
    with race.open() as eng:
        eng.add_many(QUERIES)
        for _ in range(2):
            race.feed(2)
            eng.run()
        assert shards_of(eng)["count"] == 3
        assert plan_of(eng) == running(eng), "what EXPLAIN shows is what runs"


def plan_of(eng: headrace.Engine) -> Any:
    """What the driver's and the shards' aggregates are, as EXPLAIN has it."""
    windows = eng._plans.by_family["windows"]
    eng.explain()
    assert isinstance(windows, WindowsPlan)
    history = recent_stats(Ledger(eng.home.disk, eng.home.stream_folder("s")))
    shards = figures_of(history[-1]).shards
    assert shards is not None
    return [own.made(history)[0] for own in windows._of("s").sides(shards)]


def running(eng: headrace.Engine) -> Any:
    work = eng._pipelines.by_name["s"]._works["windows"]
    assert isinstance(work, WindowsWork) and work.shards is not None
    return [work.driver._rings.cutting.cuts(), work.shards.seating.cutting.cuts()]


def test_queries_come_and_go_and_shards_are_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    """A home keeps its number of shards, whatever the settings say later; and Spark's tasks write
    the parts of rounds that are not small."""
    more = {
        "later": "SELECT k, avg(x) AS a FROM s GROUP BY k, window(ts, '30 seconds', '10 seconds')",
        "sums": None,
    }
    race = compare(spark, tmp_path, replace(SHARDED, one_task_bytes_max=0), QUERIES, more)
    with race as eng:
        assert shards_of(eng)["queries"] == 3
    fewer = Race(spark, tmp_path / "shards", Config.of(driver_state_bytes_max=0, shards=7))
    fewer.files = 8
    fewer.feed(1)
    with fewer.open() as eng:
        eng.run()
        assert shards_of(eng)["count"] == 3 and shards_of(eng)["anew"] == 3


def test_what_the_driver_holds_is_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    """No window is lost or answered twice: the driver answers those that began before."""
    config = Config.of(driver_state_bytes_max=1, shards=3)
    with compare(spark, tmp_path, config, QUERIES, {}, {}) as eng:
        rounds = [s.figures["windows"] for s in eng.statistics("s")]
        begun = next(i for i, own in enumerate(rounds) if own.get("shards"))
        assert 0 < begun < len(rounds) - 1
        assert "driver_state_bytes_max = 1" in rounds[-1]["shards"]["why"]
        # queries of the driver's own plan, while it hands over and after
        assert rounds[begun]["predicates"] > rounds[-1]["predicates"] == 0


@pytest.mark.slow
def test_old_rounds_of_shards_are_folded(spark: SparkSession, tmp_path: Path) -> None:
    """Rings made anew from folded rounds, and queries that come later, find all rows."""
    long = "FROM s GROUP BY k, window(ts, '400 seconds', '50 seconds')"
    first = {"sums": QUERIES["sums"], "long": f"SELECT k, sum(x) AS s, max(n) AS m {long}"}
    steps: tuple[dict[str, str], ...] = (
        {**first, "odd": QUERIES["odd"]},
        {},
        {"also": f"SELECT k, avg(x) AS s {long}"},
    )
    config = Config.of(driver_state_bytes_max=0, shards=3, log_rounds_max=4)
    with compare(spark, tmp_path, config, *steps) as eng:
        told = shards_of(eng)
        assert told["log_files"] < 3 * 12, "of twelve rounds"
    folded = list((tmp_path / "shards" / "race" / "streams" / "s" / "shards" / "folded").iterdir())
    assert folded and len(folded) % 3 == 0, "all shards fold the same rounds"


@pytest.mark.slow
def test_parts_wait_until_a_pane_closes(spark: SparkSession, tmp_path: Path) -> None:
    """Engines that start while parts wait, and queries that come then, with finer panes."""
    slow = "FROM s GROUP BY k, window(ts, '80 seconds', '40 seconds')"
    first = {"slow": f"SELECT k, sum(x) AS s, count(*) AS c {slow}"}
    fine = {"fine": "SELECT k, max(n) AS m FROM s GROUP BY k, window(ts, '20 seconds')"}
    with compare(spark, tmp_path, SHARDED, first, {}, fine, {}) as eng:
        told = [s.seconds.get("answer", 0.0) > 0 for s in eng.statistics("s")]
    assert told[0] and sum(told) < len(told) == 16
    assert told.count(False) >= 4, "most rounds of ten seconds close no pane of forty"


@pytest.mark.slow
def test_a_worker_that_dies_takes_its_shard_with_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is tried again, and the shard made anew."""
    mark = tmp_path / "felled"

    def dying(shard: int, task: ShardTask, seats: Any) -> Any:
        import os
        import signal

        report = answer_shard(shard, task, seats)
        if (shard, task.round.id) == (1, 2) and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return report

    monkeypatch.setattr(job, "answer_shard", dying)
    with compare(spark, tmp_path, SHARDED, QUERIES) as eng:
        rounds = [s.figures["windows"]["shards"]["anew"] for s in eng.statistics("s")]
    assert mark.exists() and rounds[0] == 3 and rounds[1] == 0 < rounds[2]
