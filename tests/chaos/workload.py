"""What a chaos run works on: rows that depend on the seed only, queries of every kind.

Relations: `s`, a stream for windows, filters, sketches and plain queries, with late rows; `l` and
`r`, streams that are joined, and `t`, a table.  A query's kind is the first word of its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from tests.streams import EPOCH_US

S_DDL = "k STRING, x DOUBLE, n INT, ts TIMESTAMP"
J_DDL = "k STRING, n BIGINT, a INT, b DOUBLE, gone BOOLEAN, ts TIMESTAMP"
DDL = {"s": S_DDL, "l": J_DDL, "r": J_DDL, "t": J_DDL}
TABLE_KEY = ("k", "n")
LATE_US = 5_000_000
FILE_US = 10_000_000
TIME = pa.timestamp("us", "UTC")

FIRST = {
    "window_first": "SELECT k, sum(n) AS t, avg(x) AS a, window.end AS we FROM s "
    "GROUP BY k, window(ts, '20 seconds', '10 seconds')",
    "window_dev": "SELECT stddev(x) AS d, max(n) AS m, count(*) AS c, window.end AS we FROM s WHERE n > 3 "
    "GROUP BY window(ts, '30 seconds', '10 seconds') HAVING count(*) > 2",
    "filter_first": "SELECT upper(k) AS k, x, n, ts FROM s WHERE x > 80",
    "join_band": "SELECT l.k AS lk, r.k AS rk, r.b - l.b AS d FROM l JOIN r ON r.b - l.b BETWEEN -0.5 AND 1.5",
    "join_table": "SELECT l.n AS ln, t.n AS tn, t.b - l.b AS d FROM l JOIN t ON abs(t.b - l.b) <= 2.5",
}
REFUSED = (
    "SELECT nothing FROM s",
    "SELECT k FROM nowhere",
    "SELECT sum(n) FROM s GROUP BY window(ts, '0 seconds')",
    "DELETE FROM s",
    "SELECT java_method('java.lang.System', 'exit', 1) FROM s",
)


@cache
def rows_of(seed: int, relation: str, index: int) -> pa.Table:
    """File `index` of a relation."""
    r = Random(f"{seed}/{relation}/{index}")
    start = EPOCH_US + index * FILE_US
    return _stream_rows(r, start) if relation == "s" else _join_rows(r, start)


def _stream_rows(r: Random, start: int) -> pa.Table:
    """Ten seconds, out of order by less than the lateness, but for a few rows that may be late;
    with nulls."""
    moments = [
        start + r.randrange(FILE_US) - r.choice([0, 0, r.randrange(LATE_US - 1_000_000)])
        for _ in range(40)
    ]
    moments += [start - r.randrange(40_000_000) for _ in range(r.choice([0, 0, 2]))]
    return pa.table(
        {
            "k": pa.array([r.choice(["a", "b", "c", "ü", "", None]) for _ in moments], pa.string()),
            "x": pa.array([_number(r) for _ in moments], pa.float64()),
            "n": pa.array([r.randint(-5, 20) for _ in moments], pa.int32()),
            "ts": pa.array(moments, TIME),
        }
    )


def _number(r: Random) -> float | None:
    odd = (None, None, None, None, None, 0.0, -0.0, math.nan)
    return r.choice(odd) if r.random() < 0.12 else round(r.uniform(0, 100), 3)


def _join_rows(r: Random, start: int) -> pa.Table:
    count = r.randint(3, 8)
    return pa.table(
        {
            "k": pa.array(
                [r.choice(["x", "y", "zz", "", None]) for _ in range(count)], pa.string()
            ),
            "n": pa.array([r.choice([None, *range(60)]) for _ in range(count)], pa.int64()),
            "a": pa.array([r.randrange(10) for _ in range(count)], pa.int32()),
            "b": pa.array(
                [r.choice([None, *[round(r.uniform(0, 400), 2)] * 8]) for _ in range(count)],
                pa.float64(),
            ),
            "gone": pa.array([r.random() < 0.2 for _ in range(count)], pa.bool_()),
            "ts": pa.array([start + r.randrange(FILE_US) for _ in range(count)], TIME),
        }
    )


# -- queries ---------------------------------------------------------------------------------------


def draw_query(r: Random) -> tuple[str, str]:
    """A kind and a text of that kind."""
    kinds = {
        "window": 10,
        "filter": 3,
        "sketch": 4,
        "plain": 1,
        "current": 1,
        "join": 5,
        "failing": 2,
    }
    kind = r.choices(list(kinds), list(kinds.values()))[0]
    return kind, _DRAW[kind](r)


def _window(r: Random, what: str, keys: str, having: str = "") -> str:
    where = r.choice(
        [
            "",
            "",
            f"WHERE n > {r.randint(-3, 12)} ",
            f"WHERE x BETWEEN {r.randint(0, 30)} AND 90 ",
            "WHERE k IN ('a', 'ü') ",
            "WHERE k IS NOT NULL AND n <> 3 ",
        ]
    )
    span = r.choice(
        [
            "'10 seconds'",
            "'20 seconds', '10 seconds'",
            "'60 seconds', '20 seconds'",
            "'7 seconds'",
            "'30 seconds', '10 seconds', '3 seconds'",
            "'2 minutes', '30 seconds'",
        ]
    )
    by = f"{keys}, " if keys else ""
    return (
        f"SELECT {by}{what}, window.end AS we FROM s {where}GROUP BY {by}window(ts, {span}){having}"
    )


def _shared(r: Random) -> str:
    pool = [
        "sum(n) AS t",
        "count(*) AS c",
        "avg(x) AS a",
        "min(x) AS lo",
        "max(n) AS hi",
        "stddev(x) AS d",
        "sum(x) * 2 + 1 AS e",
        "count(x) AS cx",
    ]
    having = r.choice(["", "", " HAVING count(*) > 2", " HAVING avg(x) > 40"])
    return _window(
        r, ", ".join(r.sample(pool, r.randint(1, 3))), r.choice(["k", "", "n", "k, n"]), having
    )


def _sketch(r: Random) -> str:
    pool = [
        "count(DISTINCT k) AS dk",
        "median(x) AS m",
        "percentile(n, 0.25) AS p",
        "count(DISTINCT n) AS dn",
    ]
    return _window(r, ", ".join(r.sample(pool, r.randint(1, 2))), r.choice(["k", "", "n"]))


def _filter(r: Random) -> str:
    return r.choice(
        [
            f"SELECT k, n, ts FROM s WHERE x > {r.randint(60, 95)} AND n < {r.randint(0, 15)}",
            f"SELECT upper(k) AS k, x * 2 AS y, ts FROM s WHERE n = {r.randint(-5, 20)}",
            f"SELECT k, x FROM s WHERE x BETWEEN {r.randint(0, 40)} AND {r.randint(41, 60)}",
            "SELECT n, ts FROM s WHERE k = 'ü' AND x IS NULL",
        ]
    )


def _join(r: Random) -> str:
    width = r.choice(["0.5", "1.0", "0.0"])
    return r.choice(
        [
            f"SELECT l.k AS lk, r.n AS rn, r.b - l.b AS d FROM l JOIN r ON r.b - l.b BETWEEN -{width} AND {width}",
            f"SELECT l.n AS n, l.a AS la, r.a AS ra FROM l JOIN r ON l.n = r.n WHERE l.a > {r.randint(0, 9)}",
            "SELECT l.b AS b, r.a AS a FROM l JOIN r ON l.n = r.n AND l.k = r.k "
            f"WHERE r.a BETWEEN 2 AND {r.randint(3, 9)}",
        ]
    )


_DRAW: dict[str, Callable[[Random], str]] = {
    "window": _shared,
    "sketch": _sketch,
    "filter": _filter,
    "join": _join,
    "plain": lambda r: _window(r, "min(k) AS lo, count(*) AS c", r.choice(["", "n"])),
    "current": lambda _: "SELECT k, count(*) AS c, sum(n) AS t FROM s GROUP BY k",
    "failing": lambda r: r.choice(
        [
            _window(r, f"sum(100 / (n - {r.randint(4, 12)})) AS z", "k"),
            "SELECT CAST(k AS INT) AS i FROM s WHERE n > 0",
        ]
    ),
}


def kind_of(name: str) -> str:
    return name.partition("_")[0]


def is_failing(name: str) -> bool:
    return kind_of(name) == "failing"


Row = dict[str, Any]
