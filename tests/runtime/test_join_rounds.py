"""Rounds of joined relations that fail, are repeated, or are read while they come: nothing twice,
nothing lost."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.errors import HeadraceError, HomeError
from headrace.families.joins import job
from headrace.families.joins.levels.level_store import LevelStore
from headrace.families.joins.levels.probing import Report, Task, take_batch
from headrace.relations.history import History
from headrace.sql.bind import bind
from tests.runtime.joined import (
    NAMES,
    JoinScenario,
    Seen,
    reader_of,
    relations_of,
    seen_by_watcher,
    watched,
)
from tests.runtime.recording import QuickDisk
from tests.runtime.scenario import Step, reveal

FIRST = (Step(add=("band", "select", "self")), Step(files=1))
BANDS = {
    f"band{n}": f"SELECT r.v AS rv, t.v AS tv FROM r JOIN t ON t.v - r.v BETWEEN -{n} AND {n}"
    for n in range(12)
}


@contextmanager
def scenario(folder: Path, manifests_kept: int = 100) -> Iterator[JoinScenario]:
    for name in NAMES:
        (folder / "src" / name).mkdir(parents=True, exist_ok=True)
    disk = QuickDisk(folder / "race")
    with JoinScenario(disk, folder / "src", manifests_kept=manifests_kept).held() as held:
        yield held


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What is seen when nothing fails."""
    folder = tmp_path_factory.mktemp("whole")
    with scenario(folder) as calm:
        for step in (*FIRST, Step(files=2), Step(files=3)):
            calm.do(step)
    found = seen_by_watcher(QuickDisk(folder / "race"))
    assert all(found.values())
    return found


# -- failures --------------------------------------------------------------------------------------

FAILURES = {
    "a worker": "headrace.families.joins.job.take_batch",
    "a worker, looking up": "headrace.families.joins.job.look_all",
    "the driver, answering": "headrace.families.joins.round_runner.RoundRunner._write",
    "the commit": "headrace.runtime.ledger.Ledger.commit",
}


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "restarts"])
@pytest.mark.parametrize("what", FAILURES)
def test_a_round_that_fails_is_repeated(
    tmp_path: Path, whole: Seen, what: str, restarts: bool
) -> None:
    with scenario(tmp_path) as held:
        for step in FIRST:
            held.do(step)
        cancelled = RuntimeError("Job 7 cancelled as part of a group")  # which is no query's fault
        with (
            patch(FAILURES[what], side_effect=cancelled),
            pytest.raises(HeadraceError, match="ROUND_FAILED"),
        ):
            held.do(Step(files=2))
        assert not held.shapes.relations.commit_lock.locked()
        if not restarts:
            held.do(Step(files=2))
    with scenario(tmp_path) as again:
        again.do(Step(files=2))
        again.do(Step(files=3))
    assert seen_by_watcher(QuickDisk(tmp_path / "race")) == whole


def test_a_join_whose_looking_up_fails_is_taken_out_alone(tmp_path: Path, whole: Seen) -> None:
    """Only the join of a relation with itself is looked up by itself."""
    with scenario(tmp_path) as held:
        for step in FIRST:
            held.do(step)
        with patch(FAILURES["a worker, looking up"], side_effect=RuntimeError("no")):
            held.do(Step(files=2))
        held.do(Step(files=3))
        assert {r.query.name: r.quarantine for r in held.catalog.quarantined} == {
            "self": "RuntimeError: no"
        }
    found = seen_by_watcher(QuickDisk(tmp_path / "race"))
    assert {name: found[name] for name in ("band", "select")} == {
        name: whole[name] for name in ("band", "select")
    }


def test_the_other_relation_goes_on_when_one_fails(tmp_path: Path) -> None:
    with scenario(tmp_path) as held:
        for step in FIRST:
            held.do(step)
        with (
            patch(FAILURES["a worker"], side_effect=RuntimeError("no")),
            pytest.raises(HeadraceError),
        ):
            held.do(Step(files=2))
        held.drain("t")
        held.do(Step(files=2))
        assert [
            p.ledger.newest.round_id for p in held.pipelines.values() if p.ledger.newest is not None
        ] == [1, 1]


