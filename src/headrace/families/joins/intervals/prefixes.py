"""Stabbed intervals as prefixes of stabbing groups: one record for thousands of queries.

Intervals of a group share a point p.  A value a ≤ p stabs exactly those with lo ≤ a,
a value a > p exactly those with hi ≥ a: a prefix of the group by rising `lo`, or by falling `hi`.
A record says which group, which of the two orders and how long the prefix is, found by one binary
search however many it holds.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007, section 4.2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.families.joins.intervals.index import offsets_of
from headrace.families.joins.stabbing.partition import canonical
from headrace.kernel_cache import numba
from headrace.relations.arrays import Ints, Ints32, Numbers

BATCH = 4_096  # values that stay in the cache while groups go by


class Groups(NamedTuple):
    """The intervals of group g are at `at[g]` … `at[g + 1] - 1` of either order."""

    points: Numbers
    at: Ints32
    lo: Numbers
    by_lo: Ints32  # ids, by rising lo
    hi: Numbers
    by_hi: Ints32  # ids, by falling hi


class Records(NamedTuple):
    """By value, then by group; sizes are above zero."""

    value: Ints32  # its number in the batch
    group: Ints32
    is_right: NDArray[np.bool_]  # right of the point: the prefix is by falling hi
    size: Ints32


@dataclass(frozen=True, slots=True)
class PrefixIndex:
    """Stabbing groups, never changed; 24 bytes an interval."""

    groups: Groups

    @classmethod
    def build(cls, ids: Ints32, lo: Numbers, hi: Numbers) -> PrefixIndex:
        """In the fewest groups there can be."""
        found = canonical(lo, hi)
        return cls.of_groups(ids, lo, hi, found.group, found.lo)

    @classmethod
    def of_groups(
        cls, ids: Ints32, lo: Numbers, hi: Numbers, group: Ints32, points: Numbers
    ) -> PrefixIndex:
        """In the groups given by number, each of which has a member: `lo ≤ points[group] ≤ hi`."""
        assert lo.dtype == hi.dtype == points.dtype and lo.size == hi.size == ids.size == group.size
        assert ids.dtype == np.int32 and np.all((lo <= points[group]) & (points[group] <= hi))
        sizes = np.bincount(group, minlength=points.size)
        assert sizes.size == points.size and sizes.all()
        by_lo = _by_group(np.argsort(lo), group)
        by_hi = _by_group(np.argsort(hi)[::-1], group)
        at = np.zeros(points.size + 1, np.int32)
        np.cumsum(sizes, out=at[1:])
        return cls(Groups(points, at, lo[by_lo], ids[by_lo], hi[by_hi], ids[by_hi]))

    def __len__(self) -> int:
        return int(self.groups.lo.size)

    def count(self, values: Numbers) -> Ints:
        """How many intervals each value stabs."""
        found = self.records(values)
        return np.bincount(found.value, found.size, values.size).astype(np.int64)

    def records(self, values: Numbers) -> Records:
        """Which prefixes each value stabs: O(groups × log group size) a value."""
        assert values.dtype == self.groups.lo.dtype
        counts = np.zeros(values.size, np.int32)
        touch_groups(values, self.groups, counts)
        offsets = offsets_of(counts)
        value, group, size = (np.empty(offsets[-1], np.int32) for _ in range(3))
        found = Records(value, group, np.empty(offsets[-1], np.bool_), size)
        find_prefixes(values, self.groups, offsets[:-1].copy(), found)
        return found

    def expand(self, records: Records) -> tuple[Ints, Ints32]:
        """Offsets and ids: record i holds `ids[offsets[i]:offsets[i + 1]]`."""
        offsets = offsets_of(records.size)
        ids = np.empty(offsets[-1], np.int32)
        expand_prefixes(records, self.groups, offsets, ids)
        return offsets, ids


def _by_group(order: Ints, group: Ints32) -> Ints:
    """The order within each group, groups one after the other."""
    return order[np.argsort(group[order], kind="stable")]


@numba.njit(cache=True, nogil=True)
def touch_groups(values: Numbers, groups: Groups, counts: Ints32) -> None:
    """How many groups have an interval that the value stabs: those whose hull holds it."""
    at = groups.at
    for first in range(0, values.size, BATCH):
        for g in range(groups.points.size):
            lo, hi = groups.lo[at[g]], groups.hi[at[g]]
            for i in range(first, min(first + BATCH, values.size)):
                counts[i] += (lo <= values[i]) & (values[i] <= hi)


@numba.njit(cache=True, nogil=True)
def find_prefixes(values: Numbers, groups: Groups, cursor: Ints, found: Records) -> None:
    at = groups.at
    for first in range(0, values.size, BATCH):
        for g in range(groups.points.size):
            lo, hi, point = (
                groups.lo[at[g] : at[g + 1]],
                groups.hi[at[g] : at[g + 1]],
                groups.points[g],
            )
            for i in range(first, min(first + BATCH, values.size)):
                value = values[i]
                if lo[0] <= value <= hi[0]:
                    is_right = value > point
                    to = cursor[i]
                    cursor[i] += 1
                    found.value[to], found.group[to], found.is_right[to] = i, g, is_right
                    found.size[to] = (
                        falling_until(hi, value) if is_right else rising_until(lo, value)
                    )


@numba.njit(cache=True, nogil=True)
def rising_until(lo: Numbers, value: float) -> int:
    """How many are at or below the value; one is."""
    base, left = 0, lo.size
    while left > 1:
        half = left >> 1
        base = base + half if lo[base + half] <= value else base
        left -= half
    return base + 1


@numba.njit(cache=True, nogil=True)
def falling_until(hi: Numbers, value: float) -> int:
    """How many are at or above the value; one is."""
    base, left = 0, hi.size
    while left > 1:
        half = left >> 1
        base = base + half if hi[base + half] >= value else base
        left -= half
    return base + 1


@numba.njit(cache=True, nogil=True)
def expand_prefixes(records: Records, groups: Groups, offsets: Ints, ids: Ints32) -> None:
    for i in range(records.size.size):
        order = groups.by_hi if records.is_right[i] else groups.by_lo
        base, to = groups.at[records.group[i]], offsets[i]
        for k in range(records.size[i]):
            ids[to + k] = order[base + k]
