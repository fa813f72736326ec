"""Incremental Weave Share: queries come and go, and the plan is rebuilt when it has drifted.

A new query becomes a tree and is merged where that pays; a query that leaves has its tree tried
against all others (`forest.py`).  Such a plan is worse than one from scratch, by how much nobody
knows without making it.  So the cost of plans made from scratch is remembered against their number
of queries, extrapolated along its slope, and a rebuild is due when the plan costs more than that by
the tolerance.  The curve is concave, and a slope of long ago too steep: beyond `reach` times the
queries of the last rebuild it is not trusted, and a rebuild is due as well.

A window whose edges the forest has no points for (its slide does not divide the period so far)
would have all bits made anew.  In a large forest it *strays* instead: it is a tree of its own until
the next rebuild takes it in.

    if online.is_due():
        made = rebuild(online.snapshot())   # pure, may run in another thread
        online.swap(made)                   # what came and went meanwhile is repeated on it

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011, section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import PlanError
from headrace.families.windows.weave.edges import Shape, classes_of
from headrace.families.windows.weave.forest import Forest
from headrace.families.windows.weave.weave import EVEN, Plan, Weights, weave

TOLERANCE = 0.1
REACH = 2.0
STRAYS_MAX = 0.01  # of all queries


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The queries of a moment, and what their rows and merges cost."""

    queries: tuple[int, ...]
    shapes: tuple[Shape, ...]
    rate: float
    weights: Weights

    @property
    def limit(self) -> float:
        return self.rate * self.weights.row / self.weights.merge


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A plan from scratch (its numbers are places in the snapshot), and the forest that takes
    over."""

    snapshot: Snapshot
    plan: Plan
    forest: Forest


def rebuild(snapshot: Snapshot) -> Rebuilt:
    """Weave Share from scratch; touches nothing but its argument."""
    plan = weave(snapshot.shapes, snapshot.rate, snapshot.weights)
    trees = [[snapshot.queries[n] for n in tree.queries] for tree in plan.trees]
    shapes = dict(zip(snapshot.queries, snapshot.shapes, strict=True))
    return Rebuilt(snapshot, plan, Forest(snapshot.limit, shapes, trees))


@dataclass(slots=True)
class CostCurve:
    """What plans from scratch cost, by number of queries; a line through the last two."""

    count: int
    cost: float
    slope: float = 0.0

    def learn(self, count: int, cost: float) -> None:
        if count != self.count:
            self.slope = max(0.0, (cost - self.cost) / (count - self.count))
        self.count, self.cost = count, cost

    def expected(self, count: int) -> float:
        return max(self.cost + self.slope * (count - self.count), 0.0)

    def reaches(self, count: int, times: float) -> bool:
        return max(self.count, count) <= times * min(self.count, count)


class OnlineWeave:
    """The plan of the queries registered now."""

    def __init__(
        self,
        rate: float,
        weights: Weights = EVEN,
        tolerance: float = TOLERANCE,
        reach: float = REACH,
    ) -> None:
        if not (0 <= rate < math.inf and tolerance >= 0 and reach >= 1):
            raise PlanError(
                "a rate or a tolerance is negative, or a reach is below 1",
                value=(rate, tolerance, reach),
            )
        self._rate, self._weights, self._tolerance, self._reach = rate, weights, tolerance, reach
        self._forest = Forest(self.snapshot_of({}).limit, {}, [])
        # no query, and yet a tree: where the line begins
        self._curve = CostCurve(0, rate * weights.row)
        self._comparisons = 0
        self._strays: dict[int, Shape] = {}

    @staticmethod
    def of(shapes: Mapping[int, Shape], rate: float, weights: Weights = EVEN) -> OnlineWeave:
        """The plan from scratch of these queries, to go on from."""
        online = OnlineWeave(rate, weights)
        made = rebuild(online.snapshot_of(dict(shapes)))
        online._forest = made.forest
        online._curve.learn(len(shapes), made.plan.cost)
        return online

    def __len__(self) -> int:
        return len(self._forest) + len(self._strays)

    def add(self, query: int, shape: Shape) -> None:
        if query not in self._forest and query not in self._strays and self._forest.is_dear(shape):
            self._strays[query] = shape
        elif query in self._strays:
            raise PlanError("a query is in the plan already", value=query, hint="drop it first")
        else:
            self._forest.add(query, shape)

    def drop(self, query: int) -> None:
        if self._strays.pop(query, None) is None:
            self._forest.drop(query)

    def trees(self) -> tuple[tuple[int, ...], ...]:
        """The queries of each tree."""
        return tuple(sorted((*self._forest.trees(), *((query,) for query in self._strays))))

    @property
    def cost(self) -> float:
        """By the points that trees are compared on: exact unless they are drawn."""
        count, merges = self._forest.measure()
        merges += sum(s.overlap / c.modulus for s in self._strays.values() for c in classes_of(s))
        return (
            count + len(self._strays)
        ) * self._weights.row * self._rate + self._weights.merge * merges

    @property
    def comparisons(self) -> int:
        """How many pairs of trees were compared while queries came and went."""
        return self._comparisons + self._forest.comparisons

    def deviation(self) -> float:
        """By how much the plan costs more than one from scratch is expected to."""
        expected = self._curve.expected(len(self))
        return self.cost / expected - 1 if expected > 0 else 0.0

    def is_due(self) -> bool:
        """Whether to rebuild: the plan has drifted, some stray, or nothing is known about plans of
        this size."""
        if len(self) < 2:
            return False
        unknown = not self._curve.reaches(len(self), self._reach) or len(
            self._strays
        ) > STRAYS_MAX * len(self)
        return unknown or self._forest.is_crowded or self.deviation() > self._tolerance

    def snapshot(self) -> Snapshot:
        return self.snapshot_of({**self._forest.shapes, **self._strays})

    def snapshot_of(self, shapes: dict[int, Shape]) -> Snapshot:
        return Snapshot(tuple(shapes), tuple(shapes.values()), self._rate, self._weights)

    def swap(self, made: Rebuilt) -> None:
        """Go on with a rebuilt plan.  Queries that came or went since its snapshot do so again."""
        now, forest = {**self._forest.shapes, **self._strays}, made.forest
        self._curve.learn(len(made.snapshot.queries), made.plan.cost)
        for query, shape in zip(made.snapshot.queries, made.snapshot.shapes, strict=True):
            if now.get(query) != shape:
                forest.drop(query)
        self._comparisons += self._forest.comparisons
        self._forest, self._strays = forest, {}
        for query, shape in now.items():
            if query not in forest:
                self.add(query, shape)
