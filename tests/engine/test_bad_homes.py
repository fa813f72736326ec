"""Home folders nobody can open: a clear error that leaves them as they are."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from headrace.errors import HeadraceError, HomeError
from headrace.runtime.home import FORMAT
from tests.engine.race import DDL, said

NOBODY = 65534


def made(tmp_path: Path) -> headrace.Engine:
    engine = headrace.Engine(tmp_path / "race")
    engine.create_stream("s", f"parquet:{tmp_path}", schema=DDL, time="ts")
    engine.add("SELECT k FROM s", name="one")
    engine.add("SELECT n FROM s", name="two")
    return engine


def test_another_version(tmp_path: Path) -> None:
    made(tmp_path)
    mark = tmp_path / "race" / "HEADRACE"
    mark.write_text(json.dumps({"format": 99, "id": "x"}))
    with pytest.raises(HomeError) as found:
        headrace.Engine(tmp_path / "race")
    said(found.value, "HOME_VERSION", "format 99", f"format {FORMAT}")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": 1}', b"\xff\xfe"])
def test_a_damaged_mark(tmp_path: Path, content: bytes) -> None:
    made(tmp_path)
    (tmp_path / "race" / "HEADRACE").write_bytes(content)
    with pytest.raises(HomeError) as found:
        headrace.Engine(tmp_path / "race")
    said(found.value, "HEADRACE", "backup")


def test_a_half_written_catalog_line_was_never_acknowledged(tmp_path: Path) -> None:
    made(tmp_path)
    log = tmp_path / "race" / "catalog.log"
    log.write_bytes(log.read_bytes()[:-20])
    again = headrace.Engine(tmp_path / "race")
    assert [q.name for q in again.queries()] == ["one"]
    again.add("SELECT x FROM s", name="three")
    assert [q.name for q in headrace.Engine(tmp_path / "race").queries()] == ["one", "three"]


def test_a_damaged_catalog_line(tmp_path: Path) -> None:
    made(tmp_path)
    log = tmp_path / "race" / "catalog.log"
    log.write_bytes(log.read_bytes().replace(b"SELECT k", b"SELECT x"))
    with pytest.raises(HeadraceError) as found:
        headrace.Engine(tmp_path / "race")
    said(found.value, "CATALOG_DAMAGED", "record 2", "backup")


def test_a_half_written_mark_of_a_home_that_never_was(tmp_path: Path) -> None:
    (tmp_path / "race").mkdir()
    (tmp_path / "race" / "HEADRACE.part").write_bytes(b"{")
    assert made(tmp_path).queries()


def test_a_half_written_manifest(tmp_path: Path) -> None:
    engine = made(tmp_path)
    rounds = tmp_path / "race" / engine.home.stream_folder("s") / "rounds"
    (rounds / "000000000000.json.part").write_bytes(b"{")
    assert engine.results("one").num_rows == 0
    (rounds / "000000000000.json").write_bytes(b"{")
    with pytest.raises(HomeError) as found:
        engine.results("one")
    said(found.value, "MANIFEST_DAMAGED", "round 0", "doctor")


def test_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HomeError) as found:
        headrace.Engine(tmp_path / "file")
    said(found.value, "not a folder")


def test_below_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HomeError) as found:
        headrace.Engine(tmp_path / "file" / "race")
    said(found.value, "file")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(HomeError) as found:
        headrace.Engine(tmp_path)
    said(found.value, "thesis.tex", "empty or new")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@contextmanager
def somebody() -> Iterator[None]:
    """Nothing is read-only for root: as another user for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_read_only_folder() -> None:
    # not below pytest's own, which only its owner may look into
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with somebody(), pytest.raises(HomeError) as found:
            headrace.Engine(Path(folder) / "race")
        said(found.value, "DISK", "permission")
        Path(folder).chmod(0o700)


def test_a_home_of_somebody_else() -> None:
    """A home is its owner's: another user is told so, and changes nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a home that another user may not open")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made(Path(folder))
        before = sorted(p.stat().st_mtime_ns for p in Path(folder).rglob("*"))
        with somebody(), pytest.raises(HomeError) as found:
            headrace.Engine(Path(folder) / "race")
        said(found.value, "ermission", "this user")
        assert sorted(p.stat().st_mtime_ns for p in Path(folder).rglob("*")) == before


def test_a_home_that_runs_already(tmp_path: Path) -> None:
    one, other = made(tmp_path), headrace.Engine(tmp_path / "race")
    one.home.hold()
    for attempt in (other.run, other.start):
        with pytest.raises(HomeError) as found:
            attempt()
        said(found.value, "HOME_HELD", f"process {os.getpid()}", "stop it first")
    assert not other.is_running
    one.home.release()


def test_a_full_disk_while_adding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made(tmp_path)

    def full(file: object, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("headrace.disk.os.fsync", lambda handle: full(handle, b""))
        with pytest.raises(HomeError) as found:
            engine.add("SELECT x FROM s", name="three")
        said(found.value, "DISK_FULL", "free space")
    with pytest.raises(HomeError) as found:
        engine.add("SELECT x FROM s", name="four")
    said(found.value, "HOME_BROKEN", "restart")
    names = [q.name for q in headrace.Engine(tmp_path / "race").queries()]
    assert names in (["one", "two"], ["one", "two", "three"])  # not acknowledged: either is right
