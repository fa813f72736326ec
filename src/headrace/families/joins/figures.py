"""What a round of joins and filters measures, noted with the round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.runtime.statistics import Stats, own_figures

NAME = "joins"


@dataclass(frozen=True, slots=True)
class ShapeFigures:
    """Events of a round looked up for the ranges of a join shape: how many by which method; seconds
    an event that each method alone would take, by rates fitted on a worker, and that it took a
    worker (0: not known)."""

    ranges: int
    methods: Mapping[str, int]
    alone_s: Mapping[str, float]
    took_s: float


@dataclass(frozen=True, slots=True)
class JoinsFigures:
    """By join shape what looking up took; how many rows of this relation may still be joined; how
    its queries stand (`Standing.tally`)."""

    shapes: Mapping[str, ShapeFigures] = field(default_factory=dict)
    kept_rows: int = 0
    standing: Mapping[str, float] = field(default_factory=dict)


NOTHING_MEASURED = JoinsFigures()


def newest_figures(history: Sequence[Stats]) -> JoinsFigures:
    """Of the newest round; nothing before the first."""
    return own_figures(history[-1], NAME, JoinsFigures) if history else NOTHING_MEASURED
