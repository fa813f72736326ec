"""What plans of one workload cost, under three ways to execute them.

paper     Weave Share's trees and its operator: a window examines all edges of its tree,
          m·λ + Σ EᵢΩᵢ
constant  the same trees, a window is one join of two parts, whatever its range,
          m·λ + Σ (Eᵢ + Σ 1/sⱼ)
ours      one set of panes for all windows, and that join,
          λ + E + Σ 1/s

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from time import perf_counter

import numpy as np

from headrace.bench.weave.rivals import (
    insert_then_weave,
    local_search,
    no_share,
    random_share,
)
from headrace.bench.weave.workload import Workload
from headrace.families.windows.weave.edges import Shape, edge_rate
from headrace.families.windows.weave.weave import Plan, weave

LOCAL_SEARCH = "Local Search"


@dataclass(frozen=True, slots=True)
class Costs:
    """Operations a second of Shared, and of the three; `trees` and `seconds` are Weave Share's."""

    shared: float
    paper: float
    constant: float
    ours: float
    trees: float
    seconds: float

    @property
    def gain(self) -> float:
        """By how much Weave Share is below Shared, as the paper reports it: a share of 1."""
        return 1 - self.paper / self.shared


def costs_of(shapes: Sequence[Shape], rate: float) -> tuple[Costs, Plan]:
    began = perf_counter()
    plan = weave(shapes, rate)
    seconds = perf_counter() - began
    union, ends = edge_rate(shapes).rate, sum(1 / s.slide_us for s in shapes)
    shared = rate + union * sum(s.overlap for s in shapes)
    constant = len(plan.trees) * rate + sum(tree.edges.rate for tree in plan.trees) + ends
    return Costs(shared, plan.cost, constant, rate + union + ends, len(plan.trees), seconds), plan


def mean_costs(workloads: Iterable[Workload], rate: float) -> Costs:
    """Of instances that differ in their seeds; gains are ratios of means."""
    found = [costs_of(workload.shapes(), rate)[0] for workload in workloads]
    columns = ("shared", "paper", "constant", "ours", "trees", "seconds")
    return Costs(*(mean(getattr(costs, column) for costs in found) for column in columns))


def policies(workload: Workload, rate: float, with_search: bool) -> Mapping[str, float]:
    """The cost of every plan of figures 4 and 5, by name."""
    shapes = workload.shapes()
    costs, plan = costs_of(shapes, rate)
    merges = len(shapes) - len(plan.trees)
    found = {
        "No Share": no_share(shapes, rate).cost,
        "Random": random_share(shapes, rate, np.random.default_rng(workload.seed)).cost,
        "Shared": costs.shared,
        "Insert-then-Weave": insert_then_weave(shapes, rate).cost,
    }
    if with_search:
        found[LOCAL_SEARCH] = local_search(shapes, rate, 10 * (merges + 1)).cost
    return found | {
        "Weave Share": costs.paper,
        "its trees, O(1)": costs.constant,
        "ours": costs.ours,
    }
