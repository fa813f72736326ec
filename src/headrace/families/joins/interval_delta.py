"""Intervals that come and go beside a large index that never changes.

Changes since the base was built are kept in three layers, so that each costs microseconds and answers stay exact:

- the *tail*: the latest changes, up to TAIL of them, scanned by every value; a removal is an interval that counts -1;
- the *fold*: older changes, two small indexes, of what was added and of what the base has lost;
- the base and the added each with one bit a place for what is `gone`: those are counted by their index and skipped
  when ids are written.

The tail is folded when it is full, in O(changes); once changes pass a SHARE of the base they are merged into a new
base, in O(n log n).  Amortised over the changes between two merges, either is some ten microseconds a change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from headrace.families.joins.interval_kernels import Bits, Ints, Ints32, Located, Values, fill
from headrace.families.joins.intervals import IntervalIndex, offsets_of

TAIL = 256
SHARE = 1 / 32
LEAST = 1_024  # changes before a merge, however small the base


@dataclass(frozen=True, slots=True)
class Layer:
    """An index and the bits of its places that are gone."""

    index: IntervalIndex
    gone: Bits

    @classmethod
    def whole(cls, index: IntervalIndex) -> Layer:
        return cls(index, np.zeros((len(index) + 7) // 8, np.uint8))

    def has(self, place: int) -> bool:
        return not self.gone[place >> 3] >> (place & 7) & 1

    def drop(self, place: int) -> None:
        self.gone[place >> 3] |= np.uint8(1 << (place & 7))

    def places(self, *, gone: bool) -> Ints:
        """Those that are gone, or those that stand."""
        return np.flatnonzero(np.unpackbits(self.gone, count=len(self.index), bitorder="little") == gone)


@dataclass(frozen=True, slots=True)
class Tail:
    """Intervals with a sign: 1 was added, -1 was removed from a layer."""

    ids: Ints32
    lo: Values
    hi: Values
    signs: Ints32


@dataclass(frozen=True, slots=True)
class Patched:
    """What stood at one moment: immutable, and sent to worker processes as it is."""

    base: Layer
    added: Layer
    lost: IntervalIndex  # of the base, as of the last fold
    tail: Tail

    def __len__(self) -> int:
        return len(self.base.index) + len(self.added.index) - len(self.lost) + int(self.tail.signs.sum())

    def count(self, values: Values) -> Ints32:
        """How many intervals each value stabs."""
        return self._counts(values, [layer.index.locate(values) for layer in (self.base, self.added)])

    def stab(self, values: Values) -> tuple[Ints, Ints32]:
        """Offsets and ids, as of `IntervalIndex.stab`."""
        layers = (self.base, self.added)
        located = [layer.index.locate(values) for layer in layers]
        offsets = offsets_of(self._counts(values, located))
        cursor, ids = offsets[:-1].copy(), np.empty(offsets[-1], np.int32)
        for layer, found in zip(layers, located, strict=True):
            fill(layer.index.windows, found, layer.gone, cursor, ids)
        fill_tail(values, self.tail.lo, self.tail.hi, self.tail.ids, self.tail.signs, cursor, ids)
        return offsets, ids

    def _counts(self, values: Values, located: list[Located]) -> Ints32:
        counts = -self.lost.count(values)
        for found in located:
            counts += found.begun - found.ended
        count_tail(values, self.tail.lo, self.tail.hi, self.tail.signs, counts)
        return counts

    def intervals(self) -> tuple[Ints32, Values, Values]:
        """Ids, lo, hi of those that stand, in no order."""
        return _joined(_standing(self.base), _standing(self.added), _added(self.tail))

    def merged(self) -> IntervalIndex:
        """A new base of what stands.  It reads nothing that changes: it may run in another thread or process."""
        return IntervalIndex.build(*self.intervals())


Standing = tuple[Ints32, Values, Values]


def _standing(layer: Layer) -> Standing:
    return layer.index.intervals(layer.places(gone=False))


def _added(tail: Tail) -> Standing:
    stands = tail.signs > 0
    return tail.ids[stands], tail.lo[stands], tail.hi[stands]


def _joined(*parts: Standing) -> Standing:
    ids, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ids, lo, hi


class DeltaIndex:
    """Intervals by id, each at most once; not thread-safe, what `view` gives is.

    With `merges` it merges by itself when that is due.  Without, the owner does, in the background if it likes:

        frozen = delta.begin_merge()        # changes from here on are kept in mind
        base = frozen.merged()              # anywhere
        delta.adopt(base)                   # and done again upon the new base
    """

    def __init__(self, base: IntervalIndex, *, merges: bool = True) -> None:
        self._merges = merges
        self._seen: Patched | None = None
        self._since: list[tuple[int, Values] | int] | None = None
        self._stand_on(base)

    def __len__(self) -> int:
        return self._size

    @property
    def is_due(self) -> bool:
        """Whether changes pass the share of the base from which on they are to be merged."""
        changes = len(self._added.index) + len(self._lost) + self._tail_size
        return changes > max(LEAST, SHARE * len(self._base.index))

    def add(self, id: int, lo: float, hi: float) -> None:
        """Ends are of the base's dtype: whole numbers for int64."""
        ends = np.array((lo, hi), self._ends.dtype)
        assert ends[0] == lo <= hi == ends[1] and not self._stands(id)
        self._note((id, ends))
        self._place[id] = ~self._tail_size
        self._push(id, ends, 1)
        self._size += 1
        self._settle()

    def remove(self, id: int) -> None:
        assert self._stands(id)
        self._note(id)
        self._size -= 1
        place = self._place.pop(id, None)
        if place is not None and place < 0:
            self._pull(~place)
        elif place is not None:
            self._drop(self._added, place)
        else:
            self._drop(self._base, self._base_place(id))
        self._settle()

    def view(self) -> Patched:
        """What stands now; later changes do not touch it."""
        if self._seen is None:
            base = Layer(self._base.index, self._base.gone.copy())
            added = Layer(self._added.index, self._added.gone.copy())
            self._seen = Patched(base, added, self._lost, self._tail())
        return self._seen

    def begin_merge(self) -> Patched:
        assert self._since is None
        self._since = []
        return self.view()

    def adopt(self, base: IntervalIndex) -> None:
        """Stand on what `merged` made of the view that `begin_merge` gave."""
        assert self._since is not None
        since, self._since = self._since, None
        self._stand_on(base)
        for change in since:
            if isinstance(change, tuple):
                self.add(change[0], *change[1].tolist())
            else:
                self.remove(change)

    def merge(self) -> None:
        self.adopt(self.begin_merge().merged())

    # -- layers -------------------------------------------------------------------------------------

    def _stand_on(self, base: IntervalIndex) -> None:
        ids, kind = base.windows.ids, base.windows.lo.dtype
        self._base, self._size = Layer.whole(base), len(base)
        self._by_id = np.argsort(ids)
        self._sorted_ids = ids[self._by_id]
        assert np.all(self._sorted_ids[1:] > self._sorted_ids[:-1])
        self._ids, self._signs = np.empty(TAIL, np.int32), np.empty(TAIL, np.int32)
        self._ends = np.empty((2, TAIL), kind)
        nothing = np.empty(0, np.int32), np.empty(0, kind), np.empty(0, kind)
        self._fold_to(IntervalIndex.build(*nothing), IntervalIndex.build(*nothing))

    def _fold_to(self, added: IntervalIndex, lost: IntervalIndex) -> None:
        self._added, self._lost = Layer.whole(added), lost
        self._place: dict[int, int] = dict(zip(added.windows.ids.tolist(), range(len(added)), strict=True))
        self._tail_size = 0
        self._seen = None

    def _settle(self) -> None:
        """After a change: merge, or fold."""
        self._seen = None
        if self._merges and self._since is None and self.is_due:
            self.merge()
        elif self._tail_size == TAIL:
            self._fold()

    def _fold(self) -> None:
        added = IntervalIndex.build(*_joined(_standing(self._added), _added(self._tail())))
        lost = self._base.index.intervals(self._base.places(gone=True))
        self._fold_to(added, IntervalIndex.build(*lost))

    def _tail(self) -> Tail:
        n = self._tail_size
        lo, hi = self._ends[:, :n].copy()
        return Tail(self._ids[:n].copy(), lo, hi, self._signs[:n].copy())

    def _push(self, id: int, ends: Values, sign: int) -> None:
        at = self._tail_size
        self._ids[at], self._ends[:, at], self._signs[at] = id, ends, sign
        self._tail_size += 1

    def _pull(self, at: int) -> None:
        """Out of the tail; the last one takes its place."""
        self._tail_size -= 1
        last = self._tail_size
        self._ids[at], self._ends[:, at], self._signs[at] = self._ids[last], self._ends[:, last], self._signs[last]
        if at != last and self._signs[at] > 0:
            self._place[int(self._ids[at])] = ~at

    def _drop(self, layer: Layer, place: int) -> None:
        windows = layer.index.windows
        layer.drop(place)
        self._push(int(windows.ids[place]), np.array((windows.lo[place], windows.hi[windows.last[place]])), -1)

    # -- ids ----------------------------------------------------------------------------------------

    def _stands(self, id: int) -> bool:
        if id in self._place:
            return True
        place = self._base_place(id)
        return place >= 0 and self._base.has(place)

    def _base_place(self, id: int) -> int:
        at = int(np.searchsorted(self._sorted_ids, np.int32(id)))
        return int(self._by_id[at]) if at < self._sorted_ids.size and self._sorted_ids[at] == id else -1

    def _note(self, change: tuple[int, Values] | int) -> None:
        if self._since is not None:
            self._since.append(change)


@numba.njit(cache=True, nogil=True)
def count_tail(values: Values, lo: Values, hi: Values, signs: Ints32, counts: Ints32) -> None:
    for i in range(values.size):
        value, total = values[i], 0
        for k in range(lo.size):
            total += signs[k] if lo[k] <= value <= hi[k] else 0
        counts[i] += total


@numba.njit(cache=True, nogil=True)
def fill_tail(
    values: Values, lo: Values, hi: Values, ids: Ints32, signs: Ints32, cursor: Ints, out: Ints32
) -> None:  # fmt: skip
    """Write those that were added at the cursor of each value they hold."""
    for i in range(values.size):
        value, to, held = values[i], cursor[i], False
        for k in range(lo.size):  # most values hold none, which is soon seen many at a time
            held |= (lo[k] <= value) & (value <= hi[k])
        for k in range(lo.size if held else 0):
            if signs[k] > 0 and lo[k] <= value <= hi[k]:
                out[to] = ids[k]
                to += 1
        cursor[i] = to
