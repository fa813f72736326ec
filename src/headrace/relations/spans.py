"""Images of the rows of a relation that were there in some turns: what readers look events up in.

All rows that ever came grow with the age of a home; what a turn can find does not.  A span has the
rows that came since one turn and had not gone before another.  It goes along with who reads turn by
turn: rows are added as they come, and those that are past left behind every so many turns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from headrace.relations.image import Image
from headrace.relations.row_files import RowFile
from headrace.relations.store import INDEX_BITS, OfFile, Store, coming

TURNS = 64
SPANS_MAX = 64


class Span(NamedTuple):
    """Turns of events, and the turn in which the oldest rows came that they may find."""

    first: int
    last: int
    since: int


Narrowed = Callable[[Image, Span], Image]
"""An image without the rows that were not there in a span; some of them may be left."""


class Spans:
    """Of one relation.  `files`: of the turns from one up to another."""

    def __init__(
        self,
        relation: str,
        store: Store,
        files: Callable[[int, int], Sequence[RowFile]],
        narrowed: Narrowed,
    ) -> None:
        self._relation = relation
        self._store = store
        self._files = files
        self._narrowed = narrowed
        self._kept: OrderedDict[tuple[Hashable, int], tuple[Span, Image]] = OrderedDict()

    def image(self, attributes: Hashable, of_file: OfFile, asked: Span) -> Image:
        """All rows that were there in a span; and a few that were not."""
        key = attributes, asked.last - asked.first >= TURNS
        first = asked.first - asked.first % TURNS
        span, image = self._begun(key, Span(first, asked.last, asked.since))
        if span.last < asked.last:
            files = self._files(max(span.last + 1, span.since), asked.last)
            image = self._with(image, files, of_file)
            span = span._replace(last=asked.last)
        self._kept[key, first] = span, image
        while len(self._kept) > SPANS_MAX:
            self._kept.popitem(last=False)
        return image

    def _begun(self, key: Hashable, asked: Span) -> tuple[Span, Image]:
        """The nearest that has all that is asked for, as far as it goes; a new one begins earlier
        than it must, for one turn may look further back than those before it."""
        known = [first for own, first in self._kept if own == key and first <= asked.first]
        known = [first for first in known if self._kept[key, first][0].since <= asked.since]
        early = asked._replace(since=max(0, asked.since - TURNS))
        if not known:
            return early._replace(last=-1), Image()
        span, image = self._kept.pop((key, max(known)))
        if span.first == asked.first:
            return span, image
        early = early._replace(last=span.last, since=max(span.since, early.since))
        return early, self._narrowed(image, early)

    def _with(self, image: Image, files: Sequence[RowFile], of_file: OfFile) -> Image:
        parts = []
        for file in files:
            b, c = of_file(file)
            here = np.flatnonzero(b.valid & c.valid & coming(self._store.table(file)))
            number = self._store.number(self._relation, file) << INDEX_BITS
            parts.append((b.values[here], c.values[here], number | here))
        if not parts:
            return image
        b_all, c_all, row = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return image.add(b_all, c_all, row)
