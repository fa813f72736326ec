"""Trees that queries join and leave one at a time: the working half of Incremental Weave Share.

Every tree is a column of bits over points (`edge_points.py`), so a query is held against all trees
in one pass.  Which trees have which class is kept too: it says what is left of a tree's edges when
a query leaves.  A window that is not on the points so far (its slide does not divide the period)
has the points chosen anew; drawn points learn it instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.errors import PlanError
from headrace.families.windows.weave.edge_kernels import Ints, Words, mark_points
from headrace.families.windows.weave.edge_points import Classes, Floats, PeriodPoints, period_points
from headrace.families.windows.weave.edge_samples import NONE, SampledPoints
from headrace.families.windows.weave.edge_union import EdgeClass
from headrace.families.windows.weave.edges import Shape, classes_of
from headrace.families.windows.weave.kernels import add_common

BITS_MAX = 1 << 24  # words of all trees: 128 MB, and a few milliseconds to pass through
DRAWN_WORDS_MAX = 1 << 11  # words of one tree
COLUMNS_MIN = 64
REPOINTED_MAX, LEARNT_MAX = 64, 4_096  # queries of a forest that takes in new points at once


class Forest:
    """Queries by number, each in one tree.  Merges that cost less than `limit` edges examined are
    done."""

    def __init__(
        self, limit: float, shapes: Mapping[int, Shape], trees: Sequence[Iterable[int]]
    ) -> None:
        self.comparisons = 0
        self._limit = limit
        self._shapes: dict[int, Shape] = {}
        self._tree_of: dict[int, int] = {}
        self._queries: dict[int, set[int]] = {}
        self._owners: dict[EdgeClass, dict[int, int]] = {}
        self._residues: dict[int, dict[int, set[int]]] = {}
        columns = len(trees) + max(COLUMNS_MIN, len(trees) // 4)
        self._overlap: Floats = np.zeros(columns)
        self._grows: NDArray[np.bool_] = np.zeros(columns, np.bool_)
        for tree, queries in enumerate(trees):
            for query in queries:
                self._enter(query, shapes[query], tree)
        self._points: PeriodPoints | SampledPoints | None = None
        self._bits: Words = np.zeros((0, columns), np.uint64)
        self._edges: Floats = np.zeros(columns)
        if self._shapes:
            self._repoint(NO_CLASSES)

    def __len__(self) -> int:
        return len(self._shapes)

    def __contains__(self, query: int) -> bool:
        return query in self._shapes

    @property
    def shapes(self) -> Mapping[int, Shape]:
        return self._shapes

    @property
    def are_sampled(self) -> bool:
        return self._points is not None and self._points.are_sampled

    @property
    def is_crowded(self) -> bool:
        """So many classes were learnt one by one that points had better be drawn anew."""
        return self.are_sampled and self._bits.shape[0] > 2 * DRAWN_WORDS_MAX

    def is_dear(self, shape: Shape) -> bool:
        """Whether this window, which the points do not know, would take longer than one more query
        may."""
        if len(self) <= REPOINTED_MAX or self._points is None:
            return False
        if isinstance(self._points, SampledPoints):
            return len(self) > LEARNT_MAX and not self._points.know(_columns(shape))
        return not self._points.fit(_columns(shape))

    def trees(self) -> tuple[tuple[int, ...], ...]:
        return tuple(sorted(tuple(sorted(queries)) for queries in self._queries.values()))

    def measure(self) -> tuple[int, float]:
        """How many trees there are, and Σ E·Ω of them."""
        span = 1.0 if self._points is None else self._points.span
        return len(self._queries), float(self._edges @ self._overlap) / span

    def add(self, query: int, shape: Shape) -> None:
        """The query joins the tree it weaves best with, or has its own; a tree that grew may join
        another."""
        if query in self._shapes:
            raise PlanError("a query is in the plan already", value=query, hint="drop it first")
        words, masks, own = self._look(_columns(shape))
        tree, penalty = self._best(words, masks, own, shape.overlap, -1)
        joins = penalty < self._limit
        if not joins:
            points, tree = self._points, self._new_tree()
            if points is not self._points:
                words, masks, _ = self._look(_columns(shape))
        self._enter(query, shape, tree)
        before = self._bits[words, tree]
        self._bits[words, tree] |= masks
        self._edges[tree] += float(self._weight[words] @ np.bitwise_count(masks & ~before))
        if joins:
            self._settle(tree)

    def drop(self, query: int) -> None:
        """The query leaves; what is left of its tree may join another."""
        if query not in self._shapes:
            raise PlanError("a query is not in the plan", value=query)
        tree, shape = self._tree_of.pop(query), self._shapes.pop(query)
        self._queries[tree].remove(query)
        gone = [c for c in classes_of(shape) if self._release(c, tree)]
        if not self._queries[tree]:
            self._fell(tree)
            return
        self._overlap[tree] -= shape.overlap
        if self._overlap[tree] < shape.overlap:  # what is left of a difference may be rounding
            self._overlap[tree] = sum(self._shapes[q].overlap for q in self._queries[tree])
        for c in gone:
            self._clear(c, tree)
        self._settle(tree)

    @property
    def _weight(self) -> Floats:
        assert self._points is not None
        return self._points.weight

    def _look(self, classes: Classes) -> tuple[Ints, Words, float]:
        """The words and bits of a window, and its edges; the points are made to know it."""
        if isinstance(self._points, SampledPoints):
            self._learn(self._points, classes)
        elif self._points is None or not self._points.fit(classes):
            self._repoint(classes)
        assert self._points is not None
        column = self._points.mark(classes, 1)[:, 0]
        words = np.flatnonzero(column)
        return words, column[words], float(self._weight[words] @ np.bitwise_count(column[words]))

    def _best(
        self, words: Ints, masks: Words, edges: float, overlap: float, but: int
    ) -> tuple[int, float]:
        """The tree that is cheapest to merge with, and what that costs."""
        assert self._points is not None
        self.comparisons += len(self._queries)
        common = np.zeros(self._overlap.size)
        add_common(self._bits, self._weight, words, masks, 0, common)
        costs = (self._edges - common) * overlap + (edges - common) * self._overlap
        costs[~self._grows] = np.inf
        if but >= 0:
            costs[but] = np.inf
        best = int(np.argmin(costs))
        return best, float(costs[best]) / self._points.span

    def _settle(self, tree: int) -> None:
        """Merge a tree with others while that pays."""
        while True:
            words = np.flatnonzero(self._bits[:, tree])
            masks = self._bits[words, tree]
            other, penalty = self._best(words, masks, self._edges[tree], self._overlap[tree], tree)
            if not penalty < self._limit:
                return
            small, tree = sorted((tree, other), key=lambda t: (len(self._queries[t]), -t))
            for query in sorted(self._queries[small]):
                self._move(query, small, tree)
            self._bits[:, tree] |= self._bits[:, small]
            self._edges[tree] = self._weight @ np.bitwise_count(self._bits[:, tree])
            self._fell(small)

    def _enter(self, query: int, shape: Shape, tree: int) -> None:
        self._shapes[query] = shape
        self._tree_of[query] = tree
        self._queries.setdefault(tree, set()).add(query)
        self._grows[tree] = True
        self._overlap[tree] += shape.overlap
        for c in classes_of(shape):
            self._own(c, tree)

    def _move(self, query: int, source: int, tree: int) -> None:
        for c in classes_of(self._shapes[query]):
            self._release(c, source)
        self._enter(query, self._shapes[query], tree)

    def _own(self, c: EdgeClass, tree: int) -> None:
        owners = self._owners.setdefault(c, {})
        owners[tree] = owners.get(tree, 0) + 1
        self._residues.setdefault(tree, {}).setdefault(c.modulus, set()).add(c.residue)

    def _release(self, c: EdgeClass, tree: int) -> bool:
        """One query less has this class in the tree; whether it was the last."""
        owners = self._owners[c]
        owners[tree] -= 1
        if owners[tree]:
            return False
        del owners[tree]
        if not owners:
            del self._owners[c]
        self._residues[tree][c.modulus].remove(c.residue)
        if not self._residues[tree][c.modulus]:
            del self._residues[tree][c.modulus]
        return True

    def _clear(self, c: EdgeClass, tree: int) -> None:
        """Take the points of a class out of a tree, but for those in its other classes."""
        assert self._points is not None
        column = self._points.mark(_columns(c), 1)[:, 0] & self._bits[:, tree]
        points = np.flatnonzero(np.unpackbits(column.view(np.uint8), bitorder="little"))
        for modulus, residues in sorted(self._residues[tree].items()):
            if not points.size:
                return
            points = points[~_within(self._points.times(points) % modulus, residues)]
        mask = np.zeros((column.size, 1), np.uint64)
        mark_points(points, 0, mask)
        self._bits[:, tree] &= ~mask[:, 0]
        self._edges[tree] -= self._weight @ np.bitwise_count(mask[:, 0])

    def _new_tree(self) -> int:
        free = np.flatnonzero(~self._grows)
        if free.size:
            return int(free[0])
        columns = self._overlap.size
        self._overlap, self._edges = (
            np.resize(self._overlap, 2 * columns),
            np.resize(self._edges, 2 * columns),
        )
        self._grows = np.append(self._grows, np.zeros(columns, np.bool_))
        self._overlap[columns:] = self._edges[columns:] = 0.0
        if 2 * self._bits.size > BITS_MAX:
            self._repoint(NO_CLASSES)
        else:
            self._bits = np.hstack((self._bits, np.zeros_like(self._bits)))
        return columns

    def _fell(self, tree: int) -> None:
        del self._queries[tree]
        self._residues.pop(tree, None)
        self._bits[:, tree] = 0
        self._edges[tree] = self._overlap[tree] = 0.0
        self._grows[tree] = False

    def _learn(self, points: SampledPoints, classes: Classes) -> None:
        """Drawn points take in new classes; trees lose and gain points by it."""
        learnt = points.learn(classes)
        if learnt.dropped.size:
            mask = np.zeros((self._bits.shape[0], 1), np.uint64)
            mark_points(learnt.dropped, 0, mask)
            self._edges -= self._weighed(np.flatnonzero(mask), mask[mask[:, 0] != 0, 0])
            self._bits &= ~mask
        if learnt.words:
            first = self._bits.shape[0]
            self._bits = np.vstack(
                (self._bits, np.zeros((learnt.words, self._overlap.size), np.uint64))
            )
            for c, numbers in learnt.gained.items():
                for tree in self._owners.get(c, ()):
                    mark_points(numbers, tree, self._bits)
            added = np.arange(first, first + learnt.words)
            self._edges += self._weighed(added, np.full(added.size, ~np.uint64(0)))

    def _weighed(self, words: Ints, masks: Words) -> Floats:
        found = np.zeros(self._overlap.size)
        add_common(self._bits, self._weight, words, masks, 0, found)
        return found

    def _repoint(self, more: Classes) -> None:
        """Choose points for all classes and some more, and mark every tree on them."""
        rows = [
            (c.residue, c.modulus, tree) for c, owners in self._owners.items() for tree in owners
        ]
        columns = np.array(rows, np.int64).reshape(-1, 3).T
        own = Classes(*np.ascontiguousarray(columns))
        every = Classes(
            np.append(own.residues, more.residues), np.append(own.moduli, more.moduli), NONE
        )
        words_max = max(1, BITS_MAX // self._overlap.size)
        drawn_max = min(words_max, DRAWN_WORDS_MAX)
        self._points = period_points(every, words_max, merged=False) or SampledPoints(
            every, drawn_max
        )
        self._bits = self._points.mark(own, self._overlap.size)
        self._edges = self._weighed(
            np.arange(self._bits.shape[0]), np.full(self._bits.shape[0], ~np.uint64(0))
        )


NO_CLASSES = Classes(NONE, NONE, NONE)


def _columns(of: Shape | EdgeClass) -> Classes:
    found = classes_of(of) if isinstance(of, Shape) else (of,)
    return Classes(*np.array([(c.residue, c.modulus, 0) for c in found], np.int64).T.copy())


def _within(rests: Ints, residues: set[int]) -> NDArray[np.bool_]:
    if rests.size < len(residues):
        return np.array([rest in residues for rest in rests.tolist()], np.bool_)
    return np.isin(rests, list(residues))
