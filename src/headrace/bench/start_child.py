"""`python -m headrace.bench.start_child BEGAN FILE …`: the command, which notes when it was how far.

BEGAN is when the process was started, in seconds since 1970; FILE gets a line for each phase that
ends, the first time it does: seconds since then, a space, the phase.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from time import time
from typing import Any

PHASES = (
    "imported",
    "sources looked at",
    "Java runs",
    "Spark is there",
    "stream started",
    "first round begins",
    "its rows are read",
    "first answer",
)


def main(began_s: float, file: Path) -> None:
    noted: set[str] = set()

    def note(phase: str) -> None:
        if phase not in noted:
            noted.add(phase)
            with file.open("a") as out:
                out.write(f"{time() - began_s:.3f} {phase}\n")

    def noting(owner: Any, name: str, phase: str, *, before: bool = False) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        @wraps(call)
        def noted_call(*args: Any, **settings: Any) -> Any:
            if before:
                note(phase)
            found = call(*args, **settings)
            if not before:
                note(phase)
            return found

        setattr(owner, name, noted_call)

    cli = import_module("headrace.cli")  # what is measured; benchmarks use nothing of it
    from headrace.supervision import Pipelines

    note("imported")
    noting(Pipelines, "prepare", "sources looked at")
    from headrace.runtime import commit, rounds, session

    noting(session, "launch", "Java runs")
    noting(session, "settle_session", "Spark is there")
    noting(rounds.Pipeline, "start", "stream started")
    noting(rounds.Pipeline, "_run_round", "first round begins", before=True)
    noting(rounds.Pipeline, "_read", "its rows are read")
    noting(commit.Commits, "commit", "first answer")
    cli.main()


if __name__ == "__main__":
    _, began, path, *arguments = sys.argv
    sys.argv = ["headrace", *arguments]
    main(float(began), Path(path))
