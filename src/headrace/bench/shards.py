"""Benchmark `shards`: what one driver holds, and windows in shards beside it.

Part one, without Spark (`driver_state.py`): bytes and milliseconds a group, a query, a pane and an
answer, and so where a driver of 4, 16 and 64 GB is full.

Part two (`shards_run.py`): 50 windows over groups that come and go (those of `bench groups`), held by
the driver and in shards, on the same files; from which number of groups on shards are faster.

Part three: five million groups alive under 50 windows, in shards; what the driver has in memory.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from headrace.bench.driver_state import Measured
from headrace.bench.feed import write_file
from headrace.bench.groups import SEED, orders
from headrace.bench.groups import Size as Orders
from headrace.bench.report import Figure, Report, machine, verdict
from headrace.bench.shards_run import Drained
from headrace.errors import HeadraceError
from headrace.records import decode

SHARDS = 2 * (os.cpu_count() or 1)
FORMS = {"driver": 1 << 62, "shards": 0}
"""By the limit on what the driver may hold."""
WANTED_AT, WANTED = 100_000, 1.3
DRIVER_GB_MAX = 2.0
DRIVERS_GB = (4, 16, 64)
GB, MB = 1e9, 1e6
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """Groups and queries of part one, groups of parts two and three, and rounds."""

    held: tuple[int, ...]
    queries: tuple[int, ...]
    drained: tuple[int, ...]
    files: int
    large: int
    large_files: int
    large_shards: int


SCALES = {
    True: Scale((10_000, 100_000), (1_000, 10_000), (10_000, 100_000), 12, 200_000, 8, 8),
    False: Scale(
        (10_000, 100_000, 1_000_000),
        (1_000, 10_000, 100_000),
        (10_000, 100_000, 1_000_000),
        44,
        5_000_000,
        30,
        24,
    ),
}


def run(quick: bool, tell: Tell) -> Report:
    scale = SCALES[quick]
    figures = [*held_figures(scale, tell)]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        ratios = {}
        for groups in scale.drained:
            found = compare(folder, groups, scale.files, tell)
            ratios[groups] = found["shards"].cycle_s / found["driver"].cycle_s
            figures += drain_figures(groups, found, ratios[groups])
        figures += crossing_figures(ratios)
        figures += large_figures(folder, scale, tell)
    title = (
        f"{len(scale.drained)} sizes of groups, 50 windows, {SHARDS} shards, {os.cpu_count()} cores"
    )
    return Report(title, tuple(figures), None, machine(scale.files, SEED))


# -- what one driver holds -----------------------------------------------------------------------------


def held_figures(scale: Scale, tell: Tell) -> Iterator[Figure]:
    by_groups = [_measured(g, 50, 10, tell) for g in scale.held]
    by_queries = [_measured(10, q, 10, tell) for q in scale.queries]
    wide = _measured(scale.held[1], 50, 100, tell)
    for own in by_groups:
        yield from _group_figures(own)
    for own in by_queries:
        yield Figure(
            f"held_q{own.queries}_mb", own.process_bytes / MB, "MB", note="10 groups, this process"
        )
        yield Figure(f"held_q{own.queries}_answer_ms", 1e3 * own.answer_s, "ms", note="a round")
    few, many = by_groups[-2:]
    same = next(own for own in by_groups if own.groups == wide.groups)
    group_bytes = _slope(few.ring_bytes, many.ring_bytes, few.groups, many.groups)
    room_bytes = many.process_bytes - many.ring_bytes
    query_bytes = _slope(
        by_queries[0].process_bytes,
        by_queries[-1].process_bytes,
        by_queries[0].queries,
        by_queries[-1].queries,
    )
    query_s = _slope(
        by_queries[0].answer_s, by_queries[-1].answer_s, scale.queries[0], scale.queries[-1]
    )
    pane_bytes = _slope(same.ring_bytes, wide.ring_bytes, same.minutes, wide.minutes)
    yield Figure("bytes_a_group", group_bytes, "B", note="50 windows over 10 panes, and its key")
    yield Figure("room_mb", room_bytes / MB, "MB", note="what a round is made and answered with")
    yield Figure("bytes_a_query", query_bytes, "B", note="as registered, placed and answered")
    yield Figure("bytes_a_pane", pane_bytes / same.groups, "B", note="of each group")
    take_s = _slope(few.take_s, many.take_s, few.groups, many.groups)
    yield Figure("us_a_group_pane", 1e6 * take_s, "µs", note="a group's cell of a pane taken in")
    yield Figure("us_a_query", 1e6 * query_s, "µs", note="a round in which a window of it ends")
    yield Figure("us_an_answer", 1e6 * many.answer_s / many.answers, "µs", note="before HAVING")
    for size in DRIVERS_GB:
        yield Figure(f"groups_at_{size}_gb", (size * GB - room_bytes) / group_bytes, "groups")
        yield Figure(f"queries_at_{size}_gb", size * GB / query_bytes, "queries", note="few groups")


def _group_figures(own: Measured) -> Iterator[Figure]:
    name = f"held_g{own.groups}"
    yield Figure(f"{name}_rings_mb", own.ring_bytes / MB, "MB", note="rings and keys")
    yield Figure(f"{name}_mb", own.process_bytes / MB, "MB", note="this process, answers included")
    yield Figure(f"{name}_take_ms", 1e3 * own.take_s, "ms", note="a round of one pane")
    yield Figure(
        f"{name}_answer_ms", 1e3 * own.answer_s, "ms", note=f"{own.answers:,.0f} answers of groups"
    )


def _slope(few: float, many: float, few_of: int, many_of: int) -> float:
    return max(many - few, 0.0) / (many_of - few_of)


def _measured(groups: int, queries: int, minutes: int, tell: Tell) -> Measured:
    tell(f"a driver with {groups:,} groups and {queries:,} queries")
    return decode(Measured, _told("headrace.bench.driver_state", groups, queries, minutes))


# -- driver and shards ---------------------------------------------------------------------------------


def compare(folder: Path, groups: int, files: int, tell: Tell) -> dict[str, Drained]:
    """Both forms on the same files."""
    source = written(folder, groups, files, tell)
    found = {
        form: drained(folder, source, groups, limit, SHARDS, f"{groups:,} groups, {form}", tell)
        for form, limit in FORMS.items()
    }
    shutil.rmtree(source)
    return found


def written(folder: Path, groups: int, files: int, tell: Tell) -> Path:
    source, rng = folder / f"orders-{groups}", np.random.default_rng(SEED)
    for number in range(files):
        tell(f"{groups:,} groups: file {number} of {files} is written")
        write_file(source, number, orders(number, Orders(groups, files), rng))
    return source


def drained(
    folder: Path, source: Path, groups: int, limit: int, shards: int, what: str, tell: Tell
) -> Drained:
    tell(what)
    home = folder / "race"
    told = _told("headrace.bench.shards_run", source, home, groups, limit, shards)
    found = decode(Drained, told)
    shutil.rmtree(home)
    return found


def _told(module: str, *words: object) -> dict[str, object]:
    """What a process of its own has measured."""
    made = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise HeadraceError(f"{module} ended", value=made.stderr[-2_000:], code="BENCH")
    told: dict[str, object] = json.loads(made.stdout.strip().splitlines()[-1])
    return told


def drain_figures(groups: int, found: dict[str, Drained], ratio: float) -> Iterator[Figure]:
    for form, own in found.items():
        name = f"{form}_g{groups}"
        stages = ", ".join(f"{stage} {s:.2f}" for stage, s in own.stages.items())
        yield Figure(f"{name}_round_s", own.cycle_s, "s", note=f"{own.rows:,.0f} rows; {stages}")
        yield Figure(f"{name}_state_mb", own.state_bytes / MB, "MB")
        yield Figure(f"{name}_process_mb", own.driver_bytes / MB, "MB", note="the driver's Python")
    wanted = "" if groups != WANTED_AT else f"at most {WANTED}: {verdict(ratio <= WANTED)}"
    yield Figure(f"ratio_g{groups}", ratio, "×", note=wanted or "shards to driver")


def crossing_figures(ratios: dict[int, float]) -> list[Figure]:
    """Where shards begin to be faster, on a line between the sizes on either side."""
    found = list(ratios.items())
    if found[0][1] <= 1:
        return [Figure("crossing_groups", found[0][0], "groups", note="or fewer")]
    for (few, slow), (many, fast) in pairwise(found):
        if fast <= 1 < slow:
            part = math.log(slow) / (math.log(slow) - math.log(fast))
            groups = math.exp(math.log(few) + part * (math.log(many) - math.log(few)))
            return [
                Figure("crossing_groups", groups, "groups", note="from here on shards are faster")
            ]
    return [
        Figure("crossing_groups", found[-1][0], "groups", note="or more: not faster up to here")
    ]


def large_figures(folder: Path, scale: Scale, tell: Tell) -> Iterator[Figure]:
    groups = scale.large
    source = written(folder, groups, scale.large_files, tell)
    what = f"{groups:,} groups in {scale.large_shards} shards"
    own = drained(folder, source, groups, FORMS["shards"], scale.large_shards, what, tell)
    stages = ", ".join(f"{stage} {s:.2f}" for stage, s in own.stages.items())
    driver_gb = own.driver_bytes / GB
    yield Figure("large_groups", own.groups, "groups", note="known to the shards")
    yield Figure("large_round_s", own.cycle_s, "s", note=f"{own.rows:,.0f} rows; {stages}")
    yield Figure("large_round_max_s", own.longest_s, "s")
    yield Figure("large_rows_per_s", own.rows / own.cycle_s, "rows/s")
    yield Figure("large_state_gb", own.state_bytes / GB, "GB", note="rings, in all shards")
    note = f"the driver's Python, under {DRIVER_GB_MAX:g}: {verdict(driver_gb < DRIVER_GB_MAX)}"
    yield Figure("large_driver_gb", driver_gb, "GB", note=note)
    yield Figure(
        "large_java_gb", own.java_bytes / GB, "GB", note="driver and executors of local Spark"
    )
    yield Figure(
        "large_worker_gb", own.worker_bytes / GB, "GB", note="a Python worker, shared memory too"
    )
    yield Figure("large_log_gb", own.log_bytes / GB, "GB", note="pane log on disk")
    yield Figure("large_anew", own.anew, "shards", note="made from the log: all of the first round")
    yield Figure("large_quarantined", own.quarantined, "queries")
