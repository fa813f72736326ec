"""The one door to the disk: its order of syncs, and that it stays shut after a failure."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

import pytest

from headrace.disk import Disk
from headrace.errors import HomeError
from tests.runtime.recording import RecordingDisk


def verbs(disk: RecordingDisk) -> list[tuple[str, str]]:
    return [(op.verb, op.new or op.path) for op in disk.ops]


def test_a_file_put_aside_is_synced_before_it_is_renamed_and_its_folder_after(
    tmp_path: Path,
) -> None:
    disk = RecordingDisk(tmp_path)
    disk.mkdir("a")
    disk.ops.clear()
    disk.put_aside("a/f", b"new")
    assert verbs(disk) == [
        ("write", "a/f.part"),
        ("sync", "a/f.part"),
        ("rename", "a/f"),
        ("sync", "a"),
    ]
    assert (tmp_path / "a" / "f").read_bytes() == b"new"


def test_a_folder_is_made_from_the_top_and_each_is_synced_in_its_parent(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    disk.make_folder("a/b")
    assert verbs(disk) == [("mkdir", "a"), ("sync", "."), ("mkdir", "a/b"), ("sync", "a")]
    disk.make_folder("a/b")
    assert len(disk.ops) == 4


def test_the_root_is_synced_in_every_parent_that_was_made(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path / "x" / "y" / "home")
    disk.make_root()
    assert verbs(disk) == [("mkdir", "."), ("sync", ".."), ("sync", "../.."), ("sync", "../../..")]


def test_an_append_is_synced(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    disk.add_to("log", b"1")
    disk.add_to("log", b"2")
    assert verbs(disk) == [("append", "log"), ("sync", "log")] * 2
    assert (tmp_path / "log").read_bytes() == b"12"


def test_what_somebody_else_wrote_is_adopted_whole(tmp_path: Path) -> None:
    (tmp_path / "out" / "part=1").mkdir(parents=True)
    for name in ("b.parquet", "a.parquet", "_SUCCESS", ".a.crc", "part=1/c.parquet"):
        (tmp_path / "out" / name).write_bytes(b"x")
    disk = RecordingDisk(tmp_path)
    files = ["out/a.parquet", "out/b.parquet", "out/part=1/c.parquet"]
    assert disk.adopt("out") == files
    assert {p for _, p in verbs(disk)} == {*files, "out", "out/part=1"}


def test_a_cleared_folder_is_gone_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    (tmp_path / "rows" / "deep").mkdir(parents=True)
    (tmp_path / "rows" / "deep" / "f").touch()
    disk = RecordingDisk(tmp_path)
    disk.clear("rows")
    assert not (tmp_path / "rows").exists()
    assert verbs(disk) == [("remove", "rows/deep/f"), ("remove", "rows/deep"), ("remove", "rows")]
    disk.clear("rows")


def test_after_a_failed_fsync_nothing_is_written_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)

    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(HomeError, match="cannot sync f") as caught:
            disk.put("f", b"1")
    assert caught.value.code == "DISK"
    for attempt in (
        partial(disk.write, "g", b""),
        partial(disk.remove, "f"),
        partial(disk.sync, "."),
    ):
        with pytest.raises(HomeError) as again:
            attempt()
        assert again.value.code == "HOME_BROKEN" and "cannot sync f" in str(again.value)
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "DISK_FULL"),
        (errno.EDQUOT, "DISK_FULL"),
        (errno.EROFS, "DISK"),
        (errno.EACCES, "DISK"),
    ],
)
def test_a_failure_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def fail(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(HomeError) as caught:
        Disk(tmp_path).put("f", b"1")
    assert (
        caught.value.code == code and caught.value.hint and os.strerror(number) in caught.value.what
    )
