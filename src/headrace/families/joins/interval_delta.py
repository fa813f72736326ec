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

import numpy as np

from headrace.families.joins.arrays import Numbers
from headrace.families.joins.interval_patches import Layer, Patched, Tail, joined, latest, standing
from headrace.families.joins.intervals import IntervalIndex

TAIL = 256
SHARE = 1 / 32
LEAST = 1_024  # changes before a merge, however small the base


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
        self._since: list[tuple[int, Numbers] | int] | None = None
        self._stand_on(base)

    def __len__(self) -> int:
        return self._size

    @property
    def is_due(self) -> bool:
        """Whether changes pass the share of the base from which on they are to be merged."""
        changes = len(self._added.index) + len(self._lost) + self._tail_size
        return changes > max(LEAST, SHARE * len(self._base.index))

    def add(self, id: int, lo: float, hi: float) -> None:
        """Numbers are of the base's dtype: whole numbers for int64."""
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
        added = IntervalIndex.build(*joined(standing(self._added), latest(self._tail())))
        lost = self._base.index.intervals(self._base.places(gone=True))
        self._fold_to(added, IntervalIndex.build(*lost))

    def _tail(self) -> Tail:
        n = self._tail_size
        lo, hi = self._ends[:, :n].copy()
        return Tail(self._ids[:n].copy(), lo, hi, self._signs[:n].copy())

    def _push(self, id: int, ends: Numbers, sign: int) -> None:
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

    def _note(self, change: tuple[int, Numbers] | int) -> None:
        if self._since is not None:
            self._since.append(change)
