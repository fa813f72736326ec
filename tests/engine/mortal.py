"""An engine whose Spark is killed: the child of `test_spark_gone.py`, which tells what it sees as
lines of JSON.

As a script: `python mortal.py FOLDER FORM`, on the folder's home, with a Spark of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
from headrace.config import Config
from headrace.errors import HeadraceError
from tests.engine.race import DDL, rows_of, table_of
from tests.streams import write_file

SUMS = "SELECT k, sum(n) AS t FROM s GROUP BY k, window(ts, '5 seconds')"
WAIT_S = 60.0


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def feed(folder: Path, index: int) -> None:
    write_file(folder / "src", index, table_of(rows_of(index * 10, 10)))


def until(what: Callable[[], bool]) -> float:
    """How long it took."""
    began_s = time.monotonic()
    while not what():
        assert time.monotonic() < began_s + WAIT_S, "it never came"
        time.sleep(0.01)
    return time.monotonic() - began_s


def java(eng: headrace.Engine) -> int:
    """The process of Spark's Java."""
    gateway: Any = eng.spark.sparkContext._gateway
    return int(gateway.proc.pid)


def kill_java(eng: headrace.Engine) -> None:
    os.kill(java(eng), signal.SIGKILL)


def engine(folder: Path, **settings: Any) -> headrace.Engine:
    (folder / "src").mkdir(exist_ok=True)
    config = Config.of(
        master="local[2]", driver_memory="1g", **{"restart_pause_ms": 50, **settings}
    )
    eng = headrace.Engine(folder / "race", config=config)
    eng.create_stream("s", f"parquet:{folder / 'src'}?maxFilesPerTrigger=1", schema=DDL, time="ts")
    if not eng.queries():
        eng.add(SUMS, name="q")
    return eng


def code_of(call: Callable[[], object]) -> str:
    try:
        call()
    except HeadraceError as error:
        assert error.what and error.hint, error
        return error.code
    return "none"


def watch_aside(eng: headrace.Engine) -> tuple[threading.Thread, list[int]]:
    seen: list[int] = []

    def watch() -> None:
        for answer in eng.watch("q"):
            seen[len(seen) :] = [answer.seq]

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread, seen


def told(folder: Path) -> None:
    """Killed between rounds, and nobody starts it again: noticed within a second, told, the home
    let go."""
    eng = engine(folder)
    feed(folder, 0)
    eng.start()
    watcher, seen = watch_aside(eng)
    until(lambda: bool(seen))
    race = folder / "race"
    open_to_others = [
        str(p)
        for p in (race, *race.rglob("*"))
        if p.lstat().st_mode & 0o077 and p.name != "userFiles"
    ]
    say(open=open_to_others, scratch=len(list(race.glob("tmp/spark-*/*"))) > 1)
    kill_java(eng)
    noticed_s = until(lambda: not eng.is_running)
    watcher.join(5)
    other = headrace.Engine(folder / "race")
    other.home.hold()  # nobody has stopped the first, and yet it is free
    other.home.release()
    say(
        noticed_s=noticed_s,
        watches=watcher.is_alive(),
        stop=code_of(eng.stop),
        again=code_of(eng.stop),
    )
    eng.close()
    say(close=code_of(eng.close))


def drained(folder: Path) -> None:
    """Killed under `run`: told, and the next `run` of the same engine starts Spark again."""
    eng = engine(folder)
    for index in range(8):
        feed(folder, index)

    def kill() -> None:
        until(lambda: bool(eng.statistics()))
        kill_java(eng)

    killer = threading.Thread(target=kill)
    killer.start()
    say(run=code_of(eng.run))
    killer.join()
    other = headrace.Engine(folder / "race")
    other.home.hold()
    other.home.release()
    say(again=code_of(eng.run))
    eng.close()


def restarted(folder: Path) -> None:
    """Killed and started again; killed again, and stopped in the pause before the next start."""
    eng = engine(folder, restart=1, restart_pause_ms=1_000)
    feed(folder, 0)
    eng.start()
    watcher, seen = watch_aside(eng)
    until(lambda: bool(seen))
    rows, before = len(seen), java(eng)
    kill_java(eng)
    feed(folder, 1)
    until(lambda: len(seen) > rows)
    say(runs=eng.is_running, is_another=java(eng) != before, watches=watcher.is_alive())
    kill_java(eng)
    until(lambda: running_java() is None)
    say(stop=code_of(eng.stop))
    eng.close()


def given_up(folder: Path) -> None:
    """Every Spark is killed as soon as it is there: no round is committed in between."""
    eng = engine(folder, restart=2)
    feed(folder, 0)
    eng.start()
    killed = set[int]()
    while eng.is_running:
        if (pid := running_java()) is not None and pid not in killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.05)
    say(kills=len(killed), stop=code_of(eng.stop))
    eng.close()


def running_java() -> int | None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = None if gateway is None else gateway.__dict__.get("proc")
    return None if process is None or process.poll() is not None else int(process.pid)


FORMS = {f.__name__: f for f in (told, drained, restarted, given_up)}

if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    FORMS[sys.argv[2]](Path(sys.argv[1]))
