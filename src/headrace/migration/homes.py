"""Bringing a home to the present format, without a moment in which there is none.

The home is made anew beside the old one: files that never change are linked, all others copied and
changed there.  When everything is on the disk the two folders are renamed, and the old home stays
as `<home>.format-<n>` until somebody removes it.  A migration that was cut off is begun again, or,
if only the last rename was missing, ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.disk import Disk, private
from headrace.errors import HomeError
from headrace.migration.format_5 import to_format_6
from headrace.records import reading
from headrace.runtime.home import FORMAT, MARK

Step = Callable[[Path], list[str]]
STEPS: dict[int, Step] = {5: to_format_6}
"""From each earlier format to the next: changes a copy of a home, and says what it did."""
# written once, by whoever made them, and only ever removed: a link is as good as a copy
NEVER_CHANGED = (".arrow", ".parquet", ".npz")
LEFT_OUT = ("tmp", "lock")


def migrate(home: Path) -> list[str]:
    """What was done, a line each; nothing for a home of the present format."""
    aside = home.with_name(f"{home.name}.migrating")
    if not home.exists() and (aside / MARK).exists():
        aside.rename(home)
        return [f"the migration that was cut off is ended: {home}"]
    found = _format_of(home)
    if found == FORMAT:
        return []
    if found not in STEPS:
        raise HomeError(
            "the home is of a format that cannot be migrated",
            value=f"format {found}",
            choices=[f"format {number}" for number in (*STEPS, FORMAT)],
            hint="use the version of Headrace that made it, or a new home",
            code="HOME_VERSION",
        )
    with _held(home):
        done = _made_anew(home, aside, found)
        old = home.with_name(f"{home.name}.format-{found}")
        if old.exists():
            raise HomeError(
                "there is an old home of this name already",
                value=str(old),
                hint="move it away, and migrate again",
            )
        home.rename(old)
        aside.rename(home)
        Disk(home.parent).sync(".")
    return [*done, f"the home as it was: {old}"]


def _made_anew(home: Path, aside: Path, found: int) -> list[str]:
    shutil.rmtree(aside, ignore_errors=True)
    _copy(home, aside)
    done: list[str] = []
    while found != FORMAT:
        done += STEPS[found](aside)
        found += 1
    _sync(aside)
    mark = json.loads((aside / MARK).read_bytes())
    Disk(aside).put_aside(MARK, json.dumps({**mark, "format": FORMAT}).encode())
    return done


def _format_of(home: Path) -> int:
    if not (home / MARK).exists():
        raise HomeError("not a Headrace home", value=str(home), hint="name the folder of a home")
    with reading(home / MARK, f"the file {MARK} of the home", "HOME", "restore it from a backup"):
        return int(json.loads((home / MARK).read_bytes())["format"])


@contextmanager
def _held(home: Path) -> Iterator[None]:
    """No engine runs the home meanwhile."""
    with open(home / "lock", "ab", opener=private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HomeError(
                "an engine runs this home",
                value=str(home),
                hint="stop it first, then migrate",
                code="HOME_HELD",
            ) from error
        yield


def _copy(home: Path, aside: Path) -> None:
    for folder, _, files in os.walk(home):
        inside = Path(folder).relative_to(home)
        if inside.parts[:1] == ("tmp",):
            continue
        (aside / inside).mkdir(mode=0o700, parents=True)
        for name in files:
            source, target = Path(folder) / name, aside / inside / name
            if not inside.parts and name in LEFT_OUT:
                continue
            if target.suffix in NEVER_CHANGED:
                os.link(source, target)
            else:
                shutil.copy2(source, target)


def _sync(aside: Path) -> None:
    for folder, _, files in os.walk(aside, topdown=False):
        for name in (*files, "."):
            descriptor = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
