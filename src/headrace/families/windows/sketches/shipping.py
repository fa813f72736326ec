"""From the columns Spark sends, or the pane log holds, to bundles of panes.  Rows of one pane and
group meet here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.families.windows.aggregation.columns import part_names, parts_of
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import Measure
from headrace.families.windows.rollup.codes import Codes, codes_for
from headrace.families.windows.sketches import hll_kernels, value_kernels
from headrace.families.windows.sketches.arriving import offsets_of
from headrace.families.windows.sketches.bundles import Bundle, Points, Registers
from headrace.families.windows.sketches.hll_kernels import Ints, Ints32
from headrace.families.windows.sketches.kinds import points_max, to_keys


@dataclass(frozen=True, slots=True)
class Picked:
    """The rows of a pane table that a slot selects: where they are, their panes and groups."""

    table: pa.Table
    rows: Ints
    pane_us: Ints
    groups: Ints32


@dataclass(frozen=True, slots=True)
class Shipped:
    """Bundles by pane.  `is_partial`: some cell had more values than its limit, and came without.

    `too_large`: the bytes they would take, where that is more than there may be; they have not been
    made."""

    times: Ints
    bundles: tuple[Bundle, ...]
    is_partial: bool = False
    too_large: int = 0


class Unpacking:
    """Reads one measure.  Text and other values without an order of numbers are given codes."""

    def __init__(self, measure: Measure, bytes_max: int) -> None:
        self._measure, self._bytes_max = measure, bytes_max
        self.codes: Codes | None = None

    def unpack(self, cuts: Cuts, picked: Picked) -> Shipped:
        if not picked.rows.size:
            return Shipped(picked.pane_us, ())
        names = part_names(cuts.measures)
        columns = [
            picked.table.column(names[part]).take(pa.array(picked.rows)).combine_chunks()
            for part in parts_of(self._measure)
        ]
        if columns[0].null_count:
            return Shipped(picked.pane_us[:0], (), is_partial=True)
        times, pane_of, groups, lines = _places(picked)
        made: Registers | Points
        if self._measure.kind == "hll":
            taken = groups.size << self._measure.params[0]
            if taken > self._bytes_max:  # however few values there are
                return Shipped(times[:0], (), too_large=taken)
            made = self._registers(columns[0].flatten(), offsets_of(columns[0]), groups, lines)
        else:
            made = self._points(columns, offsets_of(columns[0]), groups, lines)
        edges = np.searchsorted(pane_of, np.arange(times.size + 1))
        return Shipped(times, tuple(_slice(made, a, b) for a, b in pairwise(edges.tolist())))

    def _registers(
        self, coupons: pa.Array, offsets: Ints, groups: Ints32, lines: Ints
    ) -> Registers:
        precision = self._measure.params[0]
        registers = np.zeros((groups.size, 1 << precision), np.uint8)
        hll_kernels.fold_coupons(
            coupons.to_numpy(zero_copy_only=False), offsets, lines, precision, registers
        )
        return Registers(groups, registers)

    def _points(
        self, columns: list[pa.Array], offsets: Ints, groups: Ints32, lines: Ints
    ) -> Points:
        values = self._keys(columns[0].flatten())
        kind, is_set, most = self._measure.kind, self._measure.kind == "distinct", 0
        weights = np.ones(values.size, np.int64)
        if is_set:
            value_kernels.sort_runs(values, offsets)
        elif kind == "points":
            most = points_max(self._measure.params[0])
            weights = value_kernels.share_weights(
                columns[1].to_numpy(zero_copy_only=False), offsets, most
            )
        merged = value_kernels.merge_runs(
            values, weights, offsets[:-1], offsets[1:], lines, groups.size, is_set
        )
        return Points(groups, merged[2], merged[0], merged[1], is_set, most)

    def _keys(self, values: pa.Array) -> Ints:
        if pa.types.is_floating(values.type):
            numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
            return to_keys(numbers, is_set=self._measure.kind == "distinct")
        if pa.types.is_integer(values.type):
            return np.array(values.to_numpy(zero_copy_only=False), np.int64)
        if self.codes is None:
            self.codes = codes_for(values.type)
        return self.codes.encode(values).astype(np.int64)


def _places(picked: Picked) -> tuple[Ints, Ints, Ints32, Ints]:
    """Panes; for each place (a pane and group, in order) its pane and its group; the place of each
    row."""
    times, pane = np.unique(picked.pane_us, return_inverse=True)
    width = int(picked.groups.max()) + 1
    places, lines = np.unique(pane * width + picked.groups, return_inverse=True)
    pane_of, group = np.divmod(places, width)
    return times, pane_of, group.astype(np.int32), lines.astype(np.int64)


def _slice(made: Registers | Points, start: int, stop: int) -> Registers | Points:
    if isinstance(made, Registers):
        return Registers(made.groups[start:stop], made.registers[start:stop])
    first, last = made.offsets[start], made.offsets[stop]
    return Points(
        made.groups[start:stop],
        made.offsets[start : stop + 1] - first,
        made.values[first:last],
        made.weights[first:last],
        made.is_set,
        made.thin_to,
    )
