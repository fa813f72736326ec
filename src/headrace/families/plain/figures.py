"""What a round of plain queries measures, noted with the round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.runtime.statistics import Stats, own_figures

NAME = "plain"


@dataclass(frozen=True, slots=True)
class PlainFigures:
    """`seconds` of each query, by its id."""

    seconds: Mapping[str, float] = field(default_factory=dict)


def figures_of(stats: Stats) -> PlainFigures:
    return own_figures(stats, NAME, PlainFigures)
