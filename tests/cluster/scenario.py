"""What a process of its own does on a cluster, or on one machine; its last line is what came of it,
as JSON.

    python -m tests.cluster.scenario PLAY FOLDER SEED

Where the environment says which master, and with which settings.  A play that waits says `ready`,
and goes on when a line comes on standard input.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.config import Config
from headrace.engine import Engine
from headrace.errors import HeadraceError
from headrace.runtime.cluster import Cluster
from headrace.runtime.session import make_session
from tests.everything import QUERIES, Answers, declare, feed, play, steps
from tests.streams import canonical

ROUND_S_MAX = 600.0
BRIEF = ("vwap", "kinds", "filtered", "near", "capped", "texts", "totals", "caps")
PLAIN = ("texts", "totals", "plain_window")
Told = dict[str, Any]


def everything(folder: Path, seed: int) -> Answers:
    """Three engines, each with a Spark of its own."""
    return play(folder / "src", steps(seed), lambda: Engine(folder / "race"))


def lent(folder: Path, seed: int) -> Answers:
    """One engine on a session that was made elsewhere, and one step: the quick one."""
    spark = make_session(Config.from_environment())
    try:
        return brief(folder, seed, lambda: Engine(folder / "race", spark=spark), 1)
    finally:
        spark.stop()


def own(folder: Path, seed: int) -> Answers:
    """Engines with a Spark of their own."""
    return brief(folder, seed, lambda: Engine(folder / "race"))


def brief(folder: Path, seed: int, open_engine: Callable[[], Engine], count: int = 2) -> Answers:
    """A query of each kind, so many steps, an engine for each: the later ones recover."""
    found: Answers = {}
    for number, step in enumerate(steps(seed)[:count]):
        feed(folder / "src", number, step)
        with open_engine() as eng:
            declare(eng, folder / "src")
            if number == 0:
                eng.add_many({name: QUERIES[name] for name in BRIEF})
            eng.run()
            found = _present(eng)
    return found


def interrupted(folder: Path, seed: int) -> Answers:
    """It runs on while somebody does something to the cluster."""
    sources, played = folder / "src", steps(seed)[:2]
    with Engine(folder / "race") as eng:
        declare(eng, sources)
        eng.add_many({name: QUERIES[name] for name in BRIEF})
        feed(sources, 0, played[0])
        eng.run()
        eng.start()
        wait()
        feed(sources, 1, played[1])
        _until_read(eng, sum(step.rows["trades"].num_rows for step in played))
        eng.stop()
        eng.run()  # tables and joined streams too have read all there is
        return _present(eng)


def _present(eng: Engine) -> Answers:
    states = {info.name: (info.state, info.reason) for info in eng.queries()}
    assert all(state == "live" for state, _ in states.values()), states
    found: Answers = {}
    for name in BRIEF:
        outputs = eng.catalog.query(name).query.outputs
        found[name] = canonical(eng.read(name), [output.name for output in outputs])
    return found


def plain(folder: Path, seed: int) -> Told:
    """Only queries that Spark itself answers and writes; what is told when that fails."""
    return _told(folder, seed, {name: QUERIES[name] for name in PLAIN})


def blind(folder: Path, seed: int) -> Told:
    """As if executors had not been asked whether they see the home."""
    _ask_nobody()
    return plain(folder, seed)


def blind_joins(folder: Path, seed: int) -> Told:
    _ask_nobody()
    return _told(folder, seed, {name: QUERIES[name] for name in ("near", "filtered")})


def _ask_nobody() -> None:
    Cluster.check = Cluster.check_new = lambda self: None  # type: ignore[method-assign]


def late(folder: Path, seed: int) -> Told:
    """An executor comes after the first round."""
    queries = {name: QUERIES[name] for name in PLAIN}

    def joined(eng: Engine) -> None:
        wait()
        java: Any = eng.spark.sparkContext._jsc
        while java.sc().getExecutorMemoryStatus().size() < 3:  # the driver is one of them
            time.sleep(0.1)

    return _told(folder, seed, queries, between=joined)


def _told(
    folder: Path,
    seed: int,
    queries: dict[str, str],
    between: Callable[[Engine], None] | None = None,
) -> Told:
    sources, played = folder / "src", steps(seed)
    error: HeadraceError | None = None
    with Engine(folder / "race") as eng:
        declare(eng, sources)
        eng.add_many(queries)
        try:
            for number, step in enumerate(played[: 1 if between is None else 2]):
                feed(sources, number, step)
                eng.run()
                if between is not None and number == 0:
                    between(eng)
        except HeadraceError as found:
            error = found
        counts = {info.name: info.answers for info in eng.queries()}
        states = [info.state for info in eng.queries()]
        rounds = len(eng.statistics("trades"))
    told = None if error is None else {"code": error.code, "text": str(error)}
    return {"error": told, "rounds": rounds, "answers": counts, "states": states}


def wait() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _until_read(eng: Engine, rows: int) -> None:
    start_s = time.monotonic()
    while sum(r.rows for r in eng.statistics("trades")) < rows:
        if not eng.is_running:
            eng.stop()
        assert time.monotonic() - start_s < ROUND_S_MAX, "rows are not read"
        time.sleep(0.1)


PLAYS: dict[str, Callable[[Path, int], Any]] = {
    call.__name__: call
    for call in (everything, lent, own, interrupted, plain, blind, blind_joins, late)
}

if __name__ == "__main__":
    came_of_it = PLAYS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(came_of_it, default=str), flush=True)
