"""A full disk: a clear stop, every committed round readable, and the run goes on once there is
space."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.disk import Bytes
from headrace.errors import HomeError
from tests.runtime.recording import QuickDisk
from tests.runtime.scenario import Scenario, answers


class SmallDisk(QuickDisk):
    """Has room for so many bytes; a write that does not fit is cut off in the middle."""

    def __init__(self, root: Path, room: int) -> None:
        super().__init__(root)
        self._room = room

    def write(self, path: str, data: Bytes) -> None:
        with self._guard("write", path):
            (self.root / path).write_bytes(self._fitting(data))
            self._take(data)

    def append(self, path: str, data: Bytes) -> None:
        with self._guard("append", path):
            with (self.root / path).open("ab") as file:
                file.write(self._fitting(data))
            self._take(data)

    def _fitting(self, data: Bytes) -> bytes:
        return bytes(data)[: max(0, self._room)]

    def _take(self, data: Bytes) -> None:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    roomy = QuickDisk(tmp_path / "roomy")
    Scenario(roomy, source).run()
    expected = answers(roomy, source)
    used = sum(p.stat().st_size for p in roomy.root.rglob("*") if p.is_file())
    stops = 0
    for room in range(0, 2 * used, used // 20):
        home = tmp_path / f"home-{room}"
        for path in source.iterdir():
            path.unlink()
        try:
            Scenario(SmallDisk(home, room), source).run()
        except HomeError as error:
            assert error.code == "DISK_FULL" and "free space" in error.hint
            stops += 1
        found = answers(QuickDisk(home), source)
        assert all(rows == expected[i][: len(rows)] for i, rows in found.items())
        Scenario(QuickDisk(home), source).run()
        assert answers(QuickDisk(home), source) == expected
    assert stops > 5


def test_after_a_full_disk_the_same_engine_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    scenario = Scenario(SmallDisk(tmp_path / "home", 2_000), tmp_path / "src")
    with pytest.raises(HomeError, match="DISK_FULL"):
        scenario.run()
    with pytest.raises(HomeError, match="HOME_BROKEN"):
        scenario.run()
