"""What pipelines have in common may be planned by one while another has its turn."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.families.joins.played import Played, stream


def test_one_relation_is_planned_while_another_looks(tmp_path: Path) -> None:
    played = Played(tmp_path / "home", [stream("r"), stream("s")])
    asked = [
        played.add(f"q{i}", f"SELECT x.u AS u FROM r AS x JOIN s AS y ON x.n = y.n AND x.b + {i} > 2")
        for i in range(60)
    ]
    stop, seen, errors = threading.Event(), set[int](), list[Exception]()

    def plan() -> None:
        for _ in range(15):
            played.joints.replan("r", asked)
            played.joints.replan("r", [])
        stop.set()

    def look() -> None:
        while not stop.is_set():
            try:
                seen.add(len(played.joints.looks("s", "streams/s")[0]))
            except Exception as error:  # noqa: BLE001
                errors.append(error)

    threads = [threading.Thread(target=run) for run in (plan, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    played.home.release()
    assert not errors and seen <= {0, 60}
