"""Groups or rows: what Spark sends of a small round.  Pure.

Where hardly two rows fall into one group (a crowd of constants on several attributes, say), grouping is work for
nothing: the rows are as few as the groups would be.  So a round that is one task anyway is sent as it is while grouping
left most of its rows in the last one that was grouped; every few rounds one is, to see whether that has changed.
"""

from __future__ import annotations

from headrace.families.windows.plan import Cuts

SHARE_MIN = 0.6  # groups of a round, of its rows
LOOK_ROUNDS = 32


class Sending:
    """Decided from round to round."""

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._cuts: Cuts | None = None
        self._is_thin = False
        self._rounds = 0

    def sends_rows(self, cuts: Cuts, is_small: bool) -> bool:
        if cuts is not self._cuts:
            self._cuts, self._is_thin = cuts, False
        can = is_small and len(cuts.cuts) == 1 and not any(m.is_sketch for m in cuts.measures)
        return can and self._is_thin and self._rounds < LOOK_ROUNDS

    def note(self, rows: int, groups: int, as_rows: bool) -> None:
        """What a round was."""
        if as_rows:
            self._rounds += 1
            self._is_thin &= rows <= self._rows_max
        else:
            self._rounds = 0
            self._is_thin = groups >= SHARE_MIN * rows and rows <= self._rows_max
