"""Standing joins through the engine on Spark: events in Parquet files, who they affect as records
in the home.

Rows of S are loaded first, in a round of their own.  Then come the rounds of R: one with the events
that the peer is given too (`spark_peer.py`), one to warm up, and those that are measured.  Events a
second are those of whole cycles, from commit to commit.  The peer is given the same queries and
rows of S; it has to count the pairs of event and query that ours has in its records, and the two
counts are compared.

Records say who is affected; rows of answers are made when they are read: `results` measures that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from headrace.bench.feed import write_file
from headrace.bench.joins.spark_peer import Counted, Peer
from headrace.bench.joins.workload import (
    ROWS,
    Bands,
    draw_bands,
    draw_events,
    draw_keyed_events,
    draw_keyed_rows,
    draw_rectangles,
    draw_rows,
)
from headrace.bench.report import Figure, Report, verdict
from headrace.config import Config
from headrace.engine import Engine
from headrace.families.joins.bands.index import BandIndex, Prefixes
from headrace.families.joins.bands.probes import by_size
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Ints
from headrace.relations.rounds import FOLDER
from headrace.runtime.session import make_session
from headrace.runtime.statistics import RoundStats
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 4
SCHEMA = "a INT, b INT, ts TIMESTAMP"
START_US = 1_735_741_800 * US_PER_S
CORES = 2
LENGTH, SELECTIVITY, JOINING = 600.0, 0.1, 1_000.0
EVENTS_WANTED, RATIO_WANTED, CHANGE_WANTED_MS = 100_000, 100, 1.0
CHANGES, CHANGED_EVENTS = 1_000, 1_000
STAGES = ("trigger", "plan", "spark", "turn", "joins", "write", "commit", "total")
WARM_ROUNDS = 1
ANSWERS_MAX = 1_000_000  # of a query whose answers are read
READ = 3
POLL_S = 0.05

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: standing queries, events of a round, rounds, events of the peer."""

    queries: int
    events: int
    rounds: int
    peer_events: int


