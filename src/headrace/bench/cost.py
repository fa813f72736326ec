"""Benchmark `cost`: is EXPLAIN's estimate of a round what the round then takes?

Varied workloads (queries, rows a round, groups, predicates) run through the real engine.  Before
each round the forecast is made that EXPLAIN would show, from the manifests there are by then;
afterwards it is held against what was measured.  A workload's ratio is the median over its rounds
of max(estimate / measured, measured / estimate).  One workload grows: the forecast for the plan
with the new queries is made before any round has run with them.

The default rates are fitted on the workloads that are not held out (`fit`); what they say of the
others without anything learnt there is `by_rates`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from headrace.bench import market
from headrace.bench.feed import write_file
from headrace.bench.report import Figure, Report, machine
from headrace.bench.windows import Tell, linked, wait_for_rounds
from headrace.config import Config
from headrace.engine import Engine
from headrace.families.windows.costs.cost import RATES
from headrace.families.windows.costs.flow import flow_of, is_united_next
from headrace.families.windows.costs.workload import (
    Flow,
    Quantities,
    RingWorks,
    Workload,
    quantities_of,
    workload_of,
)
from headrace.families.windows.cuts import plan_cuts
from headrace.families.windows.explain import assignment_of
from headrace.families.windows.plan import RingAssignment
from headrace.families.windows.sharing import price_of
from headrace.forecast import forecast, measured_stages, recent_stats
from headrace.runtime.ledger import Ledger
from headrace.runtime.session import make_session
from headrace.runtime.statistics import Stats, rows_expected
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 7
SECONDS_PER_FILE = 4
FILES = {True: 9, False: 16}
WARM_ROUNDS = 3
RATIO_MAX = 1.5
SWEEPS = 500
SHRINK = 0.02
LEAST_S = 1e-4


@dataclass(frozen=True, slots=True)
class Case:
    """A workload: how many queries of which kind, and how many rows a second."""

    name: str
    queries: int
    rows_per_second: int
    fits: Callable[[str], bool] = bool
    held_out: bool = False
    quick: bool = False
    grows_by: int = 0


def _is_ungrouped(sql: str) -> bool:
    return "GROUP BY window(" in sql


def _is_unfiltered(sql: str) -> bool:
    return "WHERE" not in sql


CASES = (
    Case("10", 10, 50_000, quick=True),
    Case("100_few_rows", 100, 5_000),
    Case("1000", 1_000, 50_000, quick=True),
    Case("1000_many_rows", 1_000, 150_000),
    Case("10000", 10_000, 50_000, quick=True),
    Case("100_ungrouped", 100, 50_000, _is_ungrouped),
    Case("300_unfiltered", 300, 50_000, _is_unfiltered),
    Case("100_held", 100, 50_000, held_out=True, quick=True),
    Case("3000_held", 3_000, 25_000, held_out=True),
    Case("10000_few_rows_held", 10_000, 10_000, held_out=True),
    Case("300_ungrouped_held", 300, 100_000, _is_ungrouped, held_out=True),
    Case("1000_growing_to_4000", 1_000, 50_000, held_out=True, quick=True, grows_by=3_000),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A workload that has run: its plan, the stats of its rounds, and the first round with that
    plan; how long it took to split the cost among the queries, and by how much of the measured
    total the shares miss it."""

    case: Case
    work: Workload
    history: Sequence[Stats]
    forecasts: Sequence[float]
    first: int
    split_s: float = 0.0
    split_off: float = 0.0

    @property
    def measured(self) -> list[float]:
        return [s["seconds"]["total"] for s in self.history[self.first :]]

    @property
    def ratios(self) -> list[float]:
        return [max(e / m, m / e) for e, m in zip(self.forecasts, self.measured, strict=True)]

    @property
    def by_rates(self) -> list[float]:
        """What the rates alone say, by round, against what was measured without waiting."""
        told = [(sum(s["priced"].values()), _busy(s)) for s in self.history[self.first :]]
        return [max(e / m, m / e) for e, m in told]


def _busy(stats: Stats) -> float:
    return float(stats["seconds"]["total"] - stats["seconds"].get("wait", 0.0))


