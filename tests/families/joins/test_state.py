"""What the pipelines of relations that are joined have in common."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.families.joins.played import FORCED, Played, stream


def test_one_relation_is_planned_while_another_looks(tmp_path: Path) -> None:
    played = Played(tmp_path / "home", [stream("r"), stream("s")])
    asked = [
        played.add(
            f"q{i}", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON x.n = y.n AND x.b + {i} > 2"
        )
        for i in range(60)
    ]
    stop, seen, errors = threading.Event(), set[int](), list[Exception]()

    def plan() -> None:
        for _ in range(15):
            played.shapes.replan("r", asked)
            played.shapes.replan("r", [])
        stop.set()

    def look() -> None:
        while not stop.is_set():
            try:
                seen.add(len(played.shapes.looks("s", "streams/s", ())[0]))
            except Exception as error:  # noqa: BLE001
                errors.append(error)

    threads = [threading.Thread(target=run) for run in (plan, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    played.home.release()
    assert not errors and seen <= {0, 60}


def test_rates_of_a_relation_are_not_those_of_another_whose_name_begins_like_it(
    tmp_path: Path,
) -> None:
    played = Played(tmp_path / "home", [stream("r"), stream("r2")])
    played.add("q", "SELECT x.u AS u FROM r AS x JOIN r2 AS y ON x.n = y.n")
    for name in ("r", "r2"):
        played.replan(name)
    (look,), _ = played.shapes.looks("r2", "streams/r2", ())
    played.shapes.note({look.levels[0]: FORCED["groups"]})
    played.shapes.looks("r", "streams/r", ())
    assert played.shapes.rates(look.levels) == {look.levels[0]: FORCED["groups"]}
    played.home.release()


def test_levels_are_merged_for_a_round_that_is_large_enough(tmp_path: Path) -> None:
    played = Played(tmp_path / "home", [stream("r"), stream("s")])
    for i in range(14):
        played.add(
            f"q{i}", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON y.b - x.b BETWEEN 0 AND {i}"
        )
        for name in ("r", "s"):
            played.replan(name)
    assert len(played.shapes.looks("r", "streams/r", ())[0][0].levels) > 1
    played.shapes.expect("r", 1_000_000)
    for name in ("r", "s"):
        (look,), _ = played.shapes.looks(name, f"streams/{name}", ())
        assert len(look.levels) == 1
    played.home.release()
