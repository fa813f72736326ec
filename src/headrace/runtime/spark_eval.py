"""Spark's value of an expression for rows at hand: what is not evaluated in `evaluation/`, Spark is
asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import ServingError
from headrace.evaluation.arrow import arrow_type
from headrace.runtime.collecting import to_arrow
from headrace.runtime.faults import reason_of
from headrace.sql.emit import emit
from headrace.sql.tree import Expr

SIDES, AT = ("l", "r"), "at"


def evaluate(
    session: Callable[[], SparkSession], exprs: Sequence[Expr], rows: Sequence[pa.Table]
) -> list[pa.Array]:
    """Of each pair, a row of each table.  One small job; a session that is not there yet is
    started."""
    if not rows[0].num_rows:
        return [pa.array([], arrow_type(expr.type)) for expr in exprs]
    columns = {
        side: pa.chunked_array(own.to_struct_array())
        for side, own in zip(SIDES, rows, strict=False)
    }
    pairs = pa.table({**columns, AT: np.arange(rows[0].num_rows)})
    texts = [
        f"{emit(expr, sides=[f'{side}.' for side in SIDES])} AS v{i}"
        for i, expr in enumerate(exprs)
    ]
    try:
        found = to_arrow(session().createDataFrame(pairs).selectExpr(AT, *texts)).sort_by(AT)
    except PySparkException as error:
        reason = reason_of(error)
        raise ServingError(
            "Spark cannot compute this for a row",
            value=reason,
            code=reason.partition(":")[0],
            hint="drop the query, mend it and add it: its rows are safe",
        ) from error
    return [
        found.column(f"v{i}").cast(arrow_type(e.type)).combine_chunks() for i, e in enumerate(exprs)
    ]
