"""Looking up sorted values among sorted values, compiled."""

from __future__ import annotations

from typing import Any

from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Numbers


@numba.njit(cache=True, nogil=True)
def joining(row_b: Numbers, event_b: Numbers, first: Ints, last: Ints) -> None:
    """The rows `first` … `last` - 1 that have the b of each event; both in order of b."""
    place, size = 0, row_b.size
    for e in range(event_b.size):
        b = event_b[e]
        if e and b == event_b[e - 1]:
            first[e], last[e] = first[e - 1], last[e - 1]
            continue
        place = reach(row_b, place, size, b, False)
        first[e] = place
        place = reach(row_b, place, size, b, True)
        last[e] = place


@numba.njit(cache=True, nogil=True, inline="always")
def reach(values: Numbers, start: int, stop: int, limit: Any, is_past: bool) -> int:
    """The first place from `start` on with a value ≥ limit, or > limit: steps that double, then
    halve."""
    step, low = 1, start
    while low + step <= stop and (
        values[low + step - 1] < limit or (is_past and values[low + step - 1] == limit)
    ):
        low += step
        step *= 2
    high = min(low + step - 1, stop)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < limit or (is_past and values[middle] == limit):
            low = middle + 1
        else:
            high = middle
    return low
