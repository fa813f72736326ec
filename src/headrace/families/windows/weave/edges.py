"""Edges of windows: where panes must be cut, and how many cuts a unit of time a set of windows
needs.

A window `[o + k·s, o + k·s + r)` begins at times ≡ o and ends at times ≡ o + r (mod s): two residue
classes, or one where r is a multiple of s (*paired windows*).  The
edges of several windows are a union of residue classes.  Its rate is counted exactly where that is
tractable, whatever the least common multiple of the slides; else it is estimated, and says so.  All
times are integers of one unit, and rates are edges a unit.

S. Krishnamurthy, C. Wu, M. J. Franklin, "On-the-Fly Sharing for Streamed Aggregation", SIGMOD 2006
(paired windows).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from headrace.errors import PlanError
from headrace.families.windows.weave.edge_union import EdgeClass, density

TIME_MAX = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """A window without its query: range, slide and offset."""

    range_us: int
    slide_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        if not (
            0 < self.range_us < TIME_MAX
            and 0 < self.slide_us < TIME_MAX
            and abs(self.offset_us) < TIME_MAX
        ):
            raise PlanError(
                "a window's range and slide must be positive",
                value=self,
                hint=f"use times from 1 to {TIME_MAX - 1}",
            )

    @property
    def overlap(self) -> float:
        """Ω: how many windows a time is in, and so how many final merges an edge takes part in."""
        return self.range_us / self.slide_us


@dataclass(frozen=True, slots=True)
class EdgeRate:
    """Edges a unit of time.  `error` is the standard error of an estimate, and 0 for a count.

    A count has its `fraction`, unless the period has more digits than anyone could use.
    """

    rate: float
    fraction: Fraction | None = None
    error: float = 0.0

    @property
    def is_estimated(self) -> bool:
        return self.error > 0


def classes_of(shape: Shape) -> tuple[EdgeClass, ...]:
    """One or two disjoint classes, the same for all shapes with the same edges."""
    slide = shape.slide_us
    begin = shape.offset_us % slide
    end = (begin + shape.range_us) % slide
    if begin == end:
        return (EdgeClass(begin, slide),)
    if 2 * abs(end - begin) == slide:  # evenly spaced: one class of half the slide
        return (EdgeClass(min(begin, end), slide // 2),)
    return EdgeClass(min(begin, end), slide), EdgeClass(max(begin, end), slide)


def edge_rate(shapes: Iterable[Shape], effort: float = 1.0) -> EdgeRate:
    """E of a tree of these windows, with `effort` of the usual work; the same for the same
    windows."""
    return EdgeRate(*density({c for shape in shapes for c in classes_of(shape)}, effort))
