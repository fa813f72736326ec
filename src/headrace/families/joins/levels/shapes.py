"""The shapes records of who is affected are written in, and read from.

Of few groups almost every event affects some query of each: then a file has two columns a group.
Otherwise it has a row for each event and group, or node of a group's tree, that have anything to do
with each other.  Queries that are found one by one are listed: a row for each event and query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.families.joins.cost import summed
from headrace.families.joins.intervals.prefixes import Records
from headrace.families.joins.selects.kernels import Nodes
from headrace.families.joins.selects.methods import Lists
from headrace.relations.arrays import Ints, Ints32, Numbers, spread

FILE_BYTES = 1 << 25  # of records, before they are compressed
Rates = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Found:
    """Records of who some events affect."""

    table: pa.Table
    methods: Mapping[str, int]
    rates: Rates | None = None
    costs_s: Mapping[str, float] = field(default_factory=dict)

    def joined(self, other: Found) -> Found:
        """With later ones of the same shape."""
        methods = {
            name: int(count) for name, count in summed((self.methods, other.methods)).items()
        }
        rates = other.rates if self.rates is None else self.rates
        tables = pa.concat_tables([self.table, other.table])
        return Found(tables, methods, rates, summed((self.costs_s, other.costs_s)))


def gathered(parts: Iterable[Found]) -> Iterator[Found]:
    """The same records in few files: those of one shape together, up to a size."""
    open_parts: dict[tuple[str, ...], Found] = {}
    for part in parts:
        if part.table.num_rows:
            shape = tuple(part.table.column_names)
            whole = open_parts.pop(shape).joined(part) if shape in open_parts else part
            if whole.table.nbytes >= FILE_BYTES:
                yield replace(whole, table=whole.table.combine_chunks())
            else:
                open_parts[shape] = whole
    yield from (replace(whole, table=whole.table.combine_chunks()) for whole in open_parts.values())


def dense(event: Ints, found: tuple[Numbers, Numbers]) -> pa.Table:
    lefts, rights = found
    columns = {"e": pa.array(event.astype(np.int32))}
    for g in range(lefts.shape[0]):
        columns[f"l{g}"], columns[f"r{g}"] = pa.array(lefts[g]), pa.array(rights[g])
    return pa.table(columns)


def sparse(event: Ints, found: tuple[Numbers, Numbers]) -> pa.Table:
    lefts, rights = found
    group, place = np.nonzero(lefts | rights)
    values = (
        event[place].astype(np.int32),
        group.astype(np.int32),
        lefts[group, place],
        rights[group, place],
    )
    return pa.table(dict(zip("enlr", map(pa.array, values), strict=True)))


def nodes(event: Ints, found: Nodes) -> pa.Table:
    values = event[found.event].astype(np.int32), found.node, found.lefts, found.rights
    return pa.table(dict(zip("enlr", map(pa.array, values), strict=True)))


def lists(event: Ints, found: Lists) -> pa.Table:
    return pairs(np.repeat(event, found.counts), found.ids[spread(found.at[:-1], found.counts)])


def pairs(event: Ints, query: Ints32) -> pa.Table:
    return pa.table({"e": pa.array(event.astype(np.int32)), "q": pa.array(query)})


def stabbed(event: Ints, found: Records) -> pa.Table:
    values = event[found.value].astype(np.int32), found.group, found.is_right, found.size
    return pa.table(dict(zip(("e", "n", "right", "size"), map(pa.array, values), strict=True)))


Part = tuple[int, Ints, Ints, Ints]
"""A group or node; events, and how many of it they affect by left end and by right."""


def of_dense(records: pa.Table) -> Iterator[Part]:
    event = records.column("e").to_numpy()
    for g in range((records.num_columns - 1) // 2):
        yield g, event, records.column(f"l{g}").to_numpy(), records.column(f"r{g}").to_numpy()


def of_sparse(records: pa.Table) -> Iterator[Part]:
    event, node, lefts, rights = (records.column(name).to_numpy() for name in "enlr")
    order = np.argsort(node, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(node[order])) + 1):
        if places.size:
            yield int(node[places[0]]), event[places], lefts[places], rights[places]


def prefixes(
    at: int, of_right: Any, ids: Ints, event: Ints, lefts: Ints, rights: Ints
) -> tuple[Ints, Ints]:
    """The queries that so many by left end, and by right end, are."""
    by_left = ids[spread(np.full(lefts.size, at), lefts)]
    by_right = ids[at + of_right[spread(np.full(rights.size, at), rights)]]
    events = np.concatenate([np.repeat(event, lefts), np.repeat(event, rights)]).astype(np.int64)
    return events, np.concatenate([by_left, by_right])


def joined(found: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    none = [np.empty(0, np.int64)]
    return np.concatenate(none + [e for e, _ in found]), np.concatenate(
        none + [q for _, q in found]
    )
