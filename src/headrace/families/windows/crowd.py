"""Bits or cells: how the predicate of each query is told apart in the shared aggregate.  Pure.

A bit costs an evaluation of the predicate for each row, and one more pass over the groups Spark leaves.  A cell costs
a binary search among the constants of all predicates on its attribute, however many.  So a predicate becomes a band
of cells once there is a crowd on its attribute; a query that is seated stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from headrace.families.windows.bands import Split, splits
from headrace.families.windows.cells import cell
from headrace.families.windows.plan import Share, Slot
from headrace.sql.functions import may_raise
from headrace.sql.tree import Expr

CROWD_MIN = 24
"""So many different predicates on one attribute are dearer as bits than as cells (`headrace bench windows`)."""


class Crowd:
    """Which predicates compare which attribute with constants."""

    def __init__(self) -> None:
        self._wheres: dict[Expr, Counter[Expr]] = {}

    def add(self, where: Expr | None) -> None:
        if where is not None:
            for split in splits(where):
                self._wheres.setdefault(split.attribute, Counter())[where] += 1

    def remove(self, where: Expr | None) -> None:
        if where is not None:
            for split in splits(where):
                wheres = self._wheres[split.attribute]
                wheres[where] -= 1
                if not wheres[where]:
                    del wheres[where]

    def forms(self, share: Share) -> list[Share]:
        """The query as bits and as cells of the most crowded attribute, the better one first."""
        where = share.slot.where
        ways = () if where is None else splits(where)
        if not ways or _is_guarded(share):
            return [share]
        best = max(ways, key=lambda split: len(self._wheres.get(split.attribute, ())))
        forms = [share, celled(share, best)]
        return forms[::-1] if len(self._wheres.get(best.attribute, ())) >= CROWD_MIN else forms


def celled(share: Share, split: Split) -> Share:
    """The same query, its predicate a band of cells."""
    slot = Slot(split.rest, (*share.slot.keys, cell(split.attribute)))
    return replace(share, slot=slot, band=split.band)


def _is_guarded(share: Share) -> bool:
    """What can fail is asked only of the rows the query selects: its whole predicate is in there anyway."""
    exprs: Iterable[Expr | None] = (*share.slot.keys, *(m.arg for m in share.measures))
    return any(e is not None and may_raise(e) for e in exprs)
