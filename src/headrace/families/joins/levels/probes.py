"""Records of who is affected: events looked up for one level of queries, written as a file, and
read again.

A record says of an event that the first so many queries of a group are affected, by left end and by
right end; of a select-join it is a node of a group's tree.  Queries that are found another way than
by groups are listed one by one (`levels/shapes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import thread_time

import numpy as np
import pyarrow as pa

from headrace.errors import CatalogError
from headrace.families.joins.bands.probes import Bands
from headrace.families.joins.cost import DENSE_MAX, ONE_BY_ONE, PREFIXES, summed
from headrace.families.joins.intervals.index import IntervalIndex
from headrace.families.joins.intervals.prefixes import PrefixIndex, Records
from headrace.families.joins.levels import shapes
from headrace.families.joins.levels.level import Level
from headrace.families.joins.levels.shapes import Found, gathered
from headrace.families.joins.plan import BAND, FILTER
from headrace.families.joins.selects import methods
from headrace.families.joins.selects.index import Events, Rectangles, Rows
from headrace.families.joins.selects.methods import METHODS, Lists, Methods
from headrace.families.joins.selects.routing import Router
from headrace.families.joins.stabbing.hot_points import hot_groups
from headrace.relations.arrays import Ints, Numbers
from headrace.relations.attributes import Mask
from headrace.relations.image import Image
from headrace.relations.row_files import write_table

FILTERED_AT_ONCE = 1 << 16
STABBED_AT_ONCE = 1 << 21  # records, or queries that are listed
FIRST_PIECE, PIECE_LEAST, PIECE_GROWTH = 512, 64, 8  # events
RECORDS_AT_ONCE = 1 << 21
FIT_MIN, FIT_JOINED_MIN = 512, 64
FIT_EVENTS = 2_048
Rates = shapes.Rates
COSTED = 128


@dataclass(frozen=True, slots=True)
class Written:
    """A file of records: of which level."""

    path: str
    size: int
    crc: int
    look: int
    level: int


@dataclass(slots=True)
class Looked:
    """What it took to look up the events of a file for a level, whether anybody was affected or
    not: how many went by which method; what each method alone would have taken, as far as rates are
    known; and the rates that were fitted. `seconds`, of a worker, have the fitting in them."""

    look: int
    level: int
    rows: int
    seconds: float = 0.0
    events: dict[str, int] = field(default_factory=dict)
    alone_s: dict[str, float] = field(default_factory=dict)
    rates: Rates | None = None

    def count(self, found: Found) -> None:
        self.events = {name: int(n) for name, n in summed((self.events, found.methods)).items()}
        self.alone_s = summed((self.alone_s, found.costs_s))
        self.rates = found.rates or self.rates


class Filters:
    """A level of filters: events are values, and `a` is what they are.  Of many groups only hot
    ones are prefixes; no value is in many of the other ranges, which are listed."""

    def __init__(self, level: Level) -> None:
        self._ids, (lo, hi) = level.ids, (level.lo[0], level.hi[0])
        group, points = (
            (level.group[1], None) if level.groups(1) <= DENSE_MAX else hot_groups(lo, hi)
        )
        hot, rest = (np.flatnonzero(own).astype(np.int32) for own in (group >= 0, group < 0))
        if points is None:
            self._hot = PrefixIndex.build(hot, lo, hi)
        else:
            self._hot = PrefixIndex.of_groups(hot, lo[hot], hi[hot], group[hot], points)
        self._rest = IntervalIndex.build(rest, lo[rest], hi[rest])
        self._first, self._last = _united(lo, hi)

    def pass_some(self, values: Numbers) -> Mask:
        """Whether a value is within any range."""
        at = np.searchsorted(self._first, values, "right") - 1
        found: Mask = (at >= 0) & (values <= self._last[at])
        return found

    def records(
        self, image: Image, event: Ints, b: Numbers, a: Numbers, rates: Rates | None
    ) -> Iterator[Found]:
        way = ONE_BY_ONE if not len(self._hot) else "hotspots" if len(self._rest) else PREFIXES
        at_once = min(
            FILTERED_AT_ONCE, max(1, STABBED_AT_ONCE // max(1, self._hot.groups.points.size))
        )
        for start in range(0, event.size if len(self._hot) else 0, at_once):
            chosen = event[start : start + at_once]
            yield Found(shapes.stabbed(chosen, self._hot.records(a[chosen])), {way: chosen.size})
        if not len(self._rest):
            return
        for start in range(0, event.size, FILTERED_AT_ONCE):
            chosen = event[start : start + FILTERED_AT_ONCE]
            for part in methods.parts(self._rest.count(a[chosen]), STABBED_AT_ONCE):
                at, places = self._rest.stab(a[chosen[part]])
                found = Lists(at, np.diff(at), places)
                yield Found(
                    shapes.lists(chosen[part], found),
                    {way: at.size - 1} if way == ONE_BY_ONE else {},
                )

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        event = records.column("e").to_numpy().astype(np.int64)
        if "q" in records.column_names:
            return event, self._ids[records.column("q").to_numpy()]
        columns = (
            records.column(name).to_numpy(zero_copy_only=False)
            for name in ("e", "n", "right", "size")
        )
        at, places = self._hot.expand(Records(*columns))
        return np.repeat(event, np.diff(at)), self._ids[places]


class Selects:
    """A level of select-joins, for events of one side."""

    def __init__(self, level: Level, side: int) -> None:
        a, c = side, 1 - side
        rectangles = Rectangles(level.ids, level.lo[a], level.hi[a], level.lo[c], level.hi[c])
        self._methods = Methods(rectangles, level.group[side])
        self._ids = level.ids

    def records(
        self, image: Image, event: Ints, b: Numbers, a: Numbers, rates: Rates | None
    ) -> Iterator[Found]:
        events, router = Events(a[event], b[event]), _router(rates)
        for segment in image.segments:
            rows, fitted = Rows(segment.b, segment.c), None
            if router is None:
                router = self._fit(rows, events)
                fitted = None if router is None else router.to_json()
            costs = {} if router is None else self._costs(router, rows, events)
            for part in self._pieces(router, rows, event, events):
                yield replace(part, rates=fitted, costs_s=costs)
                fitted, costs = None, {}

    def _pieces(
        self, router: Router | None, rows: Rows, event: Ints, events: Events
    ) -> Iterator[Found]:
        """Of so many events at a time as will have no more records than a piece may, as those
        before tell."""
        ways = None if router is None else router.ask(self._methods, rows, events)
        start, size = 0, FIRST_PIECE
        while start < event.size:
            chosen = np.arange(start, min(start + size, event.size))
            records = 0
            for part in self._piece(router, ways, rows, event[chosen], events.take(chosen)):
                records += part.table.num_rows
                yield part
            start += chosen.size
            size = min(
                PIECE_GROWTH * size,
                max(PIECE_LEAST, RECORDS_AT_ONCE * chosen.size // max(1, records)),
            )

    def _piece(
        self,
        router: Router | None,
        ways: tuple[int, ...] | None,
        rows: Rows,
        event: Ints,
        events: Events,
    ) -> Iterator[Found]:
        if router is None:
            met = self._methods.meet(rows, events, counts=False)
            yield from _found(event, "groups", self._methods.run("groups", rows.c, met))
            return
        for method, places, found in router.run(self._methods, rows, events, ways):
            yield from _found(event[places], method, found)

    def _fit(self, rows: Rows, events: Events) -> Router | None:
        """Nothing is told by events that nothing joins: of few others there are no rates yet."""
        if events.b.size < FIT_MIN:
            return None
        met = self._methods.meet(rows, events, counts=False)
        joined = np.flatnonzero(met.first < met.last)
        if joined.size < FIT_JOINED_MIN:
            return None
        sample = joined[_spread(joined.size, FIT_EVENTS)]
        return Router.fit(self._methods, rows.c, self._methods.meet(rows, events.take(sample)))

    def _costs(self, router: Router, rows: Rows, events: Events) -> dict[str, float]:
        """Seconds of all events by each method alone, as some of them tell."""
        sample = _spread(events.b.size, COSTED)
        seconds = (
            router.costs(self._methods.meet(rows, events.take(sample))).sum(axis=1)
            * events.b.size
            / sample.size
        )
        return {m: float(s) for m, s in zip(METHODS, seconds, strict=True) if np.isfinite(s)}

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        if "q" in records.column_names:
            return records.column("e").to_numpy().astype(np.int64), self._ids[
                records.column("q").to_numpy()
            ]
        groups = self._methods.groups.groups
        ids = self._methods.groups.ids
        parts = shapes.of_sparse(records)
        return shapes.joined(
            [shapes.prefixes(groups.at[n], groups.of_right, ids, *part) for n, *part in parts]
        )


def _router(rates: Rates | None) -> Router | None:
    """Rates that are no good are measured again."""
    try:
        return None if rates is None else Router.from_json(rates)
    except CatalogError:
        return None


def _spread(size: int, count: int) -> Ints:
    """So many places of all, or all."""
    return np.unique(np.linspace(0, size - 1, count).astype(np.int64))


def _found(event: Ints, method: str, found: methods.Found) -> Iterator[Found]:
    """Groups and lists are written apart; events that went by both are counted once."""
    if found.nodes is not None:
        yield Found(shapes.nodes(event, found.nodes), {method: event.size})
    if found.lists is not None:
        yield Found(
            shapes.lists(event, found.lists), {method: event.size} if found.nodes is None else {}
        )


class Probes:
    """Writes the records of one row file as seen from one shape and side."""

    def __init__(self, root: Path, stem: str, look: int) -> None:
        self._root, self._stem, self._look = root, stem, look
        self.looked: list[Looked] = []

    def probe(
        self,
        number: int,
        level: Prober,
        image: Image,
        event: Ints,
        b: Numbers,
        a: Numbers,
        rates: Rates | None,
    ) -> Iterator[Written]:
        """`event`: the rows that are events, in order of b."""
        if not event.size:
            return
        looked, began = Looked(self._look, number, event.size), thread_time()
        self.looked.append(looked)

        def counted() -> Iterator[Found]:
            for found in level.records(image, event, b, a, rates):
                looked.count(found)
                yield found

        for piece, found in enumerate(gathered(counted())):
            path = f"{self._stem}.{self._look}.{number}.{piece}.arrow"
            size, crc = write_table(self._root / path, found.table, "lz4")
            yield Written(path, size, crc, self._look, number)
        looked.seconds = thread_time() - began


Prober = Bands | Selects | Filters


def prober(kind: str, level: Level, side: int) -> Prober:
    if kind == FILTER:
        return Filters(level)
    return Bands(level, side) if kind == BAND else Selects(level, side)


def _united(lo: Numbers, hi: Numbers) -> tuple[Numbers, Numbers]:
    """The intervals that these make together, in order."""
    order = np.argsort(lo)
    reach = np.maximum.accumulate(hi[order])
    begins = np.append(True, lo[order][1:] > reach[:-1])
    return lo[order][begins], reach[np.append(begins[1:], True)]
