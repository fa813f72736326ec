"""Where each query sits in every shard: decided once, by the driver, for all of them.

A shard knows its own rows only.  From when on a query has all its rows, on which ring it sits and
what Spark aggregates must be the same in all shards, or some groups of a window would be answered
and others not.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.config import Config
from headrace.families.windows.aggregation.cutting import ChoiceState, Cutting
from headrace.families.windows.figures import Elsewhere
from headrace.families.windows.pane_log.compaction_plan import CompactionPlan
from headrace.families.windows.pane_log.panes import PaneLog, served_by
from headrace.families.windows.placement import Placements
from headrace.families.windows.plan import Share
from headrace.values import ALWAYS_US, US_PER_MS


@dataclass(frozen=True, slots=True)
class Seat:
    """A query of the shards: what it asks for, the panes of its ring, and from when on its windows
    are answered."""

    share: Share
    grain_us: int
    since_us: int


class Seating:
    """The queries of one stream that are in shards."""

    def __init__(
        self, log: PaneLog, state: ChoiceState, exceptions: Sequence[Elsewhere] = ()
    ) -> None:
        self._log = log
        self.placements = Placements(exceptions)
        self.assignment = self.placements.assignment
        self.cutting = Cutting(self.assignment, state, has_facts=False)
        self.seats: dict[int, Seat] = {}
        self.version = uuid.uuid4().hex
        """Another one whenever seats change."""
        self._compaction_plan: CompactionPlan | None = None

    def shares(self) -> Mapping[int, Share]:
        return self.assignment.shares

    def cut_apart(self) -> bool:
        return self.cutting.cut_apart()

    def assign(self, wanted: Mapping[int, Share], covers_us: int | None) -> None:
        """These are the queries now.  `covers_us`: rows before are not in the log."""
        gone = [i for i in self.seats if i not in wanted]
        new = {i: asked for i, asked in wanted.items() if i not in self.seats}
        for query_id in gone:
            self.assignment.remove(query_id)
            del self.seats[query_id]
        self.placements.expect(new, gone)
        # finer rings first: coarser windows may sit on them
        for query_id, asked in sorted(new.items(), key=lambda item: item[1].window.grain_us):
            since, form, ring = self.placements.add(query_id, asked, self._covered_from)
            since = max(since, ALWAYS_US if covers_us is None else covers_us)
            self.seats[query_id] = Seat(form, ring.grain_us, since)
        self.placements.note_exceptions()
        if gone or new:
            self.version = uuid.uuid4().hex
            self.cutting.replanned()
            self._compaction_plan = None

    def _covered_from(self, asked: Share) -> int:
        whole, from_us = self._log.since(asked)
        return ALWAYS_US if whole else from_us

    @property
    def longest_us(self) -> int:
        """The range of the longest window."""
        return max((s.window.range_us for s in self.shares().values()), default=0)

    def compactions(self, config: Config) -> CompactionPlan:
        """How the log of these queries is folded."""
        if self._compaction_plan is None:
            shares = self.shares().values()
            self._compaction_plan = CompactionPlan(
                {(s.window.range_us, s.window.grain_us) for s in shares},
                config.history_ms * US_PER_MS,
                config.log_rounds_max,
                config.fold_bytes_max,
                served_by(shares),
            )
        return self._compaction_plan
