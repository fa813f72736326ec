"""What a container is to a program, without one: nothing can be written but one volume, and the user
has a number and no name.

    run(volume, ["headrace", "run", …])

It takes root and a mount namespace: the root file system is made read-only there, and folders that
only root may enter are opened, as an image has none.  The volume is at `HOME_VOLUME`; HOME is a
folder that is not there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = 12345
OPEN = Path("/mnt")  # a folder of its own for volumes, on every Linux
HOME_VOLUME = OPEN / "home"
READ_VOLUME = OPEN / "given"
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


def why_not() -> str | None:
    """Why there can be no such container here."""
    if os.getuid() != 0:
        return "only root may mount"
    missing = [name for name in ("unshare", "setpriv", "mount") if shutil.which(name) is None]
    if missing:
        return f"no program {missing[0]}"
    if not OPEN.is_dir():
        return f"no folder {OPEN}"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True, check=False
    )
    return "no mount namespace is to be had" if tried.returncode else None


def run(
    volume: Path,
    command: Sequence[str],
    *,
    given: Path | None = None,
    small_tmp: bool = False,
    environment: Mapping[str, str] | None = None,
    seconds: float = 800,
) -> subprocess.CompletedProcess[str]:
    """`volume` is all that can be written.  `given` can be read.  `small_tmp`: /tmp is there, and
    has 64 kB."""
    volume.mkdir(exist_ok=True)
    os.chown(volume, USER, USER)
    stage = volume.parent / "stage"
    stage.mkdir(exist_ok=True)
    lines = [
        "set -eu",
        "mount --make-rprivate /",
        *_opened(stage),
        *_volumes({"home": volume, **({} if given is None else {"given": given})}),
        *_closed(small_tmp),
        "cd /",
        f"exec setpriv --reuid {USER} --regid {USER} --clear-groups -- {shlex.join(command)}",
    ]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", "\n".join(lines)],
        env=_environment(environment or {}),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def headrace(*args: str) -> list[str]:
    return [sys.executable, "-c", "from headrace.cli import main; main()", *args]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    fixed = {"HOME": "/nohome", "PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8"}
    # quick to start, as all Java of tests
    quick = os.environ.get("SPARK_SUBMIT_OPTS", "")
    return {**kept, **fixed, "SPARK_SUBMIT_OPTS": quick, **more}


def _needed() -> list[Path]:
    """Python, its packages and the sources, without those inside others."""
    found = {Path(sys.base_prefix).resolve(), Path(sys.prefix).absolute(), ROOT}
    found |= {Path(sys.prefix).resolve()}
    return sorted(p for p in found if not any(o in p.parents for o in found))


def _opened(stage: Path) -> list[str]:
    """Make folders that others may not enter open, with only what is needed in them."""
    shut: dict[Path, list[Path]] = {}
    for path in _needed():
        above = [p for p in reversed(path.parents) if not p.stat().st_mode & 0o001]
        if above:
            shut.setdefault(above[0], []).append(path)
    lines = []
    for number, (folder, paths) in enumerate(shut.items()):
        kept = [(path, stage / f"{number}-{i}") for i, path in enumerate(paths)]
        lines += [f"mkdir -p {q(aside)}; mount --bind {q(path)} {q(aside)}" for path, aside in kept]
        lines.append(f"mount -t tmpfs -o mode=755,size=1m none {q(folder)}")
        lines += [f"mkdir -p {q(path)}; mount --bind {q(aside)} {q(path)}" for path, aside in kept]
        lines.append(f"mount -o remount,ro {q(folder)}")
    return lines


def _volumes(volumes: Mapping[str, Path]) -> list[str]:
    aside = [f"mount -t tmpfs -o mode=755,size=1m none {OPEN}"]
    for name, path in volumes.items():
        aside.append(f"mkdir {OPEN / name}; mount --bind {q(path)} {OPEN / name}")
    if "given" in volumes:
        aside.append(f"mount -o remount,bind,ro {READ_VOLUME}")
    return [*aside, f"mount -o remount,ro {OPEN}"]


def _closed(small_tmp: bool) -> list[str]:
    lines = []
    if small_tmp:
        lines.append("mount -t tmpfs -o mode=1777,size=64k none /tmp")
    closed = [place for place in _TEMPORARY if not (small_tmp and place == "/tmp")]
    lines += [f"! mountpoint -q {p} || mount -o remount,bind,ro {p}" for p in closed]
    return [*lines, "mount -o remount,bind,ro /"]


def q(path: Path) -> str:
    return shlex.quote(str(path))