# -- leftovers -------------------------------------------------------------------------------------


def test_leftovers_are_never_counted(tmp_path: Path, whole: Seen) -> None:
    with scenario(tmp_path) as held:
        for step in FIRST:
            held.do(step)
    left = []
    for name in NAMES:
        place = tmp_path / "race" / "streams" / name
        committed, open_round = (place / "kept" / f"{n:012d}" for n in (0, 1))
        open_round.mkdir()
        left += [open_round / f"{n:08d}.rows.arrow" for n in (0, 9)] + [open_round / "round.json"]
        left += [place / "levels" / "0.npz", place / "levels" / "1.npz.part"]
        row_file = next(committed.glob("*.rows.arrow")).read_bytes()
        for path in left[-5:]:
            path.write_bytes(
                row_file if path.suffix == ".arrow" else (committed / "round.json").read_bytes()
            )
    stray = [path for path in left if path.name != "round.json"]
    before = {path: path.stat().st_ino for path in stray}
    with scenario(tmp_path) as again:
        again.do(Step(files=2))
        again.do(Step(files=3))
    assert seen_by_watcher(QuickDisk(tmp_path / "race")) == whole
    assert not [path for path in stray if path.exists() and path.stat().st_ino == before[path]]


def test_an_attempt_that_lives_on_harms_nothing(tmp_path: Path, whole: Seen) -> None:
    """A round has failed and is repeated; then a task of the first attempt writes its files."""
    late: list[Task] = []
    real = take_batch

    def fail(rows: pa.Table, task: Task, part: int, store: LevelStore) -> Report:
        late.append(task)
        raise RuntimeError("no")

    def take(rows: pa.Table, task: Task, part: int, store: LevelStore) -> Report:
        report = real(rows, task, part, store)
        for other in late:
            real(rows.slice(1), other, part, store)
        late.clear()
        return report

    with scenario(tmp_path) as held:
        for step in FIRST:
            held.do(step)
        with (
            patch.object(job, "take_batch", fail),
            pytest.raises(HeadraceError, match="ROUND_FAILED"),
        ):
            held.do(Step(files=2))
        assert late
        with patch.object(job, "take_batch", take):
            held.do(Step(files=2))
        held.do(Step(files=3))
    assert seen_by_watcher(QuickDisk(tmp_path / "race")) == whole


# -- queries come and go between rounds of the two -------------------------------------------------


def test_a_level_that_one_side_let_go_is_written_again(tmp_path: Path) -> None:
    """All queries go, one side has a round without any; one comes: the levels are those of the
    other side still."""
    with scenario(tmp_path) as held:
        queries = [
            bind(sql, relations_of(tmp_path / "src"), name=name) for name, sql in BANDS.items()
        ]
        held.catalog.add(queries)
        held.do(Step(files=1))
        for name in BANDS:
            held.catalog.drop([name])
        reveal(tmp_path / "src" / "r", 2)
        held.drain("r")
        held.catalog.add(queries[:1])
        held.do(Step(files=3))
    found = seen_by_watcher(QuickDisk(tmp_path / "race"))
    assert found.keys() == {"band0"} and found["band0"]


def test_queries_may_change_while_another_relation_looks(tmp_path: Path) -> None:
    """Each relation plans in its own thread."""
    relations = relations_of(tmp_path / "src")
    with scenario(tmp_path) as held:
        for n, (a, b, c, d) in enumerate(product("kv", repeat=4)):  # a shape each
            sql = f"SELECT r.v AS rv FROM r JOIN t ON r.{a} = t.{b} WHERE r.{c} > 1 AND t.{d} > 1"
            held.catalog.add([bind(sql, relations, name=f"q{n}")])
        every = list(held.catalog.queries.values())
        held.shapes.replan("t", every)
        assert len(held.shapes.looks("r", "streams/r", ())[0]) == len(every)
        failures: list[BaseException] = []
        done = threading.Event()

        def come_and_go() -> None:
            for n in range(200):
                held.shapes.replan("t", every[n % len(every) :])
            done.set()

        thread = threading.Thread(target=come_and_go)
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            thread.start()
            while not done.is_set():
                try:
                    held.shapes.looks("r", "streams/r", ())
                except RuntimeError as error:
                    failures.append(error)
        finally:
            thread.join()
            sys.setswitchinterval(switch_s)
    assert not failures


