"""A commit wakes whoever waits, in this process and in others, and none is missed between looking
and waiting."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.runtime import waking
from headrace.runtime.waking import CommitSignal, FolderSignal, HomeSignal

LONG_S = 30.0
AT_ONCE_S = 5.0  # on a machine that does much else; a wait that is not woken takes LONG_S


def took_s(wait: waking.Wait) -> float:
    began_s = time.monotonic()
    wait(LONG_S)
    return time.monotonic() - began_s


def commit(folder: Path, number: int) -> None:
    """As `Disk.put_aside` does it."""
    (folder / f"{number}.json.part").write_text("{}")
    (folder / f"{number}.json.part").rename(folder / f"{number}.json")


def test_a_commit_wakes_all_who_wait() -> None:
    signal, woken = CommitSignal(), list[float]()
    waits = [signal.arm() for _ in range(5)]
    threads = [threading.Thread(target=lambda w=w: woken.append(took_s(w))) for w in waits]
    for thread in threads:
        thread.start()
    signal.give()
    for thread in threads:
        thread.join()
    assert len(woken) == 5 and max(woken) < AT_ONCE_S


def test_a_commit_between_looking_and_waiting_is_not_missed() -> None:
    signal = CommitSignal()
    wait = signal.arm()
    signal.give()
    assert took_s(wait) < AT_ONCE_S


def test_what_was_seen_does_not_wake_again() -> None:
    signal = CommitSignal()
    signal.give()
    began_s = time.monotonic()
    signal.arm()(0.05)
    assert time.monotonic() - began_s >= 0.05


@pytest.fixture(params=["inotify", "poll"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "poll":
        monkeypatch.setattr(waking, "_watching", lambda folders: None)
    elif waking._watching([tmp_path]) is None:
        pytest.skip("this system has no inotify")
    return tmp_path


def test_another_process_wakes_by_its_manifests(folder: Path) -> None:
    signal = FolderSignal([folder])
    wait = signal.arm()
    text = f"import os; os.rename({str(folder / 'a.part')!r}, {str(folder / 'a')!r})"
    (folder / "a.part").write_text("")
    wait = signal.arm()
    child = subprocess.Popen([sys.executable, "-c", text])
    assert took_s(wait) < LONG_S / 2
    assert (folder / "a").exists()
    assert child.wait() == 0
    signal.close()


def test_a_manifest_between_looking_and_waiting_is_not_missed(folder: Path) -> None:
    signal = FolderSignal([folder])
    for number in range(3):
        wait = signal.arm()
        time.sleep(0.01)  # file systems tell times apart by some milliseconds
        commit(folder, number)
        assert took_s(wait) < AT_ONCE_S
    began_s = time.monotonic()
    signal.arm()(0.05)
    assert time.monotonic() - began_s >= 0.05
    signal.close()


def test_a_folder_that_is_not_there_is_looked_for(tmp_path: Path) -> None:
    signal = FolderSignal([tmp_path / "later"])
    wait = signal.arm()
    (tmp_path / "later").mkdir()
    assert took_s(wait) < AT_ONCE_S


def test_the_home_is_watched_where_another_runs_it(tmp_path: Path) -> None:
    own, runs = CommitSignal(), [True]
    signal = HomeSignal(own, lambda: runs[0], [tmp_path])
    wait = signal.arm()
    own.give()
    assert took_s(wait) < AT_ONCE_S
    runs[0] = False
    wait = signal.arm()
    commit(tmp_path, 0)
    assert took_s(wait) < AT_ONCE_S
    before = open_files()
    signal.close()
    assert open_files() == before - (before > 0)


def open_files() -> int:
    """0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_a_process_with_many_open_files_waits(tmp_path: Path) -> None:
    """`select` takes no file number past 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip(f"a process may have only {hard} files open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    with ExitStack() as opened:
        for _ in range(1_100):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        signal = FolderSignal([tmp_path])
        opened.callback(signal.close)
        wait = signal.arm()
        commit(tmp_path, 0)
        start = time.monotonic()
        wait(5)
        assert time.monotonic() - start < 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
