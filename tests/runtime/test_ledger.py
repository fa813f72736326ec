"""The ledger: the newest manifest is the truth; a missing or changed one is named, never
skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import HomeError
from headrace.families.windows.driver_work import Chosen
from headrace.runtime.home import Home
from headrace.runtime.ledger import FileMark, Ledger, Manifest, check_catalog, check_folder, mark_of
from tests.runtime.recording import QuickDisk
from tests.runtime.scenario import relation_of

FOLDER = "streams/s"


def manifest(
    round_id: int, first_round: int = 0, files: tuple[FileMark, ...] = (), **keep: int
) -> Manifest:
    return Manifest(
        round_id,
        "checkpoint",
        1,
        2,
        3,
        first_round,
        1_000 + round_id,
        '{"logOffset":0}',
        "chain",
        (("file:///a", 10, 20),),
        files,
        keep,
        {"rows": 5, "seconds": {"total": 0.5}},
    )


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    home = Home(tmp_path / "home", QuickDisk(tmp_path / "home"))
    home.stream_folder("s")
    return home.disk


def fill(disk: Disk, rounds: int) -> Ledger:
    ledger = Ledger(disk, FOLDER)
    for round_id in range(rounds):
        ledger.commit(manifest(round_id))
    return ledger


def code_of(disk: Disk) -> str:
    with pytest.raises(HomeError) as caught:
        Ledger(disk, FOLDER).check_sizes()
    return caught.value.code


def test_what_is_committed_is_read(disk: Disk) -> None:
    made = manifest(0, files=(FileMark("streams/s/answers/x", 3, 4),), panes=0)
    Ledger(disk, FOLDER).commit(made)
    assert Ledger(disk, FOLDER).newest == made
    assert Ledger(disk, FOLDER).read(0) == made


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"cutting": {}},
        {"cutting": {"united": False, "apart_cost": 2.5}, "sending": {"cuts": 7, "rounds": 3}},
    ],
)
def test_choices_that_are_committed_are_read(disk: Disk, choices: dict[str, Any]) -> None:
    Ledger(disk, FOLDER).commit(
        replace(manifest(0), choices={"windows": choices} if choices else {})
    )
    found = Ledger(disk, FOLDER).chosen("windows", Chosen)
    assert found.cutting.apart_cost == (2.5 if "sending" in choices else None)
    assert found.sending.rounds == (3 if "sending" in choices else 0)


@pytest.mark.parametrize(
    "choices",
    [
        {"cutting": 1},
        {"cutting": {"united": 1}},
        {"cutting": {"apart_cost": [1.0]}},
        {"cutting": {"united_cost": "x"}},
        {"sending": {"rounds": None}},
        {"sending": {"is_thin": "yes"}},
        {"sending": []},
        {"unheard_of": {}},
    ],
)
def test_damaged_choices_are_told(disk: Disk, choices: dict[str, Any]) -> None:
    Ledger(disk, FOLDER).commit(replace(manifest(0), choices={"windows": choices}))
    with pytest.raises(HomeError) as caught:
        Ledger(disk, FOLDER).chosen("windows", Chosen)
    assert caught.value.code == "MANIFEST_DAMAGED"


def test_an_empty_ledger(disk: Disk) -> None:
    ledger = Ledger(disk, FOLDER)
    assert ledger.newest is None and ledger.rounds == []
    ledger.check_sizes()


def test_another_process_sees_commits(disk: Disk) -> None:
    reader, writer = Ledger(disk, FOLDER), Ledger(disk, FOLDER)
    writer.commit(manifest(0))
    reader.refresh()
    assert reader.rounds == [0]
    writer.commit(manifest(1))
    reader.refresh()
    assert reader.rounds == [0, 1] and reader.newest == writer.newest


def test_a_reader_that_was_away_sees_what_is_kept(disk: Disk) -> None:
    writer = fill(disk, 2)
    reader = Ledger(disk, FOLDER)
    for round_id in range(2, 5):
        writer.commit(manifest(round_id))
    reader.refresh()
    assert reader.rounds == [0, 1, 2, 3, 4]
    for round_id in range(5, 9):  # what it has seen last goes
        writer.commit(manifest(round_id, first_round=round_id - 1))
    reader.refresh()
    assert reader.rounds == writer.rounds == [7, 8] and reader.newest == writer.newest


def test_the_folder_is_gone_through_once(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are manifests by the hundred thousand."""
    writer, reader = fill(disk, 3), Ledger(disk, FOLDER)
    monkeypatch.setattr(Ledger, "_found", lambda self: pytest.fail("it is gone through again"))
    reader.refresh()
    writer.commit(manifest(3))
    reader.refresh()
    assert reader.rounds == [0, 1, 2, 3]


def test_a_round_committed_while_the_folder_is_listed_is_not_missing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, listed = fill(disk, 3), Ledger._found

    def slowly(self: Ledger) -> list[int]:
        found = listed(self)
        monkeypatch.setattr(Ledger, "_found", listed)
        for round_id in (3, 4):  # and the oldest are let go of
            writer.commit(manifest(round_id, first_round=2))
        return found

    monkeypatch.setattr(Ledger, "_found", slowly)
    assert Ledger(disk, FOLDER).rounds in ([0, 1, 2], [2, 3, 4])


