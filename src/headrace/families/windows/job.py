"""Rounds of the windows family: what the driver holds, and what shards hold of it.

The driver answers all windows of a stream as long as it can hold them.  Once that is too much, those
whose GROUP BY tells shards apart are answered on executors (`shards/`); the others stay.  Which is
which is decided by counts, committed with the round, and never taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

from headrace.catalog.catalog import Registered
from headrace.families.windows.aggregation.declaring import DeclaredEdges
from headrace.families.windows.costs.load_meter import LoadMeter
from headrace.families.windows.driver_work import Chosen, DriverWork
from headrace.families.windows.figures import NAME, figures_of
from headrace.families.windows.plan import Share, share
from headrace.families.windows.shards.choice import Sharding, choose, is_sharded
from headrace.families.windows.shards.job import SparkShards
from headrace.families.windows.shards.part_log import FOLDED, FOLDER
from headrace.families.windows.shards.work import ShardedWork, ShardsOutcome, Taken, shard_place
from headrace.records import encode
from headrace.runtime.family import Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.statistics import Stopwatch


class WindowsJob:
    name = NAME
    folders = ("panes", "folded", FOLDER, FOLDED)

    def open(self, place: Place) -> WindowsWork:
        return WindowsWork(place)


class WindowsWork:
    """The shared windows of one stream."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._edges = DeclaredEdges()
        self.driver = DriverWork(place, self._edges)
        self._shares: dict[int, Share] = {}
        self._queries: Mapping[int, Registered] = {}
        self._load_meter = LoadMeter()
        self.wants_replan = False
        self.shards: ShardedWork | None = None
        chosen = place.ledger.chosen(NAME, Chosen)
        if chosen.sharding is not None:
            self.shards = self._open_shards(chosen.sharding, chosen)

    def _open_shards(self, sharding: Sharding, chosen: Chosen) -> ShardedWork:
        newest = self._place.ledger.newest
        figures = figures_of({} if newest is None else self._place.ledger.stats(newest)).shards
        place = shard_place(self._place)
        tasks = SparkShards(place, self._edges, sharding.keys, sharding.count)
        exceptions = () if figures is None else figures.exceptions
        return ShardedWork(self._place, sharding, chosen.shard_cutting, exceptions, place, tasks)

    @property
    def reads_rows(self) -> bool:
        return self.driver.reads_rows or self._has_sharded

    @property
    def _has_sharded(self) -> bool:
        return self.shards is not None and bool(self.shards.seating.seats)

    @property
    def counts_rows(self) -> bool:
        """Its aggregate goes through all rows, those that do not count among them."""
        return self.reads_rows

    # -- who answers what --------------------------------------------------------------------------

    def replan(self, change: Change) -> None:
        self._queries = change.queries
        self._shares = {
            i: self._shares[i] if i in self._shares else self._share(own)
            for i, own in self._queries.items()
        }
        self.wants_replan = False
        self._choose()
        sharded = self._sharded()
        self.driver.replan([own for i, own in self._queries.items() if i not in sharded])
        if self.shards is not None:
            self.shards.replan(sharded)

    def _share(self, registered: Registered) -> Share:
        asked = share(registered.query, self._place.relation)
        assert isinstance(asked, Share), asked
        return asked

    def _sharded(self) -> dict[int, Share]:
        if self.shards is None:
            return {}
        keys = self.shards.sharding.keys
        return {i: own for i, own in self._shares.items() if is_sharded(own, keys)}

    def _choose(self) -> None:
        """Shards, if the driver should not hold all of it.  Only before the first round: what the
        driver holds already would be lost."""
        config, newest = self._place.config, self._place.ledger.newest
        if self.shards is not None or newest is not None or config.driver_state_bytes_max:
            return
        why = "driver_state_bytes_max = 0"
        found = choose(self._shares.values(), self.driver.loads, config.shards, why)
        if found is not None:
            self.shards = self._open_shards(found, Chosen())

    # -- a round -----------------------------------------------------------------------------------

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        """The driver's part first, if it has one."""
        own = self.driver.read(batch, round, watch)
        if own.faults or not self._has_sharded:
            return replace(own, answer=partial(self._answer, own, None))
        assert self.shards is not None
        theirs, taken = self.shards.read(batch, round, watch)
        if taken is None:
            return theirs
        census = theirs.census if own.census is None else own.census
        return Reading(partial(self._answer, own, taken), census)

    def _answer(self, own: Reading, taken: Taken | None, round: Round, watch: Stopwatch) -> Outcome:
        outcome = own.answer(round, watch)
        if self.shards is None:
            return outcome
        if taken is None:
            outcome.add(self.shards.skip(round))
            self._note(outcome, self.shards.sharding, Chosen())
            return outcome
        found = self.shards.answer(taken, round, watch)
        self._measure(outcome, found, round)
        outcome.add(found.outcome)
        self._note(outcome, found.sharding, Chosen(shard_cutting=found.cutting))
        return outcome

    def _note(self, outcome: Outcome, sharding: Sharding, chosen: Chosen) -> None:
        """Commit what was decided, beside the driver's own."""
        own = outcome.choices.get(NAME, {})
        more = {"sharding": asdict(sharding), "shard_cutting": asdict(chosen.shard_cutting)}
        outcome.choices[NAME] = {**own, **more}

    def _measure(self, outcome: Outcome, found: ShardsOutcome, round: Round) -> None:
        """Of the shards; where the driver has no part, what explains the whole round is theirs."""
        own = outcome.figures.get(NAME, {})
        if not self.driver.reads_rows:
            assert self.shards is not None
            rings = self.shards.seating.assignment.rings.values()
            cuts = found.taken.cuts
            figures, outcome.priced = self._load_meter.note(
                cuts, rings, found.groups, found.taken.cells, round
            )
            told = replace(figures, selectivity=found.selectivity)
            own = {**encode(told), **{k: own[k] for k in ("log_bytes", "log_files") if k in own}}
        outcome.figures[NAME] = {**own, "shards": encode(found.figures)}

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        self.driver.rest()
        if self.shards is not None:
            self.shards.rest()
