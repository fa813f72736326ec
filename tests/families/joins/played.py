"""Rounds of joined relations without Spark: real home, catalog, ledgers, commits, turns and stores;
rows are drawn.

`Played` does around a round what `runtime/rounds.py` and `job.py` do, one relation after the other.
Beside it runs a model: which rows came in which turn, and which went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.families.joins.coordinator import JoinCoordinator
from headrace.families.joins.job import JoinsJob
from headrace.families.joins.levels.level_store import LevelStore
from headrace.families.joins.levels.notes import JoinNotes, notes_of
from headrace.families.joins.levels.probes import Rates
from headrace.families.joins.levels.probing import Report, Task, look_all, take_batch
from headrace.families.joins.reading.join_log import JoinLog, JoinReader
from headrace.families.joins.round_runner import PendingRound, RoundRunner, nothing
from headrace.families.joins.selects.routing import RATES
from headrace.relations.keeping import COMPACTED, CompactTask, compact_files, grouped
from headrace.relations.rounds import ALL, KeptRound, round_path
from headrace.relations.row_files import CAME, COMES, KIND, SIGN, WAS, RowFile
from headrace.relations.rows import Relations
from headrace.relations.store import Store
from headrace.runtime.commit import Commits, Taken
from headrace.runtime.family import LATE, NO_TIME, OK, Outcome, Place, Round
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger
from headrace.runtime.sparklogs import Input, SparkLogs
from headrace.runtime.statistics import Census, Stopwatch
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.values import Relation
from tests.families.joins.asked import KINDS, T0, Row, rank
from tests.runtime.recording import QuickDisk

DDL = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
ARROW = {
    "k": pa.string(),
    "n": pa.int64(),
    "a": pa.int32(),
    "b": pa.float64(),
    "d": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "u": pa.int64(),
    "gone": pa.bool_(),
}
_DEAR: Rates = {method: (1.0,) * count for method, count in RATES.items()}
FORCED: dict[str, Rates] = {
    **{method: {**_DEAR, method: (1e-9,) * count} for method, count in RATES.items()},
    "mixed": {
        **_DEAR,
        "select_first": (0.0, 0.0, 1.0, 1.0),
        "join_first": (0.0, 1.0, 0.5, 0.5, 0.5),
    },
}
"""Rates by which all events of a level go by one method, or by several."""
WORKERS = 2
NEVER = 1 << 62


def stream(name: str, late_s: int = 10) -> Relation:
    return Relation(name, f"parquet:{name}", parse_schema(DDL), "ts", late_s * 1_000_000)


def table(name: str, key: tuple[str, ...]) -> Relation:
    return Relation(name, f"parquet:{name}", parse_schema(DDL), key=key, deleted="gone")


@dataclass(eq=False)
class Kept:
    """A row of the model: the turns in which it came and went; round, part and index in its
    file."""

    row: Row
    kind: int
    came: int
    place: tuple[int, int, int]
    went: int = NEVER

    def is_there(self, turn: int) -> bool:
        return self.kind == OK and self.came <= turn < self.went


@dataclass
class Side:
    """A relation as it is run, and its model."""

    relation: Relation
    ledger: Ledger
    runner: RoundRunner
    commits: Commits
    planned: dict[int, Registered] = field(default_factory=dict)
    version: int = -1
    kept: list[Kept] = field(default_factory=list)
    newest_us: int | None = None

    def by_key(self) -> dict[tuple[object, ...], Kept]:
        return {key_of(self.relation, k.row): k for k in self.kept if k.went == NEVER}


@dataclass(frozen=True)
class Done:
    """A committed round: the rows that come and go with each of its parts."""

    relation: str
    turn: PendingRound
    join: KeptRound
    notes: JoinNotes
    comes: Mapping[int, Sequence[Kept]]
    goes: Mapping[int, Sequence[Kept]]


def key_of(relation: Relation, row: Row) -> tuple[object, ...]:
    return tuple(rank(row[name]) for name in relation.key)


def arrow_rows(rows: Sequence[Row], kinds: Sequence[int]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in ARROW.items()}
    return pa.table({**columns, KIND: pa.array(kinds, pa.int8())})


class Local:
    """Tasks that run here: each batch by one of the workers, as Spark gives them out."""

    def __init__(self, parts: Mapping[int, pa.Table], workers: Sequence[LevelStore]) -> None:
        self._parts, self._workers = parts, workers

    def take(self, task: Task) -> list[Report]:
        return [
            self._sent(take_batch(rows, task, part, self._store(part)))
            for part, rows in self._parts.items()
        ]

    def look(self, task: Task, files: Sequence[RowFile]) -> list[Report]:
        return [
            self._sent(look_all(file, task, self._store(number)))
            for number, file in enumerate(files)
        ]

    def compact(self, task: CompactTask) -> list[Report]:
        return [
            self._sent(Report(compact_files(group, task, COMPACTED + n, self._store(n))))
            for n, group in enumerate(grouped(task.files))
        ]

    def _store(self, number: int) -> LevelStore:
        return self._workers[number % len(self._workers)]

    def _sent(self, report: Report) -> Report:
        return Report.unpack(report.pack())


class _NoLogs:
    def sync(self, round_id: int, before: Input | None) -> None:
        pass


class Played:
    def __init__(
        self, root: Path, relations: Sequence[Relation], config: Config | None = None
    ) -> None:
        self.config = config or Config()
        self.home = Home(root, QuickDisk(root))
        self.home.hold()
        self.catalog = Catalog(self.home.disk, self.config)
        for relation in relations:
            self.catalog.create(relation)
        self.sides: dict[str, Side] = {}
        self._whole: list[tuple[Side, KeptRound]] = []
        self.open()

    # -- the engine --------------------------------------------------------------------------------

    def open(self) -> None:
        """An engine and workers on the home, as after a restart."""
        self.shapes = JoinCoordinator(
            self.home.disk,
            self.config,
            self.catalog.relation,
            Relations(self.catalog.relation, self._ledger),
        )
        self.workers = [LevelStore(self.home.root) for _ in range(WORKERS)]
        self.reader = self.new_reader()
        for name in self.catalog.relations:
            self._open_side(name)

    def _open_side(self, name: str) -> None:
        known, relation = self.sides.get(name), self.catalog.relation(name)
        ledger = self._ledger(name)
        commits = Commits(
            self.home, name, ledger, cast(SparkLogs, _NoLogs()), self.catalog, self.config
        )
        place = Place(self.home.disk, ledger, relation, self.config)
        place.make_folders(JoinsJob.folders)
        side = Side(relation, ledger, RoundRunner(place, self.shapes), commits)
        if known is not None:
            side.kept, side.newest_us = known.kept, known.newest_us
        self.sides[name] = side

    def _ledger(self, name: str) -> Ledger:
        return Ledger(self.home.disk, self.home.stream_folder(name))

    # -- queries -----------------------------------------------------------------------------------

    def add(self, name: str, sql: str) -> Registered:
        self.catalog.add([bind(sql, self.catalog.relations, name=name)])
        return self.catalog.queries[name]

    def drop(self, name: str) -> None:
        self.catalog.drop([name])

    def replan(self, name: str) -> None:
        side = self.sides[name]
        live = {r.id: r for r in self.catalog.queries.values() if name in r.query.relations}
        gone = side.planned.keys() - live.keys()
        for other in self.sides.values():  # what one relation drops has gone for all
            other.planned = {i: r for i, r in other.planned.items() if i not in gone}
        side.planned, side.version = live, self.catalog.version
        self.shapes.replan(name, list(live.values()))

    @property
    def standing(self) -> set[int]:
        """Ids of the queries any relation knows of."""
        return {i for side in self.sides.values() for i in side.planned}

    def new_reader(self) -> JoinReader:
        return JoinReader(self.home.root, self.catalog.relation, self._ledger)

    def log(self, registered: Registered, reader: JoinReader | None = None) -> JoinLog:
        log = (reader or self.reader).log(registered)
        assert isinstance(log, JoinLog)
        return log

    # -- rounds ------------------------------------------------------------------------------------

    def lags(self, name: str) -> None:
        """The next round has begun before the catalog last changed, if its relation was joined
        then."""
        if not self.sides[name].planned:
            self.replan(name)

    def abandon(self, name: str, parts: Sequence[Sequence[Row]]) -> None:
        """A round that is not committed; its pipeline begins again, workers live on."""
        side = self.sides[name]
        if side.planned:
            side.runner.take(
                Local(self._tables(side, parts), self.workers), self._round(side, parts)
            )
        planned, version = side.planned, side.version
        self._open_side(name)
        self.sides[name].planned, self.sides[name].version = planned, version

    def over_limit(self, name: str, parts: Sequence[Sequence[Row]]) -> dict[int, str]:
        """Queries that such a round would put out of service, with the reason."""
        side = self.sides[name]
        turn = side.runner.take(
            Local(self._tables(side, parts), self.workers), self._round(side, parts)
        )
        return side.runner.over_limit(turn)

    def round(self, name: str, parts: Sequence[Sequence[Row]]) -> Done | None:
        """Rows in batches, each a part; of a table the keys of a round are different."""
        side = self.sides[name]
        self._move()
        round, tables = self._round(side, parts), self._tables(side, parts)
        if not side.planned and not self.shapes.needs_rows(name):
            place = Place(self.home.disk, side.ledger, side.relation, self.config)
            self._commit(side, round, nothing(place, round))
            side.kept.clear()
            return None
        turn = side.runner.take(Local(tables, self.workers), round)
        assert not side.runner.over_limit(turn)
        outcome = side.runner.outcome(turn, round)
        self._commit(side, round, outcome)
        path = round_path(side.ledger.folder, round.id)
        if all(mark.path != path for mark in outcome.files):
            changes = self._changes(side, parts, 0, round.id, commit=False)
            assert not any(kept for change in changes for kept in change.values())
            return None
        join = KeptRound.unpack((self.home.root / path).read_bytes(), side.version)
        comes, goes = self._changes(side, parts, join.turn, round.id, commit=True)
        if join.holds == ALL:
            self._whole.append((side, join))
        notes = notes_of(join, side.ledger.folder)
        return Done(name, turn, join, notes, comes, goes)

    def _move(self) -> None:
        """Rows of tables that were written anew have new places from the round after on."""
        for side, join in self._whole:
            there, store = side.by_key(), Store(self.home.root)
            for file in join.files:
                for i, row in enumerate(store.table(file).to_pylist()):
                    kept = there.pop(key_of(side.relation, row))
                    assert all(rank(kept.row[n]) == rank(row[n]) for n in KINDS)
                    assert (row[CAME], row[SIGN]) == (kept.came, COMES)
                    kept.place = file.round_id, file.part, i
            assert not there
        self._whole.clear()

    def _round(self, side: Side, parts: Sequence[Sequence[Row]]) -> Round:
        newest = side.ledger.newest
        times = [
            _micros(row)
            for rows in parts
            for row in rows
            if row["ts"] is not None and side.relation.time
        ]
        census = Census(sum(map(len, parts)), newest_us=max(times, default=None))
        return Round(
            0 if newest is None else newest.round_id + 1,
            side.newest_us,
            side.relation.late_us,
            census,
        )

    def _tables(self, side: Side, parts: Sequence[Sequence[Row]]) -> dict[int, pa.Table]:
        return {
            p * 7: arrow_rows(rows, self._kinds(side, rows)) for p, rows in enumerate(parts) if rows
        }

    def _kinds(self, side: Side, rows: Sequence[Row]) -> list[int]:
        if side.relation.time is None:
            return [OK] * len(rows)
        limit = -NEVER if side.newest_us is None else side.newest_us - side.relation.late_us
        return [
            NO_TIME if row["ts"] is None else LATE if _micros(row) < limit else OK for row in rows
        ]

    def _commit(self, side: Side, round: Round, outcome: Outcome) -> None:
        taken = Taken(round, Input("", "", (), ""), None, (), (), side.version, len(side.planned))
        side.commits.commit(taken, outcome, Stopwatch())
        side.ledger.check_sizes()

    def events(self, done: Done) -> dict[int, list[Kept]]:
        """The rows of each file of a round as they were written, which are those of the model."""
        store, found = LevelStore(self.home.root), dict[int, list[Kept]]()
        placed = {kept.place: kept for kept in self.sides[done.relation].kept}
        for file in done.turn.rows.changes:
            rows = store.table(file).to_pylist()
            places = [
                (file.round_id, file.part, i) if row[SIGN] == COMES else tuple(row[w] for w in WAS)
                for i, row in enumerate(rows)
            ]
            found[file.part] = [placed[place] for place in places]
            for kept, row in zip(found[file.part], rows, strict=True):
                assert kept.kind == row[KIND] and all(
                    rank(kept.row[n]) == rank(row[n]) for n in KINDS
                )
        assert sum(map(len, found.values())) == sum(
            map(len, (*done.comes.values(), *done.goes.values()))
        )
        return found

    # -- the model ---------------------------------------------------------------------------------

    def _changes(
        self, side: Side, parts: Sequence[Sequence[Row]], turn: int, round_id: int, commit: bool
    ) -> tuple[dict[int, list[Kept]], dict[int, list[Kept]]]:
        """What comes with each part, in this order after what goes, in any; with `commit` it
        has."""
        comes: dict[int, list[Kept]] = {}
        goes: dict[int, list[Kept]] = {}
        known = side.by_key()
        for part, rows in ((p * 7, rows) for p, rows in enumerate(parts) if rows):
            new, old = list(rows), list[Kept]()
            if side.relation.is_table:
                new, old = _upserted(side.relation, rows, known)
            kinds = self._kinds(side, new)
            comes[part] = [
                Kept(row, kinds[i], turn, (round_id, part, len(old) + i))
                for i, row in enumerate(new)
            ]
            goes[part] = old
        if commit:
            for gone in (k for old in goes.values() for k in old):
                gone.went = turn
            side.kept += [k for new in comes.values() for k in new]
            round = self._round(side, parts)
            side.newest_us = round.newest_us
        return comes, goes


def _upserted(
    relation: Relation, rows: Sequence[Row], known: Mapping[tuple[object, ...], Kept]
) -> tuple[list[Row], list[Kept]]:
    new, old = [], []
    for row in rows:
        before = known.get(key_of(relation, row))
        if before is not None and all(rank(before.row[name]) == rank(row[name]) for name in KINDS):
            continue
        new += [] if row["gone"] else [row]
        old += [before] if before is not None else []
    return new, old


def _micros(row: Row) -> int:
    found: int = (
        round((row["ts"] - T0).total_seconds()) * 1_000_000 + round(T0.timestamp()) * 1_000_000
    )
    return found


def latest(relation: Relation, rows: Sequence[Row]) -> list[Row]:
    """Of a table the last row of each key, as Spark leaves them."""
    return (
        list({key_of(relation, row): row for row in rows}.values())
        if relation.is_table
        else list(rows)
    )


def pairs_there(left: Side, right: Side, turn: int) -> Iterator[tuple[Kept, Kept]]:
    there = [k for k in right.kept if k.is_there(turn)]
    return ((x, y) for x in left.kept if x.is_there(turn) for y in there)