EXTENTS = {True: Extent(5_000, 100_000, 2, 5_000), False: Extent(100_000, 500_000, 5, 4_000)}


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries by name, rows of S, and what draws events."""

    queries: Mapping[str, str]
    rows: pa.Table
    draw: Callable[[int], pa.Table]


# -- the workloads ---------------------------------------------------------------------------------


def band_workload(bands: Bands, s: Ints, rng: Generator) -> Workload:
    text = "SELECT r.b AS rb, s.b AS sb FROM r JOIN s ON s.b - r.b BETWEEN {} AND {}"
    ends = zip(bands.lo.tolist(), bands.hi.tolist(), strict=True)
    texts = {f"q{i}": text.format(*own) for i, own in enumerate(ends)}

    def draw(count: int) -> pa.Table:
        return _table(rng, draw_events(rng, count), np.zeros(count, np.int64))

    return Workload(texts, _table(rng, s, np.zeros(s.size, np.int64)), draw)


def select_workload(queries: int, rng: Generator) -> Workload:
    made, rows = (
        draw_rectangles(rng, queries, LENGTH, SELECTIVITY),
        draw_keyed_rows(rng, JOINING, ROWS),
    )
    text = "SELECT r.a AS a, s.a AS c FROM r JOIN s ON r.b = s.b WHERE r.a BETWEEN {} AND {} AND s.a BETWEEN {} AND {}"
    ends = zip(
        *(side.tolist() for side in (made.a_lo, made.a_hi, made.c_lo, made.c_hi)), strict=True
    )
    texts = {f"q{i}": text.format(*own) for i, own in enumerate(ends)}

    def draw(count: int) -> pa.Table:
        events = draw_keyed_events(rng, rows, count)
        return _table(rng, events.b, events.a)

    return Workload(texts, _table(rng, rows.b, rows.c), draw)


def _table(rng: Generator, b: Ints, a: Ints) -> pa.Table:
    """In no order: rows come as they come."""
    order = rng.permutation(b.size)
    times = pa.array(START_US + np.arange(b.size), pa.timestamp("us", "UTC"))
    return pa.table(
        {"a": pa.array(a[order], pa.int32()), "b": pa.array(b[order], pa.int32()), "ts": times}
    )


# -- ours ------------------------------------------------------------------------------------------


class Race:
    """A home with the queries, S loaded, and events as they are given."""

    def __init__(self, engine: Engine, folder: Path, workload: Workload) -> None:
        self.engine, self._folder, self._files = engine, folder, 0
        for name in ("r", "s"):
            (folder / name).mkdir()
            source = f"parquet:{folder / name}?maxFilesPerTrigger={CORES}"
            engine.create_stream(name, source, schema=SCHEMA, time="ts", late="1 day")
        engine.add_many(workload.queries)
        write_file(folder / "s", 0, workload.rows)
        engine.run()

    def feed(self, events: Sequence[pa.Table]) -> list[RoundStats]:
        """A round for each table, as a file for each core; the rounds."""
        for table in events:
            self._write(table)
        self.engine.run()
        rounds = self.engine.statistics("r")[-len(events) :]
        assert sorted(r.rows for r in rounds) == sorted(table.num_rows for table in events)
        assert all(query.state == "live" for query in self.engine.queries())
        return rounds

    def wait(self, events: pa.Table) -> RoundStats:
        """The newest round, once all that was fed is committed, of an engine that runs."""
        wanted = self._rows_read() + events.num_rows
        self._write(events)
        while self._rows_read() < wanted:
            sleep(POLL_S)
        return self.engine.statistics("r")[-1]

    def _rows_read(self) -> int:
        return sum(r.rows for r in self.engine.statistics("r"))

    def _write(self, table: pa.Table) -> None:
        size = -(-table.num_rows // CORES)
        for start in range(0, table.num_rows, size):
            write_file(self._folder / "r", self._files, table.slice(start, size))
            self._files += 1

    def records(self, round_id: int) -> list[Path]:
        folder = self.engine.home.disk.root / "streams" / "r" / FOLDER / f"{round_id:012d}"
        return sorted(
            path for path in folder.glob("*.arrow") if not path.name.endswith(".rows.arrow")
        )


@contextmanager
def racing(spark: SparkSession, workload: Workload) -> Iterator[Race]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as made,
        Engine(Path(made) / "race", spark=spark) as engine,
    ):
        yield Race(engine, Path(made), workload)


def affected_pairs(bands: Bands, records: Sequence[Path]) -> int:
    """How many queries the events of a round affect, by the records of bands in few groups."""
    group = by_size(canonical(bands.lo, bands.hi).group)
    index = BandIndex.build(np.arange(bands.lo.size), bands.lo, bands.hi, group)
    total = 0
    for path in records:
        table = pa.ipc.open_file(path).read_all()
        lefts, rights = (
            np.stack(
                [table.column(f"{side}{g}").to_numpy() for g in range(index.groups.point.size)]
            )
            for side in "lr"
        )
        total += int(index.count(Prefixes(lefts, rights)).sum())
    return total


# -- what is measured ------------------------------------------------------------------------------


def run(quick: bool, tell: Tell) -> Report:
    extent = EXTENTS[quick]
    spark = make_session(replace(Config.from_environment(), master=f"local[{CORES}]"))
    try:
        figures = measure(spark, extent, tell)
    finally:
        spark.stop()
    return Report(f"{extent.queries:,} standing joins on Spark, {CORES} cores", tuple(figures))


def measure(spark: SparkSession, extent: Extent, tell: Tell) -> list[Figure]:
    return [*_bands(spark, extent, tell), *_selects(spark, extent, tell)]


def _bands(spark: SparkSession, extent: Extent, tell: Tell) -> list[Figure]:
    rng = np.random.default_rng([SEED, extent.queries])
    bands, s = draw_bands(rng, extent.queries, LENGTH), draw_rows(rng, ROWS)
    workload = band_workload(bands, s, rng)
    tell(f"Spark: {extent.queries:,} band joins")
    with racing(spark, workload) as race:
        both = workload.draw(extent.peer_events)
        figures, per_s = _measured("spark_band", race, workload, extent, both, tell)
        tell(f"plain Spark: {extent.peer_events:,} events × {extent.queries:,} queries")
        peer = Peer(spark, bands, s).affected(both)
        figures += beside(per_s, extent, affected_pairs(bands, race.records(0)), peer)
        return [*figures, *_read(race, bands, s, tell), _changed(race, workload, tell)]


def _selects(spark: SparkSession, extent: Extent, tell: Tell) -> list[Figure]:
    workload = select_workload(extent.queries, np.random.default_rng([SEED, extent.queries, 1]))
    tell(f"Spark: {extent.queries:,} select-joins")
    with racing(spark, workload) as race:
        return _measured(
            "spark_select", race, workload, extent, workload.draw(extent.peer_events), tell
        )[0]


def _measured(
    name: str, race: Race, workload: Workload, extent: Extent, first: pa.Table, tell: Tell
) -> tuple[list[Figure], float]:
    """Figures, and events a second."""
    race.feed([first])
    rounds = race.feed([workload.draw(extent.events) for _ in range(WARM_ROUNDS + extent.rounds)])[
        WARM_ROUNDS:
    ]
    per_s = sum(r.rows for r in rounds) / sum(r.cycle_s for r in rounds)
    tell(f"{name}: {per_s:,.0f} events/s")
    size = sum(path.stat().st_size for r in rounds for path in race.records(r.round_id))
    note = f"{extent.queries:,} queries, {ROWS:,} rows of S, {len(rounds)} rounds of {extent.events:,} events; "
    note += (
        f"want ≥ {EVENTS_WANTED:,}: {verdict(per_s >= EVENTS_WANTED)}"
        if name == "spark_band"
        else ""
    )
    return [
        Figure(f"{name}_events_per_s", per_s, "events/s", note=note),
        Figure(
            f"{name}_record_bytes", size / sum(r.rows for r in rounds), "bytes", note="an event"
        ),
        *(
            Figure(
                f"{name}_{stage}_s",
                median(r.seconds.get(stage, 0.0) for r in rounds),
                "s",
                note="a round, median",
            )
            for stage in STAGES
        ),
    ], per_s


def beside(per_s: float, extent: Extent, pairs: int, peer: Counted) -> list[Figure]:
    """Ours and plain Spark, if both have found the same pairs."""
    assert pairs == peer.pairs, f"{pairs:,} pairs in our records, {peer.pairs:,} by Spark"
    peer_per_s = extent.peer_events / peer.seconds
    ratio = per_s / peer_per_s
    what = f"{extent.peer_events:,} events × {extent.queries:,} queries"
    note = f"the same queries and rows; want ≥ {RATIO_WANTED}: {verdict(ratio >= RATIO_WANTED)}"
    return [
        Figure(
            "spark_band_affected",
            pairs / extent.peer_events,
            "queries",
            note="by an event; both agree",
        ),
        Figure(
            "spark_band_peer_events_per_s",
            peer_per_s,
            "events/s",
            note=f"plain Spark's batch join, {what}",
        ),
        Figure("spark_band_ratio", ratio, "×", note=note),
    ]


def _read(race: Race, bands: Bands, s: Ints, tell: Tell) -> list[Figure]:
    """Rows of a few queries, the first of them before anything is in memory."""
    stats = race.engine.statistics("r")
    chosen = _modest(bands, s, sum(r.rows for r in stats))
    took, rows = [], 0
    for query in chosen:
        began = perf_counter()
        rows += race.engine.results(f"q{query}").num_rows
        took.append(perf_counter() - began)
    tell(f"read {rows:,} answers of {len(chosen)} queries")
    return [
        Figure(
            "spark_band_first_read_s",
            took[0],
            "s",
            note="results of a query, nothing in memory yet",
        ),
        Figure(
            "spark_band_answers_per_s",
            rows / sum(took),
            "answers/s",
            note=f"results of {len(chosen)} queries",
        ),
    ]


def _changed(race: Race, workload: Workload, tell: Tell) -> Figure:
    """Queries come and go while the engine runs: registered, dropped, and planned for by the next
    round."""
    engine, old = race.engine, list(workload.queries)[:CHANGES]
    engine.start()
    try:
        race.wait(workload.draw(CHANGED_EVENTS))
        began = perf_counter()
        engine.add_many({f"new_{name}": workload.queries[name] for name in old})
        engine.drop_many(old)
        took = perf_counter() - began
        planned = race.wait(workload.draw(CHANGED_EVENTS)).seconds["plan"]
    finally:
        engine.stop()
    tell(
        f"{len(old):,} queries registered and as many dropped in {took:.2f} s, planned for in {planned:.2f} s"
    )
    each_ms = 1_000 * (took + planned) / (2 * len(old))
    note = (
        f"through SQL, {len(old):,} of each together, beside {len(workload.queries):,}; want < 1: "
    )
    return Figure("spark_change_ms", each_ms, "ms", note=note + verdict(each_ms < CHANGE_WANTED_MS))


def _modest(bands: Bands, s: Ints, events: int) -> list[int]:
    """The queries with most answers, below a limit: b of events is uniform, so what is expected
    tells."""
    some = np.linspace(0, bands.lo.size - 1, min(bands.lo.size, 2_000)).astype(np.int64)
    b = draw_events(np.random.default_rng(SEED), 200)
    first = np.searchsorted(s, b[:, None] + bands.lo[some], "left")
    last = np.searchsorted(s, b[:, None] + bands.hi[some], "right")
    expected = np.sum(last - first, axis=0) * (events / b.size)
    expected[expected > ANSWERS_MAX] = -1
    return [int(query) for query in some[np.argsort(expected)[-READ:]]]
