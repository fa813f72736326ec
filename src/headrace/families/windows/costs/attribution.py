"""Who makes a round cost what: its measured seconds, split among the queries that share the work.
Pure.

Within a stage, seconds are split as the cost model splits them into terms, and each term goes to
those who ask for it:

* a predicate, a key, an aggregate, a rollup, a slot, a ring, a window that ends: equally to the
  queries that have it;
* what a slot or a ring does for each column: by the columns a query wants, each shared with who
  else wants it there;
* answers, finished and written: by the answers the query was given;
* what a round costs whoever asks (a Spark job, reading rows, syncing files): to all equally.

So identical queries pay the same, and the shares of a stage add up to what was measured of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from headrace.families.windows.aggregation.aggregate import grouping
from headrace.families.windows.aggregation.columns import parts_of
from headrace.families.windows.costs.cost import RATES
from headrace.families.windows.costs.workload import (
    WIDTHS,
    Floats,
    Ints,
    Quantities,
    RingWorks,
    shape_of,
    workload_of,
)
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import ROWS, Measure
from headrace.families.windows.plan import RingAssignment, RingPlan, Slot
from headrace.sql.tree import Column, columns_of

Thing = TypeVar("Thing")
Ask = tuple[str, int, float]
"""A kind of thing, which of them, and how much."""
Pairs = tuple[Ints, Ints, Floats]
"""Things, the queries that ask for them, and how much."""

PARTS = ("spark_row_part", "spark_cell_part", "roll_cell_part")
ROWS_OUT = ("answer_row", "write_row")
PER_THING = {
    "spark_row_predicate": "predicate",
    "spark_row_key": "key",
    "spark_row_step": "cell",
    **dict.fromkeys(PARTS, "part"),
    "roll_cell_branch": "branch",
    "roll_slot": "slot",
    "roll_slot_column": "slot column",
    "roll_ring": "ring",
    "roll_ring_column": "ring column",
    "answer_pane": "ring column",
    "answer_ring": "ring",
    "answer_shape": "shape column",
    "answer_query": "shape",
}


@dataclass(slots=True)
class _Links:
    """Who asks for what, as it is found."""

    things: list[int] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, thing: int, query: int, weight: float = 1.0) -> None:
        self.things.append(thing)
        self.queries.append(query)
        self.weights.append(weight)

    def pairs(self) -> Pairs:
        return (
            np.array(self.things, np.int64),
            np.array(self.queries, np.int64),
            np.array(self.weights),
        )


class Users:
    """Which query asks for which part of a plan."""

    def __init__(self, assignment: RingAssignment, cuts: Cuts) -> None:
        self.ids = list(assignment.shares)
        works = RingWorks().of(assignment.rings.values())
        self.work = workload_of(works, cuts)
        place = {query_id: i for i, query_id in enumerate(self.ids)}
        self._links = {kind: _Links() for kind in PER_THING.values()}
        wanted: dict[Slot, Counter[Measure]] = {}
        for ring in works:
            wanted.setdefault(ring.plan.slot, Counter()).update(ring.plan.measures)
        slots = {slot: i for i, slot in enumerate(self.work.slots)}
        asks = _Asks(cuts, self.work.slots)
        base = 0
        for i, ring in enumerate(works):
            shapes = {(slide, end): base + s for s, (slide, end, _) in enumerate(ring.windows)}
            base += len(shapes)
            self._seat(
                ring.plan, i, slots[ring.plan.slot], wanted[ring.plan.slot], shapes, asks, place
            )
        self.pairs = {kind: links.pairs() for kind, links in self._links.items()}

    def _seat(
        self,
        plan: RingPlan,
        ring: int,
        slot: int,
        wanted: Counter[Measure],
        shapes: Mapping[tuple[int, int], int],
        asks: _Asks,
        place: Mapping[int, int],
    ) -> None:
        alike: dict[tuple[Measure, ...], tuple[float, list[Ask]]] = {}
        for query_id, share in plan.members.items():
            if share.measures not in alike:
                in_ring, in_slot = (
                    _columns(share.measures, plan.measures),
                    _columns(share.measures, wanted),
                )
                standing = [
                    ("slot", slot, 1.0),
                    ("slot column", slot, in_slot),
                    ("ring", ring, 1.0),
                    ("ring column", ring, in_ring),
                ]
                alike[share.measures] = (
                    in_ring,
                    [*standing, *asks.of_slot(plan.slot), *asks.of_measures(share.measures)],
                )
            weight, asked = alike[share.measures]
            shape = shapes[shape_of(share)]
            for kind, thing, much in (
                *asked,
                ("shape", shape, 1.0),
                ("shape column", shape, weight),
            ):
                self._links[kind].add(thing, place[query_id], much)


def _columns(measures: Iterable[Measure], users: Counter[Measure]) -> float:
    """Columns a query wants, each divided by how many want it."""
    return sum([WIDTHS[m.kind] / users[m] for m in measures])


class _Asks:
    """What a slot and a set of measures ask of Spark, found once for each."""

    def __init__(self, cuts: Cuts, slots: Sequence[Slot]) -> None:
        self._cuts = cuts
        self._rollups = _numbered((cuts.find(s), s.where) for s in slots)
        self._predicates = _numbered(
            (c, p) for c, cut in enumerate(cuts.cuts) for p in grouping(cut).predicates
        )
        self._keys = _numbered(k for cut in cuts.cuts for k in grouping(cut).keys)
        self._cells = _numbered(key for key, _ in cuts.edges)
        self._parts = _numbered(p for m in (ROWS, *cuts.measures) for p in parts_of(m))
        self._slots = {slot: self._slot(slot) for slot in slots}
        self._measures: dict[tuple[Measure, ...], list[Ask]] = {}

    def of_slot(self, slot: Slot) -> list[Ask]:
        return self._slots[slot]

    def _slot(self, slot: Slot) -> list[Ask]:
        cut = self._cuts.find(slot)
        found = [("branch", self._rollups[cut, slot.where], 1.0)]
        asked = list(slot.keys)
        if slot.where is not None and cut is not None:
            if (cut, slot.where) in self._predicates:
                found.append(("predicate", self._predicates[cut, slot.where], 1.0))
            else:
                asked.append(slot.where)  # it follows from keys
        names = columns_of(*asked)
        found += [("cell", self._cells[key], 1.0) for key in slot.cells]
        return found + [
            ("key", i, 1.0)
            for k, i in self._keys.items()
            if k in slot.keys or (isinstance(k, Column) and k.name in names)
        ]

    def of_measures(self, measures: tuple[Measure, ...]) -> list[Ask]:
        if measures not in self._measures:
            parts = dict.fromkeys(p for m in (ROWS, *measures) for p in parts_of(m))
            self._measures[measures] = [("part", self._parts[p], 1.0) for p in parts]
        return self._measures[measures]


def _numbered(things: Iterable[Thing]) -> dict[Thing, int]:
    return {thing: i for i, thing in enumerate(dict.fromkeys(things))}


def split(users: Users, quantities: Quantities, answers: Mapping[int, int]) -> dict[str, Floats]:
    """By stage, each query's part of the whole (they add up to 1), in the order of `users.ids`."""
    size = len(users.ids)
    given = np.array([answers.get(i, 0) for i in users.ids], np.float64)
    stages: dict[str, Floats] = {}
    for name, rate in RATES.items():
        seconds = rate.seconds * quantities[name]
        if name in PER_THING:
            part = _spread(seconds, users.pairs[PER_THING[name]], size)
        elif name in ROWS_OUT and given.sum():
            part = given * (seconds.sum() / given.sum())
        else:
            part = np.full(size, seconds.sum() / max(size, 1))
        stages[rate.stage] = stages.get(rate.stage, np.zeros(size)) + part
    return {stage: _whole(parts) for stage, parts in stages.items()}


def _spread(seconds: Floats, pairs: Pairs, size: int) -> Floats:
    """Each thing's seconds to those who ask for it; where things are not told apart, all cost the
    same."""
    things, queries, weights = pairs
    if not things.size:
        return np.zeros(size)
    count = int(things.max()) + 1
    each = seconds if seconds.size == count else np.full(count, seconds.sum() / count)
    asked = np.bincount(things, weights, count)
    return np.bincount(queries, weights / asked[things] * each[things], size).astype(np.float64)


def _whole(parts: Floats) -> Floats:
    total = parts.sum()
    return parts / total if total > 0 else np.full(parts.size, 1.0 / max(parts.size, 1))
