"""EXPLAIN of joins and filters: what shares an index, in how many groups, and what an event costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.families.joins.cost import band_rivals_s, groups_s
from headrace.families.joins.level import Level, grouping, level_of, sides_of
from headrace.families.joins.plan import BAND, FILTER, Box, Joint, Share
from headrace.sql.emit import emit
from headrace.sql.tree import Expr

HOT = 0.001  # of the ranges, in one group
Stats = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Ranges of a joint as rows of one side find them: groups, those of them that are hot, and the share these hold."""

    ranges: int
    groups: int
    hot: int
    coverage: float

    @staticmethod
    def of(level: Level, side: int) -> Grouped:
        sizes = np.bincount(level.group[side])
        hot = sizes[sizes >= HOT * len(level)]
        return Grouped(len(level), sizes.size, hot.size, float(hot.sum() / len(level)))


@dataclass(frozen=True, slots=True)
class Asked:
    """The queries of a joint, and all their ranges."""

    queries: int
    level: Level


Joints = Mapping[Joint, Asked]


def joints_of(shares: Iterable[tuple[int, Share]]) -> dict[Joint, Asked]:
    found: dict[Joint, dict[int, Sequence[Box]]] = {}
    for i, own in shares:
        found.setdefault(own.joint, {})[i] = own.boxes
    return {joint: Asked(len(boxes), level_of(joint, boxes)) for joint, boxes in found.items()}


def groups_of(relation: str, joints: Joints) -> int | None:
    """Groups that a row of the relation is looked up for, of all joints; None if it has none."""
    own = [asked.level.groups_for(joint, relation) for joint, asked in joints.items() if sides_of(joint, relation)]
    return sum(own) if own else None


def explain_joins(relation: str, joints: Joints, kept: Mapping[str, int], stats: Stats | None) -> list[str]:
    """All joints of a relation; `kept`: rows of each relation that may be joined."""
    own = {joint: asked for joint, asked in joints.items() if sides_of(joint, relation)}
    if not own:
        return []
    queries = sum(asked.queries for asked in own.values())
    lines = [
        f"standing joins and filters: {_many(queries, 'query', 'queries')} in {_many(len(own), 'joint')}; one "
        "Spark job a round keeps the rows and finds whom they affect; answers are made when they are read"
    ]
    for joint, asked in sorted(own.items(), key=lambda item: -item[1].queries):
        lines += [f"  {line}" for line in _joint_lines(relation, joint, asked, kept)]
    return lines + [f"  {line}" for line in _measured_lines(stats)]


def explain_join_query(
    relation: str, own: Share, joints: Joints, kept: Mapping[str, int], foreign: Sequence[str] = ()
) -> list[str]:
    """One query: what it shares, and what is left to reading; `foreign`: what of that Spark is asked for."""
    asked, all_queries = joints[own.joint], sum(a.queries for j, a in joints.items() if sides_of(j, relation))
    lines = [f"  shares:   its index with {_many(asked.queries - 1, 'other')}, the rows with "
             f"{_many(all_queries - 1, 'other')}"]  # fmt: skip
    lines += [f"  {line}" for line in _joint_lines(relation, own.joint, asked, kept)]
    left = len(own.residue.rest) + len(own.residue.differences) + len(own.residue.equalities)
    left += sum(len(side) for side in own.residue.ranges)
    lines.append(f"  reading:  runs are expanded, {_many(left, 'more condition')} tested and the SELECT computed")
    if foreign:
        lines.append(f"            by Spark, for they use {', '.join(foreign)}")
    if own.joint.kind != FILTER:
        bound = "as long as event times may be apart" if own.bound is not None else "all of them, up to join_rows_max"
        lines.append(f"  keeps:    rows of both sides, {bound}")
    if own.is_cross:
        lines.append("  warning:  its range is the whole line: every pair of rows is looked at")
    return lines


def meets(joint: Joint) -> str:
    """In words, how rows come together."""
    ranged = [_sql(joint, e) for e in joint.ranged if e is not None]
    if joint.kind == FILTER:
        return f"rows of {joint.relations[0]} by {ranged[0]}"
    names = " with ".join(joint.relations)
    pairs = [(_sql(joint, a), _sql(joint, b)) for a, b in zip(*joint.meets, strict=True)]
    if joint.kind == BAND:
        return f"{names} by {pairs[0][1]} - {pairs[0][0]}"
    equal = f"where {' and '.join(f'{a} = {b}' for a, b in pairs)}" if pairs else "in all pairs"
    return f"{names} {equal}" + (f", ranges of {' and '.join(ranged)}" if ranged else "")


def _sql(joint: Joint, expr: Expr) -> str:
    left, right = joint.relations
    sides = ("left.", "right.") if left == right else (f"{left}.", f"{right}.")
    return emit(expr, sides=("", "") if joint.kind == FILTER else sides)


def _joint_lines(relation: str, joint: Joint, asked: Asked, kept: Mapping[str, int]) -> Iterable[str]:
    level = asked.level
    yield f"{meets(joint)}: {_many(asked.queries, 'query', 'queries')}, {_many(len(level), 'range')}"
    for side in sides_of(joint, relation):
        found = Grouped.of(level, grouping(joint, side))
        yield (f"  a row of {relation} is looked up for {_many(found.groups, 'group')}; hot ({HOT:.1%} of the "
               f"ranges or more): {found.hot:,}, which hold {found.coverage:.1%}")  # fmt: skip
        if joint.kind == BAND:
            rows = kept.get(joint.relations[1 - side], 0)
            rivals = ", ".join(f"{n} {_time(s)}" for n, s in band_rivals_s(found.ranges, rows).items())
            by_groups = _time(groups_s(joint.kind, found.groups))
            yield f"  estimated: {by_groups} an event; without groups: {rivals} ({rows:,} rows)"


def _measured_lines(stats: Stats | None) -> list[str]:
    load = (stats or {}).get("load") or {}
    methods: Mapping[str, int] = load.get("methods", {})
    total = sum(methods.values())
    if not total or stats is None:
        return []
    shares = ", ".join(f"{name} {count / total:.1%}" for name, count in methods.items())
    line = f"measured: of {total:,} look-ups of the newest round, {shares}"
    seconds = stats["seconds"].get("joins", 0.0)
    line += f"; {_time(seconds / max(1, stats['rows']))} a row, all in all"
    standing: Mapping[str, float] = load.get("standing", {})
    if standing.get("ranges"):
        levels, groups = int(standing["levels"]), int(standing["groups"])
        line += f"; in {_many(levels, 'level')} of {_many(groups, 'group')}"
        line += f", where one would have {min(groups, int(standing['fewest'])):,}" if levels > 1 else ""
        line += f"; hotspots hold {standing['hot'] / standing['ranges']:.1%}"
    costs: Mapping[str, float] = load.get("rivals_s", {})
    if costs:
        line += "; select-joins by one method alone: " + ", ".join(f"{n} {_time(s)}" for n, s in costs.items())
    return [line]


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"
