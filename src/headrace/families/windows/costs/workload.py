"""What a plan makes the engine do in a round, counted.  Pure.

A `Workload` is the plan as arrays; a `Flow` is what is known of the stream: how many rows a round
brings, how far the watermark goes, into how many cells Spark's aggregate puts the rows, how many
groups a group-by has.  From both follow the *quantities* of a round: rows × predicates, cells ×
columns, window ends × groups.  `costs/cost.py` prices them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.aggregation.aggregate import all_keys, grouping
from headrace.families.windows.aggregation.columns import part_names
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import COLUMNS, Measure
from headrace.families.windows.plan import RingPlan, Share, Slot
from headrace.sql.emit import emit
from headrace.sql.tree import Expr

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

KEY_GROUPS = 30  # values of a key nobody has counted yet
SPLIT = (
    1.3  # by how much one more predicate multiplies the cells, as long as nobody has counted them
)
GROUPINGS_MAX = 32
ENDLESS = 60  # doublings: beyond, rows have cells of their own


@dataclass(frozen=True, slots=True)
class Flow:
    """One round of a stream, as it was or as it is expected.

    `cells` were left by an aggregate with panes of `pane_us`, this many predicates and these keys,
    of `counted_rows` (0: of as many as this round has)."""

    rows: float
    before_us: int
    after_us: int
    cells: float = 0.0
    pane_us: int = 0
    predicates: int = 0
    keys: tuple[str, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    counted_rows: float = 0.0

    @property
    def advance_us(self) -> int:
        return max(self.after_us - self.before_us, 0)


@dataclass(frozen=True, slots=True)
class RingWork:
    """A ring: columns it keeps, bands of cells it is for, its windows as (slide, first end, queries
    that have it)."""

    plan: RingPlan
    columns: int
    bands: int
    windows: tuple[tuple[int, int, int], ...]


class RingWorks:
    """Rings counted once, and again only when who sits there has changed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[int, int], RingWork]] = {}

    def of(self, plans: Iterable[RingPlan]) -> list[RingWork]:
        fresh: dict[int, tuple[tuple[int, int], RingWork]] = {}
        for plan in plans:
            stamp = (len(plan.members), next(reversed(plan.members)))  # ids never come back
            known = self._known.get(id(plan))
            fresh[id(plan)] = (
                known
                if known and known[0] == stamp and known[1].plan is plan
                else (stamp, _ring(plan))
            )
        self._known = fresh
        return [work for _, work in fresh.values()]


SKETCH_WIDTH = (
    32  # merging two sketches is priced as joining so many columns; a home learns the rest
)
WIDTHS = {
    kind: len(own.int_ops) + len(own.float_ops) or SKETCH_WIDTH for kind, own in COLUMNS.items()
}


def columns_of_measures(measures: Iterable[Measure]) -> int:
    return sum(WIDTHS[m.kind] for m in measures)


def _ring(plan: RingPlan) -> RingWork:
    windows = Counter(shape_of(share) for share in plan.members.values())
    bands = len({share.bands for share in plan.members.values()})
    return RingWork(
        plan,
        columns_of_measures(plan.measures),
        bands,
        tuple((*shape, n) for shape, n in windows.items()),
    )


def shape_of(share: Share) -> tuple[int, int]:
    """When its windows end: slide, and one of the ends."""
    window = share.window
    return window.slide_us, window.offset_us + window.range_us


@dataclass(frozen=True, slots=True)
class Workload:
    """A plan, counted.  Arrays of slots, rings and shapes; each ring names its slot, each shape its
    ring.

    `key_values` is how many values each key may have, if nobody has counted; `cell_steps` how many
    comparisons it takes to place a row among the edges of each cell; `ring_bands` how many bands of
    each group a ring keeps."""

    queries: int
    pane_us: int
    cuts: int
    keys: tuple[str, ...]
    key_values: tuple[int, ...]
    cell_steps: Ints
    predicates: int
    parts: int
    columns: int
    branches: int
    slots: tuple[Slot, ...]
    slot_columns: Ints
    ring_slot: Ints
    ring_grain_us: Ints
    ring_columns: Ints
    ring_bands: Ints
    shape_ring: Ints
    shape_slide_us: Ints
    shape_end_us: Ints
    shape_queries: Ints


def workload_of(rings: list[RingWork], cuts: Cuts) -> Workload:
    slots = {slot: i for i, slot in enumerate(dict.fromkeys(r.plan.slot for r in rings))}
    wanted: list[set[Measure]] = [set() for _ in slots]
    for ring in rings:
        wanted[slots[ring.plan.slot]].update(ring.plan.measures)
    groupings = [grouping(cut) for cut in cuts.cuts]
    edges = {key: len(own) for key, own in cuts.edges}
    keys = [*all_keys(cuts), *dict.fromkeys(key for cut in cuts.cuts for key in cut.cells)]
    shapes = np.array(
        [(i, *w) for i, ring in enumerate(rings) for w in ring.windows], np.int64
    ).reshape(-1, 4)
    return Workload(
        int(shapes[:, 3].sum()),
        cuts.pane_us,
        max(len(cuts.cuts), 1),
        tuple(map(emit, keys)),
        tuple(edges[k] + 1 if k in edges else KEY_GROUPS for k in keys),
        np.array([n.bit_length() for n in edges.values()], np.int64),
        sum(len(g.predicates) for g in groupings),
        len(part_names(cuts.measures)),
        columns_of_measures(cuts.measures),
        len({(cuts.find(s), s.where) for s in slots}),
        tuple(slots),
        np.array([columns_of_measures(m) for m in wanted], np.int64),
        np.array([slots[r.plan.slot] for r in rings], np.int64),
        np.array([r.plan.grain_us for r in rings], np.int64),
        np.array([r.columns for r in rings], np.int64),
        np.array([r.bands for r in rings], np.int64),
        *shapes.T.copy(),
    )


