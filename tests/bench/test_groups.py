"""The workload of `bench groups` is what it says, and its month is folded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.bench import month
from headrace.bench.groups import NEW_SHARE, Size, orders, queries
from headrace.bench.report import benchmarks
from headrace.config import Config
from headrace.families.windows.plan import Share, share
from headrace.runtime.statistics import peak_bytes
from headrace.sql.bind import bind
from headrace.values import BIGINT, DOUBLE, INT, TIMESTAMP, Field, Relation

RELATION = Relation(
    "orders",
    "none:",
    (
        Field("account", BIGINT),
        Field("amount", DOUBLE),
        Field("items", INT),
        Field("ts", TIMESTAMP),
    ),
    "ts",
)


def test_fifty_windows_that_are_all_shared() -> None:
    assert "groups" in benchmarks() and len(queries()) == 50
    for name, sql in queries().items():
        asked = share(bind(sql, {"orders": RELATION}, name=name, config=Config()), RELATION)
        assert isinstance(asked, Share) and asked.window.range_us % asked.window.slide_us == 0


def test_groups_come_and_go() -> None:
    size = Size(1_000, 40)
    rng = np.random.default_rng(1)
    seen = [
        set(orders(number, size, rng).column("account").to_pylist()) for number in range(size.files)
    ]
    assert max(seen[0]) < size.groups
    assert min(seen[-1]) >= int((size.files - 1) * NEW_SHARE * size.groups) > 0
    assert len(set().union(*seen[:10])) > 0.9 * size.groups


def test_the_most_this_process_took_only_grows() -> None:
    before = peak_bytes()
    block = np.ones(50_000_000)
    assert peak_bytes() >= before > 10_000_000 and block.nbytes == 400_000_000


@pytest.mark.slow
def test_a_month_of_five_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(month, "DAYS", 5)
    told: list[str] = []
    figures = {
        f.name: f.value for f in month.Month(tmp_path / "month", quick=True).run(told.append)
    }
    assert len(told) == 5
    assert 0 < figures["month_log_mb"] < figures["month_log_unfolded_mb"] / 6
    assert figures["month_restart_s"] > 0
