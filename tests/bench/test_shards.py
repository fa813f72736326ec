"""The workload of `bench shards` is what it says, and so are its figures."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.bench.driver_state import ORDERS, measure, texts
from headrace.bench.report import benchmarks
from headrace.bench.shards import FORMS, SCALES, _slope, crossing_figures
from headrace.config import Config
from headrace.families.windows.plan import Share, share
from headrace.sql.bind import bind


def test_queries_are_all_different_and_shared() -> None:
    made = texts(1_000, 10)
    assert "shards" in benchmarks() and len(set(made)) == 1_000
    for sql in made[:60]:
        asked = share(bind(sql, {"orders": ORDERS}, name="q", config=Config()), ORDERS)
        assert isinstance(asked, Share) and asked.window.range_us % asked.window.slide_us == 0


def test_a_driver_is_measured() -> None:
    few, many = measure(100, 50, 10), measure(2_000, 50, 10)
    assert many.answers == pytest.approx(50 * 2_000, rel=0.01)  # some are not passed by a HAVING
    assert few.answers == pytest.approx(50 * 100, rel=0.01)
    assert many.ring_bytes > few.ring_bytes
    assert _slope(1.0, 21.0, 10, 20) == 2.0 and _slope(5.0, 1.0, 1, 2) == 0.0


@pytest.mark.parametrize(
    ("ratios", "groups"),
    [
        ({10: 0.9, 100: 0.8}, 10),
        ({10: 2.0, 1_000: 0.5}, 100),
        ({10: 3.0, 100: 1.5}, 100),
    ],
)
def test_where_shards_begin_to_be_faster(ratios: dict[int, float], groups: int) -> None:
    (found,) = crossing_figures(ratios)
    assert np.isclose(found.value, groups)


def test_both_forms_and_five_million_groups() -> None:
    assert Config().driver_state_bytes_max < FORMS["driver"] and FORMS["shards"] == 0
    assert SCALES[False].large == 5_000_000 and SCALES[False].drained[-1] == 1_000_000
