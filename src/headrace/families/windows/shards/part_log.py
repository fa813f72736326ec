"""The pane log of a stream whose windows are in shards: of each round a part for each shard.

What a part says of its rows is in the file; which rounds there are, and what was the newest time
before and after each, is in the manifests.  The driver knows the rounds and what their rows tell
(`PartLog`): from when on a query has all its rows must be the same in all shards.  A shard reads its
parts when it has to be made anew (`ShardLog`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.disk import Disk
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.pane_log.panes import (
    NO_CUTS,
    PaneLog,
    PaneRound,
    meta_of,
    read_panes,
)
from headrace.records import reading
from headrace.runtime.ledger import FileMark, Ledger

FOLDER = "shards"
FOLDED = f"{FOLDER}/folded"

Parts = Mapping[int, FileMark]
"""By shard; one without rows has none."""


def part_path(folder: str, round_id: int, shard: int, stamp: str) -> str:
    return f"{folder}/{FOLDER}/{round_id:012d}.{shard:05d}.{stamp}.arrow"


def folded_path(folder: str, round_id: int, shard: int, stamp: str) -> str:
    return f"{folder}/{FOLDED}/{round_id:012d}.{shard:05d}.{stamp}.arrow"


@dataclass(frozen=True, slots=True)
class PartRound:
    """A committed round, or several folded into one: its parts, and the newest times if no part
    says them."""

    round_id: int
    parts: Parts
    is_folded: bool
    newest_before_us: int | None = None
    newest_us: int | None = None


def committed(ledger: Ledger) -> Iterator[PartRound]:
    """What the newest manifest has in force, oldest first."""
    newest = ledger.newest
    if newest is None:
        return
    folded: dict[int, dict[int, FileMark]] = {}
    for mark in newest.held:
        if mark.path.startswith(f"{ledger.folder}/{FOLDED}/"):
            round_id, shard = _numbers(mark)
            folded.setdefault(round_id, {})[shard] = mark
    for round_id, parts in folded.items():
        yield PartRound(round_id, parts, True)
    first = max(newest.keep.get(FOLDER, newest.round_id + 1), newest.first_round)
    before = ledger.read(first - 1).newest_us if first - 1 in ledger.rounds else None
    for round_id in range(first, newest.round_id + 1):
        manifest = ledger.read(round_id)
        parts = {_numbers(m)[1]: m for m in manifest.files if _is_part(m, ledger.folder)}
        yield PartRound(round_id, parts, False, before, manifest.newest_us)
        before = manifest.newest_us


def _is_part(mark: FileMark, folder: str) -> bool:
    return mark.path.startswith(f"{folder}/{FOLDER}/")


def _numbers(mark: FileMark) -> tuple[int, int]:
    """Round and shard of a part."""
    round_id, shard, *_ = mark.path.rpartition("/")[2].split(".")
    return int(round_id), int(shard)


class PartLog(PaneLog):
    """As the driver knows it; an entry's size is that of all its parts."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self._disk = disk
        self._ledger = ledger
        self.rounds: list[PaneRound] = []
        self._parts: dict[str, Parts] = {}
        self._in_force: set[str] = set()
        for entry in committed(ledger):
            self.rounds.append(self._entry(entry))

    def add(
        self,
        round_id: int,
        newest_before_us: int | None,
        newest_us: int | None,
        cuts: Cuts,
        parts: Parts,
        is_folded: bool = False,
    ) -> PaneRound:
        """A round, not yet among the others."""
        name = folded_path if is_folded else part_path
        path = name(self._ledger.folder, round_id, 0, uuid.uuid4().hex)  # of no file
        mark = FileMark(path, sum(m.size for m in parts.values()), 0)
        self._parts[path] = parts
        # what was folded of rounds without rows has a part that says so
        rows = len(parts) if cuts.cuts else 0
        return PaneRound(round_id, newest_before_us, newest_us, cuts, rows, mark)

    def parts_of(self, entry: PaneRound) -> Parts:
        return self._parts[entry.mark.path]

    @property
    def held(self) -> tuple[FileMark, ...]:
        return tuple(m for e in self.rounds if e.is_folded for m in self.parts_of(e).values())

    def forget(self, entry: PaneRound) -> None:
        self._parts.pop(entry.mark.path, None)

    def keep_from(self, horizon_us: int | None) -> int:
        found = super().keep_from(horizon_us)
        kept = {e.mark.path for e in self.rounds}
        for path in self._in_force - kept:  # let go of, or folded
            self._parts.pop(path, None)
        self._in_force = kept
        return found

    def _entry(self, entry: PartRound) -> PaneRound:
        before, newest, cuts = entry.newest_before_us, entry.newest_us, NO_CUTS
        if entry.parts:
            path = self._disk.root / next(iter(entry.parts.values())).path
            with reading(path), pa.memory_map(str(path)) as file:
                meta, cuts = meta_of(pa.ipc.open_stream(file).schema)
            if entry.is_folded:
                before, newest = meta.before, meta.newest
        return self.add(entry.round_id, before, newest, cuts, entry.parts, entry.is_folded)


class ShardLog(PaneLog):
    """As one shard reads it, up to the newest committed round.  Others write it."""

    def __init__(self, disk: Disk, folder: str, shard: int) -> None:
        self._disk = disk
        self._folder = folder
        self._shard = shard
        self.rounds: list[PaneRound] = []
        self.before_us: int | None = None
        """The newest time of the rounds before the one under way."""
        self.until: int | None = None
        """Rounds from this one on are not read."""

    @property
    def newest_us(self) -> int | None:
        return self.before_us

    def begin(
        self,
        round_id: int,
        newest_before_us: int | None,
        newest_us: int | None,
        cuts: Cuts,
        table: pa.Table,
    ) -> Callable[[], FileMark]:
        return lambda: FileMark("", 0, 0)

    def keep_from(self, horizon_us: int | None) -> int:
        return 0

    def replay(self, from_us: int) -> Iterator[tuple[PaneRound, pa.Table]]:
        ledger = Ledger(self._disk, self._folder)
        for entry in committed(ledger):
            mark = entry.parts.get(self._shard)
            is_old = entry.newest_us is not None and entry.newest_us < from_us
            is_beyond = self.until is not None and entry.round_id >= self.until
            if mark is None or is_old or is_beyond:
                continue
            found, table = read_part(self._disk, ledger, entry, mark)
            if found.newest_us is None or found.newest_us >= from_us:
                yield found, table


def read_part(
    disk: Disk, ledger: Ledger, entry: PartRound, mark: FileMark
) -> tuple[PaneRound, pa.Table]:
    """One part, checked."""
    data = ledger.check(mark)
    with reading(disk.root / mark.path):
        meta, cuts, table = read_panes(data)
    before, newest = (
        (meta.before, meta.newest) if entry.is_folded else (entry.newest_before_us, entry.newest_us)
    )
    return PaneRound(entry.round_id, before, newest, cuts, table.num_rows, mark), table
