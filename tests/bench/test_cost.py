"""The benchmark of the cost model: its fit finds rates, and its ratios tell near from far."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.bench.cost import CASES, Trial, figures_of, fit
from headrace.families.windows.costs.cost import RATES, priced
from headrace.families.windows.costs.workload import Flow, quantities_of
from headrace.values import US_PER_S
from tests.families.windows.test_cost import Ask, workload

ASKS: list[Ask] = [
    ("n > 1", "k, ", "sum(x)", 10),
    ("n > 2", "k, g, ", "stddev(x)", 5),
    ("", "", "count(*)", 20),
]


def trial(factor: float, off: float = 1.0) -> Trial:
    """Rounds that take `factor` times what the rates say, forecast `off` times too high."""
    work = workload(ASKS)
    history: list[dict[str, Any]] = []
    for rows in range(10_000, 200_000, 10_000):
        before = len(history) * 20 * US_PER_S
        known = (rows // 20, work.pane_us, work.predicates, work.keys, {"`k`": 40})
        prices = priced(quantities_of(work, Flow(rows, before, before + 20 * US_PER_S, *known)))
        seconds = {stage: factor * s for stage, s in prices.items()}
        own = dict(zip(("cells", "pane_us", "predicates", "keys", "groups"), known, strict=True))
        seconds["total"] = sum(seconds.values())
        history.append(
            {
                "rows": rows,
                "watermark_us": before + 20 * US_PER_S,
                "seconds": seconds,
                "watermark_before_us": before,
                "priced": prices,
                "figures": {"windows": {**own, "keys": list(work.keys)}},
            }
        )
    return Trial(CASES[0], work, history, [off * s["seconds"]["total"] for s in history], 0)


def test_the_fit_finds_how_slow_the_machine_is() -> None:
    found = fit([trial(2.0)])
    assert found == pytest.approx(
        {name: 2 * rate.seconds for name, rate in RATES.items()}, rel=0.02
    )


@pytest.mark.parametrize("off", [0.5, 1.0, 3.0])
def test_ratios_tell_near_from_far(off: float) -> None:
    figures = {f.name: f for f in figures_of([trial(2.0, off)])}
    assert figures["worst_ratio"].value == pytest.approx(max(off, 1 / off))
    assert ("MISSED" in figures["worst_ratio"].note) == (off != 1.0)
    assert figures["10_by_rates"].value == pytest.approx(2.0)
