"""Where a chaos run takes place: a folder, the home on a small file system of its own, the
processes and actors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos.actors import Feeder, Registrar, create
from tests.chaos.processes import HERE, Clock, EngineProcess, patience
from tests.chaos.workload import DDL

DISK_BYTES = 1 << 30
START_S = 120.0
LATE_STOP_S = 60.0
LOOK_S = 0.1


class Failed(AssertionError):  # noqa: N818 - it is the run that has
    """What a chaos run is there to find."""


class Arena:
    def __init__(self, folder: Path, seed: int, feed_s: float = 0.5, change_s: float = 2.0) -> None:
        self.folder, self.source, self.logs = folder, folder / "source", folder / "logs"
        self.seen = folder / "seen.jsonl"
        self.disk = folder / "disk"
        for place in (self.disk, self.logs):
            place.mkdir(parents=True)
        self.is_small = mount(self.disk)
        self.home = self.disk / "race"
        create(self.home, self.source)
        self.clock = Clock(folder)
        self.engine = EngineProcess(self.home, self.logs, self.clock)
        self.feeder = Feeder(seed, self.source, self.backlog, feed_s)
        self.registrar = Registrar(seed, self.home, change_s)
        self._follower: subprocess.Popen[bytes] | None = None
        self._stop_until_s = 0.0
        self._inputs: dict[str, dict[int, int]] = {name: {} for name in DDL}

    # -- life --------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.engine.start()
        self.follow()
        self.feeder.start()
        self.registrar.start()

    def end(self) -> None:
        """Nothing of the run is left but its folder."""
        for actor in (self.registrar, self.feeder):
            if actor.is_alive():
                actor.finish()
        self.unfollow()
        self.engine.kill_all()

    def leave(self) -> None:
        if self.is_small:
            # readers of this process hold files
            subprocess.run(["umount", "--lazy", str(self.disk)], check=False)

    def feed(self, *names: str) -> None:
        """Rows wait in each of these."""
        with self.feeder.held:
            for name in names:
                self.feeder.write(name)

    def follow(self) -> None:
        words = [sys.executable, str(HERE / "follower.py"), str(self.home), str(self.seen)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        with (self.logs / "follower.log").open("ab") as out:
            self._follower = subprocess.Popen(words, stdout=out, stderr=out, env=env)

    def unfollow(self) -> None:
        if self._follower is not None:
            self._follower.kill()
            self._follower.wait()

    def check_actors(self) -> None:
        for actor in (self.registrar, self.feeder):
            if actor.error is not None:
                raise Failed(f"{type(actor).__name__}: {actor.error}") from actor.error
        if self._follower is not None and self._follower.poll() is not None:
            end = (self.logs / "follower.log").read_text(errors="replace")[-2000:]
            raise Failed(f"the follower has ended by itself:\n{end}")

    # -- how far it is -----------------------------------------------------------------------------

    def commits(self, *names: str) -> int:
        """Rounds committed by these relations, or by all: one after the other, so the newest
        tells."""
        return sum(1 + max(self._rounds(name), default=-1) for name in names or DDL)

    def _rounds(self, name: str) -> list[int]:
        place = self.home / "streams" / name / "rounds"
        with suppress(OSError):
            return [
                int(entry.stem)
                for entry in place.iterdir()
                if entry.suffix == ".json" and entry.stem.isdigit()
            ]
        return []

    def backlog(self, name: str) -> int:
        """Source files that no committed round has read."""
        known = self._inputs[name]
        for round_id in self._rounds(name):
            if round_id not in known:
                with suppress(OSError, ValueError):  # it is damaged just now
                    text = (
                        self.home / "streams" / name / "rounds" / f"{round_id:012d}.json"
                    ).read_bytes()
                    known[round_id] = len(json.loads(text.partition(b" ")[2])["inputs"])
        return self.feeder.files[name] - sum(known.values())

    def waiting(self) -> int:
        return sum(self.backlog(name) for name in DDL)

    def await_commit(self, since: int, seconds: float, may_end: bool) -> str:
        """`committed`, `ended` or `hangs`: what comes first."""
        return self.await_any(lambda: self.commits() > since, seconds, may_end)

    def await_any(self, is_there: Callable[[], bool], seconds: float, may_end: bool = True) -> str:
        deadline = time.monotonic() + seconds * patience()
        while time.monotonic() < deadline:
            if is_there():
                return "committed"
            if self.engine.ended() and may_end:
                return "ended"
            self.check_actors()
            time.sleep(LOOK_S)
        return "hangs"

    def expect_stop(self) -> None:
        """What was done may stop the engine, at once or when the rounds under way are through."""
        self._stop_until_s = time.monotonic() + LATE_STOP_S * patience()

    @property
    def may_stop(self) -> bool:
        return time.monotonic() < self._stop_until_s

    def linger(self, seconds: float) -> None:
        """Just so long, but no longer than the engine runs."""
        self.await_any(lambda: False, seconds / patience())


def reason(arena: Arena) -> str:
    """The code of the stop, which must be one a person can act on."""
    ending = arena.engine.ending()
    unclear = ending.why_unclear()
    if unclear is not None:
        raise Failed(f"the engine stopped with {unclear}:\n{ending.words}")
    return ending.code


def mount(place: Path) -> bool:
    """A small file system in memory, where this user may make one."""
    words = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={DISK_BYTES},mode=0755",
        "headrace-chaos",
        str(place),
    ]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