def run(quick: bool, tell: Tell) -> Report:
    files = FILES[quick]
    texts = market.queries(np.random.default_rng(SEED), 2 * max(c.queries for c in CASES))
    spark = make_session(Config.from_environment())
    try:
        with tempfile.TemporaryDirectory(
            prefix="headrace-bench-", ignore_cleanup_errors=True
        ) as made:
            bench = Bench(spark, Path(made), files, tell)
            bench.trial(replace(CASES[2], name="warming up"), texts)
            trials = [bench.trial(case, texts) for case in CASES if case.quick or not quick]
    finally:
        spark.stop()
    rounds = sum(len(t.measured) for t in trials)
    title = f"{len(trials)} workloads, {rounds} rounds forecast"
    return Report(title, tuple(figures_of(trials)), None, machine(files, SEED))


class Bench:
    """Files of trades, a set for each rate, and an engine for each workload."""

    def __init__(self, spark: SparkSession, folder: Path, files: int, tell: Tell) -> None:
        self._spark = spark
        self._folder = folder
        self._files = files
        self._tell = tell

    def _trades(self, rows_per_second: int) -> Path:
        folder = self._folder / f"trades-{rows_per_second}"
        if not folder.exists():
            made = market.Market(np.random.default_rng(SEED))
            for number in range(self._files):
                start_us = market.START_US + number * SECONDS_PER_FILE * US_PER_S
                write_file(folder, number, made.trades(start_us, SECONDS_PER_FILE, rows_per_second))
        return folder

    def trial(self, case: Case, texts: dict[str, str]) -> Trial:
        self._tell(
            f"{case.name}: {case.queries:,} queries, {case.rows_per_second * SECONDS_PER_FILE:,} rows a round"
        )
        chosen = {n: sql for n, sql in texts.items() if case.fits(sql)}
        items = list(chosen.items())[: case.queries + case.grows_by]
        folder = Path(tempfile.mkdtemp(prefix="ours-", dir=self._folder))
        half = self._files // 2 if case.grows_by else self._files
        source = linked(self._trades(case.rows_per_second), folder, half)
        with Engine(folder / "race", spark=self._spark) as engine:
            engine.create_stream(
                "trades",
                f"parquet:{source}?maxFilesPerTrigger=1",
                schema=market.SCHEMA,
                time=market.TIME,
                late=market.LATE,
            )
            engine.add_many(dict(items[: case.queries]))
            engine.start()
            wait_for_rounds(engine, half)
            if case.grows_by:
                engine.add_many(dict(items[case.queries :]))
                linked(self._trades(case.rows_per_second), folder, self._files)
                wait_for_rounds(engine, self._files)
            engine.stop()
            trial = _forecasts(engine, case, half if case.grows_by else WARM_ROUNDS)
        return _with_split(trial, Engine(folder / "race"))


def _with_split(trial: Trial, engine: Engine) -> Trial:
    """`headrace list --cost`, as another process would ask."""
    began = perf_counter()
    (cost,) = engine.costs()
    took_s = perf_counter() - began
    off = abs(sum(q.seconds for q in cost.queries) / cost.measured_s - 1)
    return replace(trial, split_s=took_s, split_off=off)


def _workload(assignment: RingAssignment, united: bool) -> Workload:
    rings = assignment.rings.values()
    return workload_of(RingWorks().of(rings), plan_cuts(rings, united))


def _forecasts(engine: Engine, case: Case, first: int) -> Trial:
    """What EXPLAIN would have said before each round from `first` on."""
    relation = engine.catalog.relation("trades")
    live = [(r.id, r.query) for r in engine.catalog.queries.values()]
    history = recent_stats(Ledger(engine.home.disk, engine.home.stream_folder("trades")), 1_000)
    work = _workload(assignment_of(live, relation), is_united_next(history))
    # later ones have learnt from the plan with all queries
    until = first + 1 if case.grows_by else len(history)
    known = [history[max(0, n - 9) : n] for n in range(first, until)]
    made = [
        forecast(rows_expected(told), price_of(work, told), told, overlaps=True).total_s
        for told in known
    ]
    # the first round with them also replays the pane log for their rings: the rounds after count
    if case.grows_by:
        made *= len(history) - first
    return Trial(case, work, history, made, first)


