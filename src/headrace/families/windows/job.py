"""Rounds of the windows family: what the driver holds, and what shards hold of it.

The driver answers all windows of a stream as long as it can hold them.  Once that is too much, those
whose GROUP BY tells shards apart are answered on executors (`shards/`); the others stay.  Which is
which is decided by counts, committed with the round, and never taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from headrace.catalog.catalog import Registered
from headrace.families.windows.aggregation.declaring import DeclaredEdges
from headrace.families.windows.costs.load_meter import LoadMeter
from headrace.families.windows.driver_work import Chosen, DriverWork
from headrace.families.windows.figures import NAME, figures_of
from headrace.families.windows.plan import Share, share
from headrace.families.windows.rings.rings import MICRO_BATCH_S
from headrace.families.windows.shards.choice import Sharding, choose, is_sharded
from headrace.families.windows.shards.job import SparkShards
from headrace.families.windows.shards.part_log import FOLDED, FOLDER
from headrace.families.windows.shards.work import ShardedWork, ShardsOutcome, Taken, shard_place
from headrace.records import encode
from headrace.runtime.family import Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.statistics import Stopwatch
from headrace.values import watermark

LOOK_ROUNDS = 4  # between two looks at whether the driver holds too much
SLOW_ROUNDS = 8  # in a row, each of which took the driver too long


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
        self._may_choose = True
        """Whether some query could be in shards, as far as is known."""
        self._handed: dict[int, Share] = {}
        self._next, self._held = self._remembered()
        self._took_s: dict[int, float] = {}
        self._load_meter = LoadMeter()
        self._has_handed_over = False
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

    @property
    def wants_replan(self) -> bool:
        if self.shards is None:
            return self._may_choose and bool(self._why_sharding())
        return self._has_handed_over

    def _remembered(self) -> tuple[int, dict[int, int]]:
        """The next round, and what the driver held in those before."""
        ledger = self._place.ledger
        told = {r: ledger.stats(ledger.read(r)) for r in ledger.rounds[-2:]}
        held = {r: figures_of(own).ring_bytes for r, own in told.items()}
        return max(told, default=-1) + 1, held

    # -- who answers what --------------------------------------------------------------------------

    def replan(self, change: Change) -> None:
        self._queries = change.queries
        self._shares = {
            i: self._shares[i] if i in self._shares else self._share(own)
            for i, own in self._queries.items()
        }
        self._has_handed_over = False
        self._may_choose |= bool(change.comes or change.goes)
        self._choose()
        sharded = self._sharded()
        self._handed = self._handed_over(sharded)
        mine = [own for i, own in self._queries.items() if i not in sharded or i in self._handed]
        self.driver.replan(mine)
        if self.shards is not None:
            begins_us = self.shards.sharding.begins_us
            self.driver.until = {} if begins_us is None else dict.fromkeys(self._handed, begins_us)
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

    def _handed_over(self, sharded: Mapping[int, Share]) -> dict[int, Share]:
        """Those of which the driver has windows to answer yet."""
        if self.shards is None:
            return {}
        own, newest = self.shards.sharding, self._place.ledger.newest
        now_us = None if newest is None else newest.newest_us
        passed_us = watermark(now_us, self._place.relation.late_us)
        return {i: s for i, s in sharded.items() if own.is_handed_over(i, s, passed_us)}

    def _choose(self) -> None:
        """Shards, if the driver holds too much, or works too long.  What it holds already it
        answers as far as it can: shards begin with windows that start after the newest row."""
        why = self._why_sharding() if self.shards is None else ""
        if not why:
            return
        config, newest = self._place.config, self._place.ledger.newest
        found = choose(self._shares.values(), self.driver.loads, config.shards, why)
        if found is None:
            self._may_choose = False
            return
        newest_us = None if newest is None else newest.newest_us
        if newest_us is not None:
            after = newest_us + 1
            found = replace(found, begins_us=after, last_id=max(self._shares), covers_us=after)
        self.shards = self._open_shards(found, Chosen())

    def _why_sharding(self) -> str:
        """By what is known of rounds up to the one before the last, which have been committed
        whenever this is asked: so an engine that starts again begins with the same round."""
        config, known = self._place.config, self._next - 2
        if not config.driver_state_bytes_max:
            return "driver_state_bytes_max = 0"
        if self._next % LOOK_ROUNDS:
            return ""
        held = self._held.get(known, 0)
        if held > config.driver_state_bytes_max:
            limit = f"driver_state_bytes_max = {config.driver_state_bytes_max:,}"
            return f"the driver held {held:,} bytes, more than {limit}"
        took_s = [self._took_s.get(known - i, 0.0) for i in range(SLOW_ROUNDS)]
        if 1_000 * min(took_s) > config.driver_ms_max:
            limit = f"driver_ms_max = {config.driver_ms_max:,}"
            return f"the driver worked {1_000 * min(took_s):,.0f} ms on a round, more than {limit}"
        return ""

    def _learn(self, round: Round, watch: Stopwatch) -> None:
        """What later rounds are planned by."""
        if self.shards is None:
            self._held[round.id] = self.driver.nbytes
            self._took_s[round.id] = sum(watch.seconds.get(s, 0.0) for s in ("roll", "answer"))
            self._held.pop(round.id - SLOW_ROUNDS - 2, None)
            self._took_s.pop(round.id - SLOW_ROUNDS - 2, None)
        else:
            sharding, passed_us = self.shards.sharding, round.watermark_us
            self._has_handed_over = not all(
                sharding.is_handed_over(i, s, passed_us) for i, s in self._handed.items()
            )

    # -- a round -----------------------------------------------------------------------------------

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        """The driver's part first, if it has one."""
        self._next = round.id + 1
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
            self._learn(round, watch)
            return outcome
        if taken is None:
            outcome.add(self.shards.skip(round))
            self._note(outcome, self.shards.sharding, Chosen())
            self._learn(round, watch)
            return outcome
        found = self.shards.answer(taken, round, watch)
        self._measure(outcome, found, round, watch)
        outcome.add(found.outcome)
        self._note(outcome, found.sharding, Chosen(shard_cutting=found.cutting))
        self._learn(round, watch)
        return outcome

    def _note(self, outcome: Outcome, sharding: Sharding, chosen: Chosen) -> None:
        """Commit what was decided, beside the driver's own."""
        own = outcome.choices.get(NAME, {})
        more = {"sharding": encode(sharding), "shard_cutting": encode(chosen.shard_cutting)}
        outcome.choices[NAME] = {**own, **more}

    def _measure(
        self, outcome: Outcome, found: ShardsOutcome, round: Round, watch: Stopwatch
    ) -> None:
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
        unshared_s = float(own.get("unshared_s", 0.0))
        if round.census.rows:
            unshared_s += found.figures.queries * min(watch.seconds["spark"], MICRO_BATCH_S)
        more = {"shards": encode(found.figures), "unshared_s": unshared_s}
        outcome.figures[NAME] = {**own, **more}

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        self.driver.rest()
        if self.shards is not None:
            self.shards.rest()
