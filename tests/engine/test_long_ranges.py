"""Long ranges beside short ones, and answers in pieces, end to end: Spark's own answers, through
folds and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headrace.families.windows import plan
from headrace.families.windows.pane_log import compaction_plan as fold_plan
from headrace.families.windows.pane_log.background import Compactor
from headrace.families.windows.pane_log.panes import PaneRound
from headrace.families.windows.rings import answering, closing
from headrace.runtime.ledger import Ledger
from tests.engine.race import Race, Row, row, rows_of

QUERIES = {
    "fine": "SELECT k, count(*) AS c, sum(x) AS t, window.end AS we FROM s GROUP BY k, window(ts, '10 seconds')",
    "hour": "SELECT k, max(x) AS hi, min(n) AS lo, window.end AS we FROM s "
    "GROUP BY k, window(ts, '1 hour', '1 minute')",
    "days": "SELECT k, count(*) AS c, sum(big) AS b, avg(x) AS a, stddev(x) AS d, window.end AS we FROM s "
    "GROUP BY k, window(ts, '2 days', '1 day')",
    "where": "SELECT count(x) AS c, sum(n) AS n, window.end AS we FROM s WHERE n > 2 "
    "GROUP BY window(ts, '1 day', '6 hours')",
}
SKETCHED = "SELECT k, median(x) AS m, count(DISTINCT n) AS u, window.end AS we FROM s GROUP BY k, window(ts, '1 hour')"
BANDS = {
    f"band{i}": f"SELECT count(*) AS c, sum(big) AS b, window.end AS we FROM s WHERE x > {i} AND x < {i + 3.5} "
    "GROUP BY window(ts, '1 day', '12 hours')"
    for i in range(6)
}
LATER = {
    "late_fine": "SELECT k, count(*) AS c, window.end AS we FROM s GROUP BY k, window(ts, '3 hours', '10 minutes')",
    "late_days": "SELECT k, sum(big) AS b, window.end AS we FROM s GROUP BY k, window(ts, '1 day')",
}
HOURS = 4


def file_of(index: int, r: Random) -> list[Row]:
    """Four hours of rows."""
    start = index * HOURS * 3600
    times = sorted(r.uniform(start, start + HOURS * 3600 - 1) for _ in range(40))
    return [
        row(
            t,
            r.choice(["a", "b", None]),
            r.randint(1, 7),
            r.choice([None, r.uniform(0, 9)]),
            r.getrandbits(50),
        )
        for t in times
    ]


def reopen_folded(race: Race) -> None:
    """Close the engine, see that rounds have been folded, and open another."""
    race.eng.close()
    newest = Ledger(race.eng.home.disk, race.eng.home.stream_folder("s")).newest
    assert newest is not None and newest.held, "rounds have been folded"
    race.open()


@pytest.mark.timeout(600)
def test_days_beside_seconds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 3)
    monkeypatch.setattr(closing, "ANSWERS_MAX", 7)
    monkeypatch.setattr(answering, "ROWS_MAX", 5)
    r = Random(seed)
    race = Race(spark, tmp_path)
    race.eng.add_many(QUERIES)
    for stretch in range(3):
        race.feed(*(file_of(6 * stretch + i, r) for i in range(6)))
        race.eng.run()
        reopen_folded(race)
        if stretch == 1:
            race.eng.add_many(LATER)
    race.check(*QUERIES)
    race.check(*LATER, whole=False)
    assert len(race.answers("late_days")) >= 3, (
        "folded panes are history for who needs no finer ones"
    )
    pieces = list((tmp_path / "race" / "streams" / "s" / "answers").glob("*.00*.arrow"))
    assert pieces, "answers come in pieces"
    seqs = [a.seq for a in race.eng.watch("fine", follow=False)]
    assert seqs == sorted(set(seqs)) and len(seqs) == len(race.answers("fine"))
    assert "pane log of" in race.eng.explain("days")


@pytest.mark.timeout(600)
def test_sketches_and_cells_do_not_keep_the_log_fine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 3)
    monkeypatch.setattr(plan, "CROWD_MIN", 4)
    r = Random(seed)
    race = Race(spark, tmp_path)
    race.eng.add_many(
        {"days": QUERIES["days"], "sketched": SKETCHED, **dict(list(BANDS.items())[:5])}
    )
    for stretch in range(2):
        race.feed(*(file_of(6 * stretch + i, r) for i in range(6)))
        race.eng.run()
        reopen_folded(race)
        race.eng.add_many({"band5": BANDS["band5"]} if stretch == 0 else {})
    race.feed(*(file_of(12 + i, r) for i in range(6)))
    race.eng.run()
    race.check("days", "sketched", "band0", "band2", "band4")
    race.check("band5", whole=False)
    assert race.answers("band5")


def test_folded_rounds_are_folded_again_with_new_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 3)
    folds = count_folds(monkeypatch)
    race = Race(spark, tmp_path)
    long = (
        "SELECT k, count(x) AS c, stddev(x) AS d, window.end AS we FROM s "
        "GROUP BY k, window(ts, '1000 seconds', '100 seconds')"
    )
    race.eng.add_many({"fine": QUERIES["fine"], "long": long})
    race.feed(*(rows_of(20 * i, 20) for i in range(14)))
    race.eng.run()
    assert any(any(was) and not all(was) for was in folds), (
        "folded files and rounds that were not, in one fold"
    )
    race.check("fine", "long")


def count_folds(monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """Of each fold, which of its files have been folded before."""
    found: list[list[bool]] = []
    fold = Compactor._fold

    def noted(
        self: Compactor, entries: Sequence[PaneRound], due: fold_plan.Compaction
    ) -> PaneRound:
        found.append([e.is_folded for e in entries])
        return fold(self, entries, due)

    monkeypatch.setattr(Compactor, "_fold", noted)
    return found
