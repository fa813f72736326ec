"""The folders in which compiled kernels are kept; `kernel_cache.py` keeps them there.

1. the folder that `NUMBA_CACHE_DIR` names; without it the `__pycache__` beside each source;
2. `kernels` in the home that was opened last, or the folder that `HEADRACE_KERNELS` names.

Apart from the cache, so that whoever opens a home does not wait for numba.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

GIVEN, KEPT_IN = "NUMBA_CACHE_DIR", "HEADRACE_KERNELS"
FOLDER = "kernels"
_PACKAGE = Path(__file__).parent
_FOR_WORKERS = (GIVEN, KEPT_IN, "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")

_of_a_home: str | None = None


def keep_in(home: Path) -> None:
    """Where nothing else can be written, kernels are kept in this home.  Java inherits it, and its
    workers.  Somebody's own HEADRACE_KERNELS stays."""
    global _of_a_home  # noqa: PLW0603 - the environment is the process's too
    if os.environ.get(KEPT_IN) in (None, _of_a_home):
        _of_a_home = os.environ[KEPT_IN] = str(home.absolute() / FOLDER)


def places(beside: Path) -> list[Path]:
    """Folders to look in, in this order; the first that can be written keeps.  `beside`: the
    `__pycache__` of a module."""
    given, home = os.environ.get(GIVEN), os.environ.get(KEPT_IN)
    first = Path(given, _PACKAGE.name) if given else beside
    return [first] if home is None else [first, Path(home)]


def make(place: Path) -> None:
    """Make a folder of kernels.  Only what the user named is made with all above it: of a home that
    is gone nothing comes back."""
    given, home = os.environ.get(GIVEN), os.environ.get(KEPT_IN)
    named = given is not None and place == Path(given, _PACKAGE.name)
    of_home = home is not None and place == Path(home)
    place.mkdir(mode=0o700 if of_home else 0o777, parents=named, exist_ok=True)


def kept_place() -> Path | None:
    """Where a kernel that is compiled now would be kept; None: nowhere."""
    return writable(places(_PACKAGE / "__pycache__"))


def kept_files(place: Path) -> list[Path]:
    """Every kernel that is kept there; beside the sources, in all their folders."""
    root = _PACKAGE if place == _PACKAGE / "__pycache__" else place
    return list(root.rglob("*.nbc"))


def writable(candidates: Sequence[Path]) -> Path | None:
    """The first that files can be put into; made where it is missing."""
    for place in candidates:
        probe = place / f".{uuid.uuid4().hex[:16]}"
        with suppress(OSError):
            make(place)
            probe.touch()
            probe.unlink()
            return place
    return None


def for_workers(is_here: bool) -> dict[str, str]:
    """What Python workers need in their environment to find the same places.  Empty where they find
    them alone: each environment has workers of its own."""
    first = places(_PACKAGE / "__pycache__")[:1]
    if is_here and writable(first) is not None:
        return {}
    return {name: os.environ[name] for name in _FOR_WORKERS if name in os.environ}
