"""The constants of Spark's HyperLogLog++ for one number of registers.  They are Spark's, and are
asked of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.families.windows.sketches.hll_kernels import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Bias:
    """Up to `threshold` values are counted linearly; `raw` estimates have a known `bias`."""

    threshold: float
    raw: Floats
    bias: Floats


NO_BIAS = Bias(-1.0, np.empty(0), np.empty(0))
