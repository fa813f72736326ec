"""The real processes of a chaos run: the engine with its JVM and workers, and what its last words
were."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.engine.killing import below

HERE = Path(__file__).parent
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
"""Debian's libfaketime, where it is installed."""
RAW = re.compile(
    r"Traceback \(most|^\s+at (org|java|scala|py4j|sun)\.|Py4J\w*Error|java\.(lang|io|util)\.\w",
    re.M,
)
SAID = re.compile(r"\[([A-Z][A-Z_]+)\] .+\n(?s:.*)  next:    \S")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended, and what it said last."""

    status: int
    words: str

    @property
    def code(self) -> str:
        found = re.findall(r"^\[([A-Z][A-Z_]+)\]", self.words, re.M)
        return found[-1] if found else f"status {self.status}"

    def why_unclear(self) -> str | None:
        """What a person could not act on, in a stop that nobody forced."""
        if self.status in (-signal.SIGKILL, 0):
            return None
        if RAW.search(self.words):
            return "a raw error"
        return None if SAID.search(self.words) else "no error of ours with a code and a next step"


class Clock:
    """The time of day that the engine sees: ours, moved by `offset_s`.  Waits and file times stay
    as they are.

    The JVM runs under libfaketime.  Python's own sleep does not (it fails there), so the driver
    moves its clock."""

    def __init__(self, folder: Path) -> None:
        self._file, self._java = folder / "clock", folder / "java"
        self.offset_s = 0
        self.move(0)
        if FAKETIME is not None:
            self._wrap_java()

    def _wrap_java(self) -> None:
        home = os.environ.get("JAVA_HOME")
        program = self._java / "bin" / "java"
        program.parent.mkdir(parents=True)
        real = f"{home}/bin/java" if home else shutil.which("java")
        program.write_text(f'#!/bin/sh\nLD_PRELOAD={FAKETIME} exec {real} "$@"\n')
        program.chmod(0o755)

    def move(self, offset_s: int) -> None:
        self.offset_s = offset_s
        aside = self._file.with_suffix(".part")
        aside.write_text(f"{offset_s:+d}\n")
        aside.rename(self._file)

    def environment(self) -> dict[str, str]:
        if FAKETIME is None:
            return {}
        yes = (
            "FAKETIME_DONT_FAKE_MONOTONIC",
            "NO_FAKE_STAT",
            "FAKETIME_DISABLE_SHM",
            "FAKETIME_CACHE_DURATION",
        )
        # without the fix for old C libraries, or Java's timed waits never end
        return {
            **dict.fromkeys(yes, "1"),
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "JAVA_HOME": str(self._java),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
        }


def patience() -> float:
    """By how much everything takes longer here, now that others are at work too."""
    return min(5.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


class EngineProcess:
    """`headrace run --follow`, in a session of its own; started again as often as it must be."""

    def __init__(self, home: Path, logs: Path, clock: Clock) -> None:
        self._home, self._logs, self._clock = home, logs, clock
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self, *words: str) -> None:
        assert self.ended() or self._process is None
        self.starts += 1
        self._process = self.launch(f"engine-{self.starts:03d}", *(words or ("run", "--follow")))

    def launch(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A `headrace` command over the home; what it says goes into a file of that name."""
        settings = {
            "HEADRACE_MASTER": "local[2]",
            "HEADRACE_DRIVER_MEMORY": "1g",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        driver, stacks = HERE / "driver.py", self._logs / f"{name}.stacks"
        command: list[str | Path] = [sys.executable, driver, stacks, *words, "--home", self._home]
        with (self._logs / f"{name}.log").open("ab") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, **self._clock.environment(), **settings},
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def ending(self) -> Ending:
        assert self._process is not None and self._process.returncode is not None
        return Ending(self._process.returncode, self.words())

    def words(self) -> str:
        """The end of what it has said."""
        log = self._logs / f"engine-{self.starts:03d}.log"
        return "\n".join(line[:500] for line in log.read_text(errors="replace").split("\n")[-60:])

    def wait(self, seconds: float) -> bool:
        """Whether it ends within these seconds."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds * patience())
        return self.ended()

    def jvms(self) -> list[int]:
        return [pid for pid in below(self.pid) if _name_of(pid) == "java"]

    def workers(self) -> list[int]:
        """The Python workers of Spark, and the daemon that makes them."""
        found = {pid for jvm in self.jvms() for pid in below(jvm)}
        return [pid for pid in found if _name_of(pid).startswith("python")]

    def signal(self, number: int, pids: Iterable[int]) -> int:
        """How many were there to be signalled."""
        hits = 0
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                hits += 1
        return hits

    def kill_all(self) -> None:
        """Python, JVM and workers at once."""
        if self._process is not None:
            self.signal(
                signal.SIGKILL,
                [*([] if self.ended() else [self.pid]), *below(self.pid), *self._group()],
            )
            self._process.wait()

    def _group(self) -> list[int]:
        """What the process left behind when it died alone: its JVM, which is of its session."""
        pids = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if _session_of(pid) == self.pid]

    def terminate(self, seconds: float) -> bool:
        """SIGTERM; whether it ends of itself."""
        self.signal(signal.SIGTERM, [self.pid])
        return self.wait(seconds)

    def dump(self) -> str:
        """The stacks of all its threads, also the JVM's, into the logs; where they are."""
        self.signal(signal.SIGUSR1, [self.pid])
        jstack = shutil.which("jstack")
        for pid in self.jvms() if jstack else []:
            said = subprocess.run(
                [str(jstack), str(pid)], capture_output=True, text=True, timeout=60, check=False
            )
            (self._logs / f"engine-{self.starts:03d}.jstack").write_text(said.stdout + said.stderr)
        time.sleep(1)
        return f"{self._logs}/engine-{self.starts:03d}.*"


def _name_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _session_of(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return -1
