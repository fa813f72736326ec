"""The rings of one shard: those of a driver, over some of the groups.

Who sits where is told (`seating.py`), the log is written and folded by others, and nobody asks Spark
of keys: what follows from them comes with the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.rings.rings import Rings
from headrace.families.windows.shards.part_log import ShardLog
from headrace.families.windows.shards.seating import Seat
from headrace.runtime.family import Round
from headrace.runtime.ledger import Ledger
from headrace.sql.tree import Expr

_OF_A_PROCESS = ("_log", "_compactor", "_sketch_stores", "bias", "_compaction_plan")
_CONNECTED = ("_feeding", "_rebuilding", "_closing")


class ShardRings(Rings):
    """Between rounds it may lie in files (`state_files.py`): what holds threads, or is quickly made
    again, is left out."""

    def __init__(self, disk: Disk, folder: str, shard: int, config: Config) -> None:
        log = ShardLog(disk, folder, shard)
        super().__init__(disk, Ledger(disk, folder, is_empty=True), config, log=log)
        self._log: ShardLog = log
        self.seats = ""
        """Which seats are taken (`Seating.version`)."""

    def __getstate__(self) -> dict[str, Any]:
        left_out = {*_OF_A_PROCESS, *_CONNECTED}
        return {name: part for name, part in self.__dict__.items() if name not in left_out}

    def wake(self, disk: Disk, folder: str, shard: int) -> None:
        """Complete what has just come out of files."""
        fresh = ShardRings(disk, folder, shard, self._config)
        for name in _OF_A_PROCESS:
            setattr(self, name, getattr(fresh, name))
        self._connect()

    def seat(self, version: str, seats: Mapping[int, Seat]) -> None:
        """These are the queries now."""
        if seats.keys() != self._since.keys():
            for slot in self._standing.crowds:
                self._feeding.settle(slot)
        self.dismiss([i for i in self._assignment.shares if i not in seats])
        for query_id, seat in seats.items():
            if query_id not in self._since:
                plan = self._assignment.add(query_id, seat.share, seat.grain_us)
                self._since[query_id] = seat.since_us
                self._standing.place(plan, seat.share, seat.since_us, self._log.newest_us)
                self._replanned()
        self.seats = version

    def begin(self, round_id: int) -> None:
        """Rounds from this one on are taken; what has to be made anew is made of those before."""
        self._log.until = round_id

    def take_part(self, cuts: Cuts, panes: pa.Table | None, round: Round) -> None:
        """The panes of a round; None where it has no rows that count."""
        self._log.before_us = round.newest_before_us
        if panes is not None:
            self.take(cuts, panes, round, _ask_nobody)
            return
        self._feeding.rollups_of(cuts)
        self._rebuilding.rebuild(cuts, round, [], _ask_nobody)
        self._check_memory()


def _ask_nobody(
    keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]
) -> list[pa.Array]:
    raise AssertionError(f"the rows of a shard have all that is asked of them: {facts}")
