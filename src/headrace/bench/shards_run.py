"""One drain of `bench shards`, in a process of its own: so memory is that of one form alone.

`python -m headrace.bench.shards_run SOURCE HOME GROUPS LIMIT SHARDS` reads all files of SOURCE under
50 windows, a round each, and tells as JSON what the rounds took, and what each kind of process had in
memory at most.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from headrace.bench.groups import SCHEMA, queries
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import make_session
from headrace.runtime.statistics import RoundStats, peak_bytes

WARM_SHARE = 0.5  # of the rounds: windows of ten minutes are full after twenty
STAGES = ("spark", "roll", "answer", "write", "commit")


@dataclass(frozen=True, slots=True)
class Drained:
    """What the measured rounds took, from commit to commit; `state_bytes`: of rings, by the engine's
    own count; memory at most of this process, of Java and of a Python worker."""

    rounds: int
    rows: float
    cycle_s: float
    total_s: float
    longest_s: float
    stages: Mapping[str, float]
    answers: float
    groups: int
    state_bytes: int
    log_bytes: int
    driver_bytes: int
    java_bytes: int
    worker_bytes: int
    anew: int
    homeless: int
    quarantined: int


def drain(source: Path, home: Path, groups: int, limit: int, shards: int) -> Drained:
    environment = Config.from_environment()
    config = Config.of(
        master=environment.master,
        driver_memory=environment.driver_memory,
        driver_state_bytes_max=limit,
        driver_ms_max=1 << 40,
        ring_bytes_max=1 << 40,
        cut_rows_max=max(2_000_000, groups),
        shards=shards,
    )
    spark = make_session(config)
    try:
        with Engine(home, spark=spark, config=config) as engine:
            engine.create_stream(
                "orders", f"parquet:{source}?maxFilesPerTrigger=1", schema=SCHEMA, time="ts"
            )
            engine.add_many(queries())
            engine.run()
            rounds = engine.statistics("orders")
            out = sum(q.state != "live" for q in engine.queries())
        java_bytes = max((own for name, own in _children() if name == "java"), default=0)
    finally:
        spark.stop()
    return _drained(rounds, java_bytes, out)


def _drained(rounds: Sequence[RoundStats], java_bytes: int, quarantined: int) -> Drained:
    measured = rounds[int(len(rounds) * WARM_SHARE) :]
    windows = [r.figures["windows"] for r in rounds]
    shards = [own["shards"] for own in windows if own.get("shards")]
    held = shards or windows
    return Drained(
        len(measured),
        mean(r.rows for r in measured),
        mean(r.cycle_s for r in measured),
        median(r.seconds["total"] for r in measured),
        max(r.seconds["total"] for r in measured),
        {s: mean(r.seconds.get(s, 0.0) for r in measured) for s in STAGES},
        mean(r.answers for r in measured),
        max((n for own in windows for n in own["groups"].values()), default=0),
        max(own["ring_bytes"] for own in held),
        max(own["log_bytes"] for own in held),
        peak_bytes(),
        java_bytes,
        max((own["process_bytes"] for own in shards), default=0),
        sum(own["anew"] for own in shards),
        sum(own["homeless"] for own in shards),
        quarantined,
    )


def _children() -> Iterator[tuple[str, int]]:
    """Name and most memory of each process of this one's group, as Linux tells it."""
    for place in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, KeyError, ValueError):
            lines = dict(
                line.split(":", 1) for line in place.read_text().splitlines() if ":" in line
            )
            if int(lines["PPid"]) == _own_id():
                yield lines["Name"].strip(), int(lines["VmHWM"].split()[0]) * 1024


def _own_id() -> int:
    return int(Path("/proc/self").resolve().name)


if __name__ == "__main__":
    told = drain(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6]))
    sys.stdout.write(json.dumps(asdict(told)) + "\n")
