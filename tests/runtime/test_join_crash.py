"""Cut the power after every disk operation of joined relations, and go on: every answer keeps its
place.

As `test_crash.py` does for one stream.  A forgotten sync of any kind of file that joins write must
be noticed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.runtime.ledger import Ledger
from tests.runtime.fakespark import SparkStuckError
from tests.runtime.joined import (
    NAMES,
    STEPS,
    JoinScenario,
    Seen,
    joined_by_hand,
    net,
    reveal_both,
    seen_by_watcher,
)
from tests.runtime.recording import (
    HOME,
    Crash,
    Model,
    Op,
    Promise,
    QuickDisk,
    RecordingDisk,
    dropped,
    kept,
    pure_crash,
    torn,
    zeroed,
)

CUT = pure_crash(dropped, False)
KILL = pure_crash(kept, True)
WAYS = (CUT, KILL, pure_crash(torn, True), pure_crash(zeroed, True), pure_crash(kept, False))


class Bench:
    """A recorded run, and a place to replay its crashes in."""

    def __init__(
        self, folder: Path, restarts: bool, skips: Callable[[str], bool] = lambda path: False
    ) -> None:
        self.folder = folder
        self.source = folder / "src"
        for name in NAMES:
            (self.source / name).mkdir(parents=True)
        disk = RecordingDisk(folder / HOME, skips)

        def acked(promise: Promise) -> None:
            disk.acked = promise

        JoinScenario(disk, self.source, acked, restarts).run()
        self.ops = disk.ops
        self.whole = seen_by_watcher(disk)

    def states(self, ways: tuple[Crash, ...]) -> Iterator[tuple[Op, Model, Crash]]:
        """Every distinct thing a crash can leave, and what had been promised by then."""
        model, seen = Model(), set[object]()
        for op in self.ops:
            for crash in ways:
                state = (op.acked, model.digest(crash))
                if state not in seen:
                    seen.add(state)
                    yield op, model, crash
            model.apply(op)

    def check_crash(self, op: Op, model: Model, crash: Crash) -> None:
        place = self.folder / "crashed"
        shutil.rmtree(place, ignore_errors=True)
        model.leave(place, crash)
        reveal_both(self.source, op.acked.files)
        if (place / HOME).exists():
            self.check_promises(QuickDisk(place / HOME), op.acked)
        else:
            assert op.acked == Promise()
        JoinScenario(QuickDisk(place / HOME), self.source).run()
        assert seen_by_watcher(QuickDisk(place / HOME)) == self.whole

    def check_promises(self, disk: QuickDisk, promised: Promise) -> None:
        """What was promised is there; what is there is what was promised, or the one thing under
        way; and of a query that lives to the end it is where it will be at the end."""
        assert promised.version <= Catalog(disk, Config()).version <= promised.version + 1
        newest = [Ledger(disk, f"streams/{name}").newest for name in NAMES]
        rounds = sum(m.round_id + 1 for m in newest if m is not None)
        assert promised.round_id <= rounds <= promised.round_id + 1
        for name, found in seen_by_watcher(disk).items():
            if name != "band":  # it is dropped, and comes again
                assert found == self.whole[name][: len(found)]


def first_failure(bench: Bench, ways: tuple[Crash, ...]) -> str | None:
    for op, model, crash in bench.states(ways):
        try:
            bench.check_crash(op, model, crash)
        except (AssertionError, HeadraceError, SparkStuckError) as error:
            return f"crash before {op.verb} {op.path}, {crash.name}: {type(error).__name__} {error}"
    return None


@pytest.mark.parametrize(
    ("restarts", "ways"),
    [
        (True, (CUT,)),
        pytest.param(True, WAYS, marks=pytest.mark.slow),
        pytest.param(False, WAYS, marks=pytest.mark.slow),
    ],
    ids=["power cuts", "restarts", "one process"],
)
@pytest.mark.timeout(1200)
def test_every_crash_keeps_every_answer_in_its_place(
    tmp_path: Path, restarts: bool, ways: tuple[Crash, ...]
) -> None:
    bench = Bench(tmp_path, restarts)
    check_whole(bench.whole)
    assert first_failure(bench, ways) is None


def check_whole(whole: Seen) -> None:
    assert whole.keys() == {"select", "wide", "self", "band"} and all(whole.values())
    assert net(whole["select"]) == joined_by_hand(STEPS[-1].files)
    assert any(row["change"] < 0 for _, row in whole["select"])


FORGOTTEN: dict[str, Callable[[str], bool]] = {
    "row files": lambda path: path.endswith("rows.arrow"),
    "records": lambda path: (
        "/kept/" in path and path.endswith(".arrow") and not path.endswith("rows.arrow")
    ),
    "the file of the round": lambda path: path.endswith("/round.json"),
    "the folder of a round": lambda path: path.rpartition("/")[0].endswith("/kept"),
    "the folder of rounds": lambda path: path.endswith("/kept"),
    "levels": lambda path: "/levels/" in path,
    "the folder of levels": lambda path: path.endswith("/levels"),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_forgotten_sync_is_noticed(tmp_path: Path, what: str) -> None:
    """Already when the power is cut at the end."""
    bench = Bench(tmp_path, False, FORGOTTEN[what])
    model = Model()
    for op in bench.ops:
        model.apply(op)
    with pytest.raises(HeadraceError, match="FILE_DAMAGED"):
        bench.check_crash(bench.ops[-1], model, CUT)
