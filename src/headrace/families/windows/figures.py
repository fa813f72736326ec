"""What a round of windows measures, noted with the round: what explains its cost (`costs/flow.py`),
and how large its state is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.runtime.statistics import Stats, own_figures

NAME = "windows"
Placement = tuple[int, ...]
"""Where a query sits: the panes of its ring, in µs, and which attributes of its predicate are cells,
by their place in it."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Queries that sit elsewhere than best (`placement.py`): the first and last id of each run of
    them."""

    placement: Placement
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ShardsFigures:
    """Windows in shards: groups are told apart by `keys` into `count` shards, because of `why`.

    `ring_bytes` of all shards, `log_bytes` in `log_files` of their logs; `anew`: shards whose rings
    were made from the log; `homeless`: for whose rings there was no room between rounds; `seconds`
    of all tasks, and of the `longest_s`; `process_bytes`: the most memory a worker has had."""

    keys: tuple[str, ...] = ()
    count: int = 0
    why: str = ""
    queries: int = 0
    ring_bytes: int = 0
    log_bytes: int = 0
    log_files: int = 0
    anew: int = 0
    homeless: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    process_bytes: int = 0
    exceptions: tuple[Elsewhere, ...] = ()
    next_united: bool = True


@dataclass(frozen=True, slots=True)
class WindowsFigures:
    """Spark's aggregate left so many `cells` of panes of `pane_us`, by these predicates and keys, in
    `groupings`; `next_united`: whether the next round is to have one for all keys.  `groups`: by
    group-by.  `exceptions`: who sits elsewhere than best.  `selectivity`: the
    share of the rows each predicate selects.

    `ring_bytes` are weighed every few rounds; `log_bytes` in `log_files` are the pane log's, on
    disk. `unshared_s`: Spark time at the least, were each query a job of its own."""

    cells: int = 0
    pane_us: int = 0
    predicates: int = 0
    keys: tuple[str, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    groupings: int = 1
    next_united: bool = True
    exceptions: tuple[Elsewhere, ...] = ()
    selectivity: Mapping[str, float] = field(default_factory=dict)
    ring_bytes: int = 0
    log_bytes: int = 0
    log_files: int = 0
    unshared_s: float = 0.0
    shards: ShardsFigures | None = None

    def __post_init__(self) -> None:
        counts = (self.cells, self.pane_us, self.predicates, *self.groups.values())
        if min(counts) < 0:
            raise ValueError("a round cannot have measured this")


def figures_of(stats: Stats) -> WindowsFigures:
    return own_figures(stats, NAME, WindowsFigures)


def measured_line(own: WindowsFigures) -> list[str]:
    """As EXPLAIN shows it, in parts."""
    files = f"{own.log_files:,} file{'' if own.log_files == 1 else 's'}"
    return [
        f"unshared, at least {own.unshared_s:.1f} s",
        f"rings of {own.ring_bytes / 1e6:,.1f} MB, pane log of {own.log_bytes / 1e6:,.1f} MB in {files}",
        *([] if own.shards is None else [_shards_line(own.shards)]),
    ]


def _shards_line(own: ShardsFigures) -> str:
    anew = "" if not own.anew else f", {own.anew:,} of them made from the log"
    return (
        f"{own.count:,} shards of {own.ring_bytes / 1e6:,.1f} MB in all{anew}, the longest took "
        f"{own.longest_s:.3f} s, their pane log {own.log_bytes / 1e6:,.1f} MB"
    )
