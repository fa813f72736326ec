"""Bits or cells: how the predicate of each query is told apart in the shared aggregate.  Pure.

A bit costs an evaluation of the predicate for each row, and one more pass over the groups Spark leaves.  A cell costs
a binary search among the constants of all predicates on its attribute, however many.  So what a predicate says of an
attribute becomes a band of cells once there is a crowd of different bands on it; a query that is seated stays as it is.

Queries that cannot run as bands stay bits to the rings; if there are many, Spark's cells tell them when rows are rolled
up (`plan.Cuts.told_by`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from headrace.families.windows import plan
from headrace.families.windows.cells import cell
from headrace.families.windows.plan import Share, Slot
from headrace.sql.bands import Band, split
from headrace.sql.functions import may_raise
from headrace.sql.tree import Expr

CELLS_MAX = 3


class Crowd:
    """How many different bands of each attribute there are."""

    def __init__(self) -> None:
        self._bands: dict[Expr, Counter[Band]] = {}

    def add(self, where: Expr | None) -> None:
        for attribute, band in split(where).bands:
            self._bands.setdefault(attribute, Counter())[band] += 1

    def remove(self, where: Expr | None) -> None:
        for attribute, band in split(where).bands:
            bands = self._bands[attribute]
            bands[band] -= 1
            if not bands[band]:
                del bands[band]

    def forms(self, share: Share) -> list[Share]:
        """The ways to run a query, its bits as cells of none, some or all of its attributes; the preferred first."""
        sizes = {attribute: len(self._bands.get(attribute, ())) for attribute, _ in split(share.slot.where).bands}
        if not sizes or _wants_bits(share):
            return [share]
        attributes = sorted(sizes, key=lambda a: -sizes[a])[:CELLS_MAX]  # the first orders the cells
        best = tuple(a for a in attributes if sizes[a] >= plan.CROWD_MIN)
        ways = [way for count in range(len(attributes) + 1) for way in combinations(attributes, count)]
        return [celled(share, way) for way in (best, *(way for way in ways if way != best))]


def celled(share: Share, attributes: Sequence[Expr]) -> Share:
    """The same query, what it says of these attributes a band of cells of each."""
    if not attributes:
        return share
    parts = split(share.slot.where)
    slot = Slot(parts.rest(attributes), share.slot.keys, tuple(map(cell, attributes)))
    return replace(share, slot=slot, bands=tuple(parts.band(a) for a in attributes))


def _wants_bits(share: Share) -> bool:
    """What can fail is asked only of the rows the query selects: its whole predicate is in there anyway.  Sketches are
    dear to merge: they are not kept by cell."""
    exprs: tuple[Expr | None, ...] = (*share.slot.keys, *(m.arg for m in share.measures))
    return share.has_sketches or any(e is not None and may_raise(e) for e in exprs)
