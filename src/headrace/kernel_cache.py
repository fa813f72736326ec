"""Where compiled kernels are kept between processes: found again, and never a reason to stop.

Modules with kernels take numba from here.  numba alone keeps what it has compiled beside the source
or below the user's HOME; where it may write to neither it refuses to compile, and it does not look
into a folder that it cannot write to.  Here a kernel is looked for in every place there is
(`kernel_places.py`), and kept in the first that can be written.  Where none can, each process
compiles for itself.

A kernel has one file, named by its
function, by the sources it was made of (its module, and whatever of Headrace that imports) and by
argument types, processor, numba and Python: a change to any of them finds no file, and two processes
that keep the same kernel write the same.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, compiler, dispatcher, serialize

from headrace.kernel_places import make, places

__all__ = ["KernelCache", "numba", "source_digest"]

PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    rf"^(?:from|import)\s+({PACKAGE}[\w.]*)(?: import (?:\(([\w\s,]+)|([\w ,]+)))?", re.M
)
_DIGEST = 32

# numba has types, and few of what is inside it
_FunctionCache: Any = caching.FunctionCache
_rebuilt: Any = compiler.CompileResult._rebuild
_dumped: Any = serialize.dumps


class KernelCache(caching.Cache):
    """The cache of one function: numba asks it before it compiles, and afterwards."""

    def __init__(self, function: Any) -> None:
        self._py_func = function
        self._name = repr(function)
        self._beside = Path(function.__code__.co_filename).parent / "__pycache__"
        self._is_enabled = True

    @property
    def cache_path(self) -> str:
        return str(places(self._beside)[0])

    def enable(self) -> None:
        self._is_enabled = True

    def disable(self) -> None:
        self._is_enabled = False

    def flush(self) -> None:
        """Forget what is kept of this function."""
        for place in places(self._beside):
            with suppress(OSError):
                for path in place.glob(f"{self._function}.*.nbc"):
                    path.unlink()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """None where nothing is kept, or what is kept cannot be used."""
        target_context.refresh()
        if not self._is_enabled:
            return None
        name = self._file(sig, target_context.codegen())
        for place in places(self._beside):
            payload = _sound(place / name)
            if payload is not None:
                with suppress(Exception):  # whatever a pickle of another build may raise
                    return _rebuilt(target_context, *pickle.loads(payload))  # noqa: S301 - as numba's own
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """A full or read-only disk is as if there were no cache."""
        if not self._is_enabled or data.lifted or data.library.has_dynamic_globals:
            return
        name = self._file(sig, data.codegen)
        payload = _dumped(data._reduce())
        for place in places(self._beside):
            with suppress(OSError):
                self._put(place, name, payload)
                return

    def _put(self, place: Path, name: str, payload: bytes) -> None:
        make(place)
        aside = place / f".{name}.{uuid.uuid4().hex[:16]}"
        try:
            aside.write_bytes(hashlib.sha256(payload).digest() + payload)
            # read by whoever may look into the folder: an image is made by another than runs it
            aside.chmod(place.stat().st_mode & 0o644)
            aside.replace(place / name)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        source = name.removeprefix(f"{self._function}.").partition(".")[0]
        for path in place.glob(f"{self._function}.*.nbc"):
            if not path.name.startswith(f"{self._function}.{source}."):
                path.unlink(missing_ok=True)  # of sources that are no more

    @property
    def _function(self) -> str:
        return f"{self._py_func.__module__}.{self._py_func.__qualname__}".replace("<", "").replace(
            ">", ""
        )

    def _file(self, sig: Any, codegen: Any) -> str:
        built = (numba.__version__, sys.version_info[:2], sysconfig.get_config_var("SOABI"))
        index_key: Any = self._index_key
        key = repr((index_key(sig, codegen), built)).encode()
        source = source_digest(self._py_func.__module__)
        return f"{self._function}.{source[:12]}.{hashlib.sha256(key).hexdigest()[:20]}.nbc"


def _sound(path: Path) -> bytes | None:
    """What was written, if it is there and whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    payload = data[_DIGEST:]
    return payload if hashlib.sha256(payload).digest() == data[:_DIGEST] else None


@cache
def source_digest(module: str) -> str:
    """Of a module, and of all of Headrace that it imports: constants and functions of other modules
    become part of a kernel."""
    digest = hashlib.sha256()
    for name in sorted(_reached(module)):
        digest.update(f"{name}\n{_source(name)}\n".encode())
    return digest.hexdigest()


def _reached(module: str) -> set[str]:
    found, ahead = set[str](), [module]
    while ahead:
        name = ahead.pop()
        if name not in (*found, __name__) and _source(name):
            found.add(name)
            ahead += _imported(_source(name))
    return found


def _imported(source: str) -> Iterator[str]:
    """Of what is imported when a module is: a kernel sees nothing else."""
    for match in _IMPORT.finditer(source):
        yield match[1]
        # modules of a package, perhaps
        yield from (f"{match[1]}.{name}" for name in re.findall(r"\w+", match[2] or match[3] or ""))


@cache
def _source(module: str) -> str:
    """Its text, also out of an archive; nothing where it is no module of ours."""
    loader: Any = sys.modules[PACKAGE].__loader__
    path = Path(__file__).parent.joinpath(*module.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        with suppress(OSError):
            return str(loader.get_data(str(file)), "utf-8")
    return ""


def _cache_of(function: Any) -> Any:
    """Functions that are not ours are kept as numba keeps them."""
    is_ours = function.__module__.partition(".")[0] == PACKAGE
    return KernelCache(function) if is_ours else _FunctionCache(function)


setattr(dispatcher, "FunctionCache", _cache_of)  # noqa: B010 - a name it imported, says mypy
