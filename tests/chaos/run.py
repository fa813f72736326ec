"""A chaos run: faults drawn by a seed, one after another, at a home that works; then the judge.

    python -m tests.chaos.run --seconds 3600 --seed 7

A line for each fault: when, what, how it ended, how long until the next commit.  Timing is the
machine's, so a seed repeats what is done, not to the microsecond when.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from headrace.runtime.quiet import hush
from tests.chaos.arena import Arena, Failed, reason
from tests.chaos.faults import FAULTS, Fault, terminate
from tests.chaos.follower import Follower, read_log
from tests.chaos.judge import Judge, Verdict
from tests.chaos.processes import RAW
from tests.chaos.record import Record
from tests.jvm import SETTINGS, SMALL_JVM

HANG_S = 120.0
DRAIN_S = 240.0
PAUSE_S = 3.0
FAULTS_MIN = 2  # however long the first takes


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    seconds: float
    check_s: float = 900.0
    only: tuple[str, ...] = ()

    def repeat(self) -> str:
        only = shlex.quote(" ".join(f"--only {shlex.quote(word)}" for word in self.only))
        return f"make chaos SEED={self.seed} SECONDS={self.seconds:.0f}" + (
            f" ARGS={only}" if self.only else ""
        )


class Run:
    """One run in a folder.  `tell` gets each line of the report."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        spark: Callable[[], SparkSession],
        tell: Callable[[str], None],
    ) -> None:
        self._plan, self._folder, self._spark, self._tell = plan, folder, spark, tell
        self._r = Random(f"{plan.seed}/faults")
        self._deck: list[Fault] = []
        self._began_s = time.monotonic()
        self.done: Counter[str] = Counter()
        self._recovery_s: list[float] = []

    def carry_out(self) -> Verdict:
        self._tell(f"seed {self._plan.seed}; repeat with: {self._plan.repeat()}")
        arena = Arena(self._folder, self._plan.seed)
        self._faults = self._possible(arena)
        try:
            arena.begin()
            self._await(arena, 0, "the start")
            self._began_s = time.monotonic()
            verdict = self._torment(arena)
            self._tell(
                f"{arena.registrar.added} queries added, {arena.registrar.dropped} dropped, "
                f"{arena.registrar.refused} refused; {arena.engine.starts} starts"
            )
            return verdict
        except Failed as failure:
            self._tell(f"FAILED: {failure}\nrepeat with: {self._plan.repeat()}; logs: {arena.logs}")
            raise
        finally:
            arena.end()
            arena.leave()

    def _possible(self, arena: Arena) -> list[Fault]:
        wanted = [
            f
            for f in FAULTS
            if not self._plan.only or any(word in f.name for word in self._plan.only)
        ]
        for fault in wanted:
            if (why := fault.left_out(arena)) is not None:
                self._tell(f"left out: {fault.name}: {why}")
        return [f for f in wanted if f.left_out(arena) is None]

    def _torment(self, arena: Arena) -> Verdict:
        checked_s = time.monotonic()
        while (
            time.monotonic() - self._began_s < self._plan.seconds or self.done.total() < FAULTS_MIN
        ):
            time.sleep(self._r.uniform(0, PAUSE_S))
            self._one(arena, self._draw())
            if time.monotonic() - checked_s > self._plan.check_s:
                self._check(arena)
                arena.engine.start()
                arena.follow()
                checked_s = time.monotonic()
        return self._check(arena)

    def _draw(self) -> Fault:
        """Like cards: all come before any comes more often than it should."""
        if not self._deck:
            self._deck = [f for f in self._faults for _ in range(f.weight)]
            self._r.shuffle(self._deck)
        return self._deck.pop()

    def _one(self, arena: Arena, fault: Fault) -> None:
        if arena.engine.ended():
            self._await(arena, arena.commits(), "the faults before")
        at_s = time.monotonic() - self._began_s
        how = fault.do(arena, self._r)
        if fault.may_stop:
            arena.expect_stop()
        before, began_s = arena.commits(), time.monotonic()
        how += self._await(arena, before, fault.name)
        seconds = time.monotonic() - began_s
        self.done[fault.name] += 1
        self._recovery_s.append(seconds)
        self._tell(f"{at_s:7.1f} s  {fault.name}: {how}; next commit after {seconds:.1f} s")

    def _await(self, arena: Arena, before: int, what: str) -> str:
        """Until it has committed again.  A stop that a fault has caused may come late."""
        match arena.await_commit(before, HANG_S, may_end=True):
            case "committed":
                return ""
            case "hangs":
                raise Failed(
                    f"after {what}: no commit within {HANG_S:.0f} s; stacks: {arena.engine.dump()}"
                )
        code = self._start_again(arena, what)
        return f", stopped ({code}) and started again" + self._await(arena, arena.commits(), what)

    def _start_again(self, arena: Arena, what: str) -> str:
        code = reason(arena)
        if not arena.may_stop:
            raise Failed(f"after {what} the engine stopped ({code}):\n{arena.engine.words()}")
        arena.engine.start()
        return code

    # -- the judge ---------------------------------------------------------------------------------

    def _check(self, arena: Arena) -> Verdict:
        """Read all that is there, stop, compare."""
        with arena.feeder.held, arena.registrar.held:
            while (outcome := arena.await_any(lambda: arena.waiting() == 0, DRAIN_S)) == "ended":
                self._start_again(arena, "the last faults")
            if outcome != "committed":
                raise Failed(
                    f"the rest was not read: it {outcome}; stacks: {arena.engine.dump()}\n"
                    + arena.engine.words()
                )
            arena.check_actors()
            terminate(arena)
            check_words(arena.logs)
            arena.unfollow()
            Follower(arena.home, arena.seen).look()
            verdict = Judge(self._spark(), Record(arena.home, self._plan.seed)).verdict(
                arena.feeder.files, read_log(arena.seen)
            )
        self._tell(str(verdict))
        slowest = max(self._recovery_s, default=0.0)
        self._tell(f"{self.done.total()} faults; the slowest next commit after {slowest:.1f} s")
        if verdict.wrong:
            raise Failed("\n".join(verdict.wrong[:20]))
        return verdict


def check_words(logs: Path) -> None:
    """Nothing raw was ever said, also by engines that went on or were killed."""
    for log in sorted(logs.glob("engine-*.log")):
        if (found := RAW.search(log.read_text(errors="replace"))) is not None:
            raise Failed(f"{log} has a raw error: {found.group()}")


def own_spark() -> SparkSession:
    hush()  # some queries are to fail
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("headrace-chaos")
    settings = {**SETTINGS, "spark.driver.memory": "1g"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--only", action="append", default=[], help="faults whose name has this word"
    )
    parser.add_argument(
        "--folder", type=Path, default=None, help="kept; else one that goes after a good run"
    )
    given = parser.parse_args(words)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SMALL_JVM)
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    folder = given.folder or Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    plan = Plan(seed, given.seconds, only=tuple(given.only))
    try:
        Run(plan, folder, own_spark, lambda line: print(line, flush=True)).carry_out()
    except Failed:
        return 1
    if given.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
