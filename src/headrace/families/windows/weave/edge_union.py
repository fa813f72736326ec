"""How dense a union of residue classes is: counted where tractable, whatever the least common
multiple.

Counting is exact and in Python's integers.  Classes on coprime moduli are independent (Chinese
remainders), so connected parts are counted apart and their complements multiplied.  Within a part,
times are split by their rest modulo a factor p of some moduli, x = p·y + b: a class whose modulus p
divides is in one branch b only, the others in all branches; and branches with no class of their own
are as dense as the others alone.  Small periods are counted as flags.  Deciding whether a union
covers everything is NP-hard, so the work is bounded; beyond the bound follows an estimate by Karp
and Luby's union sampling, with a fixed seed and its standard error.

R. M. Karp, M. Luby, "Monte-Carlo Algorithms for Enumeration and Reliability Problems", FOCS 1983.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from headrace.families.windows.weave.edge_kernels import count_met

WORK_MAX, WORK_MIN = 50_000, 500
FLAGS_MAX = 1 << 22
FLAGS_PER_CLASS = 1 << 10
MODULI_MAX = 1 << 14
REFINE_MAX = 1 << 20
PERIOD_BITS_MAX = 1 << 18
SAMPLES_MAX, SAMPLES_MIN = 1 << 14, 1 << 8
SAMPLE_WORK = 1 << 26
HORIZON = 1 << 62
SEED = 20111024

_PRIMES = tuple(p for p in range(2, 1000) if all(p % d for d in range(2, int(p**0.5) + 1)))
_PRIME_BELOW = 1009**2


class EdgeClass(NamedTuple):
    """The times ≡ residue (mod modulus)."""

    residue: int
    modulus: int


class Density(NamedTuple):
    """Of all times, how many: as a float, as a fraction where that has a usable size, with its
    standard error."""

    rate: float
    fraction: Fraction | None = None
    error: float = 0.0


class _BeyondError(Exception):
    """Counting would take more work than allowed."""


def density(classes: Collection[EdgeClass], effort: float = 1.0) -> Density:
    """The share of all times that lie in some class; `effort` is the share of the usual work that
    may be spent."""
    if not classes:
        return Density(0.0, Fraction(0))
    period = bounded_lcm({c.modulus for c in classes}, FLAGS_MAX)
    try:
        if period and _flags_pay(period, len(classes)):
            parts = [(_flagged(classes, period), period)]
        else:
            kept = without_contained(classes)
            counter = _Counter(
                factored({c.modulus for c in kept}), max(WORK_MIN, int(effort * WORK_MAX))
            )
            parts = [counter.count(part) for part in counter.parts(kept)]
    except _BeyondError:
        return estimate(classes, effort)
    if sum(count[1].bit_length() for count in parts) > PERIOD_BITS_MAX:
        return Density(-math.expm1(sum(math.log1p(-count / period) for count, period in parts)))
    fraction = Fraction(*_either(parts))
    return Density(float(fraction), fraction)


def _flags_pay(period: int, classes: int) -> bool:
    return period <= FLAGS_PER_CLASS * classes


def without_contained(classes: Iterable[EdgeClass]) -> list[EdgeClass]:
    """Classes that lie in no other one, by modulus and residue."""
    residues: dict[int, set[int]] = {}
    for residue, modulus in classes:
        residues.setdefault(modulus, set()).add(residue)
    if len(residues) > MODULI_MAX:
        raise _BeyondError
    kept: dict[int, set[int]] = {}
    moduli = sorted(residues)
    column = np.array(moduli)
    for n, modulus in enumerate(moduli):
        within = [moduli[d] for d in np.flatnonzero(modulus % column[:n] == 0)]
        free = [a for a in residues[modulus] if not any(a % d in kept[d] for d in within)]
        kept[modulus] = set(free)
    return [EdgeClass(a, m) for m, found in kept.items() for a in sorted(found)]


def factored(numbers: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Each number's factors out of one base of pairwise coprime ones; primes, as far as they are
    small."""
    small: dict[int, tuple[int, ...]] = {}
    rest: dict[int, int] = {}
    for n in numbers:
        left = n
        small[n] = tuple(p for p in _PRIMES if n % p == 0)
        for p in small[n]:
            while left % p == 0:
                left //= p
        rest[n] = left
    large = {n for n in rest.values() if n >= _PRIME_BELOW}
    primes = set(rest.values()) - large - {1}
    if len(large) * (len(large) + len(primes)) > REFINE_MAX:
        raise _BeyondError
    base = _refined(set(primes), large) if large else primes
    split = (
        {n: tuple(b for b in base if n % b == 0) for n in large}
        | {n: (n,) for n in primes}
        | {1: ()}
    )
    return {n: (*small[n], *split[rest[n]]) for n in small}


