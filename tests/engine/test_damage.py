"""Damage any file of the home or of Spark's checkpoint: right answers or a clear stop, never a
silent difference.

A home with five answered rounds is damaged, then opened and run again with more rows.  In the
interrupted form its newest round was cut off before the commit, and Spark is to repeat it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import HeadraceError
from tests.engine.survivor import DDL, EACH, KINDS, LATE_US, SUMS, rows_of
from tests.streams import same_value, write_file

QUERIES = {"sums": SUMS, "each": EACH, "kinds": KINDS}
FIRST, ALL = 5, 7
ROUNDS, CHECKPOINT = "streams/s/rounds", "streams/s/checkpoint"
NEWEST = FIRST - 1
Answers = dict[str, list[dict[str, Any]]]

# -- ways to do damage -----------------------------------------------------------------------------


def flip(path: Path) -> None:
    _flip_at(path, path.stat().st_size // 2)


def flip_somewhere(path: Path) -> None:
    _flip_at(path, Random(path.name).randrange(max(1, path.stat().st_size)))


def _flip_at(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[place] ^= 1  # a digit becomes another digit
        path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zero(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def remove(path: Path) -> None:
    path.unlink()


Damage = Callable[[Path], None]
DAMAGES: dict[str, Damage] = {
    f.__name__: f for f in (flip, flip_somewhere, cut, empty, zero, remove)
}


# -- a home to damage ------------------------------------------------------------------------------


@dataclass
class Patient:
    """The home, put back to its good state for each case, always at the same place."""

    folder: Path
    spark: SparkSession
    expected: Answers

    @property
    def race(self) -> Path:
        return self.folder / "race"

    def restore(self, interrupted: bool) -> None:
        for name in ("race", "src"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.folder / "good" / "src", self.folder / "src")
        shutil.copytree(
            self.folder / ("interrupted" if interrupted else "good") / "race", self.race
        )

    def outcome(self) -> str:
        """`same`, or the code of the clear stop."""
        for index in range(FIRST, ALL):
            write_file(self.folder / "src", index, rows_of(index))
        try:
            found = answer(self.folder, self.spark)
        except HeadraceError as error:
            assert error.what and (error.hint or error.value is not None), error
            return error.code
        for name, theirs in self.expected.items():
            a, b = sorted(found[name], key=str), sorted(theirs, key=str)
            same = len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
            assert same, f"{name} silently differs: {len(a)} answers instead of {len(b)}"
        return "same"


def answer(folder: Path, spark: SparkSession) -> Answers:
    """Open, run, read everything."""
    with headrace.Engine(folder / "race", spark=spark) as eng:
        eng.spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
        eng.run()
        assert all(q.state == "live" for q in eng.queries())
        return {name: eng.results(name).to_pylist() for name in QUERIES}


@pytest.fixture(scope="module")
def patient(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    folder = tmp_path_factory.mktemp("damage")
    for index in range(NEWEST):
        write_file(folder / "src", index, rows_of(index))
    eng = headrace.Engine(folder / "race", spark=spark)
    eng.create_stream(
        "s",
        f"parquet:{folder / 'src'}?maxFilesPerTrigger=1",
        schema=DDL,
        time="ts",
        late=f"{LATE_US} microseconds",
    )
    eng.add_many(QUERIES)
    answer(folder, spark)
    shutil.copytree(folder / "race", folder / "interrupted" / "race")
    write_file(folder / "src", NEWEST, rows_of(NEWEST))
    answer(folder, spark)
    for name in ("race", "src"):
        shutil.copytree(folder / name, folder / "good" / name)
    _interrupt(folder / "interrupted" / "race", folder / "good" / "race")
    for index in range(FIRST, ALL):
        write_file(folder / "src", index, rows_of(index))
    expected = answer(folder, spark)
    assert all(expected.values())
    return Patient(folder, spark, expected)


def _interrupt(before: Path, after: Path) -> None:
    """Give the home before a round all that the round wrote but its manifest: as a kill just before
    that leaves it, when Spark has noted the round as done already."""
    for path in files_below(after):
        inside = path.relative_to(after)
        if not (before / inside).exists() and inside.parent.name != "rounds":
            (before / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, before / inside)


def files_below(place: Path) -> Iterator[Path]:
    return (p for p in sorted(place.rglob("*")) if p.is_file())


# -- the cases -------------------------------------------------------------------------------------

MANIFEST = f"{ROUNDS}/{{:012d}}.json"
CASES = [
    # file, damage, interrupted, outcome
    (MANIFEST.format(NEWEST), flip, False, "MANIFEST_DAMAGED"),
    (MANIFEST.format(NEWEST), remove, False, "MANIFEST_MISSING"),
    (MANIFEST.format(2), remove, False, "MANIFEST_MISSING"),
    (f"streams/s/answers/{2:012d}.arrow", flip, False, "FILE_DAMAGED"),
    (f"streams/s/panes/{NEWEST:012d}.arrow", flip, False, "FILE_DAMAGED"),
    ("catalog.log", cut, False, "CATALOG_LOST"),
    ("catalog.log", remove, False, "CATALOG_LOST"),
    ("epoch", zero, False, "HOME"),
    ("HEADRACE", remove, False, "HOME"),
    (f"{CHECKPOINT}/metadata", remove, False, "CHECKPOINT_MISMATCH"),
    (f"{CHECKPOINT}/offsets/{NEWEST}", flip_somewhere, False, None),
    (f"{CHECKPOINT}/commits/{NEWEST}", empty, False, "same"),
    (f"{CHECKPOINT}/offsets/{NEWEST}", zero, True, "same"),
    (f"{CHECKPOINT}/sources/0/{NEWEST}", cut, True, "same"),
]


@pytest.mark.parametrize(
    ("file", "damage", "interrupted", "outcome"),
    CASES,
    ids=[f"{d.__name__}-{Path(f).parent.name}-{Path(f).name}" for f, d, _, _ in CASES],
)
def test_damage_is_mended_or_said(
    patient: Patient, file: str, damage: Damage, interrupted: bool, outcome: str | None
) -> None:
    patient.restore(interrupted)
    damage(patient.race / file)
    found = patient.outcome()
    assert outcome is None or found == outcome


def worth_damaging(race: Path, interrupted: bool) -> list[Path]:
    """Every file but Hadoop's checksums; of an interrupted home those that Spark starts from."""
    files = [p.relative_to(race) for p in files_below(race) if not p.name.startswith((".", "_"))]
    if not interrupted:
        return files
    return [
        f
        for f in files
        if "checkpoint" in f.parts and f.name in ("metadata", f"{NEWEST}", f"{NEWEST - 1}")
    ]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("interrupted", [False, True], ids=["finished", "interrupted"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_to_any_file(patient: Patient, damage: str, interrupted: bool) -> None:
    patient.restore(interrupted)
    wrong = []
    for file in worth_damaging(patient.race, interrupted):
        patient.restore(interrupted)
        DAMAGES[damage](patient.race / file)
        try:
            patient.outcome()
        except Exception as error:  # noqa: BLE001 - whatever is not one of ours is what we look for
            wrong.append(f"{file}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder",
    [
        "streams",
        "streams/s",
        CHECKPOINT,
        ROUNDS,
        "streams/s/answers",
        "streams/s/panes",
        "streams/s/rows",
        f"{CHECKPOINT}/offsets",
        f"{CHECKPOINT}/commits",
        f"{CHECKPOINT}/sources",
    ],
)
def test_a_folder_that_is_gone(patient: Patient, folder: str) -> None:
    patient.restore(False)
    shutil.rmtree(patient.race / folder)
    patient.outcome()


# -- the source ------------------------------------------------------------------------------------


def test_a_source_file_gone_before_its_round_is_repeated(patient: Patient) -> None:
    patient.restore(True)
    (patient.folder / "src" / f"{NEWEST:06d}.parquet").unlink()
    assert patient.outcome() == "SOURCE_GONE"


def test_a_source_file_rewritten_before_its_round_is_repeated(patient: Patient) -> None:
    patient.restore(True)
    path = write_file(patient.folder / "src", NEWEST, rows_of(0))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert patient.outcome() == "SOURCE_CHANGED"


def test_source_files_may_go_once_they_are_answered(patient: Patient) -> None:
    patient.restore(False)
    for index in range(FIRST):
        (patient.folder / "src" / f"{index:06d}.parquet").unlink()
    assert patient.outcome() == "same"


def test_a_source_folder_gone(patient: Patient) -> None:
    patient.restore(False)
    shutil.rmtree(patient.folder / "src")
    with pytest.raises(HeadraceError, match="SOURCE_GONE"):
        answer(patient.folder, patient.spark)


def test_another_catalog_in_place_of_ours(patient: Patient) -> None:
    """The same number of changes, but other ones: answers would be read under other names."""
    patient.restore(False)
    eng = headrace.Engine(patient.folder / "other")
    source = f"parquet:{patient.folder / 'src'}?maxFilesPerTrigger=1"
    eng.create_stream("s", source, schema=DDL, time="ts", late=f"{LATE_US} microseconds")
    eng.add_many(dict(reversed(QUERIES.items())))
    shutil.copy(patient.folder / "other" / "catalog.log", patient.race / "catalog.log")
    assert patient.outcome() == "CATALOG_LOST"
