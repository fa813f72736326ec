"""How a query runs that nobody shares.  Pure.

* `each`: a filter or projection: every row of the round on its own, as it comes; late ones and
  those without a time too, since nothing waits for them.
* `window`: an aggregate over windows: the rows of open windows are kept, and when a window closes
  Spark answers the query's own SQL over them.  Late rows are left out, as everywhere.
* `current`: an aggregate without a window, or a query over a table: there is no last row to wait
  for, so each round with rows answers anew over all rows but the late ones; what that changes goes
  into the log, and the newest answer is kept whole (`differences.py`). "All rows" begins with the
  first round that had the query, or with the first of the stream if all are still kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from headrace.sql.query import Query
from headrace.values import Relation

QUERY_S = 0.3  # a Spark job and a Parquet file, on two cores; a home learns how much slower it is


class Way(Enum):
    EACH = "each row as it comes"
    WINDOW = "rows of open windows kept, Spark's own SQL when one closes"
    CURRENT = "all rows kept, answered anew each round"


def way_of(query: Query, relation: Relation) -> Way:
    if relation.is_table:
        return Way.CURRENT
    if not query.grouped:
        return Way.EACH
    return Way.CURRENT if query.window is None else Way.WINDOW


def how(query: Query, relation: Relation) -> str:
    """The way it runs, in words."""
    if relation.is_table:
        return "the latest row of each key kept, answered anew each round"
    return way_of(query, relation).value


def plain_price_s(queries: int) -> float:
    """Seconds of a round's plain queries, before a home has learnt better."""
    return queries * QUERY_S


def horizon_us(
    queries: Sequence[Query], relation: Relation, watermark_us: int | None
) -> int | None:
    """Rows older than this are in no window still open; None when all rows are needed."""
    ways = {way_of(q, relation) for q in queries}
    if Way.CURRENT in ways or watermark_us is None:
        return None
    ranges = [q.window.range_us for q in queries if q.window is not None]
    return watermark_us - max(ranges, default=0)


def explain_plain(queries: Sequence[tuple[Query, str]], relation: Relation) -> list[str]:
    """EXPLAIN of the queries nobody shares, with the reason for each."""
    if not queries:
        return []
    lines = [
        f"plain Spark: {len(queries):,} {'query' if len(queries) == 1 else 'queries'}, one Spark job each a round"
    ]
    return lines + [
        f"  {q.name}: {how(q, relation)}; not shared because {why}" for q, why in queries
    ]
