"""CAST of values that make arithmetic warn: infinities, and NaNs that signal."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from headrace.evaluation.casts import can_cast, cast
from headrace.evaluation.vectors import Vector
from headrace.values import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, Type
from tests.odd_values import DOUBLE_BITS, FLOAT_BITS

ODD = {
    DOUBLE: np.array(DOUBLE_BITS, np.uint64).view(np.float64),
    FLOAT: np.array(FLOAT_BITS, np.uint32).view(np.float32),
}


@pytest.mark.parametrize("source", [DOUBLE, FLOAT], ids=str)
@pytest.mark.parametrize("to", [DOUBLE, FLOAT, INT, BIGINT, BOOLEAN], ids=str)
def test_nothing_is_said_of_odd_values(source: Type, to: Type) -> None:
    """A warning of numpy's would stand on the screen of whoever reads answers."""
    assert can_cast(source, to)
    values: Any = ODD[source]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cast(Vector(values, None), source, to, lenient=True)
    if to.is_fractional:
        cast_values: Any = found.values
        assert np.isnan(cast_values[np.isnan(values)]).all()
        assert np.isposinf(cast_values[np.isposinf(values)]).all()
