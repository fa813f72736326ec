"""The groups of one stream as numbers: of each group-by, and of each slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.families.windows.plan import Slot
from headrace.families.windows.rollup.groups import Groups
from headrace.sql.tree import Expr

Ints = NDArray[np.int64]


@dataclass(slots=True)
class KeySpace:
    """Numbers of keys, kept from round to round: by what Spark groups by, and by slot."""

    cuts: dict[tuple[Expr, ...], Groups]
    slots: dict[Slot, Groups]
    types: dict[Expr, pa.DataType]

    @staticmethod
    def empty() -> KeySpace:
        return KeySpace({}, {}, {})

    def of_cut(self, keys: tuple[Expr, ...]) -> Groups:
        return self.cuts.setdefault(keys, Groups(keys))

    def of_slot(self, slot: Slot) -> Groups:
        return self.slots.setdefault(slot, Groups(slot.keys))

    @property
    def nbytes(self) -> int:
        return sum(groups.nbytes for groups in (*self.cuts.values(), *self.slots.values()))

    def keep(self, slot: Slot, kept: Ints) -> Ints:
        """Number only these groups of a slot from now on; in their new order, what they were
        called.

        Keys of cuts only come: they are numbered again as they are met."""
        values = self.of_slot(slot).arrays([self.types[k] for k in slot.keys])
        self.forget(slot)
        numbers = self.of_slot(slot).encode([v.take(pa.array(kept)) for v in values], kept.size)
        order = np.empty(kept.size, np.int64)
        order[numbers] = kept
        self.cuts.clear()
        return order

    def forget(self, slot: Slot) -> None:
        gone = self.slots.pop(slot, None)
        if gone is not None:
            for groups in (*self.cuts.values(), *self.slots.values()):
                groups.forget(gone)
