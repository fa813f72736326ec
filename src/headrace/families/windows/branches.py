"""In which order slots are rolled up.  Pure.

Slots with the same predicate are one branch: its trunk holds the rows the predicate selects, at the
finest keys; each slot is rolled from the coarsest one before it that still has all its keys.  So
the rows of a round are looked at once for each predicate, not once for each group-by.  A slot of
cells is a branch of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.families.windows.measures import Arrangement, Measure, arrange, places_in
from headrace.families.windows.plan import Cuts, Slot
from headrace.families.windows.ring_kernels import Ints
from headrace.sql.tree import Expr


@dataclass(frozen=True, slots=True)
class Twig:
    """A slot, the columns its rings want, and what it is rolled from: a place in the branch (the
    trunk is 0), and where among the columns there its own are."""

    slot: Slot
    arrangement: Arrangement
    parent: int | None
    places: tuple[Ints, Ints] | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """The slots of one predicate on one cut.  No trunk when there is one slot only."""

    cut: int
    where: Expr | None
    trunk: Arrangement | None
    twigs: tuple[Twig, ...]


def plan_branches(cuts: Cuts, wanted: Mapping[Slot, tuple[Measure, ...]]) -> list[Branch]:
    """Branches for the slots these cuts can tell; the others are left out."""
    together: dict[tuple[int, Expr | None, Slot | None], list[Slot]] = {}
    for slot in wanted:
        cut = cuts.find(slot)
        if cut is not None:
            together.setdefault((cut, slot.where, slot if slot.cells else None), []).append(slot)
    return [_branch(cut, where, slots, wanted) for (cut, where, _), slots in together.items()]


def _branch(
    cut: int, where: Expr | None, slots: list[Slot], wanted: Mapping[Slot, tuple[Measure, ...]]
) -> Branch:
    if len(slots) == 1:
        return Branch(cut, where, None, (Twig(slots[0], arrange(wanted[slots[0]]), None),))
    trunk = arrange(tuple(dict.fromkeys(m for slot in slots for m in wanted[slot])))
    twigs: list[Twig] = []
    for slot in sorted(slots, key=lambda s: -len(s.keys)):
        fits = [i for i, t in enumerate(twigs, 1) if _holds(t, slot, wanted[slot])]
        parent = min(fits, key=lambda i: len(twigs[i - 1].slot.keys), default=0)
        own = arrange(_passed_on(slot, slots, wanted))
        twigs.append(
            Twig(
                slot,
                own,
                parent,
                places_in(own, twigs[parent - 1].arrangement if parent else trunk),
            )
        )
    return Branch(cut, where, trunk, tuple(twigs))


def _holds(twig: Twig, slot: Slot, measures: tuple[Measure, ...]) -> bool:
    return set(slot.keys) <= set(twig.slot.keys) and all(
        m in twig.arrangement.ints for m in measures
    )


def _passed_on(
    slot: Slot, slots: list[Slot], wanted: Mapping[Slot, tuple[Measure, ...]]
) -> tuple[Measure, ...]:
    """What the slot wants, and what slots that can be rolled from it want."""
    below = [s for s in slots if set(s.keys) < set(slot.keys)]
    return tuple(dict.fromkeys(m for s in (slot, *below) for m in wanted[s]))
