"""The present answer of a join: pairs of rows that are both there, out of the rows alone.

The log of a query says which pairs came and which were taken back, but its old turns are let go of.
What it leaves is known without it.  A pair was answered when the later of its rows came, if the
query was there then, and it is left if neither row has gone since.  So rows that are there are
events of the turns in which they came, and find those that came before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.families.joins.reading.meeting import Meeting, Pairs, events_of, image_of, paired
from headrace.families.joins.reading.pairs import Run, expanded
from headrace.families.joins.reading.turn_batches import Events
from headrace.relations.history import History
from headrace.relations.image import Image
from headrace.relations.rounds import KeptRound
from headrace.relations.spans import Span
from headrace.relations.store import Store
from headrace.values import Relation


@dataclass(frozen=True, slots=True)
class RowsThere:
    """`rounds`: those of the query that are kept; `turns`: its first and its newest."""

    meeting: Meeting
    sides: tuple[History, History]
    relations: tuple[Relation, Relation]
    rounds: Sequence[KeptRound]
    turns: tuple[int, int]
    store: Store

    def is_whole(self, side: int) -> bool:
        """Whether the rows of a table are kept that were there after the newest turn."""
        return self.sides[side].whole_since(self.turns[1]) is not None

    def pairs(self) -> list[Pairs]:
        found: list[Pairs] = []
        for side in (0, 1):
            found += self._pairs(side, sum(part.sign.size for part in found))
        return found

    def _pairs(self, side: int, size: int) -> list[Pairs]:
        """Of the rows of a side that came since the query began, with those that came before
        them; beside so many that were found."""
        events, other = self._events(side), self.sides[1 - side]
        if not events.row.size:
            return []
        until, since = self.turns[1], self._begin(1 - side)
        shape, span = self.meeting.share.shape, Span(until, until, since)
        image = image_of(self.store, shape, 1 - side, other, span)
        image = other.narrowed(image, Span(until + 1, until, since))

        def narrowed(image: Image, span: Span) -> Image:
            return image.where(lambda rows: other.came(rows) <= span.last)

        return self.meeting.pairs(side, events, image, narrowed, self._answered, size)

    def _begin(self, side: int) -> int:
        """The turn from which on rows of a side may be there: all rows of a table; those of a
        stream that rounds of the other side have found."""
        if self.relations[side].is_table:
            return self.sides[side].whole_since(self.turns[1]) or 0
        name = self.relations[side].name
        return min((d.since[name] for d in self.rounds if name in d.since), default=self.turns[0])

    def _events(self, side: int) -> Events:
        """Rows of a side that are there and came since the query began, as events of the turns in
        which they came."""
        history, (since, until) = self.sides[side], self.turns
        begin = self._begin(side) if self.relations[side].is_table else since
        rounds = [done for done in history.rounds if begin <= done.turn <= until]
        shape = self.meeting.share.shape
        events = Events.of(
            [
                events_of(self.store, shape, side, file, done.turn)
                for done in rounds
                for file in done.files
            ]
        )
        is_there = (events.sign > 0) & history.are_there(events.row, np.array(until), 1)
        at = history.came(events.row)
        return events._replace(at=at).where(is_there & (at >= since))

    def _answered(self, side: int, events: Events, runs: Sequence[Run]) -> Pairs:
        """Pairs of a row and one that came before it."""
        own, rows = expanded(runs, np.arange(events.row.size))
        came, at = self.sides[1 - side].came(rows), events.at[own]
        is_before = came < at if side == 0 else came <= at
        return paired(side, events.where(own[is_before]), rows[is_before])