def test_a_note_of_a_round_that_went_says_nothing(disk: Disk) -> None:
    """It is never synced: after a power cut it may be older than the oldest manifest."""
    writer = fill(disk, 3)
    note = (disk.root / FOLDER / "newest").read_bytes()
    for round_id in (3, 4):
        writer.commit(manifest(round_id, first_round=round_id))
    (disk.root / FOLDER / "newest").write_bytes(note)
    with pytest.raises(HomeError) as caught:
        check_folder(disk, FOLDER, Catalog(disk, Config()))
    assert caught.value.code == "CATALOG_LOST", "the newest manifest was asked"


def test_a_half_written_manifest_is_no_round(disk: Disk) -> None:
    ledger = fill(disk, 2)
    (disk.root / (ledger.path(2) + ".part")).write_bytes(b"01234567 {")
    assert Ledger(disk, FOLDER).rounds == [0, 1]


@pytest.mark.parametrize("round_id", [0, 1])
def test_a_gap_is_named(disk: Disk, round_id: int) -> None:
    ledger = fill(disk, 3)
    disk.remove(ledger.path(round_id))
    with pytest.raises(HomeError, match=f"manifest of round {round_id} is missing") as caught:
        Ledger(disk, FOLDER)
    assert caught.value.code == "MANIFEST_MISSING"


def test_the_newest_going_away_under_a_reader_is_noticed(disk: Disk) -> None:
    ledger = fill(disk, 2)
    disk.remove(ledger.path(1))
    with pytest.raises(HomeError, match="round 1 is missing"):
        ledger.refresh()


@pytest.mark.parametrize("round_id", [0, 1, 2])
@pytest.mark.parametrize("content", [b"", b"\n", b"00000000 {}\n", b"\0" * 50])
def test_a_damaged_manifest_is_named(disk: Disk, round_id: int, content: bytes) -> None:
    ledger = fill(disk, 3)
    (disk.root / ledger.path(round_id)).write_bytes(content)
    assert code_of(disk) == "MANIFEST_DAMAGED"


def test_every_changed_byte_of_a_manifest_is_noticed(disk: Disk) -> None:
    ledger = fill(disk, 1)
    path = disk.root / ledger.path(0)
    good = path.read_bytes()
    for place in range(len(good) - 1):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        assert code_of(disk) == "MANIFEST_DAMAGED"


def test_old_manifests_go_and_those_a_crash_left_go_too(disk: Disk) -> None:
    ledger = fill(disk, 4)
    left = (disk.root / ledger.path(0)).read_bytes()
    ledger.commit(manifest(4, first_round=3))
    assert ledger.rounds == Ledger(disk, FOLDER).rounds == [3, 4]
    (disk.root / ledger.path(0)).write_bytes(left)
    again = Ledger(disk, FOLDER)
    assert again.rounds == [3, 4]
    again.commit(manifest(5, first_round=4))
    assert again.rounds == [4, 5]
    assert not (disk.root / ledger.path(0)).exists()


# -- files of a round ------------------------------------------------------------------------------


def test_a_committed_file_is_checked(disk: Disk) -> None:
    path = "streams/s/answers/a"
    disk.put(path, b"answer")
    mark = mark_of(path, b"answer")
    ledger = Ledger(disk, FOLDER)
    ledger.commit(manifest(0, files=(mark,)))
    assert ledger.check(mark) == b"answer"
    ledger.check_sizes()
    disk.put(path, b"Answer")
    ledger.check_sizes()
    with pytest.raises(HomeError, match="does not match its checksum"):
        ledger.check(mark)
    disk.put(path, b"answers")
    assert code_of(disk) == "FILE_DAMAGED"
    disk.remove(path)
    assert code_of(disk) == "FILE_DAMAGED"
    with pytest.raises(HomeError, match="is missing"):
        ledger.check(mark)


def test_state_no_query_needs_may_be_gone(disk: Disk) -> None:
    gone = FileMark("streams/s/panes/000000000000.arrow", 5, 6)
    ledger = Ledger(disk, FOLDER)
    ledger.commit(manifest(0, files=(gone,)))
    ledger.commit(manifest(1, panes=1))
    ledger.check_sizes()
    assert not ledger.is_kept(gone, 0)


# -- the catalog the rounds were answered with -----------------------------------------------------


def test_the_catalog_of_the_rounds(disk: Disk, tmp_path: Path) -> None:
    catalog = Catalog(disk, Config())
    catalog.create(relation_of(tmp_path))
    ledger = Ledger(disk, FOLDER)
    check_catalog(ledger, catalog)
    mark = catalog.mark(1)
    assert mark is not None
    made = replace(manifest(0), catalog_version=1, catalog_mark=mark)
    ledger.commit(made)
    check_catalog(ledger, catalog)
    ledger.commit(replace(made, round_id=1, catalog_version=2))
    with pytest.raises(HomeError, match="lost committed changes"):
        check_catalog(ledger, catalog)
    ledger.commit(replace(made, round_id=2, catalog_mark=made.catalog_mark ^ 1))
    with pytest.raises(HomeError, match="another one") as caught:
        check_catalog(ledger, catalog)
    assert caught.value.code == "CATALOG_LOST"
