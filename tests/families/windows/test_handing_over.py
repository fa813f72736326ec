"""Of a query that is handed over, only windows that start before are answered here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headrace.families.windows.rings.handing_over import counts_until

ENDS = [3, 3, 4, 6, 6, 6]  # of shape 0, two panes long; then one of shape 1, three long
RING: Any = SimpleNamespace(
    members=SimpleNamespace(
        ids=np.array([7, 8, 9]),
        shapes=np.array([0, 0, 1]),
        windows=SimpleNamespace(range_panes=np.array([2, 3])),
    ),
    answers=SimpleNamespace(end=np.array([*ENDS, 5]), offsets=np.array([0, 6, 7])),
    standing=SimpleNamespace(plan=SimpleNamespace(grain_us=10)),
)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ({}, [6, 6, 1]),
        ({7: 10}, [0, 6, 1]),
        ({7: 11}, [2, 6, 1]),
        ({7: 20, 8: 21}, [2, 3, 1]),
        ({7: 1_000, 9: 20}, [6, 6, 0]),
        ({9: 21}, [6, 6, 1]),
    ],
)
def test_windows_that_start_before(until: dict[int, int], expected: list[int]) -> None:
    counts = np.array([6, 6, 1])
    assert counts_until(RING, counts, until).tolist() == expected
    assert counts.tolist() == [6, 6, 1], "what was given stays"