# -- groups and cells ------------------------------------------------------------------------------


@lru_cache(maxsize=10_000)
def keys_text(keys: tuple[Expr, ...]) -> str:
    return ", ".join(map(emit, keys))


def count_groups(sizes: Iterable[tuple[Slot, int]]) -> dict[str, int]:
    """Groups by group-by: the most of any slot; the first group-bys only, as statistics are
    bounded."""
    found: dict[str, int] = {}
    for slot, size in sizes:
        text = keys_text(slot.keys)
        if text in found or len(found) < GROUPINGS_MAX:
            found[text] = max(found.get(text, 0), size)
    return found


def groups_of(slots: Iterable[Slot], flow: Flow) -> Floats:
    """Groups of each slot: as counted, or made of what is known of its keys one by one."""

    def guess(slot: Slot) -> float:
        known = flow.groups.get(keys_text(slot.keys))
        if known is not None:
            return known
        each = (flow.groups.get(emit(k), KEY_GROUPS) for k in slot.keys)
        return min(math.prod(each), max(flow.rows, 1.0))

    return np.array([guess(slot) for slot in slots], np.float64)


def cells_of(work: Workload, flow: Flow) -> float:
    """Cells Spark will leave of the round's rows: as in the round that was counted, scaled to this
    plan.

    Rows fall into bins (pane × keys × signature) as if at random, so N rows fill B·(1 − e^(−N/B))
    of B bins."""
    rows = flow.rows * work.cuts
    if not flow.cells:
        bins = (
            max(flow.advance_us / max(work.pane_us, 1), 1.0)
            * math.prod(work.key_values)
            * SPLIT**work.predicates
        )
    else:
        values = dict(zip(work.keys, work.key_values, strict=True))
        came = math.prod(n for key, n in values.items() if key not in flow.keys)
        gone = KEY_GROUPS ** sum(key not in values for key in flow.keys)
        bins = _bins(flow.cells, flow.counted_rows * work.cuts or rows)
        bins *= (flow.pane_us or work.pane_us or 1) / (work.pane_us or flow.pane_us or 1)
        bins *= came / gone * SPLIT ** float(work.predicates - flow.predicates)
    return _filled(max(bins, 1.0), rows)


def _filled(bins: float, rows: float) -> float:
    return -bins * math.expm1(-rows / bins)


def _bins(cells: float, rows: float) -> float:
    """How many bins there are when so many rows fill so many cells."""
    low, high = max(cells, 1.0), max(cells, 1.0) * 2.0**ENDLESS
    for _ in range(2 * ENDLESS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _filled(middle, rows) < cells else (low, middle)
    return low


# -- what a round does -----------------------------------------------------------------------------


Quantities = dict[str, Floats]


def quantities_of(work: Workload, flow: Flow) -> Quantities:
    """How much of each priced thing a round does; per slot, ring or shape where
    `costs/attribution.py` tells them apart."""
    one, cells = np.ones(1), cells_of(work, flow)
    return {
        "plan": one,
        "plan_query": one * work.queries,
        "spark": one,
        "spark_row": one * flow.rows * work.cuts,
        "spark_row_predicate": one * flow.rows * work.predicates,
        "spark_row_key": one * flow.rows * len(work.keys) * work.cuts,
        "spark_row_step": flow.rows * work.cell_steps.astype(np.float64),
        "spark_row_part": one * flow.rows * work.parts * work.cuts,
        "spark_cell_part": one * cells * work.parts,
        "roll": one,
        "roll_cell_part": one * cells * work.parts,
        "roll_cell_branch": one * cells * work.branches,
        **_rolled(work, flow, cells),
        **_answered(work, flow),
        "write": one,
        "commit": one,
    }


def _rolled(work: Workload, flow: Flow, cells: float) -> Quantities:
    panes = flow.advance_us / max(work.pane_us, 1) + 1.0
    rows = np.minimum(panes * groups_of(work.slots, flow), cells)
    fed = rows[work.ring_slot] * (work.ring_columns * work.ring_bands).astype(np.float64)
    return {
        "roll_slot": np.ones(len(work.slots)),
        "roll_slot_column": rows * work.slot_columns,
        "roll_ring": np.ones(work.ring_slot.size),
        "roll_ring_column": fed,
    }


def _answered(work: Workload, flow: Flow) -> Quantities:
    groups = groups_of(work.slots, flow)[work.ring_slot]
    panes = flow.after_us // work.ring_grain_us - flow.before_us // work.ring_grain_us
    ends = _passed(flow.after_us, work) - _passed(flow.before_us, work)
    answers = ends * groups[work.shape_ring]
    joined = answers * (work.ring_columns * work.ring_bands)[work.shape_ring]
    return {
        "answer": np.ones(1),
        "answer_pane": panes * groups * work.ring_columns * work.ring_bands,
        "answer_ring": (panes > 0).astype(np.float64),
        "answer_shape": joined,
        "answer_query": ((ends > 0) * work.shape_queries).astype(np.float64),
        "answer_row": answers * work.shape_queries,
        "write_row": answers * work.shape_queries,
    }


def _passed(time_us: int, work: Workload) -> Ints:
    ends: Ints = (time_us - work.shape_end_us) // work.shape_slide_us
    return ends
