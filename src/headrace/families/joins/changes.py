"""What has changed among hot groups and scattered intervals since an index last asked.

Only the outcome is told: whoever moved and came back, or came and left, is not mentioned.  So what is kept is where
every interval that was touched *was* when the index last asked, and of those that left since, who was known to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.families.joins.arrays import Ints
from headrace.families.joins.roll import ROOM, Roll, widened

SCATTERED = -1
ABSENT = -2
UNTOUCHED = -3

NOBODY: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Turnover:
    """Query ids.  One that is in both has another interval now: it leaves first."""

    left: Ints = field(default_factory=lambda: NOBODY)
    joined: Ints = field(default_factory=lambda: NOBODY)


@dataclass(frozen=True, slots=True)
class Changes:
    """Hot groups that are gone, that are new (with all their members), and the turnover of those that stayed."""

    gone: tuple[int, ...]
    new: tuple[int, ...]
    hot: dict[int, Turnover]
    scattered: Turnover


class Journal:
    """Where intervals were: the number of a hot group, SCATTERED or ABSENT.

    It takes memory for who stands now and who stood when last asked, however long nobody asks."""

    def __init__(self, roll: Roll) -> None:
        self._roll = roll
        self._was: Ints = np.full(ROOM, UNTOUCHED)
        self._touched: list[Ints] = []
        self._touches: list[int] = []
        self._noted = 0
        self._left: list[tuple[int, int]] = []
        self._known: set[int] = set()

    def touch(self, slot: int, was: int) -> None:
        """It moves, from where it was."""
        if slot >= self._was.size:
            self._was = widened(self._was, self._roll.room, UNTOUCHED)
        if self._was[slot] == UNTOUCHED:
            self._was[slot] = was
            self._touches.append(slot)
            self._note(1)

    def touch_many(self, slots: Ints, was: int) -> None:
        if self._was.size < self._roll.room:
            self._was = widened(self._was, self._roll.room, UNTOUCHED)
        slots = slots[self._was[slots] == UNTOUCHED]
        self._was[slots] = was
        self._touched.append(slots)
        self._note(slots.size)

    def leave(self, slot: int, was: int) -> None:
        """Its query is gone, and the slot may soon be another's."""
        first = int(self._was[slot])
        self._was[slot] = UNTOUCHED
        first = was if first == UNTOUCHED else first
        if first != ABSENT:
            self._left.append((first, int(self._roll.ids[slot])))

    def take(self, now: Ints, hot: set[int]) -> Changes:
        """What changed; `now` is the place of every slot, `hot` are the groups there are."""
        slots = self._slots()
        was, is_at = self._was[slots], now[slots]
        moved = was != is_at
        ids = self._roll.ids[slots[moved]]
        left = np.array(self._left, np.int64).reshape(-1, 2)
        left_from = np.concatenate((was[moved], left[:, 0]))
        leaving = _by_place(left_from, np.concatenate((ids, left[:, 1])))
        joining = _by_place(is_at[moved], ids)
        kept = hot & self._known & (leaving.keys() | joining.keys())
        changes = Changes(
            tuple(sorted(self._known - hot)),
            tuple(sorted(hot - self._known)),
            {g: Turnover(leaving.get(g, NOBODY), joining.get(g, NOBODY)) for g in sorted(kept)},
            Turnover(leaving.get(SCATTERED, NOBODY), joining.get(SCATTERED, NOBODY)),
        )
        self._was[slots] = UNTOUCHED
        self._touched, self._touches, self._noted, self._left, self._known = [], [], 0, [], set(hot)
        return changes

    def _slots(self) -> Ints:
        """Who was touched and still stands."""
        slots = np.unique(np.concatenate((NOBODY, *self._touched, np.array(self._touches, np.int64))))
        standing: Ints = slots[self._was[slots] != UNTOUCHED]
        return standing

    def _note(self, touched: int) -> None:
        """So many more; slots that were given out again are noted twice, which must not go on for ever."""
        self._noted += touched
        if self._noted > 2 * self._was.size:
            self._touched, self._touches = [self._slots()], []
            self._noted = self._touched[0].size


def _by_place(places: Ints, ids: Ints) -> dict[int, Any]:
    order = np.argsort(places, kind="stable")
    found, starts = np.unique(places[order], return_index=True)
    return dict(zip(found.tolist(), np.split(ids[order], starts[1:]), strict=True)) if found.size else {}
