"""What committed rounds tell of a stream: its next round, as far as windows ask
(`costs/workown.py`). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.families.windows.costs.workload import Flow
from headrace.families.windows.figures import figures_of
from headrace.runtime.statistics import ROWS_ASSUMED, Stats
from headrace.values import US_PER_S

ASSUMED = Flow(ROWS_ASSUMED, 0, 10 * US_PER_S)  # of a stream that nobody has read yet


def flow_of(history: Sequence[Stats]) -> Flow | None:
    """The next round, if it is like those before; None when none has told enough."""
    told = [(s, figures_of(s)) for s in history if s["rows"]]
    if not told:
        return None
    newest = told[-1][1]
    cut = (newest.pane_us, newest.predicates, newest.keys)
    alike = [(s, o) for s, o in told if (o.pane_us, o.predicates, o.keys) == cut]
    rows, cells = median(s["rows"] for s, _ in alike), median(o.cells for _, o in alike)
    spans = [(s.get("watermark_before_us"), s["watermark_us"]) for s, _ in told]
    steps = [end - begin for begin, end in spans if begin is not None]
    before = told[-1][0]["watermark_us"] or 0
    after = before + (round(median(steps)) if steps else ASSUMED.advance_us)
    return Flow(rows, before, after, cells, *cut, newest.groups)


def flow_of_round(stats: Stats) -> Flow:
    """What one committed round was given to do, out of its statistics."""
    own = figures_of(stats)
    after = stats["watermark_us"] or 0
    begins = stats.get("watermark_before_us")
    before = after if begins is None else begins
    return Flow(
        stats["rows"],
        before,
        after,
        own.cells,
        own.pane_us,
        own.predicates,
        own.keys,
        own.groups,
    )


def is_united(rounds: Sequence[Stats]) -> bool:
    """Whether the newest round had all keys in one grouping, which it has by default."""
    return not rounds or figures_of(rounds[-1]).groupings <= 1


def is_united_next(rounds: Sequence[Stats]) -> bool:
    """Whether the next round will: the newest has decided that."""
    return not rounds or figures_of(rounds[-1]).next_united
