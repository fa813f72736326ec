"""Points that stand for all times, so that edges of trees can be compared as bits.

Where the period of all slides is short, every time of it is a point (`PeriodPoints`).  Times that
lie in the same classes are alike: one of them may stay for all, and weighs as many.  Where the
period is long, points are drawn from the classes themselves (`edge_samples.py`).  Either way the
weights are a measure: edges of a tree are what its points weigh, and no union weighs less than its
parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.weave.edge_kernels import (
    Ints,
    Ints32,
    Words,
    mark_period,
    sign_times,
)
from headrace.families.windows.weave.edge_union import FLAGS_MAX, SEED, bounded_lcm

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Classes:
    """Residue classes as columns; class n belongs to tree `owners[n]`."""

    residues: Ints
    moduli: Ints
    owners: Ints

    def distinct(self) -> Classes:
        """Each class once, by modulus and residue, owned by nobody."""
        order = np.lexsort((self.residues, self.moduli))
        rows = np.stack((self.residues, self.moduli))[:, order]
        residues, moduli = rows[:, _new(rows)]
        return Classes(residues, moduli, np.zeros(residues.size, np.int64))

    def distinct_by_owner(self) -> Classes:
        """Each class once for each owner, by owner."""
        order = np.lexsort((self.residues, self.moduli, self.owners))
        rows = np.stack((self.residues, self.moduli, self.owners))[:, order]
        return Classes(*rows[:, _new(rows)])


def _new(rows: Ints) -> NDArray[np.bool_]:
    return np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0))


class Points(Protocol):
    """64 points a word.  A point of word w is worth `weight[w] / span` edges a unit of time."""

    weight: Floats
    span: float
    are_sampled: bool

    def mark(self, classes: Classes, trees: int) -> Words:
        """The edges of each tree as bits, `[word, tree]`."""
        ...


@dataclass(slots=True)
class PeriodPoints:
    """Times of one period, in steps of the widest grid that all classes lie on."""

    weight: Floats
    span: float
    origin: int
    step: int
    place: Ints32  # the bit of each time, or -1
    are_sampled: bool = False

    def mark(self, classes: Classes, trees: int) -> Words:
        bits = np.zeros((self.weight.size, trees), np.uint64)
        moduli = classes.moduli // self.step
        mark_period(
            self.place,
            (classes.residues - self.origin) // self.step % moduli,
            moduli,
            classes.owners,
            bits,
        )
        return bits

    def fit(self, classes: Classes) -> bool:
        """Whether these classes lie on the grid and repeat with the period."""
        if np.any(classes.moduli % self.step) or np.any(
            (classes.residues - self.origin) % self.step
        ):
            return False
        return not np.any(self.place.size % (classes.moduli // self.step))

    def times(self, points: Ints) -> Ints:
        """The time of each point, where all times of the period are points."""
        return points * self.step + self.origin


def period_points(classes: Classes, words_max: int, merged: bool = True) -> PeriodPoints | None:
    """All times of the period as points, or None if these are more words than allowed.

    With `merged`, times of the same classes are one point; without, other classes of the same
    period fit later.
    """
    some = classes.distinct()
    origin = int(some.residues[0])
    step = int(np.gcd(np.gcd.reduce(some.moduli), np.gcd.reduce(some.residues - origin)))
    moduli = some.moduli // step
    period = bounded_lcm(np.unique(moduli).tolist(), FLAGS_MAX if merged else 64 * words_max)
    if not period:
        return None
    if merged:
        place, weight = _places(
            Classes((some.residues - origin) // step % moduli, moduli, some.owners), period
        )
    else:
        place, weight = np.arange(period, dtype=np.int32), np.ones((period + 63) // 64)
    if weight.size > words_max:
        return None
    return PeriodPoints(weight, float(period * step), origin, step, place)


def _places(classes: Classes, period: int) -> tuple[Ints32, Floats]:
    """One point for all times in the same classes; points that stand for equally many share
    words."""
    signs = np.random.default_rng(SEED).integers(1, 1 << 63, classes.moduli.size, dtype=np.uint64)
    signed = sign_times(classes.residues, classes.moduli, signs, period)
    found, first, count = np.unique(signed, return_index=True, return_counts=True)
    edges = found != 0
    first, count = first[edges], count[edges]
    order = np.lexsort((first, count))
    first, count = first[order], count[order]
    kinds, size = np.unique(count, return_counts=True)
    words = (size + 63) // 64
    begin = 64 * (np.cumsum(words) - words)
    place = np.full(period, -1, np.int32)
    place[first] = np.repeat(begin - (np.cumsum(size) - size), size) + np.arange(first.size)
    return place, np.repeat(kinds.astype(np.float64), words)
