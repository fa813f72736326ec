"""Which event times are taken."""

from __future__ import annotations

import pytest

from headrace.config import Config, utc_us
from headrace.errors import HeadraceError
from headrace.runtime.event_times import TimeLimits

NOW_US = utc_us("2026-01-01", "now")
DAY_US = 86_400_000_000


def test_limits_follow_the_clock() -> None:
    limits = TimeLimits.of(Config(), NOW_US)
    assert (limits.min_us, limits.last_us) == (utc_us("0001-01-01", ""), NOW_US + DAY_US)
    assert TimeLimits.of(Config(), NOW_US + 5).last_us == NOW_US + DAY_US + 5
    assert TimeLimits.of(Config.of(ahead_ms_max=0), NOW_US).last_us == utc_us("9999-12-31 23:59:59.999999", "")
    assert TimeLimits.of(Config.of(time_max="2020-01-01"), NOW_US).last_us == utc_us("2020-01-01", "")


@pytest.mark.parametrize(("us", "words"), [
    (-(2**63), "before time_min = 2000-01-01"), (2**63 - 1, "after time_max = 2030-01-01"),
    (NOW_US + DAY_US + 1, "ahead of the clock than ahead_ms_max = 86,400,000"),
])
def test_the_reason_names_the_setting(us: int, words: str) -> None:
    config = Config.of(time_min="2000-01-01", time_max="2030-01-01")
    assert words in TimeLimits.of(config, NOW_US).reason(us, config)


@pytest.mark.parametrize("settings", [
    {"time_min": "yesterday"}, {"time_max": "-0044-03-15"}, {"time_min": "2020-01-02", "time_max": "2020-01-01"},
    {"ahead_ms_max": -1}, {"time_min": ""},
])
def test_limits_that_are_none(settings: dict[str, object]) -> None:
    with pytest.raises(HeadraceError) as found:
        Config.of(**settings)
    assert found.value.code == "CONFIG"


def test_a_zone_counts() -> None:
    assert utc_us("2020-01-01 02:00:00+02:00", "") == utc_us("2020-01-01", "")
