"""Standing intervals that a value stabs, beside PyPI's `superintervals`, in one thread.

Unclustered sets have short intervals, of like or of very unlike lengths; clustered ones have the
midpoints and lengths of the thesis (table 4.1), in some 50 stabbing groups.  Ours count, return
ids, and on clustered sets give one record for each prefix of a group.  Then intervals grow shorter
until there are so many groups that the peer, which returns every id, overtakes the records.

The peer takes 32-bit whole numbers, so the line is 0 … 10⁸ and ours take the same numbers in 64
bits.  It is called by its batch methods, its fastest: `count_batch`, and the faster of
`search_idxs_batch` and `search_values_batch`.  It is no dependency: where it is not installed, ours
run alone.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from time import thread_time_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.bench.report import Figure, Report, machine
from headrace.families.joins.intervals.index import IntervalIndex
from headrace.families.joins.intervals.prefixes import PrefixIndex
from headrace.relations.arrays import Ints

Tell = Callable[[str], None]
LINE = 100_000_000
SEED = 7
VALUES = 20_000
IDS_MAX = 1_000_000  # ids in all that a measured call may return
REPEATS = 15
SHARES = {"40th": 1 / 40, "10th": 1 / 10, "3rd": 1 / 3}
FEWEST = 50  # no interval of a clustered set is shorter than this part of the line
PEER = "superintervals"


# -- workloads -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Intervals:
    lo: Ints
    hi: Ints

    @classmethod
    def around(cls, middles: NDArray[np.float64], lengths: NDArray[np.float64]) -> Intervals:
        lo = np.rint(middles - lengths / 2).astype(np.int64)
        return cls(lo, lo + np.rint(lengths).astype(np.int64))

    @property
    def ids(self) -> NDArray[np.int32]:
        return np.arange(self.lo.size, dtype=np.int32)


def short(n: int, rng: np.random.Generator, stabs: float = 5.0) -> Intervals:
    """Of like lengths; a value stabs `stabs` of them."""
    mean = stabs * LINE / n
    return Intervals.around(rng.uniform(0, LINE, n), np.maximum(rng.normal(mean, mean / 5, n), 0))


def wide(n: int, rng: np.random.Generator) -> Intervals:
    """Lengths over five orders of magnitude, a value stabs some ten of them; twenty span the whole
    line."""
    lengths = np.minimum(rng.lognormal(np.log(2 * LINE / n), 1.8, n), LINE)
    lengths[:20] = 2 * LINE
    return Intervals.around(rng.uniform(0, LINE, n), lengths)


def clustered(n: int, share: float, rng: np.random.Generator) -> Intervals:
    """Lengths of a mean share of the line, none under a FEWEST-th of it: about as many groups."""
    lengths = rng.normal(share * LINE, share * LINE * 3 / 8, n)
    return Intervals.around(rng.uniform(0, LINE, n), np.clip(lengths, LINE / FEWEST, 2 * LINE))


def values_of(rng: np.random.Generator, count: int = VALUES) -> Ints:
    return rng.integers(0, LINE, count)


# -- the two sides ---------------------------------------------------------------------------------

Calls = Mapping[str, tuple[Callable[[], object], int]]
"""By what is asked: a call, and of how many values it is."""


def ours(made: Intervals, values: Ints, few: Ints, *, prefixes: bool) -> Calls:
    """Ids are returned for `few` values only, where each stabs many."""
    index = IntervalIndex.build(made.ids, made.lo, made.hi)
    calls: Calls = {
        "count": (lambda: index.count(values), values.size),
        "ids": (lambda: index.stab(few), few.size),
    }
    if not prefixes:
        return calls
    groups = PrefixIndex.build(made.ids, made.lo, made.hi)
    return {**calls, "records": (lambda: groups.records(values), values.size)}


def is_peer_there() -> bool:
    return find_spec(PEER) is not None


def peer(made: Intervals, values: Ints, few: Ints) -> Calls:
    """None if it is not installed."""
    if not is_peer_there():
        return {}
    lo, hi = made.lo.astype(np.int32), made.hi.astype(np.int32)
    index: Any = import_module(PEER).IntervalMap.from_arrays(lo, hi, made.ids.tolist())
    mine = IntervalIndex.build(made.ids, made.lo, made.hi)
    some, more = few.astype(np.int32), values[: 20 * few.size].astype(np.int32)
    assert index.count_batch(some, some) == mine.count(few).tolist()
    assert sorted(index.search_values_batch(some[:1], some[:1])[0]) == sorted(
        mine.stab(few[:1])[1].tolist()
    )
    return {
        "peer_count": (lambda: index.count_batch(more, more), more.size),
        "peer_ids": (lambda: index.search_values_batch(some, some), some.size),
        "peer_places": (lambda: index.search_idxs_batch(some, some), some.size),
    }


def nanoseconds(calls: Calls) -> dict[str, float]:
    """A value, of the processor: the best of some rounds in which all take turns, so that neither
    is disturbed more.

    Objects are not collected meanwhile, which only the peer's lists would pay for."""
    best = dict.fromkeys(calls, np.inf)
    gc.disable()
    try:
        for _ in range(REPEATS + 1):  # the first one compiles
            for what, (call, size) in calls.items():
                began = thread_time_ns()
                call()
                best[what] = min(best[what], (thread_time_ns() - began) / size)
    finally:
        gc.enable()
    if "peer_places" in best:
        best["peer_ids"] = min(best["peer_ids"], best.pop("peer_places"))
    return best


