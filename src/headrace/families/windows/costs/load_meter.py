"""What a round leaves for those who explain its cost: its statistics, and what the rates alone say
of it.

Kept with the round's manifest, so that any process can forecast and attribute (`costs/cost.py`,
`costs/attribution.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.families.windows.costs.cost import priced
from headrace.families.windows.costs.workload import (
    Flow,
    RingWorks,
    Workload,
    quantities_of,
    workload_of,
)
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.figures import WindowsFigures
from headrace.families.windows.plan import RingPlan
from headrace.runtime.family import Round


class LoadMeter:
    """Counts a plan once, and prices each of its rounds."""

    def __init__(self) -> None:
        self._rings = RingWorks()
        self._counted: tuple[Cuts, Workload] | None = None

    def note(
        self,
        cuts: Cuts,
        plans: Iterable[RingPlan],
        groups: Mapping[str, int],
        cells: int,
        round: Round,
    ) -> tuple[WindowsFigures, dict[str, float]]:
        """What explains the cost of a round, and its price.  `plans` are those of `cuts`: they are
        counted again when it is another object.  `groups`: by group-by."""
        if self._counted is None or self._counted[0] is not cuts:
            self._counted = (cuts, workload_of(self._rings.of(plans), cuts))
        work = self._counted[1]
        before, after = round.watermark_before_us, round.watermark_us
        known = (cells, work.pane_us, work.predicates, work.keys, groups)
        figures = WindowsFigures(*known, groupings=len(cuts.cuts))
        # where a first round begins is not told by a watermark
        if before is None and after is not None:
            return figures, {}
        flow = Flow(round.census.rows, before or 0, after or 0, *known)
        return figures, priced(quantities_of(work, flow))