# -- the fit ---------------------------------------------------------------------------------------


def fit(trials: Sequence[Trial]) -> dict[str, float]:
    """Rates, none negative, that make the squares of the relative errors of each stage least.

    Quantities go together (more queries have more rings, shapes and answers), so what the rounds do
    not tell apart stays in the proportion of the defaults: `SHRINK` pulls the rates of a stage
    towards them, scaled alike."""
    lines = [
        (_quantities(t, s), measured_stages(s["seconds"]))
        for t in trials
        for s in t.history[t.first :]
    ]
    found: dict[str, float] = {}
    for stage in dict.fromkeys(r.stage for r in RATES.values()):
        names = [n for n, r in RATES.items() if r.stage == stage]
        prices = np.array([[RATES[n].seconds * float(q[n].sum()) for n in names] for q, _ in lines])
        measured = np.maximum([seconds.get(stage, 0.0) for _, seconds in lines], LEAST_S)
        scale = float(np.median(measured / prices.sum(axis=1)))
        matrix = np.vstack(
            [prices * scale / measured[:, None], np.eye(len(names)) * np.sqrt(SHRINK * len(lines))]
        )
        wanted = np.append(np.ones(len(lines)), np.full(len(names), np.sqrt(SHRINK * len(lines))))
        factors = _least_squares(matrix, wanted)
        found.update({n: RATES[n].seconds * scale * f for n, f in zip(names, factors, strict=True)})
    return found


def _quantities(trial: Trial, stats: Stats) -> Quantities:
    flow = flow_of([stats])
    before_us, after_us = stats["watermark_before_us"], stats["watermark_us"]
    assert flow is not None and before_us is not None
    past: Flow = replace(flow, before_us=before_us, after_us=after_us)
    return quantities_of(trial.work, past)


def _least_squares(matrix: np.ndarray, wanted: np.ndarray) -> list[float]:
    """Least squares without negative factors, a coordinate at a time."""
    gram, target = matrix.T @ matrix, matrix.T @ wanted
    factors = np.zeros(matrix.shape[1])
    for _ in range(SWEEPS):
        for i in range(factors.size):
            factors[i] = max(0.0, factors[i] + (target[i] - gram[i] @ factors) / gram[i, i])
    return [float(f) for f in factors]


def figures_of(trials: Sequence[Trial]) -> list[Figure]:
    found: list[Figure] = []
    for trial in trials:
        name = trial.case.name
        found += [
            Figure(f"{name}_measured_s", median(trial.measured), "s", note="median of its rounds"),
            Figure(f"{name}_estimated_s", median(trial.forecasts), "s", note="before each round"),
            Figure(f"{name}_ratio", median(trial.ratios), "×", note=_held(median(trial.ratios))),
            Figure(f"{name}_ratio_worst", max(trial.ratios), "×", note="of a single round"),
            Figure(
                f"{name}_by_rates",
                median(trial.by_rates),
                "×",
                note=f"nothing learnt; {'held out of' if trial.case.held_out else 'in'} the fit",
            ),
        ]
    worst = max(median(t.ratios) for t in trials)
    most = max(trials, key=lambda t: t.work.queries)
    found += [
        Figure("worst_ratio", worst, "×", note=_held(worst)),
        Figure(
            "split_off",
            max(t.split_off for t in trials),
            "",
            note="list --cost: shares against the total",
        ),
        Figure(
            "split_s", most.split_s, "s", note=f"list --cost with {most.work.queries:,} queries"
        ),
    ]
    fitted = fit([t for t in trials if not t.case.held_out])
    found += [
        Figure(
            f"fit_{name}", rate, "s", note=f"{RATES[name].unit}; default {RATES[name].seconds:.3g}"
        )
        for name, rate in fitted.items()
    ]
    return found


def _held(ratio: float) -> str:
    return f"want ≤ {RATIO_MAX}: {'met' if ratio <= RATIO_MAX else 'MISSED'}"
