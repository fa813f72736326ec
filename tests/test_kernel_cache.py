"""Compiled kernels are found again wherever they may be kept, and no place at all is no error."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headrace import kernel_cache
from headrace.kernel_cache import KernelCache, numba, source_digest
from headrace.kernel_places import KEPT_IN, for_workers, keep_in, kept_place, places, writable

SOURCES = Path(kernel_cache.__file__).parent


def _added(a: int, b: int) -> int:
    return a + b


def _compiled(a: Any = 1, b: Any = 2) -> Any:
    """The function as another process would have it: nothing compiled yet."""
    made: Any = numba.njit(nogil=True)(_added)
    made._cache = KernelCache(_added)
    assert made(a, b) == a + b
    return made


def _hits(made: Any) -> int:
    return int(sum(made.stats.cache_hits.values()))


def _kept(place: Path) -> list[Path]:
    return sorted(place.rglob("*.nbc"))


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.delenv(KEPT_IN, raising=False)
    return tmp_path / "given"


def test_a_kernel_is_kept_where_the_user_says_and_found(given: Path) -> None:
    assert not _hits(_compiled())
    assert len(_kept(given)) == 1
    assert _hits(_compiled()) == 1
    assert not _hits(_compiled(1.5)), "another type is another kernel"
    assert len(_kept(given)) == 2


@pytest.mark.parametrize(("folder", "file"), [(0o755, 0o644), (0o700, 0o600)])
def test_a_kernel_is_read_by_whoever_may_look_into_its_folder(
    given: Path, folder: int, file: int
) -> None:
    """Spark's workers write for their owner only; an image is made by another than runs it."""
    (given / "headrace").mkdir(parents=True)
    (given / "headrace").chmod(folder)
    before = os.umask(0o077)
    try:
        _compiled()
    finally:
        os.umask(before)
    assert _kept(given)[0].stat().st_mode & 0o777 == file


def test_without_a_place_of_the_users_it_is_beside_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv(KEPT_IN, str(tmp_path / "kernels"))
    made = KernelCache(_added)
    assert made.cache_path == str(Path(__file__).parent / "__pycache__")


def test_the_home_takes_what_the_first_place_does_not(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.write_text("a file, where a folder cannot be")
    home = tmp_path / "kernels"
    monkeypatch.setenv(KEPT_IN, str(home))
    _compiled()
    assert len(_kept(home)) == 1
    assert _hits(_compiled()) == 1


def test_a_place_that_cannot_be_written_is_read(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiled()
    put = KernelCache._put

    def refuse(self: KernelCache, place: Path, name: str, payload: bytes) -> None:
        if given in place.parents:
            raise OSError(30, "Read-only file system")
        put(self, place, name, payload)

    monkeypatch.setattr(KernelCache, "_put", refuse)
    assert _hits(_compiled()) == 1
    _compiled(1.5)
    monkeypatch.setenv(KEPT_IN, str(tmp_path / "kernels"))
    _compiled(1.5)
    assert len(_kept(given)) == 1 and len(_kept(tmp_path / "kernels")) == 1
    assert _hits(_compiled()) == 1 and _hits(_compiled(1.5)) == 1


def test_nowhere_is_no_error_and_a_home_that_is_gone_does_not_come_back(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.write_text("")
    monkeypatch.setenv(KEPT_IN, str(tmp_path / "gone" / "kernels"))
    assert not _hits(_compiled()) and not _hits(_compiled())
    assert not (tmp_path / "gone").exists()
    assert writable(places(tmp_path)) is None


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data * 2]
)
def test_a_damaged_file_is_compiled_anew(given: Path, damage: Any) -> None:
    _compiled()
    (file,) = _kept(given)
    file.write_bytes(damage(file.read_bytes()))
    assert not _hits(_compiled())
    assert _hits(_compiled()) == 1


def test_a_file_that_is_whole_and_not_ours_is_compiled_anew(given: Path) -> None:
    _compiled()
    (file,) = _kept(given)
    payload = b"not a pickle"
    file.write_bytes(hashlib.sha256(payload).digest() + payload)
    assert not _hits(_compiled())


def test_kernels_of_old_sources_go(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _compiled()
    old = _kept(given)
    monkeypatch.setattr(kernel_cache, "source_digest", lambda module: "f" * 64)
    assert not _hits(_compiled())
    assert len(_kept(given)) == 1 and _kept(given) != old


def test_a_digest_covers_what_a_module_imports() -> None:
    reached = kernel_cache._reached("headrace.families.windows.rollup.kernels")
    assert "headrace.families.windows.rings.join_kernels" in reached
    assert "headrace.families.windows.rings.arrays" in reached  # in parentheses, over lines
    assert "headrace.relations.arrays" in kernel_cache._reached("headrace.relations.kernels")
    assert source_digest("headrace.relations.kernels") != source_digest("headrace.relations.image")


def test_functions_of_others_are_kept_as_numba_keeps_them() -> None:
    made: Any = numba.njit(cache=True)(_added)
    assert not isinstance(made._cache, KernelCache)


def test_every_module_with_kernels_takes_numba_from_here() -> None:
    """Otherwise its kernels could not be compiled in a container that is read-only."""
    alone = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search(r"^\s*(?:import numba|from numba)\b", path.read_text(), re.M)
    ]
    assert alone == ["kernel_cache.py"]


def test_the_home_opened_last_keeps_unless_the_user_has_said_where(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.write_text("")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        keep_in(tmp_path / name)
        assert kept_place() == tmp_path / name / "kernels"
    monkeypatch.setenv(KEPT_IN, str(tmp_path / "theirs"))
    keep_in(tmp_path / "one")
    assert kept_place() == tmp_path / "theirs"


def test_workers_are_told_only_what_they_do_not_find_alone(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEPT_IN, str(tmp_path / "kernels"))
    assert for_workers(is_here=True) == {}
    told = {"NUMBA_CACHE_DIR": str(given), KEPT_IN: str(tmp_path / "kernels")}
    assert for_workers(is_here=False) == told
    (given / "headrace").rmdir()
    given.rmdir()
    given.write_text("")
    assert for_workers(is_here=True) == told


def test_a_package_in_an_archive_has_the_same_kernels(tmp_path: Path) -> None:
    """As executors of a cluster may be given it."""
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in SOURCES.rglob("*.py"):
            archive.write(path, path.relative_to(SOURCES.parent))
    module = "headrace.relations.kernels"
    code = (
        f"from headrace.kernel_cache import source_digest; from {module} import joining; "
        f"print(source_digest({module!r}), joining._cache.cache_path)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "package.zip")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found[0] == source_digest(module)
    assert found[1].startswith(str(tmp_path / "package.zip"))
