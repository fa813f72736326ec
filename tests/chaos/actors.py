"""Who brings rows and queries to a chaos run, while it is disturbed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import headrace
from headrace.errors import HeadraceError
from tests.chaos.workload import DDL, FIRST, LATE_US, REFUSED, TABLE_KEY, draw_query, rows_of
from tests.streams import write_file


def create(home: Path, source: Path) -> None:
    """The home with its relations and first queries."""
    with headrace.Engine(home) as eng:
        for name, ddl in DDL.items():
            (source / name).mkdir(parents=True, exist_ok=True)
            place = f"parquet:{source / name}?maxFilesPerTrigger=3"
            if name == "t":
                eng.create_table(name, place, schema=ddl, key=", ".join(TABLE_KEY), deleted="gone")
            else:
                late = f"{LATE_US} microseconds" if name == "s" else "10000 hours"
                eng.create_stream(name, place, schema=ddl, time="ts", late=late)
        eng.add_many(FIRST)


class Actor(threading.Thread):
    """Does something again and again until it is told to stop; it can be held between two steps."""

    def __init__(self, step_s: float) -> None:
        super().__init__(daemon=True)
        self._step_s = step_s
        self._done = threading.Event()
        self.held = threading.Lock()
        self.error: BaseException | None = None

    def run(self) -> None:
        while not self._done.wait(self._step_s):
            with self.held:
                try:
                    self.step()
                except BaseException as error:  # noqa: BLE001 - told at the end of the run
                    self.error = error
                    return

    def step(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self._done.set()
        self.join()


class Feeder(Actor):
    """Writes the next files of all relations, as long as not too many wait to be read."""

    def __init__(
        self, seed: int, source: Path, backlog: Callable[[str], int], step_s: float
    ) -> None:
        super().__init__(step_s)
        self.files = dict.fromkeys(DDL, 0)
        self._seed, self._source, self._backlog = seed, source, backlog

    def step(self) -> None:
        for name in DDL:
            if self._backlog(name) < 6 and (name == "s" or self.files["s"] % 4 == 0):
                self.write(name)

    def write(self, name: str) -> Path:
        rows = rows_of(self._seed, name, self.files[name])
        self.files[name] += 1
        return write_file(self._source / name, self.files[name] - 1, rows)


class Registrar(Actor):
    """Adds and drops queries through an engine of its own, as another process does; errors only
    while a fault is on."""

    def __init__(self, seed: int, home: Path, step_s: float, live_max: int = 14) -> None:
        super().__init__(step_s)
        self._r = Random(f"{seed}/queries")
        self._home, self._live_max = home, live_max
        self._eng: headrace.Engine | None = None
        self._number = 0
        self.refused, self.added, self.dropped = 0, 0, 0
        self.excused = threading.Event()

    def step(self) -> None:
        try:
            self._eng = self._eng or headrace.Engine(self._home)
            self._change(self._eng)
        except HeadraceError:
            self._eng = None
            if not self.excused.is_set():
                raise

    def _change(self, eng: headrace.Engine) -> None:
        r = self._r
        mine = [q for q in eng.catalog.queries if q not in FIRST]
        if r.random() < 0.1:
            self._refuse(eng, r.choice(REFUSED))
        elif mine and (len(mine) >= self._live_max or r.random() < 0.35):
            eng.drop(r.choice(mine))
            self.dropped += 1
        else:
            kind, sql = draw_query(r)
            # else the last name is taken again, if it has been dropped
            self._number += r.random() < 0.8
            name = f"{kind}_{self._number}"
            if name not in eng.catalog.queries:
                eng.add(sql, name=name)
                self.added += 1

    def _refuse(self, eng: headrace.Engine, sql: str) -> None:
        try:
            eng.add(sql)
        except HeadraceError:
            self.refused += 1
        else:
            raise AssertionError(f"accepted: {sql}")
