"""Damage any file that joins have committed: right answers or a clear stop, never a silent
difference.

As `tests/engine/test_damage.py` does for one stream, without Spark: a home with two answered rounds
of each relation is damaged, then read, run with more rows, and read again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from tests.engine.test_damage import DAMAGES, files_below
from tests.runtime.joined import NAMES, JoinScenario, Seen, net, seen_by_watcher
from tests.runtime.recording import QuickDisk
from tests.runtime.scenario import Step

STEPS = (Step(add=("band", "select", "self")), Step(files=1), Step(files=2))
LAST = Step(files=3)
NEWEST = f"streams/t/rounds/{1:012d}.json"
SAID = {"FILE_DAMAGED", "MANIFEST_DAMAGED", "MANIFEST_MISSING", "CHECKPOINT_MISMATCH"}


@dataclass
class Patient:
    """The home, put back to its good state for each case."""

    folder: Path
    before: Seen
    after: Seen

    @property
    def race(self) -> Path:
        return self.folder / "race"

    def restore(self) -> None:
        for name in ("race", "src"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.folder / "good" / name, self.folder / name)

    def files(self) -> Iterator[Path]:
        for name in NAMES:
            for kind in ("kept", "levels", "rounds"):
                yield from (
                    p.relative_to(self.race)
                    for p in files_below(self.race / "streams" / name / kind)
                )

    def outcome(self, is_newest: bool) -> str:
        """`same`, or the code of the clear stop; whoever only reads must not be told anything else
        either.  The round without the newest manifest of all is one that was never committed: it
        has a later turn when it is repeated."""
        try:
            found = seen_by_watcher(QuickDisk(self.race), checks=False)
            for name, seen in self.before.items():
                assert found[name] == (seen[: len(found[name])] if is_newest else seen)
        except HeadraceError as error:
            assert error.code in SAID
        try:
            with JoinScenario(QuickDisk(self.race), self.folder / "src").held() as held:
                held.do(LAST)
            found = seen_by_watcher(QuickDisk(self.race), checks=False)
            for name, seen in self.after.items():
                assert net(found[name]) == net(seen) if is_newest else found[name] == seen
        except HeadraceError as error:
            assert error.what and (error.hint or error.value is not None), error
            return error.code
        return "same"


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    folder = tmp_path_factory.mktemp("damage")
    for name in NAMES:
        (folder / "src" / name).mkdir(parents=True)
    with JoinScenario(QuickDisk(folder / "race"), folder / "src").held() as held:
        for step in STEPS:
            held.do(step)
        for name in ("race", "src"):
            shutil.copytree(folder / name, folder / "good" / name)
        before = seen_by_watcher(QuickDisk(folder / "race"))
        held.do(LAST)
    return Patient(folder, before, seen_by_watcher(QuickDisk(folder / "race")))


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_to_any_file(patient: Patient, damage: str) -> None:
    patient.restore()
    wrong, said = [], 0
    for file in list(patient.files()):
        patient.restore()
        DAMAGES[damage](patient.race / file)
        try:
            said += patient.outcome(is_newest=str(file) == NEWEST) in SAID
        except Exception as error:  # noqa: BLE001 - whatever is not one of ours is what we look for
            wrong.append(f"{file}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    assert said >= 12
