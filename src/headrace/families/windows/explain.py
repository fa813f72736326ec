"""EXPLAIN of the shared windows: stages, who shares what, costs with and without sharing.  Pure,
stable text.

Costs are counted in row visits and pane operations (specs: λ + E + Σ1/s shared, Σ λ·r/s unshared),
so they do not depend on the machine; seconds are what the last committed round measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import fsum

from headrace.families.contract import Refusal
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.figures import ShardsFigures
from headrace.families.windows.measures import Measure, arrange
from headrace.families.windows.pane_log.compaction_plan import steps_for
from headrace.families.windows.placement import BestPlacement
from headrace.families.windows.plan import RingAssignment, RingPlan, Share, in_order, share
from headrace.families.windows.rings.ring import bytes_a_group
from headrace.families.windows.sketches.explain import sketch_lines
from headrace.sql.bands import split
from headrace.sql.duration import span
from headrace.sql.emit import emit
from headrace.sql.query import Query
from headrace.sql.tree import Call, Expr
from headrace.values import US_PER_S, Relation


def assignment_of(queries: Iterable[tuple[int, Query]], relation: Relation) -> RingAssignment:
    """On which rings the queries would sit; those that windows refuse are left out."""
    asked = {query_id: share(query, relation) for query_id, query in queries}
    best = BestPlacement()
    best.update({i: a for i, a in asked.items() if not isinstance(a, Refusal)}, ())
    return best.assignment


def explain_windows(assignment: RingAssignment, cuts: Cuts) -> list[str]:
    """The whole shared plan of one stream."""
    if not assignment.shares:
        return []
    rings = in_order(assignment)
    shares = list(assignment.shares.values())
    slots = {r.slot for r in rings}
    programs = {id(s.program) for s in shares}
    return [
        f"shared windows: {_many(len(shares), 'query', 'queries')} in one Spark aggregate a round",
        *_stage_lines(cuts, shares),
        f"  2. roll up: {_many(len(slots), 'slot')} (predicate and group-by), {_many(len(rings), 'ring')} of panes",
        *[f"     {line}" for line in _ring_lines(rings)],
        *[f"     sketches of {line}" for line in sketch_lines(shares)],
        f"  3. finish: each answer joins two parts of its ring; {_many(len(programs), 'program')} (SELECT and HAVING) "
        f"over all of them",
        *memory_lines(shares),
        *cost_lines(shares, rings, cuts),
    ]


def explain_shards(own: ShardsFigures) -> list[str]:
    """How the queries that follow are divided."""
    return [
        f"windows in shards, on executors: {_many(own.queries, 'query', 'queries')}",
        f"  shards:   groups are told apart by {', '.join(own.keys)}, into {own.count:,}, "
        f"as {own.why}",
    ]


def explain_window_query(query_id: int, assignment: RingAssignment, cuts: Cuts) -> list[str]:
    """What one query shares with the others."""
    asked = assignment.shares[query_id]
    ring = assignment.ring_of[query_id]
    alike = assignment.rings_of(asked.slot)
    cells = zip(asked.slot.cells, asked.bands, strict=True)
    bands = [f"a band of {emit(c)} between {_many(len(b.edges()), 'edge')}" for c, b in cells]
    return [
        f"  where:    {'all rows' if asked.slot.where is None else emit(asked.slot.where)}",
        *([f"  cells:    {', '.join(bands)}"] if bands else []),
        f"  group by: {', '.join(emit(k) for k in asked.slot.keys) or 'nothing but the window'}",
        f"  window:   range {span(asked.window.range_us)}, slide {span(asked.window.slide_us)}, "
        f"offset {span(asked.window.offset_us)}",
        f"  panes:    Spark aggregates {span(cuts.pane_us)} panes, its ring keeps {_many(ring.length, 'pane')} of "
        f"{span(ring.grain_us)}, {_group_bytes(ring)}",
        f"  measures: {', '.join(_measure(m) for m in asked.measures)}",
        f"  shares:   the Spark aggregate with {_others(len(assignment.shares))}, predicate and group-by with "
        f"{_others(sum(len(r.members) for r in alike))}, the ring with {_others(len(ring.members))}",
        *[
            f"  sketches: {line}"
            for line in sketch_lines(chain(*(r.members.values() for r in alike)), asked)
        ],
        *[f"  {line.strip()}" for line in cost_lines([asked], [ring], cuts)],
    ]


def memory_lines(shares: Sequence[Share]) -> list[str]:
    """How fine the panes of the log stay for how long."""
    steps = steps_for({(s.window.range_us, s.window.grain_us) for s in shares})
    kept = ", ".join(f"of {span(s.width_us)} for {span(s.reach_us)}" for s in steps)
    return [f"  log:      panes {kept}; older rounds are folded into the next wider ones"]


def cost_lines(shares: Sequence[Share], rings: Sequence[RingPlan], cuts: Cuts) -> list[str]:
    """Cost with and without sharing, in units that do not depend on the machine, nor on the order
    of the queries."""
    unshared = fsum(s.window.range_us / s.window.slide_us for s in shares)
    answers = fsum(US_PER_S / s.window.slide_us for s in shares)
    edges = US_PER_S / cuts.pane_us
    jobs = (
        "a Spark job that reads"
        if len(shares) == 1
        else f"{len(shares):,} Spark jobs that each read"
    )
    return [
        f"  cost:     shared: a row is visited {_times(len(cuts.cuts))}, whoever asks; for each group "
        f"{edges:.4g} pane edges/s, {answers:.4g} answers/s",
        f"  unshared: a row is visited {_times(unshared)}, in {jobs} the source",
    ]


def _stage_lines(cuts: Cuts, shares: Sequence[Share]) -> list[str]:
    lines = [
        f"  1. aggregate: panes of {span(cuts.pane_us)}, {_many(len(cuts.measures), 'measure')}, "
        f"{_many(len(cuts.cuts), 'grouping')}, shared by {len(shares):,}"
    ]
    for cut in cuts.cuts:
        keys = ", ".join(emit(k) for k in cut.keys) or "nothing but the pane"
        told = [f"{_many(len(cut.predicates), 'predicate')} as bits of a signature"]
        told += [_cells(cuts, key, shares) for key in cut.cells]
        lines.append(f"     group by {keys}; {'; '.join(told)}")
    return lines


def _cells(cuts: Cuts, key: Expr, shares: Sequence[Share]) -> str:
    """How many predicates are told apart by the cells of an attribute."""
    assert isinstance(key, Call)
    bands = {b for s in shares for c, b in zip(s.slot.cells, s.bands, strict=True) if c == key}
    bands |= {b for s in shares for a, b in split(s.slot.where).bands if a == key.args[0]}
    count = len(cuts.edges_of(key))
    return (
        f"{_many(len(bands), 'band')} as runs of {count + 1:,} cells of {emit(key.args[0])}: a row is placed in "
        f"{_many(count.bit_length(), 'step')}, not compared {_times(len(bands))}"
    )


def _ring_line(ring: RingPlan) -> str:
    where = "all rows" if ring.slot.where is None else emit(ring.slot.where)
    keys = ", ".join(emit(k) for k in ring.slot.keys) or "nothing but the window"
    bands = f", bands of {', '.join(emit(c) for c in ring.slot.cells)}" if ring.slot.cells else ""
    return (
        f"{_many(len(ring.members), 'query', 'queries')} on {_many(ring.length, 'pane')} of {span(ring.grain_us)}: "
        f"where {where}, group by {keys}{bands}; {_group_bytes(ring)}"
    )


def _group_bytes(ring: RingPlan) -> str:
    what = "group" if ring.shared_ring is None else "band and group"
    return f"{bytes_a_group(ring.length, arrange(tuple(ring.measures)).layout):,} bytes a {what}"


def _ring_lines(rings: Sequence[RingPlan], limit: int = 10) -> list[str]:
    """The rings with most queries first; a long list is cut."""
    lines = [_ring_line(r) for r in sorted(rings, key=lambda r: -len(r.members))[:limit]]
    rest = len(rings) - limit
    return lines if rest <= 0 else [*lines, f"… and {_many(rest, 'more ring', 'more rings')}"]


def _measure(measure: Measure) -> str:
    return measure.kind if measure.arg is None else f"{measure.kind} {emit(measure.arg)}"


def _others(count: int) -> str:
    return "no other" if count == 1 else f"{count - 1:,} {'other' if count == 2 else 'others'}"


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:,.4g} times"
