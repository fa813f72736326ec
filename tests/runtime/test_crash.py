"""Cut the power after every disk operation, in every way unsynced data may fare, and go on.

What had been promised is there, nothing half-done is seen, every committed file checks, and the run
ends with the answers of an undisturbed one.  Then the same with syncs forgotten on purpose: the
test must notice each.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.runtime.background import Background
from headrace.runtime.home import Home
from headrace.runtime.ledger import Ledger
from tests.runtime.fakespark import SparkStuckError
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
    kept,
)
from tests.runtime.scenario import LIVE, AtLast, AtOnce, Scenario, answers, reveal

CUT = Crash("power cut", lambda: dropped, lambda: False)
KILL = Crash("kill", lambda: kept, lambda: True)


class Bench:
    """A recorded run, and a place to replay its crashes in."""

    def __init__(
        self,
        folder: Path,
        manifests_kept: int = 100,
        skips: Callable[[str], bool] = lambda path: False,
        later: type[Background] = AtOnce,
    ) -> None:
        self.folder = folder
        self.source = folder / "src"
        self.source.mkdir()
        self.kept = manifests_kept
        self.later = later
        disk = RecordingDisk(folder / HOME, skips)
        self.record(disk)
        self.ops = disk.ops
        reveal(self.source, 0)
        whole = QuickDisk(folder / "whole")
        Scenario(whole, self.source).run()
        self.whole = answers(whole, self.source)

    def record(self, disk: RecordingDisk) -> None:
        def acked(promise: Promise) -> None:
            disk.acked = promise

        Scenario(disk, self.source, acked, self.kept, self.later).run()

    def states(
        self, ways: Callable[[int], list[Crash]] = crashes
    ) -> Iterator[tuple[Op, Model, Crash]]:
        """Every distinct thing a crash can leave, and what had been promised by then."""
        model, seen = Model(), set[object]()
        for n, op in enumerate(self.ops):
            for crash, again in zip(ways(n), ways(n), strict=True):
                state = (op.acked, model.digest(crash))
                if state not in seen:
                    seen.add(state)
                    yield op, model, again
            model.apply(op)

    def check_crash(self, op: Op, model: Model, crash: Crash) -> None:
        home = self.leave(model, crash)
        reveal(self.source, op.acked.files)
        self.check_promises(home, op.acked, op.acked)
        Scenario(QuickDisk(home), self.source, manifests_kept=self.kept).run()
        self.check_end(home)

    def go_on(self, home: Path, promised: Promise) -> RecordingDisk:
        """The next process, to its end; what it does."""
        reveal(self.source, promised.files)
        disk = RecordingDisk(home)
        self.record(disk)
        self.check_end(home)
        return disk

    def leave(self, model: Model, crash: Crash) -> Path:
        place = self.folder / "crashed"
        shutil.rmtree(place, ignore_errors=True)
        model.leave(place, crash)
        return place / HOME

    def check_promises(self, home: Path, least: Promise, most: Promise) -> None:
        """What was promised is there; what is there is what was promised, or the one thing under
        way."""
        if not home.exists():
            assert least == Promise()
            return
        disk = QuickDisk(home)
        assert least.version <= Catalog(disk, Config()).version <= most.version + 1
        newest = Ledger(disk, "streams/s").newest
        assert least.round_id <= (-1 if newest is None else newest.round_id) <= most.round_id + 1
        assert Home(home, disk)._read_epoch() >= least.epoch
        for query_id, rows in answers(disk, self.source).items():
            assert not rows or rows == stretch(self.whole[query_id], rows)

    def check_end(self, home: Path) -> None:
        """The answers of an undisturbed run, as far back as manifests are kept."""
        for query_id, rows in answers(QuickDisk(home), self.source).items():
            whole = self.whole[query_id]
            assert rows == (whole if self.kept >= 100 else stretch(whole, rows))
            assert query_id not in LIVE or rows[-1] == whole[-1]


def stretch(whole: list[tuple[int, int]], rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many rows of the whole, from where `rows` begins."""
    start = whole.index(rows[0]) if rows else 0
    return whole[start : start + len(rows)]


