"""What the next round will cost: the plan as it is now, priced by what committed rounds tell of the
stream.

Each family prices its stages by default rates.  Machines differ, so each home scales them: every
committed round notes what the rates alone said of it (`priced`), and a stage's *factor* is the
median of measured over priced, over the rounds before.  A forecast is rates × factors for the plan
and the stream as they are now: it moves at once when queries come or go.

Only manifests are read, so any process may ask while another runs the home.  The factors come from
the rounds *before* the newest: what EXPLAIN shows beside the newest round's measurement has not
seen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from headrace.families import registry
from headrace.records import decode
from headrace.runtime.ledger import Ledger
from headrace.runtime.statistics import RoundStats, Stats, own_figures

ROUNDS_LEARNT = 8
ROUNDS_TOLD = 100
TRIGGER_S = 0.1  # what Spark takes to call for the next round, as long as none has been measured
READ, FINISH = ("plan", "count", "spark"), ("roll", "answer", "write", "commit")
FACTOR_MAX = 20.0


def recent_stats(ledger: Ledger, rounds: int = ROUNDS_LEARNT + 1) -> list[Stats]:
    """Statistics of the newest committed rounds, oldest first."""
    newest = ledger.newest
    earlier = ledger.rounds[-rounds:-1] if newest is not None else []
    return [
        ledger.stats(m) for m in (*map(ledger.read, earlier), *([] if newest is None else [newest]))
    ]


def committed_stats(ledger: Ledger) -> list[RoundStats]:
    """The same of some more rounds, as a process is told that does not run the home; the figures of
    families are checked too."""
    found = recent_stats(ledger, ROUNDS_TOLD)
    for family in registry.FAMILIES:
        for stats in found:
            own_figures(stats, family.name, family.figures)
    return [decode(RoundStats, stats) for stats in found]


def measured_stages(seconds: Mapping[str, float]) -> dict[str, float]:
    """A committed round by stage.  What no stopwatch saw, the commit most of all, is `commit`;
    `trigger` is no part."""
    seen = {k: v for k, v in seconds.items() if k not in ("trigger", "total", "cycle", "commit")}
    return {**seen, "commit": max(seconds["total"] - sum(seen.values()), 0.0)}


def factors_of(rounds: Sequence[Stats]) -> dict[str, float]:
    """How much slower than the rates this home is, by stage; rounds that were not priced tell
    nothing."""
    ratios: dict[str, list[float]] = {}
    for stats in rounds:
        measured = measured_stages(stats["seconds"])
        for stage, seconds in stats.get("priced", {}).items():
            if seconds > 0.0:
                ratios.setdefault(stage, []).append(measured.get(stage, 0.0) / seconds)
    return {
        stage: min(max(median(found), 1 / FACTOR_MAX), FACTOR_MAX)
        for stage, found in ratios.items()
    }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The next round: seconds by stage, of a round of so many rows."""

    rows: float
    seconds: Mapping[str, float]
    learnt_from: int

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())


def forecast(
    rows: float, prices: Mapping[str, float], history: Sequence[Stats], overlaps: bool
) -> Forecast:
    """Prices × factors; `history` as from `recent_stats`.

    Where rounds overlap, the next also waits for the round before, if Spark calls for it so
    soon."""
    learnt = history[:-1]
    factors = factors_of(learnt)
    ordered = sorted(prices, key=lambda stage: stage in FINISH)  # as they follow each other
    seconds = {stage: prices[stage] * factors.get(stage, 1.0) for stage in ordered}
    if overlaps:
        triggers = [s["seconds"]["trigger"] for s in history if "trigger" in s["seconds"]]
        ahead_s = (median(triggers) if triggers else TRIGGER_S) + sum(
            seconds.get(s, 0.0) for s in READ
        )
        seconds["wait"] = max(sum(seconds.get(s, 0.0) for s in FINISH) - ahead_s, 0.0)
    return Forecast(rows, seconds, sum(bool(s.get("priced")) for s in learnt))


def estimate_line(made: Forecast, rounds: int) -> str:
    """As EXPLAIN shows it."""
    stages = ", ".join(f"{stage} {s:.3f}" for stage, s in made.seconds.items())
    if not rounds:
        basis = "assumed: no round has told how many rows and groups there are"
    elif not made.learnt_from:
        basis = "by default rates: no round before the newest has been priced"
    else:
        basis = f"as learnt from {made.learnt_from} round{'s' if made.learnt_from > 1 else ''} before the newest"
    return f"  estimated: {made.total_s:.3f} s for a round of {made.rows:,.0f} rows ({stages}); {basis}"
