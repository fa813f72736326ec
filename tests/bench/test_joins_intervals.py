"""The workloads are what they say, and the comparison runs without its peer."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.bench.joins import intervals
from headrace.bench.joins.intervals import (
    LINE,
    SHARES,
    clustered,
    compare,
    run,
    short,
    values_of,
    wide,
)
from headrace.families.joins.intervals.prefixes import PrefixIndex


@pytest.mark.parametrize("share", SHARES.values())
def test_clustered_sets_have_some_fifty_groups(share: float) -> None:
    rng = np.random.default_rng(1)
    made = clustered(50_000, share, rng)
    index = PrefixIndex.build(made.ids, made.lo, made.hi)
    assert 30 <= index.groups.points.size <= 60
    assert 0.5 < index.count(values_of(rng, 500)).mean() / (share * 50_000) < 1.5


def test_unclustered_sets_have_many_groups() -> None:
    rng = np.random.default_rng(1)
    for made, least, most in ((short(20_000, rng), 4, 6), (wide(20_000, rng), 20, 60)):
        index = PrefixIndex.build(made.ids, made.lo, made.hi)
        assert index.groups.points.size > 2_000
        assert least < index.count(values_of(rng, 500)).mean() < most
        assert np.all(made.lo <= made.hi) and made.lo.min() > -2 * LINE and made.hi.max() < 2**31


def test_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "is_peer_there", lambda: False)
    monkeypatch.setattr(intervals, "REPEATS", 1)
    told: list[str] = []
    names = {figure.name for figure in run(True, told.append).figures}
    assert told[0] == "superintervals is not installed: ours alone"
    assert {
        "short_20000_count_ns",
        "clustered_3rd_20000_records_ns",
        "cross_20000_5_records_ns",
    } <= names
    assert not any("peer" in name or "ratio" in name for name in names)


def test_beside_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "REPEATS", 1)
    names = {figure.name for figure in compare("clustered_40th", 5_000, lambda _: None)}
    assert {"clustered_40th_5000_peer_ids_ns", "clustered_40th_5000_records_ratio"} <= names
