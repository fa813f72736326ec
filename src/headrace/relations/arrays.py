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


def spread(first: Ints | Ints32, counts: Ints | Ints32) -> Ints:
    """`first` … `first + count - 1` of each, one after the other."""
    ends = np.cumsum(counts, dtype=np.int64)
    found: Ints = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - counts - first, counts)
    return found


def falling(values: Numbers) -> Numbers:
    """What sorts the other way round; ~x is -x - 1, which no whole number overflows."""
    return -values if values.dtype == np.float64 else ~values
