"""The feed: whole files only, never far ahead, carried on where it ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import pyarrow.parquet as pq
import pytest

from headrace.bench import feed as feeding
from headrace.bench.feed import Feed


def wait_until(true: Callable[[], bool]) -> None:
    end = monotonic() + 20
    while not true():
        assert monotonic() < end, "waited too long"
        sleep(0.01)


def a_feed(folder: Path, ahead: int = 3) -> Feed:
    return Feed(folder, seed=7, rows_per_second=100, seconds=2, ahead=ahead)


def test_it_stays_so_many_files_ahead(tmp_path: Path) -> None:
    feed = a_feed(tmp_path)
    feed.start()
    try:
        wait_until(lambda: feed.written == 3)
        sleep(0.1)
        assert feed.written == 3
        feed.read(2)
        wait_until(lambda: feed.written == 5)
    finally:
        feed.stop()
    files = sorted(tmp_path.glob("part-*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [200] * 5
    assert not list(tmp_path.glob(".*"))


def test_a_later_feed_carries_on_in_time(tmp_path: Path) -> None:
    for _ in range(2):
        feed = a_feed(tmp_path, ahead=2)
        feed.start()
        wait_until(lambda feed=feed: feed.written == 2)  # type: ignore[misc]
        feed.stop()
    times = [
        pq.read_table(file)["ts"].cast("int64").to_numpy()
        for file in sorted(tmp_path.glob("part-*.parquet"))
    ]
    assert len(times) == 4
    for earlier, later in pairwise(times):
        assert later.max() > earlier.max()


def test_what_kept_it_from_writing_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(feeding, "write_file", full)
    feed = a_feed(tmp_path)
    feed.start()
    feed.stop()
    with pytest.raises(OSError, match="disk full"):
        feed.read(0)


def test_stopping_before_starting_is_fine(tmp_path: Path) -> None:
    a_feed(tmp_path).stop()
