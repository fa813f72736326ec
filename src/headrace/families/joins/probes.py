"""Records of who is affected: events looked up for one level of queries, written as a file, and read again.

A record says of an event that the first so many queries of a group are affected, by left end and by right end; of a
select-join it is a node of a group's tree.  Of few groups almost every event affects some query of each: then a file
has two columns a group.  Otherwise it has a row for each event and group that have anything to do with each other.
Events of select-joins that go another way than by groups (`routing.py`) have a row for each query they affect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.families.joins import select_methods as methods
from headrace.families.joins.arrays import Ints, Numbers, spread
from headrace.families.joins.attributes import Mask
from headrace.families.joins.band_index import BandIndex
from headrace.families.joins.cost import DENSE_MAX, ONE_BY_ONE, PREFIXES, summed
from headrace.families.joins.image import Image
from headrace.families.joins.interval_prefixes import PrefixIndex, Records
from headrace.families.joins.intervals import IntervalIndex
from headrace.families.joins.level import Level
from headrace.families.joins.plan import BAND, FILTER
from headrace.families.joins.routing import Router
from headrace.families.joins.rowfiles import write_table
from headrace.families.joins.select_index import Events, Rectangles, Rows
from headrace.families.joins.select_kernels import Nodes
from headrace.families.joins.select_methods import METHODS, Lists, Methods

FILTERED_AT_ONCE = 1 << 16
AT_ONCE = 1 << 23  # places of events and groups
FIT_MIN = 512
FIT_EVENTS = 2_048
COSTED = 128
Rates = Mapping[str, Sequence[float]]


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
    """What it took to look up the events of a file for a level, whether anybody was affected or not: how many went by
    which method; what each method alone would have taken, as far as rates are known; and the rates that were fitted.
    `seconds`, of a worker, have the fitting in them."""

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


class Bands:
    """A level of band joins, for events of one side."""

    def __init__(self, level: Level, side: int) -> None:
        lo, hi = level.lo[1], level.hi[1]
        ends = (lo, hi) if side == 0 else (-hi, -lo)
        self.index = BandIndex.build(level.ids, *ends, level.group[side])

    def records(self, image: Image, event: Ints, b: Numbers, a: Numbers, rates: Rates | None) -> Iterator[Found]:
        groups = self.index.groups.point.size
        at_once = max(256, AT_ONCE // groups)
        for start in range(0, event.size, at_once):
            chosen = event[start : start + at_once]
            found = [self.index.probe(segment.b, b[chosen]) for segment in image.segments]
            if not found:
                return
            lefts, rights = found[0].lefts, found[0].rights
            for other in found[1:]:
                np.maximum(lefts, other.lefts, out=lefts)
                np.maximum(rights, other.rights, out=rights)
            yield Found(_dense if groups <= DENSE_MAX else _sparse, chosen, (lefts, rights), {"groups": chosen.size})

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        """Event and query of each pair, in no order; a pair may be there twice."""
        groups = self.index.groups
        parts = _of_dense(records) if "l0" in records.column_names else _of_sparse(records)
        found = [_prefixes(groups.at[g], groups.by_right, self.index.ids, *part) for g, *part in parts]
        return _joined(found)


class Filters:
    """A level of filters: events are values, and `a` is what they are."""

    def __init__(self, level: Level) -> None:
        places = np.arange(len(level), dtype=np.int32)
        self._ids, self._is_clustered = level.ids, level.groups(1) <= DENSE_MAX
        build = PrefixIndex.build if self._is_clustered else IntervalIndex.build
        self._index = build(places, level.lo[0], level.hi[0])
        self._first, self._last = _united(level.lo[0], level.hi[0])

    def pass_some(self, values: Numbers) -> Mask:
        """Whether a value is within any range."""
        at = np.searchsorted(self._first, values, "right") - 1
        found: Mask = (at >= 0) & (values <= self._last[at])
        return found

    def records(self, image: Image, event: Ints, b: Numbers, a: Numbers, rates: Rates | None) -> Iterator[Found]:
        for start in range(0, event.size, FILTERED_AT_ONCE):
            chosen = event[start : start + FILTERED_AT_ONCE]
            if isinstance(self._index, PrefixIndex):
                yield Found(_stabbed, chosen, self._index.records(a[chosen]), {PREFIXES: chosen.size})
            else:
                at, places = self._index.stab(a[chosen])
                yield Found(_lists, chosen, Lists(at, np.diff(at), places), {ONE_BY_ONE: chosen.size})

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        event = records.column("e").to_numpy().astype(np.int64)
        if not isinstance(self._index, PrefixIndex):
            return event, self._ids[records.column("q").to_numpy()]
        columns = (records.column(name).to_numpy(zero_copy_only=False) for name in ("e", "n", "right", "size"))
        at, places = self._index.expand(Records(*columns))
        return np.repeat(event, np.diff(at)), self._ids[places]


class Selects:
    """A level of select-joins, for events of one side."""

    def __init__(self, level: Level, side: int) -> None:
        a, c = side, 1 - side
        rectangles = Rectangles(level.ids, level.lo[a], level.hi[a], level.lo[c], level.hi[c])
        self._methods = Methods(rectangles, level.group[side])
        self._ids = level.ids

    def records(self, image: Image, event: Ints, b: Numbers, a: Numbers, rates: Rates | None) -> Iterator[Found]:
        events = Events(a[event], b[event])
        for segment in image.segments:
            rows, fitted = Rows(segment.b, segment.c), None
            sample = np.unique(np.linspace(0, event.size - 1, FIT_EVENTS).astype(np.int64))
            if rates is None and event.size >= FIT_MIN:
                some = self._methods.meet(rows, events.take(sample))
                rates = fitted = Router.fit(self._methods, segment.c, some).to_json()
            if rates is None:
                met = self._methods.meet(rows, events, counts=False)
                yield from _found(event, "groups", self._methods.run("groups", segment.c, met))
                continue
            router = Router.from_json(rates)
            costs = self._costs(router, rows, events, sample[:: max(1, sample.size // COSTED)])
            for method, places, found in router.run(self._methods, rows, events):
                for part in _found(event[places], method, found):
                    yield replace(part, rates=fitted, costs_s=costs)
                    fitted, costs = None, {}

    def _costs(self, router: Router, rows: Rows, events: Events, sample: Ints) -> dict[str, float]:
        """Seconds of all events by each method alone, as some of them tell."""
        seconds = router.costs(self._methods.meet(rows, events.take(sample))).sum(axis=1) * events.b.size / sample.size
        return {m: float(s) for m, s in zip(METHODS, seconds, strict=True) if np.isfinite(s)}

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        if "q" in records.column_names:
            return records.column("e").to_numpy().astype(np.int64), self._ids[records.column("q").to_numpy()]
        groups = self._methods.groups.groups
        ids = self._methods.groups.ids
        return _joined([_prefixes(groups.at[n], groups.of_right, ids, *part) for n, *part in _of_sparse(records)])


@dataclass(frozen=True, slots=True)
class Found:
    """Who some events affect, and the shape it is written in."""

    shape: Any
    event: Ints
    found: Any
    methods: Mapping[str, int]
    rates: Rates | None = None
    costs_s: Mapping[str, float] = field(default_factory=dict)

    def table(self) -> pa.Table:
        return self.shape(self.event, self.found)


def _found(event: Ints, method: str, found: methods.Found) -> Iterator[Found]:
    """Groups and lists are written apart; events that went by both are counted once."""
    if found.nodes is not None:
        yield Found(_nodes, event, found.nodes, {method: event.size})
    if found.lists is not None:
        yield Found(_lists, event, found.lists, {method: event.size} if found.nodes is None else {})


class Probes:
    """Writes the records of one row file as seen from one joint and side."""

    def __init__(self, root: Path, stem: str, look: int) -> None:
        self._root, self._stem, self._look = root, stem, look
        self.looked: list[Looked] = []

    def probe(self, number: int, level: Prober, image: Image, event: Ints, b: Numbers, a: Numbers,
              rates: Rates | None) -> Iterator[Written]:  # fmt: skip
        """`event`: the rows that are events, in order of b."""
        if not event.size:
            return
        looked, began = Looked(self._look, number, event.size), thread_time()
        self.looked.append(looked)
        for piece, found in enumerate(level.records(image, event, b, a, rates)):
            looked.count(found)
            table = found.table()
            if not table.num_rows:
                continue
            path = f"{self._stem}.{self._look}.{number}.{piece}.arrow"
            size, crc = write_table(self._root / path, table, "lz4")
            yield Written(path, size, crc, self._look, number)
        looked.seconds = thread_time() - began


Prober = Bands | Selects | Filters


def prober(kind: str, level: Level, side: int) -> Prober:
    if kind == FILTER:
        return Filters(level)
    return Bands(level, side) if kind == BAND else Selects(level, side)


# -- shapes -----------------------------------------------------------------------------------------


def _dense(event: Ints, found: tuple[Numbers, Numbers]) -> pa.Table:
    lefts, rights = found
    columns = {"e": pa.array(event.astype(np.int32))}
    for g in range(lefts.shape[0]):
        columns[f"l{g}"], columns[f"r{g}"] = pa.array(lefts[g]), pa.array(rights[g])
    return pa.table(columns)


def _sparse(event: Ints, found: tuple[Numbers, Numbers]) -> pa.Table:
    lefts, rights = found
    group, place = np.nonzero(lefts | rights)
    values = event[place].astype(np.int32), group.astype(np.int32), lefts[group, place], rights[group, place]
    return pa.table(dict(zip("enlr", map(pa.array, values), strict=True)))


def _nodes(event: Ints, found: Nodes) -> pa.Table:
    values = event[found.event].astype(np.int32), found.node, found.lefts, found.rights
    return pa.table(dict(zip("enlr", map(pa.array, values), strict=True)))


def _lists(event: Ints, found: Lists) -> pa.Table:
    at = spread(found.at[:-1], found.counts)
    return pa.table({"e": pa.array(np.repeat(event, found.counts).astype(np.int32)), "q": pa.array(found.ids[at])})


def _stabbed(event: Ints, found: Records) -> pa.Table:
    values = event[found.value].astype(np.int32), found.group, found.is_right, found.size
    return pa.table(dict(zip(("e", "n", "right", "size"), map(pa.array, values), strict=True)))


Part = tuple[int, Ints, Ints, Ints]
"""A group or node; events, and how many of it they affect by left end and by right."""


def _of_dense(records: pa.Table) -> Iterator[Part]:
    event = records.column("e").to_numpy()
    for g in range((records.num_columns - 1) // 2):
        yield g, event, records.column(f"l{g}").to_numpy(), records.column(f"r{g}").to_numpy()


def _of_sparse(records: pa.Table) -> Iterator[Part]:
    event, node, lefts, rights = (records.column(name).to_numpy() for name in "enlr")
    order = np.argsort(node, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(node[order])) + 1):
        if places.size:
            yield int(node[places[0]]), event[places], lefts[places], rights[places]


def _prefixes(at: int, of_right: Any, ids: Ints, event: Ints, lefts: Ints, rights: Ints) -> tuple[Ints, Ints]:
    """The queries that so many by left end, and by right end, are."""
    by_left = ids[spread(np.full(lefts.size, at), lefts)]
    by_right = ids[at + of_right[spread(np.full(rights.size, at), rights)]]
    events = np.concatenate([np.repeat(event, lefts), np.repeat(event, rights)]).astype(np.int64)
    return events, np.concatenate([by_left, by_right])


def _united(lo: Numbers, hi: Numbers) -> tuple[Numbers, Numbers]:
    """The intervals that these make together, in order."""
    order = np.argsort(lo)
    reach = np.maximum.accumulate(hi[order])
    begins = np.append(True, lo[order][1:] > reach[:-1])
    return lo[order][begins], reach[np.append(begins[1:], True)]


def _joined(found: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    none = [np.empty(0, np.int64)]
    return np.concatenate(none + [e for e, _ in found]), np.concatenate(none + [q for _, q in found])