def _refined(base: set[int], large: set[int]) -> set[int]:
    """`base` with what the large numbers add, split until no two have a factor in common."""
    waiting = sorted(large)
    while waiting:
        n = waiting.pop()
        for b in base if n > 1 else ():
            g = math.gcd(n, b)
            if g > 1:
                base.remove(b)
                waiting += [g, n // g, b // g]
                break
        else:
            base |= {n} - {1}
    return base


def _either(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Independent parts: what is in none of them is a product.  Products by halves, as the numbers
    may be long."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    (a, p), (b, q) = _either(parts[:half]), _either(parts[half:])
    return p * q - (p - a) * (q - b), p * q


class _Counter:
    """Counts (edges, period) of classes; every class looked at is a step of work."""

    def __init__(self, factors: dict[int, tuple[int, ...]], work: int) -> None:
        self._factors = factors
        self._work = work
        self._known: dict[tuple[EdgeClass, ...], tuple[int, int]] = {}

    def count(self, classes: Sequence[EdgeClass]) -> tuple[int, int]:
        self._work -= len(classes)
        if self._work < 0:
            raise _BeyondError
        moduli = {c.modulus for c in classes}
        if 1 in moduli:
            return 1, 1
        if len(moduli) == 1:
            return len(classes), classes[0].modulus
        shift = classes[-1].residue  # equal up to a shift of time is equally dense
        key = tuple(sorted(EdgeClass((a - shift) % m, m) for a, m in classes))
        if key not in self._known:
            parts = self.parts(without_contained(key))
            self._known[key] = _either([self._count_part(part) for part in parts])
        return self._known[key]

    def parts(self, classes: Sequence[EdgeClass]) -> list[list[EdgeClass]]:
        """Classes whose moduli are connected by common factors."""
        of_factor: dict[int, int] = {}
        members: dict[int, list[EdgeClass]] = {}
        for n, c in enumerate(classes):
            factors = self._factors[c.modulus]
            joined = sorted({of_factor[p] for p in factors if p in of_factor} - {n})
            members[n] = [c]
            for other in joined:
                members[n] += members.pop(other)
            of_factor |= dict.fromkeys(factors, n)
            if joined:
                of_factor = {p: n if at in joined else at for p, at in of_factor.items()}
        return list(members.values())

    def _count_part(self, classes: Sequence[EdgeClass]) -> tuple[int, int]:
        if len({c.modulus for c in classes}) == 1:
            return len(classes), classes[0].modulus
        if len(classes) == 2:
            return _count_two(*classes)
        period = bounded_lcm({c.modulus for c in classes}, FLAGS_MAX)
        if period and _flags_pay(period, len(classes)):
            self._work -= period >> 10
            return _flagged(classes, period), period
        uses: dict[int, int] = {}
        for c in classes:
            for p in self._factors[c.modulus]:
                uses[p] = uses.get(p, 0) + 1
        return self._split(classes, max(uses, key=lambda p: (uses[p], p)))

    def _split(self, classes: Sequence[EdgeClass], p: int) -> tuple[int, int]:
        others = [c for c in classes if c.modulus % p]
        branches: dict[int, list[EdgeClass]] = {}
        for a, m in classes:
            if m % p == 0:
                branches.setdefault(a % p, []).append(EdgeClass(a // p, m // p))
                self._factors.setdefault(
                    m // p, tuple(q for q in self._factors[m] if m // p % q == 0)
                )
        inverse = {c.modulus: pow(p, -1, c.modulus) for c in others}
        counts = [(p - len(branches), self.count(others))] if others else []
        for b, own in branches.items():
            moved = [EdgeClass((a - b) * inverse[m] % m, m) for a, m in others]
            counts.append((1, self.count(moved + own)))
        period = math.lcm(*(q for _, (_, q) in counts))
        return sum(times * n * (period // q) for times, (n, q) in counts), period * p


def bounded_lcm(numbers: Iterable[int], most: int) -> int:
    """The least common multiple, or 0 where it is above `most`: the long ones are never
    computed."""
    period = 1
    for n in numbers:
        period = math.lcm(period, n)
        if period > most:
            return 0
    return period


def _count_two(x: EdgeClass, y: EdgeClass) -> tuple[int, int]:
    common = math.gcd(x.modulus, y.modulus)
    period = x.modulus // common * y.modulus
    return (x.modulus + y.modulus) // common - ((x.residue - y.residue) % common == 0), period


def _flagged(classes: Iterable[EdgeClass], period: int) -> int:
    flags = np.zeros(period, np.bool_)
    for residue, modulus in classes:
        flags[residue::modulus] = True
    return int(np.count_nonzero(flags))


def estimate(classes: Iterable[EdgeClass], effort: float = 1.0) -> Density:
    """The densest modulus counted; of the others, what lies outside of it, by Karp and Luby.

    A class is drawn by its density and a time from it; outside, it counts as one over the number of
    classes it is in. Times are drawn up to 2⁶²; where two moduli multiply to more, they hardly ever
    meet, drawn or not.
    """
    ordered = sorted(set(classes), key=lambda c: (c.modulus, c.residue))
    residues, moduli = (np.array(column) for column in zip(*ordered, strict=True))
    distinct, starts, counts = np.unique(moduli, return_index=True, return_counts=True)
    densest = int(np.argmax(counts / distinct))
    within = slice(starts[densest], starts[densest] + counts[densest])
    weights = 1.0 / moduli
    counted, weights[within] = float(weights[within].sum()), 0.0
    if distinct.size == 1:
        return Density(counted)
    samples = max(SAMPLES_MIN, min(SAMPLES_MAX, int(effort * SAMPLE_WORK) // distinct.size))
    random = np.random.default_rng(SEED)
    drawn = random.choice(len(ordered), samples, p=weights / weights.sum())
    times = residues[drawn] + moduli[drawn] * random.integers(
        0, (HORIZON - residues[drawn]) // moduli[drawn]
    )
    met = count_met(times, distinct, np.append(starts, moduli.size), residues)
    outside = ~np.isin(times % distinct[densest], residues[within])
    shares = weights.sum() * outside / met
    error = float(shares.std() / math.sqrt(samples))
    return Density(min(1.0, counted + float(shares.mean())), None, max(error, math.ulp(1.0)))
