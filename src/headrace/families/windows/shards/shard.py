"""A round of one shard, in a task on an executor: take the round's panes, answer the windows that
close.

The parts of a round are written as they come out of Spark's aggregate (`write_part`).  Once the
newest time of the round is known, each shard takes its part into its rings and answers
(`answer_shard`).  Answers and parts are files of the home; the driver is told their names, and
commits them.  The rings lie in memory that the workers of a machine share (`state_files.py`); where
they are missing or of another round, they are made anew from the log, as after a restart.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from headrace.config import Config
from headrace.disk import Disk
from headrace.families.windows.aggregation.counting import count_kinds
from headrace.families.windows.costs.workload import count_groups
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.pane_log.compaction import fold, project
from headrace.families.windows.pane_log.panes import read_panes, write_panes
from headrace.families.windows.rings.answering import Answering
from headrace.families.windows.shards.part_log import folded_path, part_path
from headrace.families.windows.shards.seating import Seat
from headrace.families.windows.shards.shard_rings import ShardRings
from headrace.families.windows.shards.state_files import (
    Held,
    StateFiles,
    make_room,
    places,
)
from headrace.records import reading
from headrace.runtime.answers import Block, pack, shared_path
from headrace.runtime.family import Round
from headrace.runtime.ledger import FileMark, mark_of
from headrace.runtime.statistics import Census, peak_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream's shards work: the home, the stream's folder in it, and the run of the engine,
    which no other has."""

    root: str
    folder: str
    stream: str
    run: str
    config: Config

    @property
    def disk(self) -> Disk:
        return Disk(Path(self.root))

    def states(self, shard: int) -> StateFiles:
        bases = places(self.config.shard_folder)
        return StateFiles([make_room(base, self.stream, self.run, shard) for base in bases])


# -- parts of the log --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartReport:
    """What Spark left for one shard: rows by kind, and the file of those that count, if there are
    some."""

    shard: int
    census: Census
    rows: int = 0
    mark: FileMark | None = None


@dataclass(frozen=True, slots=True)
class PartTask:
    """A round whose parts are written; more than `rows_max` rows of a part are counted only."""

    place: Place
    round_id: int
    cuts: Cuts
    rows_max: int


def write_part(table: pa.Table, task: PartTask, shard: int) -> PartReport:
    """Write what Spark left for a shard."""
    census, panes = count_kinds(table)
    if not 0 < panes.num_rows <= task.rows_max:
        return PartReport(shard, census, panes.num_rows)
    path = part_path(task.place.folder, task.round_id, shard, uuid.uuid4().hex[:16])
    disk = task.place.disk
    found = write_panes(disk, path, task.round_id, None, None, task.cuts, panes)
    return PartReport(shard, census, panes.num_rows, found.mark)


@dataclass(frozen=True, slots=True)
class FoldTask:
    """Rounds of the log become one, of these cuts, up to `round_id`: their parts by shard."""

    place: Place
    rounds: tuple[Mapping[int, FileMark], ...]
    cuts: Cuts
    round_id: int
    newest_before_us: int | None
    newest_us: int | None


def fold_parts(shard: int, task: FoldTask) -> PartReport:
    """Of one shard.  Where no round has rows, the first shard says so."""
    disk, tables = task.place.disk, []
    for mark in [parts[shard] for parts in task.rounds if shard in parts]:
        _, cuts, table = read_panes((disk.root / mark.path).read_bytes())
        if cuts.cuts:
            tables.append(project(table, cuts, task.cuts))
    if not tables and (shard or task.cuts.cuts):
        return PartReport(shard, Census())
    folded = fold(task.cuts, task.cuts.pane_us, tables) if tables else pa.table({})
    path = folded_path(task.place.folder, task.round_id, shard, uuid.uuid4().hex[:16])
    times = task.newest_before_us, task.newest_us
    found = write_panes(disk, path, task.round_id, *times, task.cuts, folded)
    return PartReport(shard, Census(), folded.num_rows, found.mark)


# -- answers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoundParts:
    """A round whose parts are written, by shard; `like`: one that has rows, if any has."""

    round: Round
    cuts: Cuts
    parts: Mapping[int, FileMark]

    @property
    def like(self) -> FileMark | None:
        return next(iter(self.parts.values()), None)

    @property
    def nbytes(self) -> int:
        return sum(mark.size for mark in self.parts.values())