# -- reading ---------------------------------------------------------------------------------------


def test_a_watcher_misses_nothing_that_comes_while_it_looks(tmp_path: Path, whole: Seen) -> None:
    """It looks at one relation, then rounds of both come, then it looks at the other."""
    disk = QuickDisk(tmp_path / "race")
    with scenario(tmp_path) as held:
        for step in FIRST:
            held.do(step)
        reader, select = reader_of(disk), held.catalog.query("select")
        real, steps = History.refresh, [Step(files=2), Step(files=3)]

        def refresh(history: History) -> None:
            real(history)
            if history.relation == "r" and steps:
                held.do(steps.pop(0))

        seen: list[tuple[int, dict[str, object]]] = []
        with patch.object(History, "refresh", refresh):
            for _ in range(4):
                seen += watched(reader, select, seen[-1][0] if seen else None)
    assert seen == whole["select"]


@pytest.mark.parametrize("later", [(), ("any",)], ids=["alone", "with one that needs all"])
def test_answers_are_whole_as_long_as_they_are_kept(tmp_path: Path, later: tuple[str, ...]) -> None:
    """Old rows are let go: what was answered with them goes too, it does not become less."""
    disk = QuickDisk(tmp_path / "race")
    seen: dict[str, dict[int, dict[str, object]]] = {name: {} for name in ("timed", *later)}
    oldest = 0
    # it runs on
    with (
        scenario(tmp_path, manifests_kept=2) as held,
        patch.object(held.shapes, "forget"),
    ):
        held.do(Step(add=("timed",)))
        for files in range(1, 9):
            if files == 6 and later:
                held.do(Step(add=later))
            held.do(Step(files=files))
            for name, answers in seen_by_watcher(disk).items():
                found = dict(answers)
                oldest, newest = min(found) >> 32, max(found) >> 32
                seen[name] = found | seen[name]
                assert found == {seq: row for seq, row in seen[name].items() if seq >> 32 >= oldest}
                assert newest - oldest >= min(len({seq >> 32 for seq in seen[name]}), 2) - 1
    assert later or oldest > 1


# -- damage ----------------------------------------------------------------------------------------


def flip(path: Path) -> bytes:
    """Change a byte; what it was."""
    data = path.read_bytes()
    path.write_bytes(
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    )
    return data


@pytest.mark.parametrize("file", ["t/kept/*0/*.rows.arrow", "r/kept/*1/*.rows.arrow", "r/levels/*"])
def test_a_round_does_not_go_on_from_a_damaged_file(tmp_path: Path, whole: Seen, file: str) -> None:
    with scenario(tmp_path) as held:
        for step in (*FIRST, Step(files=2)):
            held.do(step)
    path = min((tmp_path / "race" / "streams").glob(file))
    data = flip(path)
    with scenario(tmp_path) as again, pytest.raises(HomeError, match="FILE_DAMAGED"):
        again.do(Step(files=3))
    path.write_bytes(data)
    with scenario(tmp_path) as mended:
        mended.do(Step(files=3))
    assert seen_by_watcher(QuickDisk(tmp_path / "race")) == whole


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_said_every_time(tmp_path: Path, name: str) -> None:
    with scenario(tmp_path) as held:
        for step in (*FIRST, Step(files=2), Step(files=3)):
            held.do(step)
    disk = QuickDisk(tmp_path / "race")
    path = next((tmp_path / "race" / "streams" / name / "kept" / f"{1:012d}").glob("*.rows.arrow"))
    data = flip(path)
    reader, select = reader_of(disk), Catalog(disk, Config()).query("select")
    for _ in range(3):
        with pytest.raises(HomeError, match="FILE_DAMAGED"):
            reader.log(select).read_all()
    path.write_bytes(data)
    assert reader.log(select).read_all().num_rows
    os.truncate(path, len(data) // 2)  # while it is mapped
    with pytest.raises(HomeError, match="FILE_DAMAGED"):
        reader.log(select).read_all()
