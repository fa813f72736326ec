"""What a benchmark gives: figures, each beside the published one, and a plot.

A benchmark is a module of this package named in BENCHMARKS, or `benchmark.py` in a folder of that
name, with

    def run(quick: bool, tell: Callable[[str], None]) -> Report

`tell` takes progress, a line at a time.  Peers and ours run in the same call on the same data.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from headrace.errors import HeadraceError, near

BENCHMARKS: Mapping[str, str] = {
    "windows": "1,000 and 10,000 window queries against plain Spark running one",
    "start": "from the command to the first answer, cold and warm, beside plain Spark's",
    "cost": "EXPLAIN's estimate of a round against what the round then takes",
    "accuracy": "sums, means and deviations over 10⁹ rows against exact arithmetic",
    "predicates": "2,000 different predicates against none",
    "groups": "1,000,000 groups that come and go under 50 windows, and a month beside ten seconds",
    "sketches": "distinct counts and percentiles: trees, one tree and a dyadic table, and 200 queries on Spark",
    "joins": "hundreds of thousands of standing joins against the methods without groups, kernels alone",
    "cluster": "1 and 2 executors in processes of their own against one process, windows and joins",
    "shards": "what one driver holds, and windows in shards: 10,000 to 5,000,000 groups under 50 windows",
    "weave": "Weave Share's figures: which windows share trees, and what that costs",
}
FOLDERS = ("joins", "weave")

Run = Callable[[bool, Callable[[str], None]], "Report"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number.  `published` is what a paper or a peer reports, as text."""

    name: str
    value: float
    unit: str = ""
    published: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Where a picture was saved; nowhere (`path` is None) if matplotlib is not installed."""

    path: Path | None

    def told(self) -> str:
        if self.path is None:
            return "plot: left out, matplotlib is not installed; pip install 'headrace[bench]' brings it"
        return f"plot: {self.path}"


@dataclass(frozen=True, slots=True)
class Report:
    """`plot` is None for a benchmark that draws none."""

    title: str
    figures: tuple[Figure, ...]
    plot: Plot | None = None
    about: Mapping[str, str] = field(default_factory=dict)

    def flat(self) -> dict[str, object]:
        """One flat object: figures by name, then what they were measured on."""
        return {**{figure.name: figure.value for figure in self.figures}, **self.about}


def verdict(is_met: bool) -> str:
    """On a figure that is wanted."""
    return "met" if is_met else "MISSED"


def machine(files: int, seed: int) -> dict[str, str]:
    """What figures were measured on."""
    return {
        "commit": commit(),
        "cores": str(os.cpu_count()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "files": str(files),
        "seed": str(seed),
    }


def commit() -> str:
    """The commit this runs from; a clone is needed to tell."""
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=False,
        )
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"


def benchmarks() -> Mapping[str, str]:
    """Names, with a line about each."""
    return BENCHMARKS


def benchmark(name: str) -> Run:
    if name not in BENCHMARKS:
        raise HeadraceError(
            "unknown benchmark", value=name, choices=near(name, BENCHMARKS), code="BENCH"
        )
    module = f"{name}.benchmark" if name in FOLDERS else name
    run: Run = import_module(f"headrace.bench.{module}").run
    return run
