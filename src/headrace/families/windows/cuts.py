"""Cuts: how the rows of a round are grouped by Spark, so that every ring can be fed.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from headrace.families.windows import plan
from headrace.families.windows.cells import Edges, cell
from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import RingPlan, Slot
from headrace.sql.bands import Band, split
from headrace.sql.tree import Column, Expr, columns_of, remember_hash


@dataclass(frozen=True, slots=True)
class Cut:
    """One grouping of the round's rows: by these keys, the bits of these predicates, and cells.

    `has_facts`: what follows from the keys is asked of them, by Spark, and not of the rows; false
    where nobody can ask Spark when the rows are rolled up."""

    keys: tuple[Expr, ...]
    predicates: tuple[Expr, ...]
    cells: tuple[Expr, ...] = ()
    has_facts: bool = True


@dataclass(frozen=True, slots=True)
class Cuts:
    """The one Spark aggregate of a round: pane width, groupings, measures, and the edges of
    cells."""

    pane_us: int
    cuts: tuple[Cut, ...]
    measures: tuple[Measure, ...]
    edges: Edges = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remember_hash(
            self, (self.pane_us, self.cuts, self.measures, self.edges)
        )

    def __reduce__(self) -> tuple[object, ...]:
        return Cuts, (self.pane_us, self.cuts, self.measures, self.edges)

    def edges_of(self, key: Expr) -> tuple[int, ...]:
        return next(edges for own, edges in self.edges if own == key)

    def find(self, slot: Slot) -> int | None:
        """The cut whose rows the slot can be rolled up from."""
        for i, cut in enumerate(self.cuts):
            has_all = set(slot.keys) <= set(cut.keys) and set(slot.cells) <= set(cut.cells)
            if has_all and (slot.where is None or self._tells(cut, slot.where)):
                return i
        return None

    def _tells(self, cut: Cut, where: Expr) -> bool:
        asked = self.asked(cut, where)
        return asked is None or asked in cut.predicates

    def asked(self, cut: Cut, where: Expr) -> Expr | None:
        """What a cut must have as a predicate to tell this one: itself, or what its cells do not
        tell."""
        return (
            where
            if where in cut.predicates
            else split(where).rest(self.told_by(cut, where))
            if cut.cells
            else where
        )

    def told_by(self, cut: Cut, where: Expr) -> list[Expr]:
        """The attributes whose bands in a predicate the cells of the cut tell."""
        return [
            a
            for a, band in split(where).bands
            if cell(a) in cut.cells and self.has_edges(cell(a), band)
        ]

    def has_edges(self, key: Expr, band: Band) -> bool:
        """Whether a band is a run of the cells of this key."""
        return _edge_set(self, key) >= set(band.edges())


@lru_cache(maxsize=1_000)
def _edge_set(cuts: Cuts, key: Expr) -> frozenset[int]:
    return frozenset(cuts.edges_of(key))


def plan_cuts(rings: Iterable[RingPlan], united: bool = True, has_facts: bool = True) -> Cuts:
    """The groupings all rings can be fed from, in an order that depends on the queries alone.

    United: one grouping by all keys.  Else one for each maximal group-by: more passes over the
    rows, but fewer groups when keys have little to do with each other.  `Choice` finds out which is
    cheaper.
    """
    predicates: dict[tuple[Expr, ...], tuple[dict[Expr, None], dict[Expr, None]]] = {}
    measures: dict[Measure, None] = {}
    edges: dict[Expr, set[int]] = {}
    pane_us = 0
    for ring in rings:
        for key, own in ring.edges().items():
            edges.setdefault(key, set()).update(own)
        wanted, cells = predicates.setdefault(tuple(dict.fromkeys(ring.slot.keys)), ({}, {}))
        cells.update(dict.fromkeys(ring.slot.cells))
        if ring.slot.where is not None:
            wanted[ring.slot.where] = None
        measures.update(dict.fromkeys(ring.measures))
        pane_us = math.gcd(pane_us, ring.grain_us)
    groupings: list[tuple[dict[Expr, None], dict[Expr, None], dict[Expr, None]]] = []
    for keys, (wanted, cells) in sorted(
        predicates.items(), key=lambda item: _fineness(item[0]), reverse=True
    ):
        holder = next((g for g in groupings if united or _follows(keys, g[0])), None)
        if holder is None:
            holder = ({}, {}, {})
            groupings.append(holder)
        for held, more in zip(holder, (dict.fromkeys(keys), wanted, cells), strict=True):
            held.update(more)
    told = [_tell_by_cells(keys, wanted, edges) for keys, wanted, _ in groupings]
    order = {p: i for i, p in enumerate(dict.fromkeys(p for wanted, _ in told for p in wanted))}
    cuts = (
        Cut(
            tuple(keys),
            tuple(sorted(wanted, key=order.__getitem__)),
            tuple(dict.fromkeys((*cells, *telling))),
            has_facts,
        )
        for (keys, _, cells), (wanted, telling) in zip(groupings, told, strict=True)
    )
    return Cuts(
        pane_us,
        tuple(cuts),
        tuple(measures),
        tuple((key, tuple(sorted(own))) for key, own in edges.items()),
    )


def _tell_by_cells(
    keys: Iterable[Expr], wanted: Iterable[Expr], edges: dict[Expr, set[int]]
) -> tuple[list[Expr], tuple[Expr, ...]]:
    """What must be bits, and cells that tell the rest: of attributes with a crowd of bands.  Adds
    to the edges."""
    columns = {k.name for k in keys if isinstance(k, Column)}
    made = [p for p in wanted if not columns_of(p) <= columns]  # others follow from the keys
    bands: dict[Expr, set[Band]] = {}
    for attribute, band in (b for p in made for b in split(p).bands):
        bands.setdefault(attribute, set()).add(band)
    crowded = {a for a, own in bands.items() if len(own) >= plan.CROWD_MIN}
    left: dict[Expr, None] = {}
    for predicate in wanted:
        taken = [b for b in split(predicate).bands if b[0] in crowded] if predicate in made else []
        for attribute, band in taken:
            edges.setdefault(cell(attribute), set()).update(band.edges())
        rest = split(predicate).rest([a for a, _ in taken]) if taken else predicate
        left.update({} if rest is None else {rest: None})
    return list(left), tuple(cell(a) for a in bands if a in crowded)


def _fineness(keys: tuple[Expr, ...]) -> tuple[int, int]:
    """Bare columns first, so that what is made of them finds them."""
    return sum(isinstance(k, Column) for k in keys), len(keys)


def _follows(keys: Iterable[Expr], finer: Iterable[Expr]) -> bool:
    """Whether rows with equal `finer` keys have equal `keys` too: then grouping by both makes no
    more groups."""
    given = set(finer)
    columns = {k.name for k in given if isinstance(k, Column)}
    return all(k in given or columns_of(k) <= columns for k in keys)
