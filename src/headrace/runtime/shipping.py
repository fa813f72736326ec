"""The package on its way to executors: through the home, which all machines of a cluster have.

Executors need not have Headrace installed, nor can they have another version of it.  It lies there
as files, not as an archive: numba keeps what it compiled beside the source, so that a kernel is
compiled once for all workers of a kind of machine, and what this machine has compiled goes along.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

FOLDER = "package"
_LEFT_OUT = ("bench", "cli")  # of the driver
_COMPILED = (".nbi", ".nbc")


def ship(home: Path) -> Path:
    """The folder of the home from which executors import the package; written if it is not there
    yet.  Those of other versions go: nobody else runs the home."""
    source = Path(__file__).parents[1]
    mark = _fingerprint(source)
    place, folder = home / FOLDER, home / FOLDER / mark
    place.mkdir(mode=0o700, exist_ok=True)
    if not (folder / "headrace").is_dir() or _fingerprint(folder / "headrace") != mark:
        shutil.rmtree(folder, ignore_errors=True)
        aside = place / f"{uuid.uuid4().hex}.part"
        shutil.copytree(source, aside / "headrace", ignore=_ignored)
        aside.rename(folder)
    for other in place.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _ignored(folder: str, names: list[str]) -> set[str]:
    """All but source files and what numba compiled of them."""
    kept = (".py", *_COMPILED)
    return {
        name
        for name in names
        if name in _LEFT_OUT
        or not (name.endswith(kept) or os.path.isdir(os.path.join(folder, name)))
    }


def _fingerprint(package: Path) -> str:
    """Of the source files and their times: numba tells by these what it has compiled."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] not in _LEFT_OUT:
            with suppress(FileNotFoundError):
                found.update(f"{inside.as_posix()} {path.stat().st_mtime}\n".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]
