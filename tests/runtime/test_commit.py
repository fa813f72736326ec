"""The end of a round: nothing that the round before still needs goes before the manifest is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.config import Config
from headrace.disk import Disk
from headrace.runtime.commit import Commits, Taken
from headrace.runtime.family import Outcome, Round
from headrace.runtime.home import Home
from headrace.runtime.ledger import FileMark, Ledger, Manifest, mark_of
from headrace.runtime.sparklogs import Input
from headrace.runtime.statistics import Stopwatch
from tests.runtime.recording import QuickDisk
from tests.runtime.test_ledger import manifest

FOLDER = "streams/s"
CALLED = SimpleNamespace(sync=lambda *_: None, secure=lambda: None, mark=lambda version: 0)


class HeldRound:
    """A home whose newest round holds a file that the next one replaces."""

    def __init__(self, folder: Path) -> None:
        self.disk: Disk = QuickDisk(folder)
        Home(folder, self.disk).stream_folder("s")
        self.disk.make_folder(f"{FOLDER}/present")
        self.old, self.new = (self._written(number) for number in (0, 1))
        self.ledger = Ledger(self.disk, FOLDER)
        self.ledger.commit(replace(manifest(0), held=(self.old,)))

    def _written(self, number: int) -> FileMark:
        path, data = f"{FOLDER}/present/{number:012d}.1.000000.parquet", b"%d" % number
        self.disk.put(path, data)
        return mark_of(path, data)

    def commit(self) -> None:
        home = SimpleNamespace(disk=self.disk, epoch=1, check_held=lambda: None)
        parts: list[Any] = [home, "s", self.ledger, CALLED, CALLED, Config()]
        taken = Taken(Round(1, None, 0), Input("checkpoint", "{}", (), ""), None, (), (), 0, 1)
        Commits(*parts).commit(taken, Outcome(held=(self.new,)), Stopwatch())

    def is_there(self, mark: FileMark) -> bool:
        return (self.disk.root / mark.path).exists()


def test_a_file_the_round_before_holds_stays_until_the_manifest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldRound(tmp_path / "home")

    def fails(ledger: Ledger, manifest: Manifest) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", fails)
        with pytest.raises(OSError, match="No space"):
            held.commit()
    assert held.is_there(held.old), "the newest manifest speaks of it"
    held.commit()
    assert not held.is_there(held.old) and held.is_there(held.new)
    assert cast(Manifest, held.ledger.newest).held == (held.new,)
