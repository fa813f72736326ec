"""The sketch stores of one stream: one for each measure of a slot that is kept as sketches.

They are a cache of the pane log, as rings are: what is missing is read from it before the next
round.  A ring says which windows of which groups are answered; the sketch store of the same slot
gives each the value of its sketch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.config import Config
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.measures import Measure, measures_for
from headrace.families.windows.plan import Program, Share, Slot
from headrace.families.windows.rings.ring import Answers, Windows
from headrace.families.windows.sketches.bias import Bias
from headrace.families.windows.sketches.bundles import Bundle
from headrace.families.windows.sketches.hll_kernels import Ints, Ints32
from headrace.families.windows.sketches.kinds import Limits, is_sketched, read
from headrace.families.windows.sketches.shipping import Picked, Shipped, Unpacking
from headrace.families.windows.sketches.sketch_store import SketchStore
from headrace.families.windows.weave.edges import Shape
from headrace.sql.tree import Aggregate
from headrace.values import Window

Values = NDArray[Any]
CODES_MIN = 100_000
MEMORY_ROUNDS = 8


class Rows(Protocol):
    """A pane table whose rows can be picked by slot."""

    def pick(self, slot: Slot) -> Picked | None: ...


class Sitting(Protocol):
    """Who sits on a ring (`ring_members.Members`)."""

    @property
    def windows(self) -> Windows: ...
    @property
    def shapes(self) -> Ints: ...
    @property
    def program(self) -> Ints: ...
    @property
    def programs(self) -> tuple[Program, ...]: ...


History = Iterator[tuple[Cuts, Rows, int]]
"""Earlier rounds: what was aggregated, their panes, and the time of their newest row."""
SketchKey = tuple[Slot, Measure]


@dataclass(slots=True, eq=False)
class _Kept:
    """A sketch store, how its rows are read, and who asks for which window."""

    sketch_store: SketchStore
    unpacking: Unpacking
    members: dict[int, Shape] = field(default_factory=dict)
    is_barred: bool = False
    codes_max: int = CODES_MIN


def limits_of(config: Config) -> Limits:
    return Limits(config.sketch_values_max, config.distinct_values_max)


class SketchStores:
    """All sketch stores of a stream."""

    def __init__(self, config: Config) -> None:
        self._config, self._limits = config, limits_of(config)
        self._planner = ThreadPoolExecutor(1, "headrace-weave")
        self._kept: dict[SketchKey, _Kept] = {}
        self._asked: dict[int, Share] = {}
        self._rounds = 0
        self.faults: dict[int, str] = {}
        self.since: dict[int, int] = {}
        self.bias: dict[int, Bias] = {}
        self.nbytes = 0

    # -- who asks ----------------------------------------------------------------------------------

    def join(self, query_id: int, asked: Share) -> None:
        for measure in (m for m in asked.measures if m.is_sketch):
            self._asked[query_id] = asked
            kept = self._kept.get((asked.slot, measure))
            if kept is None:
                kept = _Kept(
                    SketchStore(measure.kind, self._planner),
                    Unpacking(measure, self._config.sketch_bytes_max),
                )
                self._kept[asked.slot, measure] = kept
            kept.members[query_id] = shape_of(asked.window)
            kept.sketch_store.join(shape_of(asked.window))

    def leave(self, query_id: int) -> None:
        asked = self._asked.pop(query_id, None)
        for measure in () if asked is None else (m for m in asked.measures if m.is_sketch):
            assert asked is not None
            kept = self._kept[asked.slot, measure]
            kept.sketch_store.leave(kept.members.pop(query_id))
            if not kept.members:
                del self._kept[asked.slot, measure]

    def forget(self, slot: Slot) -> None:
        """The groups of this slot are numbered anew."""
        for (own, measure), kept in self._kept.items():
            if own == slot:
                kept.sketch_store.is_new, kept.unpacking = (
                    True,
                    Unpacking(measure, self._config.sketch_bytes_max),
                )

    # -- a round -----------------------------------------------------------------------------------

    def take(self, cuts: Cuts, rows: Rows, history: History, watermark_us: int | None) -> None:
        """Make what is missing, with history up to the watermark before this round, and add the
        panes of the round."""
        if not self._kept:
            return
        self._grow(history, watermark_us)
        for (slot, measure), kept in self._kept.items():
            if kept.is_barred:
                continue
            shipped = _unpack(slot, measure, kept, cuts, rows)
            if shipped is not None and shipped.is_partial:
                kept.is_barred = True
                reason = self._too_many(measure, "more", "pane")
                self.faults.update(dict.fromkeys(kept.members, reason))
            elif shipped is not None and shipped.too_large:
                self._bar(kept, shipped.too_large)
            elif shipped is not None:
                kept.sketch_store.add(shipped.times, shipped.bundles)
        self._check_memory()

    def _grow(self, history: History, watermark_us: int | None) -> None:
        missing: list[tuple[SketchKey, _Kept, list[Any], dict[int, list[Bundle]]]] = []
        for key, kept in self._kept.items():
            if kept.is_barred:
                continue
            is_new = kept.sketch_store.is_new
            if is_new:
                kept.sketch_store.begin(watermark_us)
            keepers = kept.sketch_store.settle()
            if keepers and not is_new and kept.sketch_store.is_tangled:
                kept.sketch_store.begin(watermark_us)
                keepers, is_new = kept.sketch_store.settle(), True
            if keepers and watermark_us is not None:
                missing.append((key, kept, keepers if not is_new else [None], {}))
        if not missing:
            return
        for cuts, rows, newest_us in history:
            for (slot, measure), kept, keepers, panes in missing:
                shipped = _unpack(slot, measure, kept, cuts, rows)
                # too many values then: windows must begin later
                if shipped is not None and shipped.is_partial:
                    self.since.update(dict.fromkeys(kept.members, newest_us + 1))
                elif shipped is not None:
                    self._sort_out(shipped, kept, panes, is_new=keepers == [None])
        for _, kept, keepers, panes in missing:
            kept.sketch_store.feed(
                kept.sketch_store.keepers if keepers == [None] else keepers, panes
            )

    def _sort_out(
        self, shipped: Shipped, kept: _Kept, panes: dict[int, list[Bundle]], is_new: bool
    ) -> None:
        """Closed panes are for the trees; open ones the sketch store has already, unless it is
        new."""
        if shipped.too_large:
            self._bar(kept, shipped.too_large)
        for time, bundle in zip(shipped.times.tolist(), shipped.bundles, strict=True):
            if time < kept.sketch_store.closed_us:
                panes.setdefault(time, []).append(bundle)
            elif is_new:
                kept.sketch_store.add(np.array([time]), [bundle])

    def _too_many(self, measure: Measure, size: str, where: str) -> str:
        limit, name = self._limits.of(measure.kind), Limits.name(measure.kind)
        others = {
            "distinct": "approx_count_distinct",
            "values": "percentile_approx",
            "points": "less accuracy",
        }
        return (
            f"{name.removesuffix('_max').upper()}: a group has {size} values in one {where} than {name} = {limit:,}; "
            f"use {others[measure.kind]}, a shorter range or more groups, or raise the limit"
        )

    def _check_memory(self) -> None:
        """Past the limit, those who ask for the largest sketch store are taken out; looked at every
        few rounds."""
        self._rounds += 1
        if self._rounds % MEMORY_ROUNDS != 1:
            return
        sizes = {
            key: kept.sketch_store.nbytes for key, kept in self._kept.items() if not kept.is_barred
        }
        self.nbytes = sum(sizes.values())
        for key in sorted(sizes, key=lambda k: -sizes[k]):
            if self.nbytes <= self._config.sketch_bytes_max:
                break
            self._bar(self._kept[key], sizes[key])
            self.nbytes -= sizes[key]

    def _bar(self, kept: _Kept, taken: int) -> None:
        """No memory for this sketch store: those who ask for it are taken out."""
        kept.is_barred = kept.sketch_store.is_new = True
        reason = (
            f"SKETCH_BYTES: its sketches take {taken:,} bytes, and with all others more than sketch_bytes_max = "
            f"{self._config.sketch_bytes_max:,}; use fewer groups, a shorter range, or raise the limit"
        )
        self.faults.update(dict.fromkeys(kept.members, reason))

    # -- answers -----------------------------------------------------------------------------------

    def close(self, watermark_us: int) -> None:
        """Panes that the watermark has passed go to the trees."""
        for kept in self._kept.values():
            if not kept.is_barred:
                kept.sketch_store.close(watermark_us)

    def answer(
        self, slot: Slot, grain_us: int, sitting: Sitting, answers: Answers
    ) -> dict[Aggregate, Values]:
        """The value of each sketched aggregate, for every answer of a ring; those with too many
        values are faults."""
        found: dict[Aggregate, Values] = {}
        readings = _readings(sitting)
        if not readings:
            return found
        spans = zip(
            *(
                getattr(sitting.windows, f"{n}_panes") * grain_us
                for n in ("range", "slide", "offset")
            ),
            strict=True,
        )
        for number, span in enumerate(spans):
            shape = Shape(*map(int, span))
            start, stop = answers.offsets[number], answers.offsets[number + 1]
            for first, last in blocks_of(answers.end[start:stop], int(start)):
                end_us = int(answers.end[first]) * grain_us
                self._read(
                    slot,
                    shape,
                    end_us,
                    answers.group[first:last],
                    readings.get(number, {}),
                    found,
                    (answers.end.size, first),
                )
        return found

    def _read(
        self,
        slot: Slot,
        shape: Shape,
        end_us: int,
        groups: Ints32,
        wanted: Mapping[Aggregate, Measure],
        found: dict[Aggregate, Values],
        place: tuple[int, int],
    ) -> None:
        """One window: merge once for each measure, read every aggregate of it."""
        size, first = place
        merged: dict[Measure, Bundle | None] = {}
        for aggregate, measure in wanted.items():
            kept = self._kept[slot, measure]
            if kept.is_barred:
                continue
            if measure not in merged:
                merged[measure] = kept.sketch_store.window(shape, end_us)
                self._check_size(kept, measure, merged[measure], shape, groups)
            bundle = merged[measure]
            if bundle is not None:
                values = read(aggregate, bundle, groups, self.bias)
                if aggregate not in found:
                    found[aggregate] = np.zeros(size, values.dtype)
                found[aggregate][first : first + values.size] = values

    def _check_size(
        self, kept: _Kept, measure: Measure, bundle: Bundle | None, shape: Shape, groups: Ints32
    ) -> None:
        if bundle is None:
            return
        largest = int(bundle.sizes(groups).max(initial=0))
        if largest > self._limits.of(measure.kind):
            reason = self._too_many(measure, f"{largest:,}, more", "window")
            self.faults.update(
                (query_id, reason) for query_id, own in kept.members.items() if own == shape
            )

    def tidy(self) -> None:
        """Let go of panes no window can need, and of codes that few values still have."""
        for kept in self._kept.values():
            if kept.is_barred or kept.sketch_store.is_new:
                continue
            kept.sketch_store.forget()
            codes = 0 if kept.unpacking.codes is None else len(kept.unpacking.codes)
            if not kept.codes_max:  # they have just been given anew
                kept.codes_max = max(CODES_MIN, 2 * codes)
            elif codes > kept.codes_max:
                kept.sketch_store.is_new, kept.unpacking.codes, kept.codes_max = True, None, 0


def shape_of(window: Window) -> Shape:
    return Shape(window.range_us, window.slide_us, window.offset_us)


def _unpack(slot: Slot, measure: Measure, kept: _Kept, cuts: Cuts, rows: Rows) -> Shipped | None:
    """The slot's panes, if these cuts have them."""
    picked = rows.pick(slot) if measure in cuts.measures else None
    return None if picked is None else kept.unpacking.unpack(cuts, picked)


def _readings(sitting: Sitting) -> dict[int, dict[Aggregate, Measure]]:
    """For each window shape of a ring, the sketched aggregates its queries ask for."""
    own = [
        {a: measures_for(a)[1] for a in program.aggregates if is_sketched(a)}
        for program in sitting.programs
    ]
    found: dict[int, dict[Aggregate, Measure]] = {}
    if any(own):
        for shape, program in set(
            zip(sitting.shapes.tolist(), sitting.program.tolist(), strict=True)
        ):
            if own[program]:
                found.setdefault(shape, {}).update(own[program])
    return found


def blocks_of(ends: Ints, base: int) -> Iterator[tuple[int, int]]:
    """Where each run of answers with one end begins and stops, from `base` on."""
    edges = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), ends.size] if ends.size else []
    return pairwise(base + edge for edge in edges)
