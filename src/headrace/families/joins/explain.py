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
from headrace.families.joins.figures import JoinsFigures, ShapeFigures
from headrace.families.joins.intervals.expecting import stabbed
from headrace.families.joins.levels.level import Level, grouping, level_of, sides_of
from headrace.families.joins.plan import BAND, FILTER, SELECT, Box, JoinShape, Share
from headrace.families.joins.words import look_name, meets

HOT = 0.001  # of the ranges, in one group


@dataclass(frozen=True, slots=True)
class Grouped:
    """Ranges of a shape as rows of one side find them: groups, those of them that are hot, and the
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
    """The queries of a shape, and all their ranges."""

    queries: int
    level: Level


JoinCoordinator = Mapping[JoinShape, Asked]


def asked_of(shape: JoinShape, boxes: Mapping[int, Sequence[Box]]) -> Asked:
    return Asked(len(boxes), level_of(shape, boxes))


def event_s(
    relation: str, shapes: JoinCoordinator, kept: Mapping[str, int], measured: JoinsFigures
) -> float | None:
    """Seconds to look up a row of the relation, for all shapes; None if it has none."""
    made = [
        estimate_of(shape, side, asked.level, kept, measured.shapes.get(look_name(shape, side)))
        for shape, asked in shapes.items()
        for side in sides_of(shape, relation)
    ]
    return fsum(own.seconds[own.ours] for own in made) if made else None


def explain_joins(
    relation: str, shapes: JoinCoordinator, kept: Mapping[str, int], measured: JoinsFigures
) -> list[str]:
    """All shapes of a relation; `kept`: rows of each relation that may be joined."""
    own = {shape: asked for shape, asked in shapes.items() if sides_of(shape, relation)}
    if not own:
        return []
    queries = sum(asked.queries for asked in own.values())
    lines = [
        f"standing joins and filters: {_many(queries, 'query', 'queries')} in {_many(len(own), 'shape')}; one "
        "Spark job a round keeps the rows and finds whom they affect; answers are made when they are read"
    ]
    for shape, asked in sorted(own.items(), key=lambda item: -item[1].queries):
        lines += [f"  {line}" for line in _shape_lines(relation, shape, asked, kept, measured)]
    return lines + [f"  {line}" for line in _measured_lines(measured)]


def explain_join_query(
    relation: str,
    own: Share,
    shapes: JoinCoordinator,
    kept: Mapping[str, int],
    measured: JoinsFigures,
    foreign: Sequence[str] = (),
) -> list[str]:
    """One query: what it shares, and what is left to reading; `foreign`: what of that Spark is
    asked for."""
    asked, all_queries = (
        shapes[own.shape],
        sum(a.queries for j, a in shapes.items() if sides_of(j, relation)),
    )
    lines = [
        f"  shares:   its index with {_many(asked.queries - 1, 'other')}, the rows with "
        f"{_many(all_queries - 1, 'other')}"
    ]
    lines += [f"  {line}" for line in _shape_lines(relation, own.shape, asked, kept, measured)]
    left = len(own.residue.rest) + len(own.residue.differences) + len(own.residue.equalities)
    left += sum(len(side) for side in own.residue.ranges)
    lines.append(
        f"  reading:  runs are expanded, {_many(left, 'more condition')} tested and the SELECT computed"
    )
    if foreign:
        lines.append(f"            by Spark, for they use {', '.join(foreign)}")
    if own.shape.kind != FILTER:
        bound = (
            "as long as event times may be apart"
            if own.bound is not None
            else "all of them, up to join_rows_max"
        )
        lines.append(f"  keeps:    rows of both sides, {bound}")
    if own.is_cross:
        lines.append("  warning:  its range is the whole line: every pair of rows is looked at")
    return lines


def _shape_lines(
    relation: str, shape: JoinShape, asked: Asked, kept: Mapping[str, int], measured: JoinsFigures
) -> Iterable[str]:
    level = asked.level
    yield f"{meets(shape)}: {_many(asked.queries, 'query', 'queries')}, {_many(len(level), 'range')}"
    for side in sides_of(shape, relation):
        found = Grouped.of(level, grouping(shape, side))
        seen = measured.shapes.get(look_name(shape, side))
        yield (
            f"  groups:    a row of {relation} is looked up for {_many(found.groups, 'group')}; hot ({HOT:.1%} of "
            f"the ranges or more): {found.hot:,}, which hold {found.coverage:.1%}"
        )
        made = estimate_of(shape, side, level, kept, seen)
        ours = made.seconds[made.ours]
        rivals = ", ".join(
            f"{_word(n)} {_time(s)}" for n, s in made.seconds.items() if n != made.ours
        )
        rivals += (
            ""
            if shape.kind != SELECT or "join_first" in made.seconds
            else "; join first: once rows were joined"
        )
        yield f"  estimated: {_time(ours)} an event by {_word(made.ours)}; {made.basis}"
        yield f"  rivals:    {rivals}"
        if seen is not None and any(seen.methods.values()):
            yield f"  measured:  {_seen(seen)}"


def _seen(seen: ShapeFigures) -> str:
    """What the newest round says of a shape."""
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
    shape: JoinShape, side: int, level: Level, kept: Mapping[str, int], seen: ShapeFigures | None
) -> Estimate:
    """An event of a side; what the newest round has told of its methods counts as long as the
    ranges are as many."""
    found = Grouped.of(level, grouping(shape, side))
    if shape.kind == BAND:
        rows = kept.get(shape.relations[1 - side], 0)
        own = band_s(found.groups, found.ranges)
        seconds = {**own, **band_rivals_s(found.ranges, rows)}
        return Estimate(_least(own), seconds, f"by default rates, {_many(rows, 'row')} to join")
    if seen is not None and seen.alone_s and seen.ranges == len(level):
        return Estimate(
            _least(seen.alone_s),
            seen.alone_s,
            "by rates fitted here, for events of the newest round",
        )
    ranged = shape.ranged[side]
    mean, most = stabbed(
        level.lo[side], level.hi[side], ranged is not None and ranged.type.is_fractional
    )
    basis = f"by default rates, for a value in {mean:,.3g} of the ranges ({most:,.3g} at most, by their histogram)"
    if shape.kind == FILTER:
        seconds = filter_s(found.groups, found.ranges, mean)
        return Estimate(PREFIXES if found.groups <= DENSE_MAX else ONE_BY_ONE, seconds, basis)
    seconds = select_s(found.groups, found.hot, 1 - found.coverage, mean)
    return Estimate(_least(seconds), seconds, basis)


def _least(seconds: Mapping[str, float]) -> str:
    return min(seconds, key=lambda name: seconds[name])


def _measured_lines(measured: JoinsFigures) -> list[str]:
    """How queries stood in the newest round."""
    standing = measured.standing
    if not standing.get("ranges"):
        return []
    levels, groups, fewest = (int(standing.get(name, 0)) for name in ("levels", "groups", "fewest"))
    line = f"newest round: {_many(levels, 'level')} of {_many(groups, 'group')}"
    line += f", where one for each join shape would have {fewest:,}" if groups > fewest else ""
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
