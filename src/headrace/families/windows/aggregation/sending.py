"""Groups or rows: what Spark sends of a small round.  Pure.

Where hardly two rows fall into one group (a crowd of constants on several attributes, say),
grouping is work for nothing: the rows are as few as the groups would be.  So a round that is one
task anyway is sent as it is while grouping left most of its rows in the last one that was grouped;
every few rounds one is, to see whether that has changed.

What is known of the rounds so far is committed with each (`state`): doubles are added here in
another order than in Spark, and after a restart the next round must be sent as it would have been.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.families.windows.cuts import Cuts
from headrace.families.windows.pane_log.panes import mark_of_cuts

SHARE_MIN = 0.6  # groups of a round, of its rows
LOOK_ROUNDS = 32


@dataclass(frozen=True, slots=True)
class SendingState:
    """`cuts`: the mark of the cuts it is about; `rounds`: sent as rows, since one was grouped."""

    cuts: int = 0
    is_thin: bool = False
    rounds: int = 0


NOTHING_KNOWN = SendingState()


class Sending:
    """Whether the next round sends rows or groups, decided by the rounds before it."""

    def __init__(self, rows_max: int, state: SendingState = NOTHING_KNOWN) -> None:
        self._rows_max = rows_max
        self._cuts: Cuts | None = None
        self.state = state

    def sends_rows(self, cuts: Cuts, is_small: bool) -> bool:
        if cuts is not self._cuts:
            self._cuts, mark = cuts, mark_of_cuts(cuts)
            if mark != self.state.cuts:
                self.state = SendingState(mark)
        can = is_small and len(cuts.cuts) == 1 and not any(m.is_sketch for m in cuts.measures)
        return can and self.state.is_thin and self.state.rounds < LOOK_ROUNDS

    def note(self, rows: int, groups: int, as_rows: bool) -> None:
        """Learn from a round how many groups its rows made."""
        old = self.state
        is_few = rows <= self._rows_max
        is_thin = old.is_thin and is_few if as_rows else is_few and groups >= SHARE_MIN * rows
        self.state = SendingState(old.cuts, is_thin, old.rounds + 1 if as_rows else 0)

    def group_next(self) -> None:
        """The next round is grouped, whatever this one was."""
        self.state = replace(self.state, is_thin=False)
