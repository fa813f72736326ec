"""What a round costs: quantities × rates, by stage.  Pure.

Rates are seconds on one machine (two cores, `headrace bench cost` fits them).  Machines differ, so each home scales
them: every committed round notes what the rates alone said of it (`priced`), and a stage's *factor* is the median of
measured over priced, over the rounds before.  A forecast is rates × factors for the plan and the stream as they are
now: it moves at once when queries come or go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from headrace.families.windows.workload import Quantities

STAGES = ("plan", "spark", "joins", "plain", "roll", "answer", "write", "commit")
READ, FINISH = ("plan", "spark"), ("roll", "answer", "write", "commit")
FACTOR_MAX = 20.0


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds for one unit of a quantity."""

    stage: str
    seconds: float
    unit: str


RATES: Mapping[str, Rate] = {
    "plan": Rate("plan", 2.0e-4, "a round: the catalog is read"),
    "plan_query": Rate("plan", 3.5e-7, "a query"),
    "spark": Rate("spark", 0.12, "a round: a job planned, started, collected"),
    "spark_row": Rate("spark", 1.0e-7, "a row read, its pane computed"),
    "spark_row_predicate": Rate("spark", 1.0e-8, "a predicate of a row"),
    "spark_row_key": Rate("spark", 3.0e-8, "a key of a row"),
    "spark_row_step": Rate("spark", 5.0e-8, "a step of placing a row among the edges of a cell"),
    "spark_row_part": Rate("spark", 5.0e-9, "an aggregate of a row"),
    "spark_cell_part": Rate("spark", 5.0e-8, "an aggregate of a cell, shuffled and sent"),
    "roll": Rate("roll", 3.0e-3, "a round: the pane log is written"),
    "roll_cell_part": Rate("roll", 3.0e-8, "an aggregate of a cell, logged and laid out"),
    "roll_cell_branch": Rate("roll", 1.0e-8, "a predicate of a cell"),
    "roll_slot": Rate("roll", 5.0e-5, "a slot"),
    "roll_slot_column": Rate("roll", 1.0e-8, "a column of a pane and group of a slot"),
    "roll_ring": Rate("roll", 3.0e-5, "a ring"),
    "roll_ring_column": Rate("roll", 1.0e-8, "a column of a pane and group of a ring"),
    "answer": Rate("answer", 1.0e-4, "a round"),
    "answer_pane": Rate("answer", 2.0e-9, "a column of a pane and group that is closed"),
    "answer_ring": Rate("answer", 8.0e-5, "a ring that closes a pane"),
    "answer_shape": Rate("answer", 1.0e-8, "a column of a group of a window that ends"),
    "answer_query": Rate("answer", 8.0e-6, "a query with a window that ends"),
    "answer_row": Rate("answer", 8.0e-7, "an answer"),
    "write": Rate("write", 2.0e-3, "a round: files written and synced"),
    "write_row": Rate("write", 2.0e-7, "an answer"),
    "commit": Rate("commit", 0.035, "a round: logs and manifest synced, and what no stage counts"),
}


def priced(quantities: Quantities) -> dict[str, float]:
    """Seconds by stage by the rates alone."""
    seconds: dict[str, float] = {}
    for name, rate in RATES.items():
        seconds[rate.stage] = seconds.get(rate.stage, 0.0) + rate.seconds * float(quantities[name].sum())
    return seconds


def measured_stages(seconds: Mapping[str, float]) -> dict[str, float]:
    """A committed round by stage.  What no stopwatch saw, the commit most of all, is `commit`; `trigger` is no part."""
    seen = {k: v for k, v in seconds.items() if k not in ("trigger", "total", "cycle", "commit")}
    return {**seen, "commit": max(seconds["total"] - sum(seen.values()), 0.0)}


@dataclass(frozen=True, slots=True)
class Round:
    """A committed round: what was measured, and what the rates alone say of it."""

    seconds: Mapping[str, float]
    priced: Mapping[str, float]


def factors_of(rounds: Sequence[Round]) -> dict[str, float]:
    """How much slower than the rates this home is, by stage; rounds that were not priced tell nothing."""
    ratios: dict[str, list[float]] = {}
    for round in rounds:
        measured = measured_stages(round.seconds)
        for stage, seconds in round.priced.items():
            if seconds > 0.0:
                ratios.setdefault(stage, []).append(measured.get(stage, 0.0) / seconds)
    return {stage: min(max(median(found), 1 / FACTOR_MAX), FACTOR_MAX) for stage, found in ratios.items()}


@dataclass(frozen=True, slots=True)
class Forecast:
    """The next round: seconds by stage, of a round of so many rows and about so many answers."""

    rows: float
    answers: float
    seconds: Mapping[str, float]
    learnt_from: int

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())


def forecast(
    rows: float, answers: float, prices: Mapping[str, float], rounds: Sequence[Round], trigger_s: float | None
) -> Forecast:
    """Prices × factors, and the wait for the round before, if Spark calls for the next so soon (`trigger_s`)."""
    factors = factors_of(rounds)
    seconds = {stage: prices[stage] * factors.get(stage, 1.0) for stage in STAGES if stage in prices}
    if trigger_s is not None:
        ahead_s = trigger_s + sum(seconds.get(s, 0.0) for s in READ)
        seconds["wait"] = max(sum(seconds.get(s, 0.0) for s in FINISH) - ahead_s, 0.0)
    return Forecast(rows, answers, seconds, sum(bool(r.priced) for r in rounds))
