"""What a round costs whoever asks: the catalog is read, the rows are counted, files are written and
synced.  Pure.

Rates are seconds on one machine (two cores); a home learns how much slower it is, as it does of all
stages.  A family that counts the rows by the way prices these stages with its own work in them.
"""

from __future__ import annotations

PLAN_S = 2.0e-4  # the catalog is read
COUNT_S, COUNT_ROW_S = 0.12, 5.0e-8  # a Spark job; a row read of which only the time is asked
WRITE_S = 2.0e-3  # files written and synced
COMMIT_S = 0.035  # logs and manifest synced, and what no stage counts


def round_price(rows: float) -> dict[str, float]:
    """Seconds by stage of a round of so many rows, which the runtime counts, without its
    queries."""
    return {
        "plan": PLAN_S,
        "count": COUNT_S + rows * COUNT_ROW_S,
        "write": WRITE_S,
        "commit": COMMIT_S,
    }
