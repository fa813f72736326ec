"""How many ranges a value has, by a histogram: beside counting them."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.families.joins.intervals.expecting import stabbed
from headrace.relations.attributes import double_keys
from headrace.sql.bands import LEAST, MOST


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("count", [3, 500, 50_000])
def test_as_counted(is_double: bool, count: int) -> None:
    rng = np.random.default_rng(count)
    lo = rng.normal(5_000, 2_000, count).round()
    hi = lo + rng.integers(1, 800, count)
    values = np.linspace(lo.min(), hi.max(), 500)
    counts = ((lo[:, None] <= values) & (values <= hi[:, None])).sum(axis=0)
    keys = [double_keys(ends) if is_double else ends.astype(np.int64) for ends in (lo, hi)]
    mean, most = stabbed(keys[0], keys[1], is_double)
    assert mean == pytest.approx(counts.mean(), rel=0.1)
    assert most == pytest.approx(counts.max(), rel=0.35)


def test_one_sided_and_whole_lines() -> None:
    line, ten = np.full(4, LEAST), np.full(4, 10)
    assert stabbed(line, np.full(4, MOST), False) == (4, 4)
    assert stabbed(line, ten, True) == (4, 4), "one end does not tell where values are"
    mean, most = stabbed(np.array([LEAST, 50]), np.array([99, MOST]), False)
    assert 1 <= mean <= 2 and most == pytest.approx(2)
