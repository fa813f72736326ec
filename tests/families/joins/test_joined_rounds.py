"""Joins through rounds without Spark: whatever is asked, comes, goes, is abandoned or begins again.

After every round records name, for every event, the queries with a candidate, and no other; after
some, answers read turn by turn are those of a reader who comes late, in the same order, and add up
to what a page of Python finds in all pairs.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.errors import PlanError
from headrace.families.joins.bands import probes as band_probes
from headrace.families.joins.bands import scattered as band_scattered
from headrace.families.joins.levels import probes, standing
from headrace.families.joins.levels.level_store import LevelStore
from headrace.families.joins.plan import share
from headrace.families.joins.reading import join_log as expand
from headrace.families.joins.reading import turn_batches as blocks
from headrace.families.joins.reading.join_log import JoinLog
from headrace.families.joins.stabbing import hot_points
from headrace.relations import image, keeping, spans, store, wear
from headrace.relations.row_files import map_table
from headrace.runtime.family import OK
from tests.families.joins.asked import Asked, Row, draw_query, draw_row, rank
from tests.families.joins.played import (
    FORCED,
    Done,
    Kept,
    Played,
    Side,
    latest,
    pairs_there,
    stream,
    table,
)


@dataclass
class Watched:
    """What a reader has read turn by turn."""

    rows: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    turn: int = -1
    has_missed: bool = False

    def since(self, turns: Sequence[int]) -> list[tuple[Any, ...]]:
        """What these turns answered, and all before them that was read."""
        return [row for turn in turns for row in self.rows.get(turn, [])]


class Checked:
    """A home being played, with what is asked of it."""

    def __init__(self, root: Path, chance: Random) -> None:
        self.chance = chance
        self.is_bounded = chance.random() < 0.3
        kept = chance.choice([100_000, 100_000, 3, 8])
        self.played = Played(root, self._relations(), Config.of(manifests_kept=kept))
        self.shapes = [chance.random() for _ in range(chance.choice([1, 2, 4]))]
        self.asked: dict[str, tuple[Asked, Registered]] = {}
        self.known: dict[int, tuple[Asked, Registered]] = {}
        self.names = 0
        self.at_s = 0
        self.rows = 0
        self.since: dict[int, int] = {}
        self.methods: Counter[str] = Counter()
        self.verdicts: dict[tuple[int, int, int], bool] = {}
        self.watched: dict[int, Watched] = {}

    def _relations(self) -> list[Any]:
        made = []
        for name in "rs":
            keys = self.chance.choice([("k",), ("k", "n"), ("b",), ("a",)])
            is_table = self.chance.random() < 0.5 and not self.is_bounded
            made.append(table(name, keys) if is_table else stream(name))
        return made

    # -- steps -------------------------------------------------------------------------------------

    def add(self) -> None:
        shape = Random(self.chance.choice(self.shapes))
        relations = shape.choice([("r", "s"), ("r", "s"), ("s", "r"), ("r", "r"), ("s", "s")])
        sides = [self.played.catalog.relation(name) for name in relations]
        is_bounded = self.is_bounded and self.chance.random() < 0.95
        asked = draw_query(
            shape, self.chance, relations, all(side.time is not None for side in sides), is_bounded
        )
        self.names += 1
        name = f"q{self.names}"
        registered = self.played.add(name, asked.sql)
        try:
            share(registered.query, *sides)
        except PlanError as error:
            assert error.code == "EMPTY_RANGE", (asked, error)
            self.played.drop(name)
            return
        self.asked[name] = self.known[registered.id] = asked, registered

    def drop(self) -> None:
        if self.asked:
            name = self.chance.choice(sorted(self.asked))
            del self.asked[name]
            self.played.drop(name)

    def round(self) -> None:
        joined = sorted({name for asked, _ in self.asked.values() for name in asked.relations})
        name = self.chance.choice(joined if joined and self.chance.random() < 0.9 else ["r", "s"])
        side = self.played.sides[name]
        parts = self.split(latest(side.relation, self.drawn(side)))
        if self.chance.random() < 0.15:
            self.played.lags(name)
        else:
            self.played.replan(name)
        if self.chance.random() < 0.15:
            self.played.abandon(name, self.split([row for rows in parts for row in rows]))
            if self.chance.random() < 0.5:  # the other relation comes first
                self.run("sr"["rs".index(name)])
        side = self.played.sides[name]
        if self.chance.random() < 0.5:
            self.force(side)
        self.finish(name, parts)

    def run(self, name: str) -> None:
        self.played.replan(name)
        self.finish(
            name,
            self.split(
                latest(self.played.sides[name].relation, self.drawn(self.played.sides[name]))
            ),
        )

    def finish(self, name: str, parts: Sequence[Sequence[Row]]) -> None:
        done = self.played.round(name, parts)
        if done is not None:
            for asked, registered in self.asked.values():
                if name in asked.relations and done.join.version >= registered.version:
                    self.since.setdefault(registered.id, done.join.turn)
            self.check_records(done)
            self.check_odd(done)
        if self.chance.random() < 0.5:
            self.check_answers()

    def force(self, side: Side) -> None:
        """All that is looked up next goes by one method, or by some."""
        looks, _ = self.played.shapes.looks(side.relation.name, side.ledger.folder, ())
        rates = FORCED[self.chance.choice(sorted(FORCED))]
        self.played.shapes.note({path: rates for look in looks for path in look.levels})

    def drawn(self, side: Side) -> list[Row]:
        self.at_s += self.chance.choice([0, 0, 5, 30])
        rows = []
        for _ in range(self.chance.choice([1, 3, 8, 20])):
            self.rows += 1
            u = self.rows if not side.relation.is_table else self.chance.randrange(3)
            rows.append(draw_row(self.chance, self.at_s, u))
        if side.relation.is_table and side.kept:  # some are known already
            rows += [
                dict(own.row)
                for own in self.chance.choices(side.kept, k=3)
                if own.row["gone"] is not True
            ]
        return rows

    def split(self, rows: Sequence[Row]) -> list[list[Row]]:
        cuts = sorted(self.chance.choices(range(len(rows) + 1), k=self.chance.choice([0, 0, 1, 3])))
        return [list(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]

    # -- checks ------------------------------------------------------------------------------------

    def check_answers(self) -> None:
        late = self.played.new_reader()
        for name in self.chance.sample(sorted(self.asked), min(5, len(self.asked))):
            asked, registered = self.asked[name]
            log = self.played.log(registered, late)
            whole = log.read_all()
            self.watch(registered, whole.schema)
            watched = self.watched[registered.id]
            assert watched.since(log.rounds()) == _rows(whole), (name, asked)
            expected = self.expected(asked, registered)
            if not watched.has_missed:
                rows = watched.since(sorted(watched.rows))
                assert _left_over(rows, "change" in whole.column_names) == expected, (name, asked)
            if log.has_lost_some:
                assert self.may_lose(asked), (name, asked)
            else:
                found = Counter(_rows(log.present()))
                assert self.expected(asked, registered, log) <= found <= expected, (name, asked)

    def may_lose(self, asked: Asked) -> bool:
        """Rows of tables are kept for the present answer, whatever is let go of."""
        sides = [self.played.sides[name].relation for name in asked.relations]
        return self.played.config.manifests_kept < 100 and not all(side.is_table for side in sides)

    def watch(self, registered: Registered, schema: pa.Schema) -> None:
        """Read the turns that are new."""
        log, watched = (
            self.played.log(registered),
            self.watched.setdefault(registered.id, Watched()),
        )
        watched.has_missed |= log.has_lost(watched.turn) and registered.id in self.since
        for turn in log.rounds(watched.turn):
            found = log.read(registered.id, registered.query, turn)
            watched.turn = turn
            if found is not None:
                assert found.num_rows and found.schema == schema
                watched.rows[turn] = _rows(found)

    def expected(
        self, asked: Asked, registered: Registered, log: JoinLog | None = None
    ) -> Counter[tuple[Any, ...]]:
        """All pairs that are there, of which at least one row came since the query took effect.  With
        its `log`: without rows of streams that were let go of; nobody needed them when it came."""
        since = self.since.get(registered.id)
        if since is None:
            return Counter()
        left, right = (self.played.sides[name] for name in asked.relations)
        oldest = [-1, -1] if log is None else [self.oldest_row(log, side) for side in (0, 1)]
        return Counter(
            asked.shown(x.row, y.row)
            for x, y in pairs_there(left, right, 1 << 60)
            if max(x.came, y.came) >= since
            and (x.came >= oldest[0] and y.came >= oldest[1])
            and self.is_answer(registered.id, asked, x, y)
        )

    def oldest_row(self, log: JoinLog, side: int) -> int:
        """The turn in which the oldest row came that is still kept of a stream."""
        history = log._sides[side]
        is_table = self.played.sides[history.relation].relation.is_table
        return -1 if is_table else history.gone + 1

    def is_answer(self, query_id: int, asked: Asked, x: Kept, y: Kept) -> bool:
        key = query_id, id(x), id(y)
        if key not in self.verdicts:
            self.verdicts[key] = asked.answers(x.row, y.row)
        return self.verdicts[key]

    @property
    def standing(self) -> list[tuple[Asked, Registered]]:
        """Queries that some relation knows of, and none has heard yet that they were dropped."""
        return [self.known[i] for i in sorted(self.played.standing)]

    def check_records(self, done: Done) -> None:
        found, events = self.affected(done), self.played.events(done)
        looks: set[tuple[object, ...]] = set()
        for look in done.turn.looks:
            asked = {r.id: a for a, r in self.standing if self._shape(r) == look.shape}
            own = done.turn.rows.changes if look.other == done.relation else ()
            files = {(file.round_id, file.part) for file in (*look.files, *own)}
            there = [
                k
                for k in self.played.sides[look.other].kept
                if _was_there(k, done, look.side) and k.came > self.let_go(look.other)
            ]
            looked = [k for k in there if k.place[:2] in files]
            looks.add((look.shape, look.side))
            for part, rows in events.items():
                for number, event in enumerate(rows):
                    theirs = {
                        i for i in found.get((look.number, part, number), set()) if i in asked
                    }
                    ours = {
                        i
                        for i, own in asked.items()
                        if event.kind == OK
                        and any(own.is_candidate(*_pair(look.side, event, k)) for k in looked)
                    }
                    assert theirs == ours, (asked, look.side, theirs, ours, event)
                    if len(looked) < len(there):  # rows that are past are no answers
                        assert not any(
                            own.answers(*_pair(look.side, event, k))
                            for i, own in asked.items()
                            if i not in ours and event.kind == OK
                            for k in there
                        )
        expected = {
            (self._shape(r), side)
            for _, r in self.standing
            for side in (0, 1)
            if self._shape(r).relations[side] == done.relation
        }
        assert expected <= looks

    def let_go(self, name: str) -> int:
        """The newest turn of a stream whose rows were let go of, as nobody needed them."""
        rounds = self.played.shapes.rows(name).rounds.rounds
        is_table = self.played.sides[name].relation.is_table
        return -1 if is_table or not rounds else rounds[0].before

    def affected(self, done: Done) -> dict[tuple[int, int, int], set[int]]:
        """Queries by look, part and event, as the files of records say."""
        reader = LevelStore(self.played.home.root)
        for looked in (own for report in done.turn.reports for own in report.looked):
            self.methods.update(looked.events)
        found: dict[tuple[int, int, int], set[int]] = {}
        for written in done.notes.written:
            look = done.turn.looks[written.look]
            records = map_table(self.played.home.root / written.path, written.size, written.crc)
            level = reader.prober(look.levels[written.level], look.shape.kind, look.side)
            part = int(Path(written.path).name.split(".")[0])
            events, ids = level.affected(records)
            for event, i in zip(events.tolist(), ids.tolist(), strict=True):
                found.setdefault((written.look, part, event), set()).add(i)
        return found

    def _shape(self, registered: Registered) -> Any:
        query = registered.query
        assert query.joined is not None
        relations = self.played.catalog.relation
        return share(query, relations(query.source), relations(query.joined)).shape

    def check_odd(self, done: Done) -> None:
        odd = [
            k.row
            for kept in done.comes.values()
            for k in kept
            if k.kind == OK
            and any(
                a.is_odd(side, k.row)
                for a, _ in self.standing
                for side in (0, 1)
                if a.relations[side] == done.relation
            )
        ]
        assert done.notes.odd == len(odd)
        folder = self.played.sides[done.relation].ledger.folder
        path = self.played.home.root / folder / "dead" / f"{done.join.round_id:012d}.joins.jsonl"
        assert path.exists() == bool(odd)
        if odd:
            told = [json.loads(line)["row"] for line in path.read_text().splitlines()]
            assert Counter(row["u"] for row in told) == Counter(row["u"] for row in odd)


def _was_there(kept: Kept, done: Done, side: int) -> bool:
    """Events of side 0 find what was there before their turn, those of side 1 what is there after
    it."""
    return kept.is_there(done.join.turn - 1 if side == 0 else done.join.turn)


def _pair(side: int, event: Kept, other: Kept) -> tuple[Row, Row]:
    return (event.row, other.row) if side == 0 else (other.row, event.row)


def _rows(found: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(map(rank, row.values())) for row in found.to_pylist()]


def _left_over(rows: Sequence[tuple[Any, ...]], has_change: bool) -> Counter[tuple[Any, ...]]:
    """What came and was not taken back, in this order."""
    left: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        values, change = (row[:-1], row[-1]) if has_change else (row, 1)
        left[values] += change
        assert left[values] >= 0, row
    return +left


def check_seed(seed: int, steps: int) -> None:
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for module, name, values in (
            (probes, "DENSE_MAX", (512, 512, 0, 1)),
            (band_probes, "DENSE_MAX", (512, 512, 0, 1)),
            (band_probes, "AT_ONCE", (1 << 23, 1)),
            (band_probes, "FEW_GROUPS", (16, 0)),
            (band_probes, "STEP_S", (2.5e-9, 0.0)),
            (hot_points, "HOT_LEAST", (16, 2)),
            (band_scattered, "ROOM", (1 << 21, 3)),
            (image, "RATIO", (8, 1)),
            (standing, "RATIO", (4, 2, 1)),
            (blocks, "FEW", (1024, 0, 0)),
            (spans, "TURNS", (64, 1, 3)),
            (spans, "SPANS_MAX", (64, 1)),
            (expand, "PAIRS_AT_ONCE", (1 << 22, 1 << 22, 50)),
            (store, "OPEN_MAX", (4096, 4096, 2)),
            (wear, "SPARE_ROWS", (100_000, 0, 5)),
            (wear, "FILES_MAX", (64, 64, 3)),
            (keeping, "GROUP_ROWS", (1 << 20, 4)),
        ):
            stack.enter_context(patch.object(module, name, chance.choice(values)))
        checked = Checked(Path(folder) / "home", chance)
        for _ in range(chance.choice([1, 4, 25])):
            checked.add()
        for _ in range(steps):
            match chance.choice(["round"] * 6 + ["add"] * 2 + ["drop", "open"]):
                case "round":
                    checked.round()
                case "add":
                    for _ in range(chance.choice([1, 1, 4])):
                        checked.add()
                case "drop":
                    for _ in range(chance.choice([1, 1, 15])):
                        checked.drop()
                case "open":
                    checked.played.open()
        checked.check_answers()
        checked.played.home.release()


SEEDS = st.integers(0, 2**32)


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS)
def test_joins_are_all_pairs(seed: int) -> None:
    check_seed(seed, 7)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@settings(max_examples=200, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS)
def test_joins_are_all_pairs_long(seed: int) -> None:
    check_seed(seed, 40)
