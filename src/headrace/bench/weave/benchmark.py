"""Benchmark `weave`: figures 4–11 and 14 of Weave Share, ours beside the published
points.

The optimizer is measured, not a stream: costs are operations a second by the paper's model, times
are of planning. Every normalised panel has three curves: the paper's operator, the same trees with
the O(1) final operator, and our one set of panes (`costs.py`).  Workloads are seeded; where
there are several seeds, costs are means over them.

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from headrace.bench.plot import Curve, Panel, draw
from headrace.bench.report import Figure, Report, commit
from headrace.bench.weave.costs import LOCAL_SEARCH, Costs, mean_costs, policies
from headrace.bench.weave.drift import change_ms, drift, from_scratch, plan_seconds, variant_seconds
from headrace.bench.weave.workload import DIVISORS, TEMPLATES, Workload
from headrace.families.windows.weave.online import REACH

Tell = Callable[[str], None]

LOW, MEDIUM, HIGH = 50.0, 300.0, 10_000.0
TWICE = "figure 6 says 62%, the text of figure 8 says 12%"
DRIFT_RATE = 100.0
KEY = "—  the paper's operator      - -  the same trees, O(1) final operator      · · ·  one set of panes (ours)"


@dataclass(frozen=True, slots=True)
class Extent:
    """Sizes of what a run measures: all of them, or fewer with `--quick`."""

    seeds: int
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    overlaps: tuple[float, ...]
    overlap_rates: tuple[float, ...]
    skews: tuple[float, ...]
    skew_sizes: tuple[int, ...]
    search_max: int
    drift_queries: int
    tolerances: tuple[float, ...]
    variants: dict[int, tuple[str, ...]]
    planned: tuple[int, ...]
    changed: tuple[int, ...]


EXTENTS = {
    True: Extent(
        1,
        (50, 100, 250, 1_000),
        (50.0, 300.0, 2_000.0, 3_000.0, 10_000.0),
        (50.0, 200.0, 2_000.0),
        (1e5,),
        (0.0, 0.6, 1.2, 2.1, 3.3),
        (250, 1_000),
        250,
        200,
        (0.0, 0.05, 0.2, math.inf),
        {20: ("naive", "I", "I+II", "I+II+III"), 250: ("I+II+III",)},
        (2_000, 10_000),
        (2_000,),
    ),
    False: Extent(
        3,
        (50, 100, 250, 500, 1_000),
        (50.0, 100.0, 300.0, 1_000.0, 2_000.0, 3_000.0, 5_000.0, 10_000.0),
        (50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0),
        (1e2, 1e3, 1e4, 1e5, 1e6),
        (0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0, 3.3),
        (250, 500, 1_000, 2_000),
        1_000,
        500,
        (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, math.inf),
        {
            20: ("naive", "I", "I+II", "I+II+III"),
            60: ("naive", "I", "I+II", "I+II+III"),
            250: ("I+II", "I+II+III"),
        },
        (2_000, 10_000, 100_000, 1_000_000),
        (2_000, 100_000),
    ),
}


def run(quick: bool, tell: Tell) -> Report:
    bench = Bench(EXTENTS[quick], tell)
    for measure in (
        bench.policies,
        bench.sizes,
        bench.rates,
        bench.overlaps,
        bench.skews,
        bench.drift,
        bench.times,
    ):
        measure()
    about = {
        "commit": commit(),
        "cores": str(os.cpu_count()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "seeds": str(bench.extent.seeds),
    }
    title = f"Weave Share by its own cost model, means of {bench.extent.seeds} workloads"
    return Report(
        title, tuple(bench.figures), draw(bench.panels, Path("bench"), "weave", KEY), about
    )


class Bench:
    """Runs one figure after the other and collects numbers and panels."""

    def __init__(self, extent: Extent, tell: Tell) -> None:
        self.extent = extent
        self.figures: list[Figure] = []
        self.panels: list[Panel] = []
        self._tell = tell

    def _mean(self, base: Workload, rate: float) -> Costs:
        return mean_costs(
            (replace(base, seed=base.seed + n) for n in range(self.extent.seeds)), rate
        )

    def _gain(self, name: str, costs: Costs, published: str, note: str = "") -> None:
        self.figures.append(
            Figure(name, round(100 * costs.gain, 1) + 0.0, "% below Shared", published, note)
        )
        self.figures.append(
            Figure(
                f"{name}_ours", round(100 * (1 - costs.ours / costs.shared), 1), "% below Shared"
            )
        )

    def policies(self) -> None:
        """Figures 4 and 5: every plan against the number of queries."""
        most = max(self.extent.sizes)
        overlap = sum(shape.overlap for shape in Workload(most).shapes())
        for number, rate, published in ((4, LOW, "3"), (5, MEDIUM, "4")):
            self._tell(f"figure {number}: all policies at λ = {rate:g}")
            curves: dict[str, dict[float, float]] = {}
            for size in self.extent.sizes:
                for name, cost in policies(
                    Workload(size), rate, size <= self.extent.search_max
                ).items():
                    curves.setdefault(name, {})[size] = cost
            panel = Panel(
                f"figure {number}: λ = {rate:g}", "queries", "operations a second", log_y=True
            )
            panel.curves.extend(
                Curve(name, points, n) for n, (name, points) in enumerate(curves.items())
            )
            self.panels.append(panel)
            for name in ("Shared", "Insert-then-Weave"):
                ratio = curves[name][most] / curves["Weave Share"][most]
                note = f"with one edge a second at most, the model allows {1 + overlap / rate:.0f}× for Shared"
                said = f"{published} orders of magnitude"
                self.figures.append(
                    Figure(f"fig{number}_{_slug(name)}_over_weave_{most}", ratio, "×", said, note)
                )
            searched = max(curves[LOCAL_SEARCH])
            ratio = curves[LOCAL_SEARCH][searched] / curves["Weave Share"][searched]
            name = f"fig{number}_local_search_over_weave_{searched:g}"
            self.figures.append(Figure(name, ratio, "×", "never below 1"))

    def sizes(self) -> None:
        """Figures 6 and 7: cost against Shared, and trees, by number of queries."""
        cost = Panel("figure 6: cost / Shared", "queries", "normalised cost")
        trees = Panel("figure 7: trees", "queries", "trees", log_y=True)
        for colour, rate in enumerate((LOW, MEDIUM, HIGH)):
            self._tell(f"figures 6 and 7: λ = {rate:g}")
            found = {float(size): self._mean(Workload(size), rate) for size in self.extent.sizes}
            cost.curves.extend(_normalised(f"λ {rate:g}", found, colour))
            trees.curves.append(
                Curve(f"λ {rate:g}", {size: c.trees for size, c in found.items()}, colour)
            )
            if rate == HIGH:
                self._gain("fig6_gain_1000_rate_10000", found[1_000], "62%", TWICE)
                self.figures.append(
                    Figure("fig7_trees_1000_rate_10000", found[1_000].trees, "trees", "more than 1")
                )
                self.figures.append(
                    Figure("fig7_trees_100_rate_10000", found[100].trees, "trees", "1")
                )
        self.panels += [cost, trees]

    def rates(self) -> None:
        """Figure 8: cost against Shared, by rate."""
        panel = Panel("figure 8: cost / Shared", "λ", "normalised cost", log_x=True)
        published = {
            (250, 50.0): "80%",
            (250, 2_000.0): "24%",
            (250, 3_000.0): "6%",
            (1_000, HIGH): "12%",
            (2_000, HIGH): "24%",
        }
        for colour, size in enumerate((250, 1_000, 2_000)):
            self._tell(f"figure 8: {size} queries")
            found = {rate: self._mean(Workload(size), rate) for rate in self.extent.rates}
            panel.curves.extend(_normalised(f"{size} queries", found, colour))
            for rate, costs in found.items():
                if (size, rate) in published:
                    self._gain(f"fig8_gain_{size}_rate_{rate:g}", costs, published[size, rate])
        self.panels.append(panel)

    def overlaps(self) -> None:
        """Figure 9: cost against Shared, by Ω_max, with 2,000 queries; at λ = 100K with whole
        overlaps too."""
        panel = Panel(
            "figure 9: cost / Shared, 2,000 queries", "Ω_max", "normalised cost", log_x=True
        )
        published = {50.0: "0%", 200.0: "19%", 2_000.0: "74%"}
        for colour, rate in enumerate(self.extent.overlap_rates):
            for whole in (False, True) if rate == 1e5 else (False,):
                self._tell(f"figure 9: λ = {rate:g}{', whole overlaps' if whole else ''}")
                base = Workload(2_000, whole=whole)
                found = {
                    most: self._mean(replace(base, overlap_max=most), rate)
                    for most in self.extent.overlaps
                }
                kind = "whole" if whole else "real"
                name = f"λ {rate:g}, {kind} ω"
                panel.curves.extend(
                    _normalised(name, found, 6 if whole else colour)[: 3 if rate == 1e5 else 1]
                )
                for most in published if rate == 1e5 else ():
                    self._gain(
                        f"fig9_gain_{most:g}_{kind}",
                        found[most],
                        published[most],
                        f"{kind} overlaps",
                    )
        self.panels.append(panel)

    def skews(self) -> None:
        """Figure 10: cost against Shared, by skew, at λ = 100 and Ω_max 10."""
        panel = Panel("figure 10: cost / Shared, λ = 100, Ω_max 10", "skew", "normalised cost")
        for colour, size in enumerate(self.extent.skew_sizes):
            self._tell(f"figure 10: {size} queries")
            base = Workload(size, overlap_max=10.0)
            found = {
                skew: self._mean(replace(base, skew=skew), 100.0) for skew in self.extent.skews
            }
            panel.curves.extend(_normalised(f"{size} queries", found, colour))
            best = max(found, key=lambda skew: found[skew].gain)
            self._gain(
                f"fig10_best_gain_{size}",
                found[best],
                "rises, then falls to 0",
                f"at skew {best:g}",
            )
            self._gain(f"fig10_gain_{size}_skew_3.3", found[3.3], "0%")
        self.panels.append(panel)

    def drift(self) -> None:
        """Figure 11: deviation from plans from scratch against pairs compared, by tolerance.

        As published, nothing but the tolerance asks for a rebuild; ours asks for one at every
        doubling too.
        """
        shapes = Workload(self.extent.drift_queries).shapes()
        scratch = from_scratch(shapes, DRIFT_RATE)
        panel = Panel(
            "figure 11: deviation against overhead",
            "pairs compared",
            "% above from scratch",
            log_x=True,
        )
        for colour, (kind, reach) in enumerate(
            (("as published", math.inf), ("and at every doubling", REACH))
        ):
            points = {}
            for tolerance in self.extent.tolerances:
                self._tell(f"figure 11, {kind}: tolerance {tolerance:g}")
                found = drift(shapes, len(shapes) // 10, DRIFT_RATE, tolerance, reach, scratch)
                points[float(found.comparisons)] = 100 * found.deviation
                name = f"fig11_deviation_{tolerance:g}{'' if reach == math.inf else '_doubling'}"
                note = f"{kind}: {found.rebuilds} rebuilds, {found.comparisons:,} pairs compared"
                self.figures.append(
                    Figure(name, round(100 * found.deviation, 2), "%", "falls with overhead", note)
                )
            panel.curves.append(Curve(kind, points, colour))
        self.panels.append(panel)

    def times(self) -> None:
        """Figure 14: what each optimisation saves; and how planning and changes scale."""
        curves: dict[str, dict[float, float]] = {}
        for size, variants in self.extent.variants.items():
            self._tell(f"figure 14: {size} queries")
            for name, seconds in variant_seconds(size, variants).items():
                curves.setdefault(name, {})[size] = seconds
                self.figures.append(Figure(f"fig14_{_slug(name)}_{size}_s", seconds, "s"))
            found = [curves[name][size] for name in variants]
            saved = ", ".join(f"{a / b:.3g}×" for a, b in pairwise(found))
            if saved:
                name, note = f"fig14_speed_up_{size}", f"{', '.join(variants)}: {saved} in turn"
                self.figures.append(Figure(name, found[0] / found[-1], "×", "about 10× each", note))
        for size in self.extent.planned:
            self._tell(f"planning {size:,} queries")
            for kind, templates in (("ours", TEMPLATES), ("divisors", DIVISORS)):
                seconds, trees = plan_seconds(size, LOW, templates)
                curves.setdefault(kind, {})[size] = seconds
                self.figures.append(
                    Figure(
                        f"plan_{size}_{kind}_s", seconds, "s", note=f"{trees:,} trees, λ = {LOW:g}"
                    )
                )
        for size in self.extent.changed:
            self._tell(f"changing a plan of {size:,} queries")
            for rate in (LOW, HIGH):
                added, dropped, odd = change_ms(size, rate)
                self.figures.append(
                    Figure(f"add_{size}_rate_{rate:g}_ms", added, "ms", note="median; want < 10")
                )
                self.figures.append(
                    Figure(f"drop_{size}_rate_{rate:g}_ms", dropped, "ms", note="median; want < 10")
                )
                note = "200 slides that the plan has not: the slowest; want < 10"
                self.figures.append(
                    Figure(f"add_odd_{size}_rate_{rate:g}_ms", odd, "ms", note=note)
                )
        panel = Panel("figure 14: seconds to plan", "queries", "seconds", log_x=True, log_y=True)
        panel.curves.extend(
            Curve(name, points, n) for n, (name, points) in enumerate(curves.items())
        )
        self.panels.append(panel)


def _normalised(name: str, found: dict[float, Costs], colour: int) -> Sequence[Curve]:
    """Against Shared under the paper's operator."""
    return [
        Curve(name, {x: c.paper / c.shared for x, c in found.items()}, colour, "paper"),
        Curve(
            f"{name}, O(1)",
            {x: c.constant / c.shared for x, c in found.items()},
            colour,
            "constant",
        ),
        Curve(f"{name}, ours", {x: c.ours / c.shared for x, c in found.items()}, colour, "ours"),
    ]


def _slug(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_").replace("+", "_")
