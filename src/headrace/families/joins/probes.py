"""Records of who is affected: events looked up for one level of queries, written as a file, and read again.

A record says of an event that the first so many queries of a group are affected, by left end and by right end; of a
select-join it is a node of a group's tree.  Of few groups almost every event affects some query of each: then a file
has two columns a group.  Otherwise it has a row for each event and group that have anything to do with each other.
Events of select-joins that go another way than by groups (`routing.py`) have a row for each query they affect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.families.joins.arrays import Ints, Numbers
from headrace.families.joins.band_index import BandIndex
from headrace.families.joins.image import Image
from headrace.families.joins.plan import BAND
from headrace.families.joins.routing import METHODS, Lists, Methods, Router
from headrace.families.joins.rowfiles import map_table, write_table
from headrace.families.joins.select_index import Events, Rectangles, Rows
from headrace.families.joins.select_kernels import Nodes
from headrace.families.joins.standing import Level

DENSE_MAX = 512  # groups
AT_ONCE = 1 << 23  # places of events and groups
FIT_MIN = 512
FIT_EVENTS = 2_048
Rates = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Written:
    """A file of records: of which level; how many events went by which method; and the rates that were fitted."""

    path: str
    size: int
    crc: int
    look: int
    level: int
    events: Mapping[str, int]
    rates: Rates | None = field(default=None)


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
            met = self._methods.meet(Rows(segment.b, segment.c), events)
            met_some = np.flatnonzero(met.first < met.last)
            if not met_some.size:
                continue
            met = met.take(met_some)
            fitted = None
            if rates is None and met_some.size >= FIT_MIN:
                sample = np.linspace(0, met_some.size - 1, min(FIT_EVENTS, met_some.size)).astype(np.int64)
                rates = fitted = Router.fit(self._methods, segment.c, met.take(sample)).rates
            router = Router({m: tuple(r) for m, r in (rates or _UNFITTED).items()})
            for places, found in router.run(self._methods, segment.c, met):
                method = METHODS[0] if isinstance(found, Nodes) else "others"
                shape = _nodes if isinstance(found, Nodes) else _lists
                yield Found(shape, event[met_some[places]], found, {method: places.size}, fitted)
                fitted = None

    def affected(self, records: pa.Table) -> tuple[Ints, Ints]:
        if "q" in records.column_names:
            return records.column("e").to_numpy().astype(np.int64), self._ids[records.column("q").to_numpy()]
        groups = self._methods.groups.groups
        ids = self._methods.groups.ids
        return _joined([_prefixes(groups.at[n], groups.of_right, ids, *part) for n, *part in _of_sparse(records)])


_UNFITTED: Rates = {"groups": (0.0,), "select_first": (1.0, 1.0), "join_first": (1.0, 1.0, 1.0)}


@dataclass(frozen=True, slots=True)
class Found:
    """Who some events affect, and the shape it is written in."""

    shape: Any
    event: Ints
    found: Any
    methods: Mapping[str, int]
    rates: Rates | None = None

    def table(self) -> pa.Table:
        return self.shape(self.event, self.found)


class Probes:
    """Writes the records of one row file as seen from one joint and side."""

    def __init__(self, root: Path, stem: str, look: int) -> None:
        self._root, self._stem, self._look = root, stem, look

    def probe(self, number: int, level: Bands | Selects, image: Image, event: Ints, b: Numbers, a: Numbers,
              rates: Rates | None) -> Iterator[Written]:  # fmt: skip
        """`event`: the rows that are events, in order of b."""
        if not len(image):
            return
        for piece, found in enumerate(level.records(image, event, b, a, rates)):
            table = found.table()
            if not table.num_rows:
                continue
            path = f"{self._stem}.{self._look}.{number}.{piece}.arrow"
            size, crc = write_table(self._root / path, table, "lz4")
            yield Written(path, size, crc, self._look, number, found.methods, found.rates)


def prober(kind: str, level: Level, side: int) -> Bands | Selects:
    return Bands(level, side) if kind == BAND else Selects(level, side)


def read_records(root: Path, written: Written) -> pa.Table:
    return map_table(root / written.path, written.size, written.crc)


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
    ends = np.cumsum(found.counts)
    at = np.arange(ends[-1]) - np.repeat(ends - found.counts - found.at[:-1], found.counts)
    return pa.table({"e": pa.array(np.repeat(event, found.counts).astype(np.int32)), "q": pa.array(found.ids[at])})


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
    by_left = ids[at + _ranges(lefts)]
    by_right = ids[at + of_right[at + _ranges(rights)]]
    events = np.concatenate([np.repeat(event, lefts), np.repeat(event, rights)]).astype(np.int64)
    return events, np.concatenate([by_left, by_right])


def _ranges(counts: Ints) -> Ints:
    """0 … count - 1 of each count, one after the other."""
    ends = np.cumsum(counts, dtype=np.int64)
    found: Ints = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - counts, counts)
    return found


def _joined(found: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    none = [np.empty(0, np.int64)]
    return np.concatenate(none + [e for e, _ in found]), np.concatenate(none + [q for _, q in found])
