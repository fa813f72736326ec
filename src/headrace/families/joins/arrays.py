"""Kinds of arrays the kernels of joins are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
"""float64 or int64, one of them for all of a relation's attribute."""
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]


def falling(values: Numbers) -> Numbers:
    """What sorts the other way round; ~x is -x - 1, which no whole number overflows."""
    return -values if values.dtype == np.float64 else ~values
