"""Turns that are read together: as many as can be while what is looked at stays close to what is
answered.

Events of many turns are looked up at once, in the rows of all of them.  Where that finds more pairs
than there are rows, most may be of rows that came later, or had gone: then each half of the turns
is looked up in its own rows.  To choose those takes no longer than to look at the pairs would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headrace.families.joins.reading.pairs import Run
from headrace.relations.arrays import Ints, Numbers
from headrace.relations.attributes import Mask
from headrace.relations.image import Image
from headrace.relations.spans import Narrowed, Span

FEW = 1_024


class Events(NamedTuple):
    """Rows in order of what they meet by: the change, the turn, and when the oldest rows came that
    each may find."""

    row: Ints
    b: Numbers
    a: Numbers
    sign: Ints
    at: Ints
    since: Ints

    @property
    def span(self) -> Span:
        return Span(int(self.at.min()), int(self.at.max()), int(self.since.min()))

    @staticmethod
    def of(parts: Sequence[Events]) -> Events:
        """All of them, put in order."""
        if not parts:
            return Events(*(np.empty(0, np.int64) for _ in Events._fields))
        every = Events(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        return Events(*(column[np.argsort(every.b, kind="stable")] for column in every))

    def where(self, chosen: Mask | Ints) -> Events:
        return Events(*(column[chosen] for column in self))


def blocks(
    events: Events,
    image: Image,
    runs_of: Callable[[Events, Image], list[Run]],
    narrowed: Narrowed,
    most: int,
) -> Iterator[tuple[Events, list[Run]]]:
    """The events, some after others, with the runs of rows they join; each of at most so many
    pairs, if it can be."""
    runs, span = runs_of(events, image), events.span
    if pairs_in(runs) <= min(max(FEW, len(image)), most):
        yield events, runs
        return
    image = narrowed(image, span)
    if span.first == span.last:
        yield events, runs_of(events, image)
        return
    turns = np.unique(events.at)
    is_later = events.at >= turns[turns.size // 2]
    for chosen in (~is_later, is_later):
        yield from blocks(events.where(chosen), image, runs_of, narrowed, most)


def pairs_in(runs: Sequence[Run]) -> int:
    return sum(int(run.counts.sum()) for run in runs)