def first_failure(bench: Bench, ways: Callable[[int], list[Crash]] = crashes) -> str | None:
    """What goes wrong at the first crash that goes wrong."""
    for op, model, crash in bench.states(ways):
        try:
            bench.check_crash(op, model, crash)
        except (AssertionError, HeadraceError, SparkStuckError) as error:
            return f"crash before {op.verb} {op.path}, {crash.name}: {type(error).__name__} {error}"
    return None


@pytest.mark.parametrize("manifests_kept", [100, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("later", [AtOnce, AtLast])
def test_every_crash_keeps_what_was_promised(
    tmp_path: Path, later: type[Background], manifests_kept: int
) -> None:
    bench = Bench(tmp_path, manifests_kept, later=later)
    assert first_failure(bench) is None
    assert sum(1 for _ in bench.states()) > len(bench.ops)


@pytest.mark.parametrize("later", [AtOnce, AtLast])
def test_a_kill_and_then_a_power_cut(tmp_path: Path, later: type[Background]) -> None:
    """A killed process leaves unsynced data in memory; the next one must not build on it as if it
    were safe."""
    bench = Bench(tmp_path, later=later)
    model, later_runs = Model(), dict[object, RecordingDisk]()
    for n, op in enumerate(bench.ops):
        # a sync changes nothing that a killed process leaves
        state = (
            op.acked,
            model.digest(KILL),
        )
        if state not in later_runs:
            later_runs[state] = bench.go_on(bench.leave(model, KILL), op.acked)
        again = later_runs[state]
        both = Model()
        for done in (*bench.ops[:n], *again.ops):
            both.apply(done)
        reveal(bench.source, again.acked.files)
        bench.check_promises(bench.leave(both, CUT), again.acked, again.acked)
        model.apply(op)


FORGOTTEN: dict[str, Callable[[str], bool]] = {
    "all": lambda path: True,
    "every folder": lambda path: "." not in path.rpartition("/")[2] and not path.endswith("part-0"),
    "the folder above": lambda path: path == "..",
    "the home": lambda path: path == ".",
    "the mark": lambda path: path == "HEADRACE.part",
    "the epoch": lambda path: path == "epoch.part",
    "the catalog": lambda path: path == "catalog.log",
    "streams": lambda path: path == "streams",
    "panes": lambda path: "/panes/" in path,
    "the folder of panes": lambda path: path.endswith("/panes"),
    "folded panes": lambda path: "/folded/" in path,
    "the folder of folded panes": lambda path: path.endswith("/folded"),
    "answers": lambda path: "/answers/" in path,
    "the folder of answers": lambda path: path.endswith("/answers"),
    "rows": lambda path: path.endswith("part-0"),
    "the folder of a round's rows": lambda path: path.rpartition("/")[0].endswith("/rows"),
    "the folder of rows": lambda path: path.endswith("/rows"),
    "manifests": lambda path: path.endswith(".json.part"),
    "the folder of manifests": lambda path: path.endswith("/rounds"),
    "Spark's metadata": lambda path: path.endswith("/metadata"),
    "Spark's offsets": lambda path: "/offsets/" in path,
    "the folder of Spark's offsets": lambda path: path.endswith("/offsets"),
    "Spark's list of files": lambda path: "/sources/0/" in path,
    "the folder of Spark's list of files": lambda path: path.endswith("/sources/0"),
    "the checkpoint": lambda path: path.endswith("/checkpoint"),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_forgotten_sync_is_noticed(tmp_path: Path, what: str) -> None:
    bench = Bench(tmp_path, skips=FORGOTTEN[what])
    assert first_failure(bench, lambda n: [CUT]) is not None
