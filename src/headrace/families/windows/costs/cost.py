"""What a round of windows costs: quantities × rates, by stage.  Pure.

Rates are seconds on one machine (two cores, `headrace bench cost` fits them); a home learns how
much slower it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.families.windows.costs.workload import Quantities
from headrace.runtime.prices import COMMIT_S, PLAN_S, WRITE_S


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds for one unit of a quantity."""

    stage: str
    seconds: float
    unit: str


RATES: Mapping[str, Rate] = {
    "plan": Rate("plan", PLAN_S, "a round: the catalog is read"),
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
    "write": Rate("write", WRITE_S, "a round: files written and synced"),
    "write_row": Rate("write", 2.0e-7, "an answer"),
    "commit": Rate(
        "commit", COMMIT_S, "a round: logs and manifest synced, and what no stage counts"
    ),
}


def priced(quantities: Quantities) -> dict[str, float]:
    """Seconds by stage by the rates alone."""
    seconds: dict[str, float] = {}
    for name, rate in RATES.items():
        seconds[rate.stage] = seconds.get(rate.stage, 0.0) + rate.seconds * float(
            quantities[name].sum()
        )
    return seconds
