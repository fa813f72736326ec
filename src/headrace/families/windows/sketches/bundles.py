"""Sketches of many groups at once: what a pane, a fragment of a tree or a window holds, and how
they merge.

`Registers` are HyperLogLog registers, `Points` sorted values with weights: all values, distinct
ones, or thinned ones. A bundle is never changed once made, so trees share the bundles of panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.sketches import hll_kernels, value_kernels
from headrace.families.windows.sketches.bias import Bias
from headrace.families.windows.sketches.hll_kernels import Bytes, Ints, Ints32
from headrace.families.windows.sketches.value_kernels import Floats

B = TypeVar("B", bound="Bundle")


class Bundle(Protocol):
    """Sketches of `groups`, which are ascending and different."""

    @property
    def groups(self) -> Ints32: ...

    @property
    def nbytes(self) -> int: ...

    def merge(self: B, others: Sequence[B]) -> B:
        """A bundle with the sketches of this one and of the others, merged group by group."""

    def seal(self: B) -> B:
        """As small as the stated error allows.  Once for what is merged later, no more."""

    def sizes(self, groups: Ints32) -> Ints:
        """How many values the sketches of these groups hold, where that has a limit; else 0."""


@dataclass(frozen=True, slots=True)
class Registers:
    """One line of registers a group."""

    groups: Ints32
    registers: Bytes

    @property
    def nbytes(self) -> int:
        return self.registers.nbytes

    def merge(self, others: Sequence[Registers]) -> Registers:
        if not others:
            return self
        groups, lines = together([b.groups for b in (self, *others)])
        out = np.zeros((groups.size, self.registers.shape[1]), np.uint8)
        for bundle, own in zip((self, *others), lines, strict=True):
            hll_kernels.fold_registers(bundle.registers, own, out)
        return Registers(groups, out)

    def seal(self) -> Registers:
        return self

    def sizes(self, groups: Ints32) -> Ints:
        return np.zeros(groups.size, np.int64)

    def distinct(self, groups: Ints32, bias: Bias) -> Ints:
        """Spark's estimate of each of these groups; 0 of one that is not here."""
        found = hll_kernels.estimates(self.registers, bias.threshold, bias.raw, bias.bias)
        return looked_up(found, self.groups, groups)


@dataclass(frozen=True, slots=True)
class Points:
    """Values of group i, ascending: `offsets[i]:offsets[i + 1]`.  `thin_to` is 0 where every value
    counts."""

    groups: Ints32
    offsets: Ints
    values: Ints
    weights: Ints
    is_set: bool = False
    thin_to: int = 0

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.weights.nbytes + self.offsets.nbytes

    def merge(self, others: Sequence[Points]) -> Points:
        if not others:
            return self
        every = (self, *others)
        groups, lines = together([b.groups for b in every])
        bases = np.cumsum([0, *(b.values.size for b in every)])
        runs = [b.offsets + base for b, base in zip(every, bases, strict=False)]
        values, weights, offsets = value_kernels.merge_runs(
            np.concatenate([b.values for b in every]),
            np.concatenate([b.weights for b in every]),
            np.concatenate([r[:-1] for r in runs]),
            np.concatenate([r[1:] for r in runs]),
            np.concatenate(lines),
            groups.size,
            self.is_set,
        )
        return Points(groups, offsets, values, weights, self.is_set, self.thin_to)

    def seal(self) -> Points:
        if not self.thin_to or not self.values.size or np.diff(self.offsets).max() <= self.thin_to:
            return self
        values, weights, offsets = value_kernels.thin(
            self.values, self.weights, self.offsets, self.thin_to
        )
        return Points(self.groups, offsets, values, weights, self.is_set, self.thin_to)

    def sizes(self, groups: Ints32) -> Ints:
        return looked_up(np.diff(self.offsets), self.groups, groups)

    def at_share(self, groups: Ints32, share: float) -> Ints:
        """The value at that share of the ranks."""
        return looked_up(value_kernels.at_share(*self._sorted, share), self.groups, groups)

    def around_share(self, groups: Ints32, share: float) -> tuple[Ints, Ints, Floats]:
        """The values below and above that share of the positions, and how far past the first it
        is."""
        below, above, past = value_kernels.around_share(*self._sorted, share)
        return (
            looked_up(below, self.groups, groups),
            looked_up(above, self.groups, groups),
            looked_up(past, self.groups, groups),
        )

    def most_frequent(self, groups: Ints32) -> Ints:
        return looked_up(value_kernels.most_frequent(*self._sorted), self.groups, groups)

    @property
    def _sorted(self) -> tuple[Ints, Ints, Ints]:
        return self.values, self.weights, self.offsets


def together(groups: Sequence[Ints32]) -> tuple[Ints32, list[Ints]]:
    """All groups of several bundles, and where among them those of each are."""
    first = groups[0]
    if all(g.size == first.size and np.array_equal(g, first) for g in groups[1:]):
        same = np.arange(first.size)
        return first, [same] * len(groups)
    found = np.unique(np.concatenate(groups))
    return found, [np.searchsorted(found, own) for own in groups]


T = TypeVar("T", bound=np.generic)


def looked_up(found: NDArray[T], groups: Ints32, wanted: Ints32) -> NDArray[T]:
    """What was found of the groups, for those wanted; 0 for one that is not among them."""
    values = np.zeros(wanted.size, found.dtype)
    if groups.size:
        at = np.minimum(np.searchsorted(groups, wanted), groups.size - 1)
        here = groups[at] == wanted
        values[here] = found[at[here]]
    return values
