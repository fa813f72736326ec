"""Points drawn from edges, for windows whose common period is too long to be looked at.

Classes are strata, as Karp and Luby draw them, with a fixed seed.  Frequent ones get more points,
by the cube root of their rate: what is wrong with them costs most, but the edges of rare ones must be known too.  A
time that lies in several classes counts for the rarest of them and is dropped where it was drawn
from another; so every time has one weight, whichever trees have it.  New classes are learnt by the
same rule: they bring points of their own, and take over those that were drawn from more frequent
ones.

R. M. Karp, M. Luby, "Monte-Carlo Algorithms for Enumeration and Reliability Problems", FOCS 1983.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.families.windows.weave.edge_kernels import Ints, Words, mark_points, meet
from headrace.families.windows.weave.edge_points import Classes, Floats
from headrace.families.windows.weave.edge_union import HORIZON, SEED, EdgeClass

WORDS_PER_CLASS = 64
DRAW_WORK = 1 << 25  # times drawn, each held against every modulus

NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Learnt:
    """What new classes changed: words gained, points no longer there, and classes that gained
    points."""

    words: int
    dropped: Ints
    gained: dict[EdgeClass, Ints]


class SampledPoints:
    """Drawn times by number, 64 a word, and the numbers of those in each class."""

    are_sampled = True
    span = 1.0

    def __init__(self, classes: Classes, words_max: int) -> None:
        self.weight: Floats = np.empty(0)
        self._known = Classes(NONE, NONE, NONE)
        self._times, self._drawn_from = NONE, NONE
        self._members: dict[EdgeClass, Ints] = {}
        self._random = np.random.default_rng(SEED)
        self.learn(classes, words_max)

    def mark(self, classes: Classes, trees: int) -> Words:
        bits = np.zeros((self.weight.size, trees), np.uint64)
        rows = zip(
            classes.residues.tolist(), classes.moduli.tolist(), classes.owners.tolist(), strict=True
        )
        for residue, modulus, owner in rows:
            mark_points(self._members[EdgeClass(residue, modulus)], owner, bits)
        return bits

    def times(self, points: Ints) -> Ints:
        return self._times[points]

    def know(self, classes: Classes) -> bool:
        return not self._unknown(classes).moduli.size

    def learn(self, classes: Classes, words_max: int = 0) -> Learnt:
        """Draw points for classes that are new, in at most so many words; by default as many as
        known ones have."""
        fresh = self._unknown(classes)
        if not fresh.moduli.size:
            return Learnt(0, NONE, {})
        if not words_max:
            share = _importance(fresh).sum() / _importance(self._known).sum()
            words_max = max(fresh.moduli.size, int(share * self.weight.size))
        dropped = self._take_over(fresh)
        self._known = _joined(self._known, fresh)
        times, sources, weight = _drawn(fresh, words_max, self._known, self._random)
        which, found = _met(times, self._known)
        rarest = np.full(times.size, -1)
        rarest[which] = found  # by modulus: the last of equal places is the rarest
        own = self._known.moduli[rarest] == sources
        gained = _by_class(which[own[which]] + self._times.size, found[own[which]], self._known)
        for c, points in gained.items():
            self._members[c] = np.append(self._members.get(c, NONE), points)
        self._times = np.append(self._times, np.where(own, times, -1))
        self._drawn_from = np.append(self._drawn_from, sources)
        self.weight = np.append(self.weight, weight)
        return Learnt(weight.size, dropped, gained)

    def _unknown(self, classes: Classes) -> Classes:
        some = classes.distinct()
        pairs = zip(some.residues.tolist(), some.moduli.tolist(), strict=True)
        new = np.array([EdgeClass(a, m) not in self._members for a, m in pairs], np.bool_)
        return Classes(some.residues[new], some.moduli[new], some.owners[new])

    def _take_over(self, fresh: Classes) -> Ints:
        """Old points in new classes: they join where they count for a rarer one, else they are
        dropped."""
        dropped = [NONE]
        for residue, modulus in zip(fresh.residues.tolist(), fresh.moduli.tolist(), strict=True):
            inside = np.flatnonzero((self._times % modulus == residue) & (self._times >= 0))
            frequent = self._drawn_from[inside] < modulus
            self._times[inside[frequent]] = -1
            self._members[EdgeClass(residue, modulus)] = inside[~frequent]
            dropped.append(inside[frequent])
        return np.concatenate(dropped)


def _joined(some: Classes, others: Classes) -> Classes:
    return Classes(
        np.append(some.residues, others.residues),
        np.append(some.moduli, others.moduli),
        np.append(some.owners, others.owners),
    ).distinct()


def _met(times: Ints, known: Classes) -> tuple[Ints, Ints]:
    moduli, starts = np.unique(known.moduli, return_index=True)
    return meet(times, moduli, np.append(starts, known.moduli.size), known.residues)


def _by_class(points: Ints, classes: Ints, known: Classes) -> dict[EdgeClass, Ints]:
    order = np.argsort(classes, kind="stable")
    found, starts = np.unique(classes[order], return_index=True)
    parts = np.split(points[order], starts[1:])
    keys = zip(known.residues[found].tolist(), known.moduli[found].tolist(), strict=True)
    return {EdgeClass(*key): part for key, part in zip(keys, parts, strict=True)}


def _drawn(
    classes: Classes, words_max: int, known: Classes, random: np.random.Generator
) -> tuple[Ints, Ints, Floats]:
    """Times drawn from strata of classes, the modulus each was drawn from, and what a point of each
    word is worth."""
    words_max = max(1, min(words_max, DRAW_WORK // (64 * np.unique(known.moduli).size)))
    starts, words = _strata(_importance(classes), words_max)
    shares = 1.0 / classes.moduli
    worth = np.add.reduceat(shares, starts)
    stratum = np.repeat(np.arange(starts.size), 64 * words)
    first = np.repeat(64 * (np.cumsum(words) - words), 64 * words)
    through = (np.arange(stratum.size) - first + 0.5) / (64 * words)[stratum]
    total = np.append(0.0, np.cumsum(shares))
    drawn = (
        np.searchsorted(total, total[starts][stratum] + worth[stratum] * through, side="right") - 1
    )
    drawn = np.clip(drawn, starts[stratum], np.append(starts[1:], shares.size)[stratum] - 1)
    residues, moduli = classes.residues[drawn], classes.moduli[drawn]
    times = residues + moduli * random.integers(0, np.maximum((HORIZON - residues) // moduli, 1))
    return times, moduli, np.repeat(worth / (64 * words), words)


def _importance(classes: Classes) -> Floats:
    return np.asarray(np.cbrt(1.0 / classes.moduli), np.float64)


def _strata(importance: Floats, words_max: int) -> tuple[Ints, Ints]:
    """Where strata begin, and the words of each: important classes have some for themselves, others
    share one."""
    words = importance * (words_max / importance.sum())
    alone = int(np.count_nonzero(words >= 1))  # classes come by modulus, the important ones first
    shared = np.floor(np.cumsum(words[alone:])).astype(np.int64)
    starts = np.append(
        np.arange(alone),
        alone + np.flatnonzero(np.append(True, np.diff(shared) > 0)[: shared.size]),
    )
    return starts, np.append(
        np.minimum(words[:alone], WORDS_PER_CLASS), np.ones(starts.size - alone)
    ).astype(np.int64)
