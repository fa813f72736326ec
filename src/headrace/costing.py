"""What the next round will cost: the plan as it is now, priced by what committed rounds tell of the stream.

Only manifests are read, so any process may ask while another runs the home.  The factors come from the rounds *before*
the newest: what EXPLAIN shows beside the newest round's measurement has not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from headrace.families.joins.cost import price_s
from headrace.families.plain.plan import plain_price_s
from headrace.families.windows.cost import Forecast, Round, forecast, priced
from headrace.families.windows.plan import Seating, plan_cuts
from headrace.families.windows.workload import Flow, RingWorks, Workload, quantities_of, workload_of
from headrace.records import decode
from headrace.runtime.ledger import Ledger
from headrace.runtime.statistics import JointLoad, Load, RoundStats
from headrace.values import US_PER_S, Relation

ROUNDS_LEARNT = 8
ROUNDS_TOLD = 100
ASSUMED = Flow(100_000, 0, 10 * US_PER_S)  # of a stream that nobody has read yet
TRIGGER_S = 0.1  # what Spark takes to call for the next round, as long as none has been measured
GIVEN = "dataframe:"  # rounds of a given DataFrame do not overlap

Stats = Mapping[str, Any]


def recent_stats(ledger: Ledger, rounds: int = ROUNDS_LEARNT + 1) -> list[Stats]:
    """Statistics of the newest committed rounds, oldest first."""
    newest = ledger.newest
    earlier = ledger.rounds[-rounds:-1] if newest is not None else []
    return [ledger.stats(m) for m in (*map(ledger.read, earlier), *([] if newest is None else [newest]))]


def committed_stats(ledger: Ledger) -> list[RoundStats]:
    """The same of some more rounds, as a process is told that does not run the home."""
    return [decode(RoundStats, stats) for stats in recent_stats(ledger, ROUNDS_TOLD)]


def load_of(stats: Stats) -> Load:
    """Rounds of earlier versions say less."""
    kept = stats.get("load")
    if not kept:
        return Load()
    known = {name: value for name, value in kept.items() if name in Load.__slots__}
    joints = {name: JointLoad(**own) for name, own in known.get("joints", {}).items()}
    return Load(**{**known, "keys": tuple(known.get("keys", ())), "joints": joints})


def workload(seating: Seating, united: bool) -> Workload:
    rings = seating.rings.values()
    return workload_of(RingWorks().of(rings), plan_cuts(rings, united))


def flow_of(history: Sequence[Stats]) -> Flow | None:
    """The next round, if it is like those before; None when none has told enough."""
    told = [(s, load_of(s)) for s in history if s.get("load") and s["rows"]]
    if not told:
        return None
    newest = told[-1][1]
    cut = (newest.pane_us, newest.predicates, newest.keys)
    alike = [(s, o) for s, o in told if (o.pane_us, o.predicates, o.keys) == cut]
    rows, cells = median(s["rows"] for s, _ in alike), median(o.cells for _, o in alike)
    steps = [s["watermark_us"] - o.before_us for s, o in told if o.before_us is not None]
    before = told[-1][0]["watermark_us"] or 0
    after = before + (round(median(steps)) if steps else ASSUMED.advance_us)
    return Flow(rows, before, after, cells, *cut, newest.groups)


def forecast_of(
    work: Workload, plain: int, event_s: float | None, relation: Relation, history: Sequence[Stats]
) -> Forecast:
    """The next round of a stream with this plan, so many plain queries, and joins that take so many seconds an
    event; `history` as from `recent_stats`."""
    flow = flow_of(history) or ASSUMED
    quantities = quantities_of(work, flow)
    prices = priced(quantities) | ({"plain": plain_price_s(plain)} if plain else {})
    if event_s is not None:
        prices["joins"] = price_s(flow.rows, event_s)
    learnt = [Round(s["seconds"], load_of(s).priced) for s in history[:-1]]
    triggers = [s["seconds"]["trigger"] for s in history if "trigger" in s["seconds"]]
    overlaps = not plain and event_s is None and not relation.source.startswith(GIVEN)
    trigger_s = (median(triggers) if triggers else TRIGGER_S) if overlaps else None
    return forecast(flow.rows, float(quantities["write_row"].sum()), prices, learnt, trigger_s)


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
