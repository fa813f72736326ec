"""How long rows are kept for queries nobody shares, and whose cost a round of them was."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headrace.catalog.state import Registered
from headrace.families.contract import Claim, Planned
from headrace.families.plain.family import Plain
from headrace.families.plain.figures import NAME, PlainFigures
from headrace.families.plain.plan import Way, horizon_us, way_of
from headrace.records import encode
from headrace.runtime.statistics import Stats
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import US_PER_S, Relation

STREAM = Relation("s", "parquet:s", parse_schema("k STRING, n INT, ts TIMESTAMP"), time="ts")
TABLE = Relation("t", "json:t", parse_schema("k STRING, n INT"), key=("k",))
NOW_US = 1_000_000 * US_PER_S
EACH = "SELECT upper(k) AS u FROM s"
SHORT, LONG = (
    f"SELECT max(k) AS m FROM s GROUP BY window(ts, '{length}')"
    for length in ("10 minutes", "1 hour")
)
SO_FAR = "SELECT k, count(*) AS c FROM s GROUP BY k"
OF_TABLE = "SELECT upper(k) AS u FROM t"


def queries(*texts: str) -> list[Query]:
    return [bind(sql, {"s": STREAM, "t": TABLE}, name=f"q{i}") for i, sql in enumerate(texts)]


def test_what_a_query_asks_says_how_it_runs() -> None:
    each, window, so_far, of_table = queries(EACH, SHORT, SO_FAR, OF_TABLE)
    ways = [way_of(query, STREAM) for query in (each, window, so_far)]
    assert ways == [Way.EACH, Way.WINDOW, Way.CURRENT]
    assert way_of(of_table, TABLE) is Way.CURRENT


@pytest.mark.parametrize(
    ("texts", "before_s"),
    [
        ((SHORT,), 600),
        ((SHORT, LONG), 3600),
        ((LONG, SHORT, EACH), 3600),
        ((EACH,), 0),
    ],
)
def test_rows_are_kept_for_the_longest_window(texts: tuple[str, ...], before_s: int) -> None:
    found = horizon_us(queries(*texts), STREAM, NOW_US)
    assert found == NOW_US - before_s * US_PER_S


def test_all_rows_are_kept_where_one_query_counts_them_all() -> None:
    assert horizon_us(queries(SHORT, SO_FAR), STREAM, NOW_US) is None
    assert horizon_us(queries(SHORT), STREAM, None) is None, "no row has told the time yet"


def shares_of(own: Mapping[str, float], stage_s: float) -> list[float]:
    """Of three queries, of which each took so long, in a round whose stage took this."""
    planned = {
        i: Planned(Registered(i, query, 1), Claim(STREAM), "")
        for i, query in enumerate(queries(EACH, SHORT, SO_FAR))
    }
    stats: Stats = {
        "seconds": {"plain": stage_s, "total": stage_s},
        "figures": {NAME: encode(PlainFigures(own))},
    }
    found = Plain().shares(planned, STREAM, [stats], {})
    return [float(share) for share in found.get("plain", [])]


def test_each_pays_for_its_own_job_and_a_third_of_what_all_share() -> None:
    assert shares_of({"0": 1.0, "1": 2.0, "2": 4.0}, 10.0) == pytest.approx([0.2, 0.3, 0.5])
    assert shares_of({"0": 1.0, "1": 3.0}, 4.0) == pytest.approx([0.25, 0.75, 0.0])


def test_a_round_that_took_no_time_is_nobodys() -> None:
    assert shares_of({}, 0.0) == []
