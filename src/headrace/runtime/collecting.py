"""Rows of Spark as an Arrow table on the driver.

`toArrow` plans and runs in a thread of Spark's own; a stack that overflows there (an expression
that is folded, say) ends that thread, and whoever waits for it waits for ever.  So the plan is made
here first, where such an error is told.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame


def to_arrow(frame: DataFrame) -> pa.Table:
    cast(Any, frame)._jdf.queryExecution().executedPlan()  # made once: collecting takes the same
    return frame.toArrow()
