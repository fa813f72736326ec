"""Faults of the disk, of files of the home, and of files of the source."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.chaos.arena import START_S, Arena, Failed, reason
from tests.chaos.workload import DDL
from tests.engine.test_damage import DAMAGES, files_below
from tests.streams import FIRST_FILE_S

NOTICE_S = 20.0
SLACK_BYTES = 200_000


@contextmanager
def excused(arena: Arena) -> Iterator[None]:
    """Meanwhile others may fail too, with errors of ours."""
    arena.registrar.excused.set()
    try:
        yield
    finally:
        with arena.registrar.held:
            arena.registrar.excused.clear()


def fill_disk(arena: Arena, r: Random) -> str:
    balloon = arena.disk / "balloon"
    with excused(arena):
        try:
            _blow_up(balloon, r.choice([0, r.randrange(SLACK_BYTES)]))
            arena.linger(r.uniform(3, NOTICE_S))
        finally:
            balloon.unlink()
        arena.linger(1.0)  # it may be about to stop
    if not arena.engine.ended():
        return "freed before it was noticed"
    code = reason(arena)
    arena.engine.start()
    return f"stopped ({code}), freed, started again"


def _blow_up(balloon: Path, slack: int) -> None:
    """Take all room but `slack`; what is written meanwhile takes part of it."""
    with balloon.open("wb") as file:
        room = os.statvfs(balloon.parent)
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_bsize - slack))


def damage_home(arena: Arena, r: Random) -> str:
    """While nobody runs it; then it is run with the damage, and again when the file is back."""
    with arena.registrar.held:
        arena.engine.kill_all()
        path = r.choice([p for p in files_below(arena.home) if not p.name.startswith((".", "_"))])
        kind = r.choice(list(DAMAGES))
        good, times = path.read_bytes(), path.stat()
        DAMAGES[kind](path)
        bad = path.read_bytes() if path.exists() else None
        names = [part for part in path.relative_to(arena.home).parts[1:2] if part in DDL] or list(
            DDL
        )
        before = {name: arena.commits(name) for name in names}
        arena.feed(*names)
        arena.engine.start()
        ended = arena.await_any(
            lambda: all(arena.commits(name) > n for name, n in before.items()), START_S
        )
        if ended == "hangs":
            raise Failed(f"{path} {kind}: no commit and no stop; stacks: {arena.engine.dump()}")
        outcome = f"stopped ({reason(arena)})" if ended == "ended" else "not needed"
        arena.engine.kill_all()
        if (
            path.read_bytes() if path.exists() else None
        ) == bad:  # else the engine has written it anew
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(good)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        arena.engine.start()
    return f"{kind} of {path.relative_to(arena.home)}: {outcome}; put back"


def damage_source(arena: Arena, r: Random) -> str:
    """A file that is not one comes, and is mended later."""
    name = r.choice(list(DDL))
    with arena.feeder.held:
        index = arena.feeder.files[name]
        aside = arena.source / name / ".damaged"
        aside.write_bytes(r.randbytes(r.choice([1, 100, 5_000])))
        os.utime(aside, (FIRST_FILE_S + index, FIRST_FILE_S + index))
        aside.rename(arena.source / name / f"{index:06d}.parquet")
        ended = arena.await_any(lambda: False, START_S)
        if ended != "ended":
            raise Failed(
                f"a file of {name} that cannot be read did not stop it; stacks: {arena.engine.dump()}"
            )
        code = reason(arena)
        arena.feeder.write(name)
    arena.engine.start()
    return f"{name}: stopped ({code}), mended, started again"


def remove_source(arena: Arena, r: Random) -> str:
    """The newest file, read or not, is away for a while."""
    name = r.choice(list(DDL))
    with arena.feeder.held:
        path = arena.feeder.write(name)
        time.sleep(r.choice([0, r.uniform(0, 1)]))
        away = path.with_name(f".{path.name}.away")
        path.rename(away)
        arena.linger(r.uniform(1, 6))
        away.rename(path)
    arena.linger(3.0)
    if not arena.engine.ended():
        return f"{name}: put back, not noticed"
    code = reason(arena)
    arena.engine.start()
    return f"{name}: stopped ({code}), put back, started again"
