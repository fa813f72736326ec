"""What EXPLAIN shows is what runs: the cuts of the aggregate and the ring of every query, whatever
the order in which queries came, and after a restart."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headrace.families.windows import plan
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.job import WindowsWork
from headrace.families.windows.plan import RingAssignment
from headrace.families.windows.sharing import WindowsPlan
from headrace.forecast import recent_stats
from headrace.runtime.ledger import Ledger
from tests.engine.race import Race, rows_of

Placements = dict[int, tuple[object, ...]]


def asked(window: str, where: str = "", what: str = "sum(n) AS t") -> str:
    where = f"WHERE {where} " if where else ""
    return f"SELECT k, {what}, window.end AS we FROM s {where}GROUP BY k, window(ts, {window})"


def placements(found: RingAssignment) -> Placements:
    return {i: (ring.key, found.shares[i].bands) for i, ring in found.ring_of.items()}


def shown(race: Race) -> tuple[Placements, Cuts]:
    race.eng.explain()
    windows = race.eng._plans.by_family["windows"]
    assert isinstance(windows, WindowsPlan)
    ledger = Ledger(race.eng.home.disk, race.eng.home.stream_folder("s"))
    history, own = recent_stats(ledger), windows._of("s")
    return placements(own.assignment(history)), own.made(history)[0]


def running(race: Race) -> tuple[Placements, Cuts]:
    work = race.eng._pipelines.by_name["s"]._works["windows"]
    assert isinstance(work, WindowsWork)
    return placements(work.driver._rings._assignment), work.driver._rings.cutting.cuts()


def one_round(race: Race, first_s: int) -> Placements:
    """Fed to an engine at work: what it then shows is what it ran."""
    number = len(race.files)
    if race.eng._pipelines._thread is None:
        race.eng.start()
    race.feed(rows_of(first_s, 15))
    limit_s = time.monotonic() + 60
    while not any(s.round_id == number for s in race.eng.statistics("s")):
        assert time.monotonic() < limit_s
        time.sleep(0.05)
    assert shown(race) == running(race)
    return running(race)[0]


def restart(race: Race) -> None:
    race.eng.stop()
    race.open()


def test_who_came_first_stays_and_that_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    """Windows of 10 seconds would sit with those of 1 second, had they come together."""
    race = Race(spark, tmp_path)
    race.eng.add(asked("'20 seconds', '10 seconds'"), name="coarse")
    first = one_round(race, 0)
    race.eng.add(asked("'5 seconds', '1 second'"), name="fine")
    race.eng.add(asked("'40 seconds', '10 seconds'"), name="later")
    both = one_round(race, 15)
    assert both | first == both, "nobody is moved for a newcomer"
    assert len({ring for ring, _ in both.values()}) == 2
    assert "2 rings of panes" in race.eng.explain()
    restart(race)
    assert one_round(race, 30) == both, "nor by a restart"
    race.eng.drop("fine")
    one_round(race, 45)
    restart(race)
    one_round(race, 60)
    race.eng.stop()
    race.check("coarse")
    race.check("later", whole=False)


def test_bits_stay_bits_amid_a_crowd(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CROWD_MIN", 4)
    race = Race(spark, tmp_path)
    window = "'60 seconds', '10 seconds'"
    race.eng.add_many({f"bit{i}": asked(window, f"x > {i / 2}") for i in range(3)})
    few = one_round(race, 0)
    race.eng.add_many({f"cell{i}": asked(window, f"x > {i / 2 + 0.25}") for i in range(4)})
    many = one_round(race, 15)
    assert many | few == many
    restart(race)
    assert one_round(race, 30) == many
    for first in range(45, 120, 15):
        one_round(race, first)
    race.eng.stop()
    race.check(*(f"bit{i}" for i in range(3)))


def test_any_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(plan, "CROWD_MIN", 4)
    r, race = Random(seed), Race(spark, tmp_path)
    for step in range(6):
        for i in range(r.randrange(1, 5)):
            grain = r.choice([1, 2, 5, 10])
            where = r.choice(["", f"x > {r.randrange(8) / 4}", f"n < {r.randrange(7)} AND x > 0.5"])
            race.eng.add(
                asked(f"'{grain * 4} seconds', '{grain} seconds'", where), name=f"q{step}{i}"
            )
        if r.random() < 0.5 and len(race.eng.catalog.queries) > 1:
            race.eng.drop(r.choice(list(race.eng.catalog.queries)))
        if r.random() < 0.4:
            restart(race)
        one_round(race, 15 * step)
    race.eng.stop()
    for name in race.eng.catalog.queries:
        race.check(name, whole=False)
