"""Benchmark `start`: from the command to the first answer, where that time goes, and how long the
least that plain Spark needs takes beside it.

*Cold* is the first start ever: no compiled kernels, no archive of Java's classes (Python's own
compiled modules and the disk's cache are as they are).  *Warm* is any later one; the median of a few.
The peer (`start_peer.py`) is one window query on Structured Streaming, and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, time

from headrace.bench.report import Figure, Report, machine, verdict
from headrace.bench.start_child import PHASES
from headrace.errors import HeadraceError
from headrace.runtime.java_archive import VARIABLE, is_whole

Tell = Callable[[str], None]
SEED = 7
REPEATS = {True: 1, False: 3}
ARCHIVE_WAIT_S = 120.0
CHILD_MAX_S = 600.0
WARM_S, COLD_S, MISSING_S, PICTURE_S, ROUND_S = 12.0, 25.0, 0.3, 3.0, 8.0
MISSING = (
    "CREATE STREAM gone (symbol STRING, ts TIMESTAMP) USING parquet OPTIONS (path 'nowhere', time 'ts');\n"
    "CREATE QUERY q AS SELECT symbol, count(*) AS n FROM gone GROUP BY symbol, window(ts, '1 minute');\n"
)
LAST = "first answer"
_COMMAND = (sys.executable, "-c", "from headrace.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where children run: a project of `headrace init`, and caches of its own."""

    folder: Path
    environment: Mapping[str, str]

    @staticmethod
    def make(folder: Path) -> Stage:
        caches = {"NUMBA_CACHE_DIR": "kernels", VARIABLE: "classes"}
        paths = {name: str(folder / own) for name, own in caches.items()}
        stage = Stage(folder, {**os.environ, **paths})
        stage.run([*_COMMAND, "init", "."])
        (folder / "missing.sql").write_text(MISSING)
        return stage

    def module(self, name: str, *arguments: str) -> dict[str, float]:
        """Run a module of ours that notes its phases: seconds since it was started, by phase."""
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            notes = Path(made) / "phases"
            command = [sys.executable, "-m", f"headrace.bench.{name}", repr(time()), str(notes)]
            self.run([*command, *arguments])
            lines = [line.split(" ", 1) for line in notes.read_text().splitlines()]
            return {phase: float(seconds) for seconds, phase in lines}

    def run(self, command: Sequence[str], status: int = 0) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=CHILD_MAX_S,
        )
        if done.returncode != status:
            raise HeadraceError(
                "a start that is measured failed", value=done.stderr[-300:], code="BENCH"
            )

    def wait_for_archive(self) -> None:
        """Java makes it after the command has ended; nowhere where Java cannot."""
        until_s = perf_counter() + ARCHIVE_WAIT_S
        folder = Path(self.environment[VARIABLE])
        while perf_counter() < until_s and not any(map(is_whole, folder.glob("*.jsa"))):
            sleep(0.5)


def run(quick: bool, tell: Tell) -> Report:
    with tempfile.TemporaryDirectory(prefix="headrace-start-", ignore_cleanup_errors=True) as made:
        stage = Stage.make(Path(made))
        tell("the first start ever: kernels are compiled, classes are read …")
        cold = _ours(stage, 0)
        stage.wait_for_archive()
        warm, peer = [], []
        for number in range(REPEATS[quick]):
            tell(f"a later start, and plain Spark's ({number + 1} of {REPEATS[quick]}) …")
            warm.append(_ours(stage, number + 1))
            peer.append(stage.module("start_peer", str(stage.folder / "data" / "trades")))
        missing = [_missing_s(stage) for _ in range(REPEATS[quick])]
        tell("the demo …")
        picture_s, round_s = _demo_s(stage)
    figures = [
        *_phases("cold", [cold]),
        *_phases("warm", warm),
        *_phases("plain Spark", peer),
        _wanted("first answer, the first time ever", cold[LAST], COLD_S),
        _wanted("first answer, warm", median(one[LAST] for one in warm), WARM_S),
        _wanted("a missing folder is told", median(missing), MISSING_S),
        _wanted("the demo's first picture", picture_s, PICTURE_S),
        _wanted("the demo's first round", round_s, ROUND_S),
        Figure(
            "warm, against plain Spark",
            median(one[LAST] for one in warm) / median(one[LAST] for one in peer),
            "×",
        ),
    ]
    about = {**machine(len(warm), SEED), "load": f"{os.getloadavg()[0]:.1f}"}
    return Report("From the command to the first answer", tuple(figures), about=about)


def _ours(stage: Stage, number: int) -> dict[str, float]:
    return stage.module("start_child", "run", "queries.sql", "--home", f"race{number}")


def _missing_s(stage: Stage) -> float:
    began_s = perf_counter()
    stage.run([*_COMMAND, "run", "missing.sql", "--home", "nobody"], status=1)
    return perf_counter() - began_s


def _demo_s(stage: Stage) -> tuple[float, float]:
    """When its first line is there, and the line of its first round."""
    began_s, seen = perf_counter(), dict[str, float]()
    command = [*_COMMAND, "demo", "--seconds", "5"]
    with subprocess.Popen(
        command,
        cwd=stage.folder,
        env={**stage.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            seen.setdefault("picture", perf_counter() - began_s)
            if "queries" in line and "round" in line:
                seen.setdefault("round", perf_counter() - began_s)
    if "round" not in seen:
        raise HeadraceError("the demo had no round", code="BENCH")
    return seen["picture"], seen["round"]


def _phases(name: str, runs: Sequence[Mapping[str, float]]) -> list[Figure]:
    """When each phase had ended, the median of the runs."""
    shown = [phase for phase in PHASES if phase in runs[0]]
    return [
        Figure(f"{name}: {phase}", round(median(one[phase] for one in runs), 3), "s")
        for phase in shown
    ]


def _wanted(name: str, seconds: float, limit_s: float) -> Figure:
    return Figure(name, seconds, "s", f"≤ {limit_s:g}", verdict(seconds <= limit_s))
