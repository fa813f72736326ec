"""EXPLAIN of sketches: which operator keeps them, and what each would cost.  Pure, stable text."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import Share, Slot
from headrace.families.windows.sketches.choice import FOREST, TABLE, Costs, costs_of
from headrace.families.windows.sketches.weighing import registers_bytes
from headrace.families.windows.weave.edges import Shape
from headrace.sql.emit import emit

LINES_MAX = 10
BYTES_A_VALUE = 16


def sketch_lines(shares: Iterable[Share], of: Share | None = None) -> list[str]:
    """A line for each sketch store, those with most windows first; only those of one query, if it
    is given."""
    sketch_stores: dict[tuple[Slot, Measure], dict[Shape, None]] = {}
    for share in shares:
        for measure in (m for m in share.measures if m.is_sketch):
            shape = Shape(share.window.range_us, share.window.slide_us, share.window.offset_us)
            sketch_stores.setdefault((share.slot, measure), {})[shape] = None
    if of is not None:
        sketch_stores = {
            (slot, m): shapes
            for (slot, m), shapes in sketch_stores.items()
            if slot == of.slot and m in of.measures
        }
    ordered = sorted(sketch_stores.items(), key=lambda item: (-len(item[1]), _name(item[0][1])))
    lines = [_line(measure, tuple(sorted(shapes))) for (_, measure), shapes in ordered[:LINES_MAX]]
    rest = len(ordered) - LINES_MAX
    return lines if rest <= 0 else [*lines, f"… and {rest:,} more"]


def _line(measure: Measure, shapes: tuple[Shape, ...]) -> str:
    costs = costs_of(shapes, measure.kind)
    windows = "1 window" if len(shapes) == 1 else f"{len(shapes):,} windows"
    return (
        f"{_name(measure)} ({_error(measure)}): {windows} in {_operator(costs)}; merges/s a group: "
        f"woven {costs.forest:.3g} ({len(costs.trees):,} {'tree' if len(costs.trees) == 1 else 'trees'}), one tree "
        f"{costs.tree:.3g}, dyadic table {costs.table:.3g}; {_memory(measure, shapes, costs)}"
    )


def _memory(measure: Measure, shapes: tuple[Shape, ...], costs: Costs) -> str:
    """Registers take what they take; values as many as there are."""
    if measure.kind != "hll":
        return f"{BYTES_A_VALUE} bytes a value"
    return f"at most {registers_bytes(measure, shapes, costs):,} bytes a group"


def _operator(costs: Costs) -> str:
    if costs.best == FOREST:
        return f"{len(costs.trees):,} trees"
    return "a dyadic table" if costs.best == TABLE else costs.best


def _error(measure: Measure) -> str:
    if measure.kind == "hll":
        return f"standard error {1.04 / 2 ** (measure.params[0] / 2):.1%}"
    return f"ranks within 1/{measure.params[0]:,}" if measure.kind == "points" else "exact"


def _name(measure: Measure) -> str:
    assert measure.arg is not None
    return f"{measure.kind} {emit(measure.arg)}"
