"""The home folder: one format, one engine, nothing taken for a home that is none."""

from __future__ import annotations

import errno
import fcntl
import json
from pathlib import Path

import pytest

from headrace.disk import Disk
from headrace.engine import Engine
from headrace.errors import HomeError
from headrace.runtime.home import FORMAT, MARK, Home


def test_a_new_home_is_made_with_its_parents(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "b")
    assert json.loads((home.root / MARK).read_text())["format"] == FORMAT
    assert Home(home.root).stream_folders() == []


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    before = (Home(tmp_path / "h").root / MARK).read_bytes()
    assert (Home(tmp_path / "h").root / MARK).read_bytes() == before


def test_a_folder_with_other_things_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(HomeError, match=r"not a Headrace home.*\n.*holiday\.jpg"):
        Home(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_home_without_its_mark_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "catalog.log").touch()
    with pytest.raises(HomeError, match=f"restore its file {MARK}"):
        Home(tmp_path)


def test_a_file_is_not_a_home(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(HomeError, match="not a folder"):
        Home(tmp_path / "f")


def test_a_half_made_home_is_finished(tmp_path: Path) -> None:
    (tmp_path / f"{MARK}.part").write_bytes(b'{"for')
    assert json.loads((Home(tmp_path).root / MARK).read_text())["format"] == FORMAT


def test_a_home_of_another_version(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text('{"format": 99, "id": "x"}')
    with pytest.raises(HomeError) as caught:
        Home(tmp_path)
    assert (
        caught.value.code == "HOME_VERSION"
        and "99" in str(caught.value)
        and f"format {FORMAT}" in str(caught.value)
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"id": "x"}', b"\0\0\0"])
def test_a_damaged_mark(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MARK).write_bytes(content)
    with pytest.raises(HomeError, match=f"{MARK} of the home is damaged"):
        Home(tmp_path)


def test_a_place_where_nothing_may_be_made() -> None:
    with pytest.raises(HomeError) as caught:
        Home(Path("/proc/headrace/home"))
    assert caught.value.code == "DISK"


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "é" * 200])
def test_a_name_no_folder_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(HomeError, match=r"cannot be opened[^\n]*\n[^\n]*(too long|null)") as found:
        Home(tmp_path / name)
    assert found.value.hint and "\0" not in str(found.value)


def test_a_folder_nobody_may_look_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)  # root looks into every folder
    with pytest.raises(HomeError, match="Permission denied"):
        Home(tmp_path / "h")


def test_stream_folders_of_any_name(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    for name in ("trades", "a.b-c", "Größe"):
        assert (home.root / home.stream_folder(name) / "rounds").is_dir()
    assert len(home.stream_folders()) == 3


# -- one engine ------------------------------------------------------------------------------------


def test_a_second_engine_is_told_who_holds_the_home(tmp_path: Path) -> None:
    first, second = Home(tmp_path / "h"), Home(tmp_path / "h")
    first.hold()
    first.hold()
    with pytest.raises(
        HomeError, match=r"another engine runs this home\n.*process \d+ on "
    ) as caught:
        second.hold()
    assert caught.value.code == "HOME_HELD"
    first.release()
    second.hold()
    assert second.epoch == first.epoch + 1
    second.check_held()
    second.release()


def test_an_engine_that_lost_the_home_stops(tmp_path: Path) -> None:
    """Its lock file was removed while it slept, and another took over."""
    old = Home(tmp_path / "h")
    old.hold()
    (old.root / "lock").unlink()
    new = Home(tmp_path / "h")
    new.hold()
    new.check_held()
    with pytest.raises(HomeError) as caught:
        old.check_held()
    assert caught.value.code == "HOME_LOST"


def test_without_the_lock_nothing_is_held(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    with pytest.raises(HomeError, match="lost the home"):
        home.check_held()


def test_a_left_over_lock_file_does_not_hold(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    (home.root / "lock").write_text("process 1 on nowhere\n")
    home.hold()
    home.release()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"epoch": "x"}', b"null"])
def test_a_damaged_epoch(tmp_path: Path, content: bytes) -> None:
    home = Home(tmp_path / "h")
    (home.root / "epoch").write_bytes(content)
    with pytest.raises(HomeError, match="`epoch` is damaged"):
        home.hold()
    (home.root / "epoch").unlink()
    other = Home(tmp_path / "h")
    other.hold()
    other.release()


def test_a_lock_that_cannot_be_opened_is_our_error(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    (home.root / "lock").mkdir()
    with pytest.raises(HomeError, match="cannot open lock"):
        home.hold()


def test_asking_needs_no_lock(tmp_path: Path) -> None:
    holder = Home(tmp_path / "h")
    holder.hold()
    with (holder.root / "lock").open("rb") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert Home(tmp_path / "h", Disk(tmp_path / "h")).stream_folder("s") == "streams/s"
    holder.release()


def test_a_folder_that_was_there_is_shut(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o777)
    Home(tmp_path / "home")
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "place", ["s3a://bucket/race", "hdfs://n:8020/race", "gs://b/r", "dbfs:/race", "abfss://c@a/r"]
)
def test_an_address_is_not_a_home(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made as a local folder of that name."""
    monkeypatch.chdir(tmp_path)
    for made in (lambda: Engine(place), lambda: Engine(Path(place)), lambda: Home(Path(place))):
        with pytest.raises(HomeError, match="a folder that every machine") as told:
            made()
        assert told.value.code == "HOME_PLACE"
        assert place.partition(":")[0] in str(told.value.value)
    assert not list(tmp_path.iterdir())


def test_a_file_address_is_told_as_a_folder() -> None:
    with pytest.raises(HomeError, match="name the folder itself: /srv/race"):
        Engine("file:///srv/race")


def test_a_colon_elsewhere_is_part_of_a_name(tmp_path: Path) -> None:
    assert Home(tmp_path / "a:b").root == tmp_path / "a:b"