@dataclass(frozen=True, slots=True)
class ShardTask:
    """What is the same for all shards of a round, the last of `rounds`; those before closed no pane,
    and have waited.  `expects`: the name under which states have been left, `leaves`: under which
    they are to be."""

    place: Place
    rounds: tuple[RoundParts, ...]
    seats: str
    expects: str
    leaves: str

    @property
    def round(self) -> Round:
        return self.rounds[-1].round


@dataclass(slots=True)
class ShardReport:
    """What a shard's round has left.  `is_anew`: its rings had to be made from the log; `is_kept`:
    there was room for them."""

    shard: int
    files: list[FileMark] = field(default_factory=list)
    answers: int = 0
    faults: dict[int, str] = field(default_factory=dict)
    nbytes: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    selectivity: dict[str, float] = field(default_factory=dict)
    is_anew: bool = False
    is_kept: bool = True
    seconds: float = 0.0
    process_bytes: int = 0


_answering: list[Answering] = []


def answer_shard(
    shard: int, task: ShardTask, seats: Callable[[], Mapping[int, Seat]]
) -> ShardReport:
    """The round of one shard."""
    began_s = perf_counter()
    place = task.place
    states = place.states(shard)
    held = _taken(shard, task, states)
    report = ShardReport(shard, is_anew=held is None)
    if held is None:
        held = Held(ShardRings(place.disk, place.folder, shard, place.config))
    rings: ShardRings = held.state
    if rings.seats != task.seats:
        rings.seat(task.seats, seats())
    rings.begin(task.rounds[0].round.id)
    for own in task.rounds:
        rings.take_part(own.cuts, _panes(shard, own, Path(place.root)), own.round)
    _answer(rings, task, report)
    rings.prune(task.round.watermark_us)
    report.nbytes, report.selectivity = rings.nbytes, rings.selectivity
    report.groups = count_groups((slot, len(own)) for slot, own in rings.keys.slots.items())
    report.is_kept = states.put(task.leaves, held)
    report.seconds, report.process_bytes = perf_counter() - began_s, peak_bytes()
    return report


def _taken(shard: int, task: ShardTask, states: StateFiles) -> Held | None:
    """The rings as the round before has left them."""
    held = states.take(task.expects) if task.expects else None
    if held is not None:
        held.state.wake(task.place.disk, task.place.folder, shard)
    return held


def _panes(shard: int, own: RoundParts, root: Path) -> pa.Table | None:
    """The round's panes of a shard; those of others without their rows, if it has none."""
    mark = own.parts.get(shard)
    found = mark or own.like
    if found is None:
        return None
    path = root / found.path
    with reading(path), pa.memory_map(str(path)) as file:
        if mark is None:
            return pa.ipc.open_stream(file).schema.empty_table().replace_schema_metadata(None)
        return read_panes(file.read_buffer())[2].replace_schema_metadata(None)


def _answer(rings: ShardRings, task: ShardTask, report: ShardReport) -> None:
    answering, pieces = _finishing(), _Pieces(task, report)
    for closed in rings.close(task.round.watermark_us):
        report.faults.update(rings.barred)
        for blocks, answers in answering.finish(closed, rings.keys, report.faults):
            pieces.write(blocks)
            report.answers += answers
    report.faults.update(rings.barred)
    rings.barred.clear()


def _finishing() -> Answering:
    if not _answering:
        _answering.append(Answering())
    return _answering[0]


class _Pieces:
    """The answers of a shard, a file for each piece."""

    def __init__(self, task: ShardTask, report: ShardReport) -> None:
        self._task = task
        self._report = report
        self._disk = task.place.disk
        self._stamp = uuid.uuid4().hex[:16]

    def write(self, blocks: list[Block]) -> None:
        if not blocks:
            return
        stamp = f"{self._report.shard:05d}.{len(self._report.files):06d}.{self._stamp}"
        path = shared_path(self._task.place.folder, self._task.round.id, stamp=stamp)
        data = pack(blocks)
        self._disk.put(path, data)
        self._report.files.append(mark_of(path, data))
