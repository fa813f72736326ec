"""What a round of joins costs, and what it would by the methods without groups.  Pure.

Rates are seconds on one machine (two cores, `headrace bench joins`); a home learns how much slower it is, as it does of
all stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.families.joins.plan import SELECT

JOB_S = 0.15  # a Spark job that starts, and its files
ROW_S = 4.0e-7  # a row sent to a worker, kept, sorted
PROBE_S = 1.6e-8  # an event looked up for a group
RECORD_S = 8.0e-9  # and written
SELECT_S = 6.0e-7  # an event of a select-join looked up for a group
BUILD_S, SELECT_BUILD_S = 1.5e-6, 6.0e-6  # a range of an index that is built, written and loaded
QUERY_OUTER_S, MERGE_S, DATA_OUTER_S = 1.8e-8, 1.0e-9, 1.6e-10


def price_s(rows: float, groups: int) -> float:
    """Seconds of a round's joins: so many rows, looked up for so many groups of all joints."""
    return JOB_S + rows * (ROW_S + groups * (PROBE_S + RECORD_S))


def band_rivals_s(queries: int, rows: int) -> Mapping[str, float]:
    """Seconds an event: each query looks for its rows, or each row for its queries, or both are gone through."""
    return {"query-outer": queries * QUERY_OUTER_S, "merge": (queries + rows) * MERGE_S,
            "data-outer": queries * rows * DATA_OUTER_S}  # fmt: skip


def groups_s(kind: str, groups: int) -> float:
    """Seconds an event, by groups."""
    return groups * (SELECT_S if kind == SELECT else PROBE_S)


def build_s(kind: str, ranges: int) -> float:
    """Seconds of one index of so many ranges."""
    return ranges * (SELECT_BUILD_S if kind == SELECT else BUILD_S)


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
