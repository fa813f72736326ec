"""In which order slots are rolled up.  Pure.

Slots with the same predicate are one rollup: its finest rows holds the rows the predicate selects,
at the finest keys; each slot is rolled from the coarsest one before it that still has all its keys.
So the rows of a round are looked at once for each predicate, not once for each group-by.  A slot of
cells is a rollup of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import Arrangement, Measure, arrange, places_in
from headrace.families.windows.plan import Slot
from headrace.families.windows.rings.arrays import Ints
from headrace.sql.tree import Expr


@dataclass(frozen=True, slots=True)
class RollupStep:
    """A slot, the columns its rings want, and what it is rolled from: a place in the rollup (the
    finest rows is 0), and where among the columns there its own are."""

    slot: Slot
    arrangement: Arrangement
    parent: int | None
    places: tuple[Ints, Ints] | None = None


@dataclass(frozen=True, slots=True)
class PredicateRollup:
    """The slots of one predicate on one cut.  No finest rows when there is one slot only."""

    cut: int
    where: Expr | None
    finest: Arrangement | None
    steps: tuple[RollupStep, ...]


def plan_rollups(cuts: Cuts, wanted: Mapping[Slot, tuple[Measure, ...]]) -> list[PredicateRollup]:
    """Rollups for the slots these cuts can tell; the others are left out."""
    together: dict[tuple[int, Expr | None, Slot | None], list[Slot]] = {}
    for slot in wanted:
        cut = cuts.find(slot)
        if cut is not None:
            together.setdefault((cut, slot.where, slot if slot.cells else None), []).append(slot)
    return [_rollup(cut, where, slots, wanted) for (cut, where, _), slots in together.items()]


def _rollup(
    cut: int, where: Expr | None, slots: list[Slot], wanted: Mapping[Slot, tuple[Measure, ...]]
) -> PredicateRollup:
    if len(slots) == 1:
        return PredicateRollup(
            cut, where, None, (RollupStep(slots[0], arrange(wanted[slots[0]]), None),)
        )
    finest = arrange(tuple(dict.fromkeys(m for slot in slots for m in wanted[slot])))
    steps: list[RollupStep] = []
    for slot in sorted(slots, key=lambda s: -len(s.keys)):
        fits = [i for i, t in enumerate(steps, 1) if _holds(t, slot, wanted[slot])]
        parent = min(fits, key=lambda i: len(steps[i - 1].slot.keys), default=0)
        own = arrange(_passed_on(slot, slots, wanted))
        steps.append(
            RollupStep(
                slot,
                own,
                parent,
                places_in(own, steps[parent - 1].arrangement if parent else finest),
            )
        )
    return PredicateRollup(cut, where, finest, tuple(steps))


def _holds(step: RollupStep, slot: Slot, measures: tuple[Measure, ...]) -> bool:
    return set(slot.keys) <= set(step.slot.keys) and all(
        m in step.arrangement.ints for m in measures
    )


def _passed_on(
    slot: Slot, slots: list[Slot], wanted: Mapping[Slot, tuple[Measure, ...]]
) -> tuple[Measure, ...]:
    """What the slot wants, and what slots that can be rolled from it want."""
    below = [s for s in slots if set(s.keys) < set(slot.keys)]
    return tuple(dict.fromkeys(m for s in (slot, *below) for m in wanted[s]))
