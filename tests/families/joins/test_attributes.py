"""Attributes of rows as numbers, keys and marks, against Python's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.families.joins.attributes import numbers
from headrace.families.joins.plan import WIDEST
from headrace.sql.tree import Column
from headrace.values import BIGINT, Type


def column(name: str, kind: Type) -> Column:
    return Column(name, kind)


def test_numbers_that_count_have_differences_that_fit() -> None:
    values = [0, 2**62 - 1, 1 - 2**62, 2**62, -(2**62), 2**63 - 1, -(2**63), None]
    found = numbers(column("n", BIGINT), pa.table({"n": pa.array(values, pa.int64())}))
    assert found.valid.tolist() == [True] * 3 + [False] * 5
    assert found.odd.tolist() == [False] * 3 + [True] * 4 + [False]
    counted = found.values[found.valid]
    assert (counted[:, None] - counted[None, :]).tolist() == [[int(a) - int(b) for b in counted] for a in counted]
    assert np.abs(counted).max() == WIDEST
