"""The catalog log: whole records only, torn tails forgiven, damage named."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog.log import PATH, CatalogLog
from headrace.disk import Disk
from headrace.errors import CatalogError
from tests.runtime.recording import QuickDisk, RecordingDisk


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return QuickDisk(tmp_path)


def fill(disk: Disk, *names: str) -> CatalogLog:
    log = CatalogLog(disk)
    log.read()
    for name in names:
        log.append({"name": name})
        log.read()
    return log


def read(disk: Disk) -> list[str]:
    return [r["name"] for _, r in CatalogLog(disk).read()]


def test_records_in_order_each_once(disk: Disk) -> None:
    log = fill(disk, "a", "ü\n\r\x85\u2028", "😀")
    assert read(disk) == ["a", "ü\n\r\x85\u2028", "😀"]
    assert log.version == 3 and log.read() == []


def test_two_readers_and_writers(disk: Disk) -> None:
    one, two = fill(disk, "a"), CatalogLog(disk)
    assert [r["name"] for _, r in two.read()] == ["a"]
    with two.exclusive():
        two.append({"name": "b"})
    assert [r["name"] for _, r in one.read()] == ["b"] and one.version == 2


def test_every_torn_tail_is_forgiven_and_overwritten(disk: Disk) -> None:
    fill(disk, "a", "b")
    whole = (disk.root / PATH).read_bytes()
    start = whole.index(b"\n") + 1
    for size in range(start, len(whole)):
        (disk.root / PATH).write_bytes(whole[:size])
        assert read(disk) == ["a"]
        log = fill(disk, "c")
        assert read(disk) == ["a", "c"] and log.version == 2


def test_a_changed_byte_is_named(disk: Disk) -> None:
    fill(disk, "a", "b", "c")
    whole = (disk.root / PATH).read_bytes()
    for place in range(whole.rindex(b"\n")):
        (disk.root / PATH).write_bytes(
            whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        )
        with pytest.raises(CatalogError) as caught:
            CatalogLog(disk).read()
        assert caught.value.code == "CATALOG_DAMAGED"


def test_a_log_that_shrinks_or_vanishes_under_a_reader(disk: Disk) -> None:
    log = fill(disk, "a", "b")
    disk.truncate(PATH, 3)
    with pytest.raises(CatalogError, match="shrunk"):
        log.read()
    disk.remove(PATH)
    with pytest.raises(CatalogError, match="vanished"):
        log.read()


def test_an_append_is_durable_and_so_is_the_first_ones_name(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    fill(disk, "a", "b")
    append = [("append", PATH), ("sync", PATH)]
    assert [(op.verb, op.path) for op in disk.ops] == [
        ("write", PATH),
        ("sync", PATH),
        ("sync", "."),
        *append,
        *append,
    ]


def test_marks_tell_one_past_from_another(tmp_path: Path) -> None:
    logs = []
    for n, names in enumerate([("a", "b"), ("a", "b", "c"), ("b", "a")]):
        (tmp_path / str(n)).mkdir()
        logs.append(fill(QuickDisk(tmp_path / str(n)), *names))
    assert logs[0].mark(2) == logs[1].mark(2) != logs[2].mark(2)
    assert logs[0].mark(0) == logs[2].mark(0)


def test_who_has_read_all_goes_on_in_a_compacted_log(disk: Disk) -> None:
    """A reader may look between the last change and the compaction: nothing is new to it then."""
    writer = fill(disk, "a", "b")
    reader = CatalogLog(disk)
    reader.read()
    assert writer.compact([{"name": "b"}])
    assert reader.read() == [] and reader.version == 2
    writer.append({"name": "c"})
    assert [record["name"] for _, record in reader.read()] == ["c"] and reader.version == 3
