"""Benchmark `joins`: standing joins by the hundred thousand, beside the methods the thesis compares
with.

Kernels alone, in one thread, all compiled: figures 4.7 to 4.21.  `kernels.py` says what a
method is given and what counts as its work.  Then the engine on Spark (`on_spark.py`).

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from headrace.bench.joins import histogram, hotspots, intervals, on_spark, routing
from headrace.bench.joins.kernels import OUTPUT, SEED, Speeds, band_speeds, select_speeds
from headrace.bench.joins.workload import draw_bands
from headrace.bench.plot import Curve, Panel, draw
from headrace.bench.report import Figure, Report, machine, verdict
from headrace.families.joins.intervals.histogram import stabbing
from headrace.families.joins.levels.standing import Standing
from headrace.families.joins.plan import BAND, JoinShape
from headrace.sql.tree import Column
from headrace.values import BIGINT

Tell = Callable[[str], None]
Measure = Callable[[int, float, bool], Speeds]
LENGTH = 600.0  # mean length of ranges: some 40 groups at 100,000 queries
BAND_WANTED, SELECT_WANTED, KEPT_WANTED = 50, 10, 1 / 3
CHANGE_WANTED_MS, ERROR_WANTED, BUILD_WANTED_S = 1.0, 0.15, 1.0
CHANGES = 2_000


@dataclass(frozen=True, slots=True)
class Extent:
    """Sizes of what a run measures: all of them, or fewer with `--quick`."""

    bands: tuple[int, ...]
    selects: tuple[int, ...]
    compared: int  # queries beside the rivals
    lengths: tuple[float, ...]
    selectivities: tuple[float, ...]  # shares of queries that have the a of an event
    joining: tuple[float, ...]  # rows that have its b
    standing: int
    buckets: tuple[int, ...]


EXTENTS = {
    True: Extent((500, 50_000), (1_000, 50_000), 50_000, (60.0,), (), (10.0,), 50_000, (20,)),
    False: Extent(
        (500, 5_000, 50_000, 100_000, 500_000),
        (1_000, 10_000, 100_000, 500_000),
        100_000,
        (2_000.0, 600.0, 200.0, 60.0, 20.0, 2.0),
        (0.001, 0.01, 0.1, 0.3),
        (10.0, 100.0, 1_000.0, 5_000.0),
        500_000,
        histogram.BUCKETS,
    ),
}


def run(quick: bool, tell: Tell) -> Report:
    bench = Bench(EXTENTS[quick], tell)
    measures = (
        bench.bands,
        bench.selects,
        bench.groups,
        bench.selectivities,
        bench.maintenance,
        bench.histogram,
    )
    for measure in measures:
        measure()
    for part in (intervals, hotspots, routing, on_spark):
        bench.figures += part.run(quick, tell).figures
    key = "events a second, one thread, output left out"
    picture = draw(bench.panels, Path("bench"), "joins", key)
    title = (
        f"standing joins of the thesis's workload, {bench.extent.standing:,} queries at the most"
    )
    return Report(title, tuple(bench.figures), picture, machine(0, SEED))


class Bench:
    """Figures and panels, as they are measured."""

    def __init__(self, extent: Extent, tell: Tell) -> None:
        self.extent = extent
        self.figures: list[Figure] = []
        self.panels: list[Panel] = []
        self._tell = tell

    def bands(self) -> None:
        found = self._by_queries("band", self.extent.bands, band_speeds)
        kept = found[-1].per_s["ours"] / found[0].per_s["ours"]
        note = f"from {found[0].queries:,} to {found[-1].queries:,} queries, want ≥ 1/3: "
        note += verdict(kept >= KEPT_WANTED)
        self.figures.append(
            Figure("band_kept", kept, "×", "about 1/3 over a 10⁴-fold growth", note)
        )
        self._ratio(
            "band", found, BAND_WANTED, "orders of magnitude over merge, query-outer and data-outer"
        )

    def selects(self) -> None:
        found = self._by_queries("select", self.extent.selects, select_speeds)
        self._ratio(
            "select", found, SELECT_WANTED, "join-first has less than 5% of its speed at 100,000"
        )

    def _by_queries(self, kind: str, sizes: Sequence[int], measure: Measure) -> list[Speeds]:
        found: list[Speeds] = []
        for queries in sizes:
            found.append(measure(queries, LENGTH, queries <= self.extent.compared))
            note = (
                f"{found[-1].groups} groups, {found[-1].affected:,.0f} queries affected by an event"
            )
            self._add(f"{kind}_{queries}", found[-1], note)
        self._panel(f"{kind} joins, by queries", "queries", {s.queries: s for s in found})
        return found

    def groups(self) -> None:
        """Figures 4.7 (ii) and 4.10 (ii): shorter ranges, more groups."""
        measures: dict[str, Measure] = {"band": band_speeds, "select": select_speeds}
        for kind, measure in measures.items():
            found: dict[float, Speeds] = {}
            for length in self.extent.lengths:
                speeds = measure(self.extent.compared, length, True)
                found[speeds.groups] = speeds
                self._add(f"{kind}_groups_{speeds.groups}", speeds, f"{speeds.queries:,} queries")
            self._panel(f"{kind} joins, by stabbing groups", "groups", found)

    def selectivities(self) -> None:
        """Figure 4.8: (iii) more queries have the a of an event, (iv) more rows have its b."""
        count = self.extent.compared
        having = {
            share: select_speeds(count, LENGTH, True, selectivity=share)
            for share in self.extent.selectivities
        }
        joined = {
            rows: select_speeds(count, LENGTH, True, joined=rows) for rows in self.extent.joining
        }
        for name, what, found in (
            ("having", "share of queries that have the a", having),
            ("joining", "rows that have the b", joined),
        ):
            for at, speeds in found.items():
                self._add(
                    f"select_{name}_{at:g}",
                    speeds,
                    f"{speeds.affected:,.0f} queries affected by an event",
                )
            self._panel(f"select-joins, by {what}", what, found)

    def maintenance(self) -> None:
        """Figure 4.11: joins come and go, one by one; levels and hotspots are kept up to date."""
        count = self.extent.standing
        bands = draw_bands(np.random.default_rng([SEED, 1]), count + CHANGES, LENGTH)
        ends = zip(bands.lo.tolist(), bands.hi.tolist(), strict=True)
        boxes = {i: ((lo, hi, lo, hi),) for i, (lo, hi) in enumerate(ends)}
        meets = (Column("b", BIGINT),), (Column("b", BIGINT, 1),)
        standing = Standing(JoinShape(("r", "s"), BAND, meets))
        standing.update({i: boxes[i] for i in range(1, count)}, [])
        standing.update({0: boxes[0]}, [1])  # compiled, if it was not
        standing.update({1: boxes[1]}, [])
        took: list[float] = []
        ordered, sorted_list = (
            sorted(box[0][:2] for i, box in boxes.items() if i < count),
            list[float](),
        )
        for i in range(count, count + CHANGES):
            began = perf_counter()
            standing.update({i: boxes[i]}, [])
            standing.update({}, [i - count])
            took.append((perf_counter() - began) / 2)
            began = perf_counter()
            insort(ordered, boxes[i][0][:2])
            del ordered[bisect_left(ordered, boxes[i - count][0][:2])]
            sorted_list.append((perf_counter() - began) / 2)
        mean, levels = (
            1_000 * float(np.mean(took)),
            ", ".join(f"{len(level):,}" for level in standing.levels),
        )
        hot = standing.tally(0)["hot"] / count
        note = (
            f"mean, median {1_000 * median(took):.3f}; a sorted list {1_000 * float(np.mean(sorted_list)):.3f}; "
            f"{hot:.0%} in hotspots, levels of {levels}; "
        )
        self.figures.append(
            Figure(
                f"change_{count}_ms",
                mean,
                "ms",
                "20% above merge's sorted list",
                f"{note}want < 1: {verdict(mean < CHANGE_WANTED_MS)}",
            )
        )

    def histogram(self) -> None:
        """Figure 4.12: how many ranges a value stabs, estimated."""
        self._tell("histograms")
        lo, hi = histogram.intervals(SEED)
        stabbing(lo, hi, 20)
        began = perf_counter()
        stabbing(lo, hi, 20)
        took = perf_counter() - began
        for row in histogram.figure(SEED, buckets=self.extent.buckets):
            published = "14.9%, equal width 70%" if row.buckets == 20 else ""
            note = f"equal width {row.equal_width:.1%}, optimal on a sample {row.optimal:.1%}"
            if row.buckets == 20:
                note += f"; want ≤ 15%: {verdict(row.ours <= ERROR_WANTED)}"
            self.figures.append(
                Figure(f"histogram_{row.buckets}_error", row.ours, "", published, note)
            )
        self.figures.append(
            Figure(
                "histogram_build_s", took, "s", note=f"want < 1: {verdict(took < BUILD_WANTED_S)}"
            )
        )

    def _add(self, name: str, speeds: Speeds, note: str) -> None:
        self._tell(
            f"{name}: "
            + ", ".join(f"{m} {s:,.0f}/s" for m, s in speeds.per_s.items())
            + f" ({note})"
        )
        self.figures += [
            Figure(f"{name}_{m}_per_s", s, "events/s", note=note) for m, s in speeds.per_s.items()
        ]

    def _ratio(self, kind: str, found: Sequence[Speeds], wanted: float, published: str) -> None:
        speeds = next(s for s in found if s.queries == self.extent.compared)
        name, best = speeds.best_rival()
        ratio = speeds.per_s["ours"] / best
        note = (
            f"to {name} at {speeds.queries:,} queries, want ≥ {wanted}: {verdict(ratio >= wanted)}"
        )
        self.figures.append(Figure(f"{kind}_ratio", ratio, "×", published, note))
        name, best = speeds.best_rival(with_output=True)
        ratio, note = (
            speeds.per_s[f"ours{OUTPUT}"] / best,
            f"to {name}: all answers are written by both",
        )
        self.figures.append(Figure(f"{kind}_ratio{OUTPUT}", ratio, "×", note=note))

    def _panel(self, title: str, x: str, found: dict[float, Speeds] | dict[int, Speeds]) -> None:
        panel = Panel(title, x, "events a second", log_x=True, log_y=True)
        names = dict.fromkeys(m for s in found.values() for m in s.per_s if not m.endswith(OUTPUT))
        for colour, name in enumerate(names):
            points = {float(at): s.per_s[name] for at, s in found.items() if name in s.per_s}
            panel.curves.append(Curve(name, points, colour))
        self.panels.append(panel)
