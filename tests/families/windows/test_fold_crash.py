"""Cut the power at every disk operation of rounds that fold the log: a restart goes on with the
same answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.families.windows.job import WindowsJob
from headrace.families.windows.pane_log import compaction_plan as fold_plan
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger
from tests.families.windows.logged import FOLDER, Answer, Logged, Row, by_end, near
from tests.runtime.recording import (
    HOME,
    Crash,
    Model,
    Op,
    Promise,
    QuickDisk,
    RecordingDisk,
    crashes,
    dropped,
)

S = 1_000_000
ROUNDS = 14
QUERIES = (
    "SELECT k, count(*) AS c, sum(n) AS s FROM s GROUP BY k, window(ts, '4 seconds', '2 seconds')",
    "SELECT k, sum(x) AS s, stddev(x) AS d FROM s WHERE n > 0 GROUP BY k, window(ts, '40 seconds', '10 seconds')",
)
CUT = Crash("power cut", lambda: dropped, lambda: False)
Found = dict[int, list[Answer]]


def rows_of(number: int) -> list[Row]:
    r = Random(number)
    start = 1_700_000_000 * S + number * 5 * S
    return [
        Row(start + r.randrange(5 * S), r.choice("ab"), r.randint(-3, 9), r.uniform(0, 9))
        for _ in range(5)
    ]


def go_on(
    disk: QuickDisk, noted: Callable[[int], None] = lambda number: None, rounds: int = ROUNDS
) -> Found:
    """The rounds the home does not have yet; what they answer."""
    run = Logged(disk.root, Config(), disk=disk)
    for i, sql in enumerate(QUERIES):
        run.add(i, sql)
    newest = run.ledger.newest
    for number in range(0 if newest is None else newest.round_id + 1, rounds):
        run.round(rows_of(number))
        noted(number)
    run.rings.rest()
    return run.answers


def start(root: Path, disk: QuickDisk) -> None:
    folder = Home(root, disk).stream_folder("s")
    for part in WindowsJob.folders:
        disk.make_folder(f"{folder}/{part}")


class Recorded:
    """A run of all rounds with every disk operation, and what each round answered."""

    def __init__(self, folder: Path, skips: Callable[[str], bool] = lambda path: False) -> None:
        self.folder = folder
        disk = RecordingDisk(folder / HOME, skips)
        start(disk.root, disk)

        def noted(number: int) -> None:
            disk.acked = Promise(round_id=number)

        self.whole = by_end(go_on(disk, noted))
        self.ops = disk.ops
        self.upto: dict[int, Found] = {}
        for number in range(-1, ROUNDS):
            again = QuickDisk(folder / f"upto{number}")
            start(again.root, again)
            self.upto[number] = go_on(again, rounds=number + 1)
            shutil.rmtree(again.root)

    def first_failure(self, ways: Callable[[int], list[Crash]] = crashes) -> str | None:
        model, seen = Model(), set[object]()
        for n, op in enumerate(self.ops):
            if (self.folder / HOME).exists() and op.acked.round_id >= 0:
                for crash, again in zip(ways(n), ways(n), strict=True):
                    state = (op.acked, model.digest(crash))
                    if state not in seen:
                        seen.add(state)
                        failure = self._fails(op, model, again)
                        if failure is not None:
                            return f"before {op.verb} {op.path}, {again.name}: {failure}"
            model.apply(op)
        return None

    def _fails(self, op: Op, model: Model, crash: Crash) -> str | None:
        place = self.folder / "crashed"
        shutil.rmtree(place, ignore_errors=True)
        model.leave(place, crash)
        disk = QuickDisk(place / HOME)
        try:
            newest = Ledger(disk, FOLDER).newest
            committed = -1 if newest is None else newest.round_id
            if not op.acked.round_id <= committed <= op.acked.round_id + 1:
                return f"round {committed} after {op.acked.round_id} was promised"
            later = go_on(disk)
        except (HeadraceError, OSError) as error:
            return f"{type(error).__name__} {error}"
        both = {i: self.upto[committed].get(i, []) + later.get(i, []) for i in self.whole}
        for i, rows in by_end(both).items():
            if len(rows) != len(self.whole[i]) or not all(map(near, rows, self.whole[i])):
                return f"query {i} answers otherwise"
        held = {Path(m.path).name for m in (Ledger(disk, FOLDER).newest or Missing).held}
        left = {p.name for p in (disk.root / FOLDER / "folded").iterdir()}
        return None if left == held else f"leftovers {left - held}"


class Missing:
    held = ()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_plan, "FOLD_ROUNDS", 2)


def test_every_crash_around_a_fold_leaves_the_same_answers(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    folds = {op.path for op in recorded.ops if op.verb == "write" and "/folded/" in op.path}
    gone = {op.path for op in recorded.ops if op.verb == "remove" and "/folded/" in op.path}
    assert len(folds) >= 3 and gone, "files are folded, and folded again"
    assert recorded.first_failure() is None


@pytest.mark.parametrize("what", ["/folded/", "/folded"])
def test_a_forgotten_sync_of_a_fold_is_noticed(tmp_path: Path, what: str) -> None:
    recorded = Recorded(
        tmp_path, lambda path: what in path if what.endswith("/") else path.endswith(what)
    )
    assert recorded.first_failure(lambda n: [CUT]) is not None
