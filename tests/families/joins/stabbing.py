"""Stabbing in a page of Python: how few groups there can be."""

from __future__ import annotations

from typing import Any

LEAST, MOST = -(1 << 63), (1 << 63) - 1
Interval = tuple[Any, Any]


def fewest(intervals: list[Interval]) -> int:
    """How many points are needed so that every interval holds one: where the first to end ends, and
    so on."""
    points = 0
    last: Any = None
    for lo, hi in sorted(intervals, key=lambda interval: interval[1]):
        if last is None or lo > last:
            points, last = points + 1, hi
    return points
