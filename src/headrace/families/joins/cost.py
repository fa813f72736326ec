"""What a round of joins costs, and what it would by the methods without groups.  Pure.

Rates are seconds on one machine (two cores, `headrace bench joins`); a home learns how much slower
it is, as it does of all stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.families.joins.plan import BAND, FILTER, SELECT

JOB_S = 0.15  # a Spark job that starts, and its files
ROW_S = 4.0e-7  # a row sent to a worker, kept, sorted
PROBE_S = 1.1e-8  # an event looked up for a group
RECORD_S = 2.0e-9  # and written
STEP_S = 3.0e-9  # a scattered range that is walked along with the rows
SELECT_S = 6.0e-7  # an event of a select-join looked up for a group
BUILD_S, SELECT_BUILD_S = 1.5e-6, 6.0e-6  # a range of an index that is built, written and loaded
QUERY_OUTER_S, MERGE_S, DATA_OUTER_S = 1.8e-8, 1.0e-9, 1.6e-10
ASK_S = 5.0e-8  # a query that has the event's a asked for a row
# a value of filters; a group, a query, a range
STAB_S, PREFIX_S, LIST_S, SCAN_S = (
    1.5e-7,
    4.0e-9,
    1.0e-8,
    1.2e-9,
)
DENSE_MAX = 512  # groups: of so many, filters are found by prefixes of groups
FEW_GROUPS = 16
PREFIXES, ONE_BY_ONE = "prefixes of groups", "one by one"


def price_s(rows: float, event_s: float) -> float:
    """Seconds of a round's joins: so many rows, each looked up in so many seconds for all
    shapes."""
    return JOB_S + rows * (ROW_S + event_s)


def best_s(kind: str, groups: int, ranges: int, alone_s: Mapping[str, float]) -> float:
    """Seconds an event: by the method that takes least, where a round has told (`alone_s`), else by
    groups."""
    if kind == BAND:
        return min(band_s(groups, ranges).values())
    return min(alone_s.values(), default=groups_s(kind, groups))


def band_s(groups: int, ranges: int) -> dict[str, float]:
    """Seconds an event of a band join by method; few groups are not worth asking
    (`bands/probes.py`)."""
    found = {"groups": groups_s(BAND, groups)}
    return found if groups <= FEW_GROUPS else {**found, ONE_BY_ONE: ranges * STEP_S}


def select_s(groups: int, hot: int, scattered: float, having: float) -> dict[str, float]:
    """Seconds an event of a select-join by method, if so many queries have its a; `scattered`: the
    share of those that are in no hot group.  What join first takes depends on how many rows
    join."""
    found = {"groups": groups * SELECT_S, "select_first": having * ASK_S}
    if 0 < scattered < 1:
        found["hotspots"] = hot * SELECT_S + scattered * having * ASK_S
    return found


def filter_s(groups: int, ranges: int, having: float) -> dict[str, float]:
    """Seconds a value by method, if it passes so many filters."""
    return {
        PREFIXES: STAB_S + groups * PREFIX_S,
        ONE_BY_ONE: STAB_S + having * LIST_S,
        "each range": ranges * SCAN_S,
    }


def band_rivals_s(queries: int, rows: int) -> Mapping[str, float]:
    """Seconds an event: each query looks for its rows, or each row for its queries, or both are
    gone through."""
    return {
        "query-outer": queries * QUERY_OUTER_S,
        "merge": (queries + rows) * MERGE_S,
        "data-outer": queries * rows * DATA_OUTER_S,
    }


def groups_s(kind: str, groups: int) -> float:
    """Seconds an event, by groups, with its records."""
    if kind == FILTER:
        return STAB_S + min(groups, DENSE_MAX) * PREFIX_S
    return groups * (SELECT_S if kind == SELECT else PROBE_S + RECORD_S)


def build_s(kind: str, ranges: int) -> float:
    """Seconds of one index of so many ranges."""
    return ranges * (SELECT_BUILD_S if kind == SELECT else BUILD_S)


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
