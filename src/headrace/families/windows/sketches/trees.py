"""Where sketches of panes are kept so that windows need few merges: trees of fragments, and a table
of dyadic runs.

A *tree* cuts time at the edges of its windows; between two edges all panes become one *fragment*,
merged once, when a window first asks for it.  A window merges the fragments between its start and
its end, which are edges.  So a tree takes every pane once, and each window examines every edge
within: λ + E·Ω, Weave Share's cost.

The *table* keeps runs of 2^l panes that begin at multiples of 2^l, each made once, of two halves,
when first asked for.  A window merges the runs it is made of, about log2 of its panes, whatever
windows there are.

Both take only closed panes: time goes forward, and nothing is added to what has been merged.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from headrace.families.windows.sketches.bundles import Bundle
from headrace.families.windows.sketches.hll_kernels import Ints
from headrace.families.windows.weave.edge_union import EdgeClass
from headrace.families.windows.weave.edges import Shape, classes_of

B = TypeVar("B", bound=Bundle)
PENDING_MAX = 32  # panes of an open fragment; more are merged before it is sealed


class Keeper(Protocol[B]):
    """What a sketch store asks of its trees or its table."""

    @property
    def nbytes(self) -> int: ...

    def take(self, times: Ints, bundles: Sequence[B]) -> None:
        """Closed panes, by the time each begins at."""

    def aim(self, shapes: Sequence[Shape]) -> None:
        """These are the windows now, and panes to come may be as wide as they allow."""

    def parts(self, start_us: int, end_us: int) -> list[B]:
        """Bundles that are, merged, all panes of [start, end)."""

    def forget(self, before_us: int) -> None:
        """No window that begins before this will be asked for."""

    def serves(self, shapes: Iterable[Shape], from_us: int) -> bool:
        """Whether all windows of these shapes that begin at `from_us` or later can be answered."""


@dataclass(slots=True)
class _Fragment(Generic[B]):
    """Panes of a tree between two edges: as they came, or merged."""

    panes: list[B] = field(default_factory=list)
    merged: B | None = None

    def take(self, bundle: B) -> None:
        assert self.merged is None, "a pane for a fragment that has been read"
        self.panes.append(bundle)
        if len(self.panes) > PENDING_MAX:
            self.panes = [self.panes[0].merge(self.panes[1:])]

    def seal(self) -> B:
        if self.merged is None:
            self.merged = self.panes[0].merge(self.panes[1:]).seal()
            self.panes = []
        return self.merged

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self.panes) if self.merged is None else self.merged.nbytes


class Tree(Generic[B]):
    """Fragments between the edges of some windows."""

    def __init__(self, shapes: Sequence[Shape], held_from_us: int) -> None:
        self._fragments: dict[int, _Fragment[B]] = {}
        self._starts: list[int] = []
        self._held_from_us = held_from_us
        self.aim(shapes)

    def aim(self, shapes: Sequence[Shape]) -> None:
        """Edges that are no longer asked for cut no more, those that have cut stay."""
        self.classes = frozenset(c for shape in shapes for c in classes_of(shape))
        self._residues = np.array([c.residue for c in self.classes], np.int64)
        self._moduli = np.array([c.modulus for c in self.classes], np.int64)

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self._fragments.values())

    def take(self, times: Ints, bundles: Sequence[B]) -> None:
        starts = last_edges(self._residues, self._moduli, times).tolist()
        for time, start, bundle in zip(times.tolist(), starts, bundles, strict=True):
            self._fragment(start, time).take(bundle)

    def _fragment(self, start: int, time: int) -> _Fragment[B]:
        """The open fragment for a pane.  One that has been read ended at an edge that no longer
        cuts: the pane begins another, anywhere before the next edge."""
        held = self._fragments.get(start)
        while held is not None and held.merged is not None:
            start = max(start + 1, time)
            held = self._fragments.get(start)
        if held is None:
            held = self._fragments[start] = _Fragment()
            insort(self._starts, start)
        return held

    def parts(self, start_us: int, end_us: int) -> list[B]:
        held = self._starts[bisect_left(self._starts, start_us) : bisect_left(self._starts, end_us)]
        return [self._fragments[start].seal() for start in held]

    def forget(self, before_us: int) -> None:
        gone = bisect_left(self._starts, before_us)
        for start in self._starts[:gone]:
            del self._fragments[start]
        del self._starts[:gone]
        self._held_from_us = max(self._held_from_us, before_us)

    def serves(self, shapes: Iterable[Shape], from_us: int) -> bool:
        needed: set[EdgeClass] = {c for shape in shapes for c in classes_of(shape)}
        return needed <= self.classes and from_us >= self._held_from_us


def last_edges(residues: Ints, moduli: Ints, times: Ints) -> Ints:
    """The last edge at or before each time."""
    since: Ints = np.full(times.size, np.iinfo(np.int64).max)
    for residue, modulus in zip(residues.tolist(), moduli.tolist(), strict=True):
        np.minimum(since, (times - residue) % modulus, out=since)
    return times - since


def grain_of(shapes: Sequence[Shape]) -> int:
    """The width of the widest panes that have all edges of these windows."""
    return math.gcd(*(t for s in shapes for t in (s.range_us, s.slide_us, s.offset_us)))


class Table(Generic[B]):
    """Dyadic runs of panes of one width.  Those without rows, of which a long window beside a
    narrow one may have millions, cost nothing."""

    def __init__(self, shapes: Sequence[Shape], held_from_us: int) -> None:
        self.grain_us = grain_of(shapes)
        self._levels: list[dict[int, B]] = [{}]
        self._panes: list[int] = []  # those that have rows, in order
        self._held_from_us = held_from_us
        self.aim(shapes)

    def aim(self, shapes: Sequence[Shape]) -> None:
        self._served_us = grain_of(shapes)

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for runs in self._levels for b in runs.values())

    def take(self, times: Ints, bundles: Sequence[B]) -> None:
        panes = self._levels[0]
        for pane, bundle in zip((times // self.grain_us).tolist(), bundles, strict=True):
            held = panes.get(pane)
            if held is None:
                insort(self._panes, pane)
            panes[pane] = bundle.seal() if held is None else held.merge([bundle])

    def parts(self, start_us: int, end_us: int) -> list[B]:
        runs = dyadic_runs(start_us // self.grain_us, end_us // self.grain_us)
        return [b for level, place in runs if (b := self._run(level, place)) is not None]

    def _run(self, level: int, place: int) -> B | None:
        while len(self._levels) <= level:
            self._levels.append({})
        runs = self._levels[level]
        if level and place not in runs and self._has_panes(level, place):
            halves = [
                b for p in (2 * place, 2 * place + 1) if (b := self._run(level - 1, p)) is not None
            ]
            runs[place] = halves[0].merge(halves[1:])
        return runs.get(place)

    def _has_panes(self, level: int, place: int) -> bool:
        at = bisect_left(self._panes, place << level)
        return at < len(self._panes) and self._panes[at] < (place + 1) << level

    def forget(self, before_us: int) -> None:
        del self._panes[: bisect_left(self._panes, before_us // self.grain_us)]
        for level, runs in enumerate(self._levels):
            first = (before_us // self.grain_us) >> level
            for place in [p for p in runs if p < first]:
                del runs[place]
        self._held_from_us = max(self._held_from_us, before_us)

    def serves(self, shapes: Iterable[Shape], from_us: int) -> bool:
        fits = all(
            t % self._served_us == 0 for s in shapes for t in (s.range_us, s.slide_us, s.offset_us)
        )
        return fits and from_us >= self._held_from_us


def dyadic_runs(first: int, stop: int) -> list[tuple[int, int]]:
    """Panes [first, stop) as runs (level, place) of 2^level panes from place · 2^level on, as few
    as there are."""
    low: list[tuple[int, int]] = []
    high: list[tuple[int, int]] = []
    level = 0
    while first < stop:
        if first & 1:
            low.append((level, first))
            first += 1
        if stop & 1:
            stop -= 1
            high.append((level, stop))
        first, stop, level = first >> 1, stop >> 1, level + 1
    return low + high[::-1]
