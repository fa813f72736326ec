"""Events of a query, and the rows they meet: pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.errors import ServingError
from headrace.families.joins.levels.level_store import attributes, image_key
from headrace.families.joins.plan import JoinShape, Share
from headrace.families.joins.reading.pairs import Run, runs_of
from headrace.families.joins.reading.turn_batches import Events, blocks, pairs_in
from headrace.relations.arrays import Ints
from headrace.relations.attributes import Attribute
from headrace.relations.history import History
from headrace.relations.image import Image
from headrace.relations.row_files import KIND, SIGN, RowFile
from headrace.relations.spans import Narrowed, Span
from headrace.relations.store import INDEX_BITS, OK, Store


class Pairs(NamedTuple):
    """Rows of side 0 and of side 1, the change, and a number to sort by: turn, then side."""

    left: Ints
    right: Ints
    sign: Ints
    order: Ints


NO_PAIRS = Pairs(*(np.empty(0, np.int64) for _ in range(4)))


def paired(side: int, events: Events, rows: Ints) -> Pairs:
    """Each event of a side with a row of the other."""
    left, right = (events.row, rows) if side == 0 else (rows, events.row)
    return Pairs(left, right, events.sign, events.at * 2 + side)


def events_of(store: Store, shape: JoinShape, side: int, file: RowFile, turn: int) -> Events:
    """The rows of a file that take part, as events of a turn that find all rows."""
    rows = store.table(file)
    b, a = attributes(shape, side, rows)
    here = np.flatnonzero(b.valid & a.valid & (rows.column(KIND).to_numpy() == OK))
    number = store.number(shape.relations[side], file) << INDEX_BITS
    sign = rows.column(SIGN).to_numpy()[here].astype(np.int64)
    at, since = np.full(here.size, turn), np.zeros(here.size, np.int64)
    return Events(number | here, b.values[here], a.values[here], sign, at, since)


def image_of(store: Store, shape: JoinShape, side: int, history: History, span: Span) -> Image:
    """The rows of a side that were there in a span, among some that were not, in order of what they
    meet by."""

    def of_file(file: RowFile) -> tuple[Attribute, Attribute]:
        return attributes(shape, side, store.table(file))

    return history.image(image_key(history.relation, shape, side), of_file, span)


@dataclass(frozen=True, slots=True)
class Meeting:
    """How rows of a query meet: at most `pairs_max` pairs are expanded at once."""

    name: str
    share: Share
    pairs_max: int

    def pairs(
        self,
        side: int,
        events: Events,
        image: Image,
        narrowed: Narrowed,
        answered: Callable[[int, Events, Sequence[Run]], Pairs],
        size: int,
    ) -> list[Pairs]:
        """Of the events of a side and the rows of an image, beside so many pairs that were found;
        `answered` are those that count."""
        shape, boxes = self.share.shape, self.share.boxes

        def joined(some: Events, image: Image) -> list[Run]:
            return runs_of(shape.kind, boxes, side, image, some.b, some.a)

        found: list[Pairs] = []
        for block, runs in blocks(events, image, joined, narrowed, self.pairs_max):
            self._check_size(size + pairs_in(runs))
            found.append(answered(side, block, runs))
            size += found[-1].sign.size
        return found

    def _check_size(self, pairs: int) -> None:
        if pairs > self.pairs_max:
            raise ServingError(
                f"{self.name!r} has more pairs of rows than are expanded at once",
                value=f"{pairs:,} pairs",
                choices=(f"join_pairs_max = {self.pairs_max:,}",),
                code="PAIRS",
                hint="watch() reads turn by turn; or a narrower range, or raise the limit",
            )
