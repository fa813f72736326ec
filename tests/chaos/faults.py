"""Faults of a chaos run: each does its harm to real processes and files, undoes what is to be
undone, and tells how it ended.  A fault that `may_stop` the engine may do so only with a reason;
any other must leave it running."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.chaos.arena import START_S, Arena, Failed, reason
from tests.chaos.file_faults import damage_home, damage_source, fill_disk, remove_source
from tests.chaos.processes import FAKETIME, patience

STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    do: Callable[[Arena, Random], str]
    may_stop: bool = False
    weight: int = 2

    def left_out(self, arena: Arena) -> str | None:
        """Why it cannot be done here."""
        if self.name.startswith("disk") and not arena.is_small:
            return "this user may not mount a small file system"
        if self.name.startswith("clock") and FAKETIME is None:
            return "libfaketime is not installed (Debian: faketime)"
        return None


# -- processes -------------------------------------------------------------------------------------


def kill_all(arena: Arena, _: Random) -> str:
    arena.engine.kill_all()
    arena.engine.start()
    return "started again"


def kill_python(arena: Arena, _: Random) -> str:
    """Its JVM lives on for a moment, and may write."""
    arena.engine.signal(signal.SIGKILL, [arena.engine.pid])
    arena.engine.wait(STOP_S)
    arena.engine.start()
    return "started again beside the old JVM"


def kill_starting(arena: Arena, r: Random) -> str:
    for _ in range(2):
        arena.engine.kill_all()
        arena.engine.start()
        time.sleep(r.uniform(0.5, 8.0))
    return "killed while it started, and started again"


def kill_jvm(arena: Arena, _: Random) -> str:
    before = arena.commits()
    arena.engine.signal(signal.SIGKILL, arena.engine.jvms())
    return _go_on(arena, before, START_S)


def kill_workers(arena: Arena, _: Random) -> str:
    before = arena.commits()
    hits = arena.engine.signal(signal.SIGKILL, arena.engine.workers())
    return f"{hits} workers, " + _go_on(arena, before, START_S)


def _go_on(arena: Arena, before: int, seconds: float) -> str:
    """It goes on by itself, or stops with a reason and is started again."""
    match arena.await_commit(before + 1, seconds, may_end=True):
        case "ended":
            code = reason(arena)
            arena.engine.start()
            return f"stopped ({code}), started again"
        case "hangs":
            raise Failed(
                f"no commit and no stop within {seconds:.0f} s; stacks: {arena.engine.dump()}"
            )
    return "went on by itself"


def terminate(arena: Arena) -> str:
    """SIGTERM ends it well, unless it was about to stop for another reason."""
    if not arena.engine.terminate(STOP_S):
        raise Failed(f"SIGTERM did not end it within {STOP_S:.0f} s; stacks: {arena.engine.dump()}")
    if arena.engine.ending().status != 0 and not arena.may_stop:
        raise Failed(
            f"SIGTERM ended it with {arena.engine.ending().status}:\n{arena.engine.ending().words}"
        )
    return reason(arena)


def terminate_and_start(arena: Arena, _: Random) -> str:
    code = terminate(arena)
    arena.engine.start()
    return f"ended ({code}), started again"


def freeze(which: Callable[[Arena], list[int]]) -> Callable[[Arena, Random], str]:
    def do(arena: Arena, r: Random) -> str:
        pids, seconds = which(arena), r.uniform(1, 8)
        arena.engine.signal(signal.SIGSTOP, pids)
        time.sleep(seconds)
        arena.engine.signal(signal.SIGCONT, pids)
        return f"stood still for {seconds:.1f} s"

    return do


def second_engine(arena: Arena, _: Random) -> str:
    """Another engine on the same home is told who runs it."""
    other = arena.engine.launch("second", "run")
    try:
        status = other.wait(START_S * patience())
    finally:
        other.kill()
    said = (arena.logs / "second.log").read_text(errors="replace")
    if status != 1 or "[HOME_HELD]" not in said:
        raise Failed(f"a second engine was not refused (status {status}):\n{said[-2000:]}")
    return "refused (HOME_HELD)"


def kill_follower(arena: Arena, _: Random) -> str:
    arena.unfollow()
    arena.follow()
    return "resumed by seq"


def move_clock(arena: Arena, r: Random) -> str:
    arena.clock.move(r.choice([s for s in (-3600, 0, 3600) if s != arena.clock.offset_s]))
    time.sleep(2)
    return f"the clock is {arena.clock.offset_s:+d} s off"


FAULTS = (
    Fault("kill of process, JVM and workers", kill_all, weight=4),
    Fault("kill of the process alone", kill_python),
    Fault("kill while starting", kill_starting, weight=1),
    Fault("kill of the JVM", kill_jvm, may_stop=True),
    Fault("kill of Python workers", kill_workers, may_stop=True),
    Fault("SIGTERM", terminate_and_start),
    Fault("process frozen", freeze(lambda a: [a.engine.pid])),
    Fault("JVM frozen", freeze(lambda a: a.engine.jvms())),
    Fault("second engine", second_engine, weight=1),
    Fault("follower killed", kill_follower, weight=1),
    Fault("clock moved", move_clock),
    Fault("disk filled", fill_disk, may_stop=True, weight=3),
    Fault("file of the home damaged", damage_home, may_stop=True, weight=3),
    Fault("file of the source damaged", damage_source, may_stop=True),
    Fault("file of the source away", remove_source, may_stop=True),
)
