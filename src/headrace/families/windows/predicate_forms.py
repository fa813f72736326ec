"""Bits or cells: how the predicate of each query is told apart in the shared aggregate.  Pure.

A bit costs an evaluation of the predicate for each row, and one more pass over the groups Spark
leaves.  A cell costs a binary search among the constants of all predicates on its attribute,
however many.  So what a predicate says of an attribute becomes a band of cells once there is a
crowd of different bands on it; a query that has its ring stays as it is.

Queries that cannot run as bands stay bits to the rings; if there are many, Spark's cells tell them
when rows are rolled up (`cuts.Cuts.told_by`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

from headrace.families.windows import plan
from headrace.families.windows.cells import cell
from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import Share, Slot
from headrace.sql.bands import Band, split
from headrace.sql.functions import may_raise
from headrace.sql.tree import Expr

CELLS_MAX = 3


class PredicateForms:
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

    def ranking(self) -> tuple[dict[Expr, int], set[Expr]]:
        """What `preferred` looks at besides the query: as long as it is the same, so are all
        preferences."""
        sizes = {attribute: len(bands) for attribute, bands in self._bands.items() if bands}
        ranks = {size: rank for rank, size in enumerate(sorted(set(sizes.values())))}
        return {a: ranks[n] for a, n in sizes.items()}, {
            a for a, n in sizes.items() if n >= plan.CROWD_MIN
        }

    def forms(self, share: Share) -> list[Share]:
        """The ways to run a query, its bits as cells of none, some or all of its attributes; the
        preferred first."""
        return list(self._forms(share))

    def preferred(self, share: Share) -> Share:
        return next(self._forms(share))

    def _forms(self, share: Share) -> Iterator[Share]:
        sizes = {
            attribute: len(self._bands.get(attribute, ()))
            for attribute, _ in split(share.slot.where).bands
        }
        if not sizes or wants_bits(share):
            yield share
            return
        attributes = sorted(sizes, key=lambda a: -sizes[a])[
            :CELLS_MAX
        ]  # the first orders the cells
        best = tuple(a for a in attributes if sizes[a] >= plan.CROWD_MIN)
        yield celled(share, best)
        ways = (
            way for count in range(len(attributes) + 1) for way in combinations(attributes, count)
        )
        yield from (celled(share, way) for way in ways if way != best)


def celled(share: Share, attributes: Sequence[Expr]) -> Share:
    """The same query, what it says of these attributes a band of cells of each."""
    if not attributes:
        return share
    parts = split(share.slot.where)
    slot = Slot(parts.rest(attributes), share.slot.keys, tuple(map(cell, attributes)))
    return replace(share, slot=slot, bands=tuple(parts.band(a) for a in attributes))


def wants_bits(share: Share) -> bool:
    """What can fail is asked only of the rows the query selects: its whole predicate is in there
    anyway.  Sketches are dear to merge: they are not kept by cell."""
    return share.has_sketches or _can_fail(share.slot.keys, share.measures)


@lru_cache(maxsize=100_000)
def _can_fail(keys: tuple[Expr, ...], measures: tuple[Measure, ...]) -> bool:
    exprs: tuple[Expr | None, ...] = (*keys, *(m.arg for m in measures))
    return any(e is not None and may_raise(e) for e in exprs)
