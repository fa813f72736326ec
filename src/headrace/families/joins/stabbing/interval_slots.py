"""Slots of standing intervals: queries by id, intervals by slot.

A slot is a small whole number that belongs to an interval while it stands, so that whatever else is
known of it is kept in arrays.  Slots of those that left are given out again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.relations.arrays import Ints, Numbers

ROOM = 64


class IntervalSlots:
    """Closed intervals [lo, hi] of float64 or int64, each of one query."""

    def __init__(self, kind: Any = np.float64) -> None:
        self.kind = np.dtype(kind)
        assert self.kind in (np.float64, np.int64), f"intervals of {self.kind}"
        self.ids: Ints = np.empty(ROOM, np.int64)
        self.lo: Numbers = np.empty(ROOM, self.kind)
        self.hi: Numbers = np.empty(ROOM, self.kind)
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._given = 0

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, query_id: int) -> bool:
        return query_id in self._slots

    @property
    def room(self) -> int:
        """How long an array by slot has to be: all slots are below this."""
        return self.ids.size

    def slot_of(self, query_id: int) -> int:
        return self._slots[query_id]

    def add(self, query_id: int, lo: float, hi: float) -> int:
        """The slot of a new interval."""
        assert lo <= hi, f"interval [{lo}, {hi}] of query {query_id}"
        assert query_id not in self._slots, f"query {query_id} has an interval"
        slot = self._free.pop() if self._free else self._next(1)
        self.ids[slot], self.lo[slot], self.hi[slot] = query_id, lo, hi
        assert self.lo[slot].item() == lo and self.hi[slot].item() == hi, (
            f"[{lo}, {hi}] is not {self.kind}"
        )
        self._slots[query_id] = slot
        return slot

    def add_many(self, ids: Ints, lo: Numbers, hi: Numbers) -> Ints:
        """Give each interval a slot, used ones first; the slots."""
        assert lo.dtype == hi.dtype == self.kind, (
            f"intervals of {lo.dtype} and {hi.dtype}, not {self.kind}"
        )
        assert np.all(lo <= hi), "an interval that ends before it begins"
        reused = self._free[max(0, len(self._free) - ids.size) :]
        del self._free[len(self._free) - len(reused) :]
        first = self._next(ids.size - len(reused))
        slots = np.concatenate((np.array(reused, np.int64), np.arange(first, self._given)))
        self.ids[slots], self.lo[slots], self.hi[slots] = ids, lo, hi
        before = len(self._slots)
        self._slots.update(zip(ids.tolist(), slots.tolist(), strict=True))
        assert len(self._slots) == before + ids.size, "a query has an interval"
        return slots

    def remove(self, query_id: int) -> int:
        """Free the slot of a query's interval; the slot that it had."""
        slot = self._slots.pop(query_id)
        self._free.append(slot)
        return slot

    def _next(self, slots: int) -> int:
        """The first of so many new slots."""
        first = self._given
        self._given += slots
        if self._given > self.room:
            room = max(2 * self.room, self._given)
            self.ids, self.lo, self.hi = (
                widened(column, room) for column in (self.ids, self.lo, self.hi)
            )
        return first


def widened(column: Any, room: int, fill: int = 0) -> Any:
    """The column with room for more; new places hold `fill`."""
    wider = np.full(room, fill, column.dtype)
    wider[: column.size] = column
    return wider
