"""What committed rounds tell of a stream: its next round, as far as windows ask
(`costs/workload.py`). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.families.windows.costs.workload import Flow
from headrace.runtime.statistics import ROWS_ASSUMED, Stats, load_of
from headrace.values import US_PER_S

ASSUMED = Flow(ROWS_ASSUMED, 0, 10 * US_PER_S)  # of a stream that nobody has read yet


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


def flow_of_round(stats: Stats) -> Flow:
    """One round, as it was."""
    load = load_of(stats)
    after = stats["watermark_us"] or 0
    before = after if load.before_us is None else load.before_us
    return Flow(
        stats["rows"],
        before,
        after,
        load.cells,
        load.pane_us,
        load.predicates,
        load.keys,
        load.groups,
    )


def is_united(rounds: Sequence[Stats]) -> bool:
    """Whether the newest round had all keys in one grouping, which it has by default."""
    return not rounds or rounds[-1].get("groupings", 1) <= 1
