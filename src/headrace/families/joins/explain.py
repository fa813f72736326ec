"""EXPLAIN of joins and filters: what shares an index, in how many groups, and what an event
costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from headrace.families.joins.cost import (
    DENSE_MAX,
    ONE_BY_ONE,
    PREFIXES,
    band_rivals_s,
    band_s,
    filter_s,
    select_s,
)
from headrace.families.joins.expecting import stabbed
from headrace.families.joins.level import Level, grouping, level_of, sides_of
from headrace.families.joins.plan import BAND, FILTER, SELECT, Box, Joint, Share
from headrace.families.joins.words import look_name, meets
from headrace.runtime.statistics import JointLoad, Load

HOT = 0.001  # of the ranges, in one group


@dataclass(frozen=True, slots=True)
class Grouped:
    """Ranges of a joint as rows of one side find them: groups, those of them that are hot, and the
    share these hold."""

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


def asked_of(joint: Joint, boxes: Mapping[int, Sequence[Box]]) -> Asked:
    return Asked(len(boxes), level_of(joint, boxes))


def event_s(
    relation: str, joints: Joints, kept: Mapping[str, int], load: Load | None
) -> float | None:
    """Seconds to look up a row of the relation, for all joints; None if it has none."""
    seen = load.joints if load is not None else {}
    made = [
        estimate_of(joint, side, asked.level, kept, seen.get(look_name(joint, side)))
        for joint, asked in joints.items()
        for side in sides_of(joint, relation)
    ]
    return fsum(own.seconds[own.ours] for own in made) if made else None


def explain_joins(
    relation: str, joints: Joints, kept: Mapping[str, int], load: Load | None
) -> list[str]:
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
        lines += [f"  {line}" for line in _joint_lines(relation, joint, asked, kept, load)]
    return lines + [f"  {line}" for line in _measured_lines(load)]


def explain_join_query(
    relation: str,
    own: Share,
    joints: Joints,
    kept: Mapping[str, int],
    load: Load | None,
    foreign: Sequence[str] = (),
) -> list[str]:
    """One query: what it shares, and what is left to reading; `foreign`: what of that Spark is
    asked for."""
    asked, all_queries = (
        joints[own.joint],
        sum(a.queries for j, a in joints.items() if sides_of(j, relation)),
    )
    lines = [
        f"  shares:   its index with {_many(asked.queries - 1, 'other')}, the rows with "
        f"{_many(all_queries - 1, 'other')}"
    ]
    lines += [f"  {line}" for line in _joint_lines(relation, own.joint, asked, kept, load)]
    left = len(own.residue.rest) + len(own.residue.differences) + len(own.residue.equalities)
    left += sum(len(side) for side in own.residue.ranges)
    lines.append(
        f"  reading:  runs are expanded, {_many(left, 'more condition')} tested and the SELECT computed"
    )
    if foreign:
        lines.append(f"            by Spark, for they use {', '.join(foreign)}")
    if own.joint.kind != FILTER:
        bound = (
            "as long as event times may be apart"
            if own.bound is not None
            else "all of them, up to join_rows_max"
        )
        lines.append(f"  keeps:    rows of both sides, {bound}")
    if own.is_cross:
        lines.append("  warning:  its range is the whole line: every pair of rows is looked at")
    return lines


def _joint_lines(
    relation: str, joint: Joint, asked: Asked, kept: Mapping[str, int], load: Load | None
) -> Iterable[str]:
    level = asked.level
    yield f"{meets(joint)}: {_many(asked.queries, 'query', 'queries')}, {_many(len(level), 'range')}"
    for side in sides_of(joint, relation):
        found = Grouped.of(level, grouping(joint, side))
        seen = load.joints.get(look_name(joint, side)) if load is not None else None
        yield (
            f"  groups:    a row of {relation} is looked up for {_many(found.groups, 'group')}; hot ({HOT:.1%} of "
            f"the ranges or more): {found.hot:,}, which hold {found.coverage:.1%}"
        )
        made = estimate_of(joint, side, level, kept, seen)
        ours = made.seconds[made.ours]
        rivals = ", ".join(
            f"{_word(n)} {_time(s)}" for n, s in made.seconds.items() if n != made.ours
        )
        rivals += (
            ""
            if joint.kind != SELECT or "join_first" in made.seconds
            else "; join first: once rows were joined"
        )
        yield f"  estimated: {_time(ours)} an event by {_word(made.ours)}; {made.basis}"
        yield f"  rivals:    {rivals}"
        if seen is not None and any(seen.methods.values()):
            yield f"  measured:  {_seen(seen)}"


def _seen(seen: JointLoad) -> str:
    """What the newest round says of a joint."""
    total = sum(seen.methods.values())
    often = sorted(seen.methods.items(), key=lambda own: -own[1])
    shares = ", ".join(f"{_word(name)} {count / total:.1%}" for name, count in often)
    took = f"{_time(seen.took_s)} an event, with its records; " if seen.took_s else ""
    return f"{took}{_many(total, 'look-up')} of the newest round: {shares}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds an event by method, ours among them, and what they are based on."""

    ours: str
    seconds: Mapping[str, float]
    basis: str


def estimate_of(
    joint: Joint, side: int, level: Level, kept: Mapping[str, int], seen: JointLoad | None
) -> Estimate:
    """An event of a side; what the newest round has told of its methods counts as long as the
    ranges are as many."""
    found = Grouped.of(level, grouping(joint, side))
    if joint.kind == BAND:
        rows = kept.get(joint.relations[1 - side], 0)
        own = band_s(found.groups, found.ranges)
        seconds = {**own, **band_rivals_s(found.ranges, rows)}
        return Estimate(_least(own), seconds, f"by default rates, {_many(rows, 'row')} to join")
    if seen is not None and seen.alone_s and seen.ranges == len(level):
        return Estimate(
            _least(seen.alone_s),
            seen.alone_s,
            "by rates fitted here, for events of the newest round",
        )
    ranged = joint.ranged[side]
    mean, most = stabbed(
        level.lo[side], level.hi[side], ranged is not None and ranged.type.is_fractional
    )
    basis = f"by default rates, for a value in {mean:,.3g} of the ranges ({most:,.3g} at most, by their histogram)"
    if joint.kind == FILTER:
        seconds = filter_s(found.groups, found.ranges, mean)
        return Estimate(PREFIXES if found.groups <= DENSE_MAX else ONE_BY_ONE, seconds, basis)
    seconds = select_s(found.groups, found.hot, 1 - found.coverage, mean)
    return Estimate(_least(seconds), seconds, basis)


def _least(seconds: Mapping[str, float]) -> str:
    return min(seconds, key=lambda name: seconds[name])


def _measured_lines(load: Load | None) -> list[str]:
    """How queries stood in the newest round."""
    if load is None or not load.standing.get("ranges"):
        return []
    standing = load.standing
    levels, groups, fewest = (int(standing.get(name, 0)) for name in ("levels", "groups", "fewest"))
    line = f"newest round: {_many(levels, 'level')} of {_many(groups, 'group')}"
    line += f", where one for each joint would have {fewest:,}" if groups > fewest else ""
    return [
        f"{line}; hotspots held {standing.get('hot', 0) / standing['ranges']:.1%} of the ranges"
    ]


def _word(method: str) -> str:
    return method.replace("_", " ")


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"
