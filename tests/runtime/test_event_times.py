"""Which event times are taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.config import Config, utc_us
from headrace.errors import HeadraceError
from headrace.runtime.event_times import FOOTERS_MAX, TimeLimits, footer_span_us
from headrace.runtime.sparklogs import Listed

NOW_US = utc_us("2026-01-01", "now")
DAY_US = 86_400_000_000


def test_limits_follow_the_clock() -> None:
    limits = TimeLimits.of(Config(), NOW_US)
    assert (limits.min_us, limits.last_us) == (utc_us("0001-01-01", ""), NOW_US + DAY_US)
    assert TimeLimits.of(Config(), NOW_US + 5).last_us == NOW_US + DAY_US + 5
    assert TimeLimits.of(Config.of(ahead_ms_max=0), NOW_US).last_us == utc_us(
        "9999-12-31 23:59:59.999999", ""
    )
    assert TimeLimits.of(Config.of(time_max="2020-01-01"), NOW_US).last_us == utc_us(
        "2020-01-01", ""
    )


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (-(2**63), "before time_min = 2000-01-01"),
        (2**63 - 1, "after time_max = 2030-01-01"),
        (NOW_US + DAY_US + 1, "ahead of the clock than ahead_ms_max = 86,400,000"),
    ],
)
def test_the_reason_names_the_setting(us: int, words: str) -> None:
    config = Config.of(time_min="2000-01-01", time_max="2030-01-01")
    assert words in TimeLimits.of(config, NOW_US).reason(us, config)


@pytest.mark.parametrize(
    "settings",
    [
        {"time_min": "yesterday"},
        {"time_max": "-0044-03-15"},
        {"time_min": "2020-01-02", "time_max": "2020-01-01"},
        {"ahead_ms_max": -1},
        {"time_min": ""},
    ],
)
def test_limits_that_are_none(settings: dict[str, object]) -> None:
    with pytest.raises(HeadraceError) as found:
        Config.of(**settings)
    assert found.value.code == "CONFIG"


def test_a_zone_counts() -> None:
    assert utc_us("2020-01-01 02:00:00+02:00", "") == utc_us("2020-01-01", "")


def written(path: Path, values: Sequence[int | None], kind: pa.DataType, name: str = "ts") -> Path:
    pq.write_table(
        pa.table({name: pa.array(values, pa.int64()).cast(kind)}), path, row_group_size=2
    )
    return path


@pytest.mark.parametrize(
    ("kind", "tick_us"), [(pa.timestamp("us", "UTC"), 1), (pa.timestamp("ms"), 1_000)], ids=str
)
def test_a_footer_tells_the_least_and_the_greatest_time(
    tmp_path: Path, kind: pa.DataType, tick_us: int
) -> None:
    path = written(tmp_path / "a", [5, None, -3, 7, None, 6], kind)
    assert footer_span_us(path, "ts") == (-3 * tick_us, 7 * tick_us)


def test_footers_that_do_not_tell(tmp_path: Path) -> None:
    """Then rows are marked, as ever."""
    us = pa.timestamp("us", "UTC")
    (tmp_path / "no").write_bytes(b"PAR1 but no more")
    pq.write_table(
        pa.table({"ts": pa.array([1]).cast(us)}), tmp_path / "bare", write_statistics=False
    )
    pq.write_table(
        pa.table({"ts": pa.array([1]).cast(us)}),
        tmp_path / "old",
        use_deprecated_int96_timestamps=True,
    )
    for path in (
        None,
        tmp_path / "not there",
        tmp_path / "no",
        tmp_path / "bare",
        tmp_path / "old",
        written(tmp_path / "other name", [1], us, "TS"),
        written(tmp_path / "numbers", [1], pa.int64()),
        written(tmp_path / "ns", [1], pa.timestamp("ns")),
        written(tmp_path / "nothing", [], us),
        written(tmp_path / "nulls", [None], us),
        written(tmp_path / "part", [1, 2, None, None], us),
    ):
        assert footer_span_us(path, "ts") is None, path


def test_rows_are_marked_unless_every_file_is_within(tmp_path: Path) -> None:
    us, limits = pa.timestamp("us", "UTC"), TimeLimits(0, 100, 50)
    files = {
        name: Listed(written(tmp_path / name, values, us).as_uri(), 0, 0)
        for name, values in {
            "in": [0, 50],
            "before": [-1, 5],
            "after": [5, 51],
            "also": [7],
        }.items()
    }

    def is_marked(*names: str) -> bool:
        frame: Any = Frame()
        found, marked = limits.marked(frame, "ts", [files[name] for name in names])
        assert marked == (found is not frame)
        return marked

    assert not is_marked("in") and not is_marked("in", "also")
    assert is_marked("before") and is_marked("in", "after") and is_marked("also", "before", "in")
    assert is_marked() and is_marked(*["in"] * (FOOTERS_MAX + 1))
    frame: Any = Frame()
    assert limits.marked(frame, None, []) == (frame, False)


class Frame:
    """A DataFrame that only notes that it was selected from."""

    columns = ("ts",)

    def selectExpr(self, *texts: str) -> Frame:
        return Frame()