# -- the comparison --------------------------------------------------------------------------------


def run(quick: bool, tell: Tell) -> Report:
    if not is_peer_there():
        tell(f"{PEER} is not installed: ours alone")
    sizes = (20_000,) if quick else (200_000, 500_000)
    figures = [figure for n in sizes for name in sets(n) for figure in compare(name, n, tell)]
    figures += cross(sizes[0], tell)
    title = f"{' and '.join(f'{n:,}' for n in sizes)} standing intervals, batches of {VALUES:,} values, one thread"
    return Report(title, tuple(figures), None, machine(0, SEED))


def sets(n: int) -> Mapping[str, Callable[[np.random.Generator], Intervals]]:
    made: dict[str, Callable[[np.random.Generator], Intervals]] = {
        "short": lambda rng: short(n, rng),
        "wide": lambda rng: wide(n, rng),
    }
    return made | {
        f"clustered_{name}": lambda rng, s=share: clustered(n, s, rng)
        for name, share in SHARES.items()
    }


def compare(name: str, n: int, tell: Tell) -> list[Figure]:
    rng = np.random.default_rng([SEED, n])
    made, values = sets(n)[name](rng), values_of(rng)
    took = both(made, values, prefixes=name.startswith("clustered"))
    figures = [Figure(f"{name}_{n}_{what}_ns", ns, "ns/value") for what, ns in took.items()]
    against = {"count": "peer_count", "ids": "peer_ids", "records": "peer_ids"}
    ratios = {
        what: took[its] / took[what]
        for what, its in against.items()
        if what in took and its in took
    }
    figures += [Figure(f"{name}_{n}_{what}_ratio", ratio, "×") for what, ratio in ratios.items()]
    tell("; ".join(f"{figure.name} {figure.value:,.1f}" for figure in figures))
    return figures


def cross(n: int, tell: Tell) -> list[Figure]:
    """Records against the peer's ids and ours, as intervals grow shorter and groups more."""
    figures = []
    for stabs in sorted({n // 40, n // 150, n // 400, n // 1_500, 50, 5}, reverse=True):
        rng = np.random.default_rng([SEED, n])
        made, values = short(n, rng, stabs), values_of(rng, 2_000)
        note = f"{PrefixIndex.build(made.ids, made.lo, made.hi).groups.points.size:,} groups, {stabs:,} stabbed"
        took = both(made, values, prefixes=True)
        figures += [
            Figure(f"cross_{n}_{stabs}_{what}_ns", ns, "ns/value", note=note)
            for what, ns in took.items()
        ]
        tell(
            f"{n:,} intervals, {note}: "
            + "; ".join(f"{what} {ns:,.0f} ns" for what, ns in took.items())
        )
    return figures


def both(made: Intervals, values: Ints, *, prefixes: bool) -> dict[str, float]:
    stabs = float(IntervalIndex.build(made.ids, made.lo, made.hi).count(values).mean())
    few = values[: max(10, min(values.size, int(IDS_MAX / max(stabs, 1))))]
    return nanoseconds({**ours(made, values, few, prefixes=prefixes), **peer(made, values, few)})
