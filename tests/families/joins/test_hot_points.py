"""Hot points: groups share one, and no value is in many of the ranges that are left."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.families.joins.stabbing import hot_points
from headrace.families.joins.stabbing.hot_points import hot_first, hot_groups
from tests.families.joins.test_bands import draw_ranges


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_the_rest_has_no_point_in_common_that_is_worth_it(seed: int) -> None:
    r = Random(seed)
    is_float = r.random() < 0.5
    ranges = draw_ranges(r, is_float, r.choice([1, 5, 40, 300]))
    lo, hi = (
        np.array([own[i] for own in ranges], np.float64 if is_float else np.int64) for i in (0, 1)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot_points, "HOT_LEAST", r.choice([1, 2, 16]))
        patch.setattr(hot_points, "HOT_SHARE", r.choice([1, 4, 256]))
        least = max(hot_points.HOT_LEAST, -(-lo.size // hot_points.HOT_SHARE))
        group, points = hot_groups(lo, hi)
        every = hot_first(lo, hi)
    sizes = np.bincount(group[group >= 0], minlength=points.size)
    assert np.all(np.diff(sizes) <= 0) and np.all(sizes >= least)
    for g, point in enumerate(points):
        assert np.all((lo[group == g] <= point) & (point <= hi[group == g]))
    rest = group < 0
    assert all(np.sum((lo[rest] <= value) & (value <= hi[rest])) < least for value in lo[rest])
    assert np.array_equal(every[~rest], group[~rest]) and np.all(every[rest] >= points.size)
    assert all(lo[every == g].max() <= hi[every == g].min() for g in range(every.max() + 1))
