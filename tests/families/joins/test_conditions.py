"""What a condition says, against Spark's own verdict on every pair of rows."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.families.joins.conditions import Conditions, conditions_of
from headrace.sql.bands import Band, double_key
from headrace.sql.bind import bind
from headrace.sql.emit import emit
from headrace.sql.schema import parse_schema
from headrace.sql.tree import Expr
from headrace.values import Relation

T0 = datetime(2020, 1, 1, 10, tzinfo=UTC)
LEFT = Relation(
    "r",
    "parquet:r",
    parse_schema("a INT, b DOUBLE, k STRING, n BIGINT, ts TIMESTAMP, d DATE"),
    time="ts",
)
RIGHT = Relation(
    "s",
    "parquet:s",
    parse_schema("c INT, b DOUBLE, k STRING, n BIGINT, ts TIMESTAMP, d DATE"),
    time="ts",
)
VALUES: dict[str, list[Any]] = {
    "a": [None, -3, 0, 1, 2, 5, 7],
    "b": [None, -1e300, -2.5, -0.0, 0.0, 0.1, 0.3, 2.5, 1e300],
    "k": [None, "", "x", "y"],
    "n": [None, -5, 0, 1, 4, 9],
    "ts": [
        None,
        T0,
        T0 - timedelta(hours=1),
        T0 - timedelta(microseconds=1),
        T0 + timedelta(hours=2),
    ],
    "d": [None, date(2019, 12, 31), date(2020, 1, 1), date(2020, 1, 3)],
}
KINDS = {
    "a": pa.int32(),
    "b": pa.float64(),
    "k": pa.string(),
    "n": pa.int64(),
    "ts": pa.timestamp("us", "UTC"),
    "d": pa.date32(),
}
READ = [  # nothing is left over
    "s.b - r.b BETWEEN 0.2 AND 2.5",
    "r.b - s.b > 2",
    "abs(s.b - r.b) <= 0.2",
    "abs(r.n - s.n) > 4",
    "s.b > r.b",
    "r.b >= s.b",
    "s.b >= r.b + 0.2",
    "s.n BETWEEN r.n - 5 AND r.n + 4",
    "r.n + 2 < s.n - 1",
    "5 + r.n >= s.n",
    "s.n - r.n <> 4",
    "s.n - r.n IN (1, 4, -5)",
    "s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts",
    "s.d <= r.d + 2",
    "r.k = s.k",
    "r.a = s.n",
    "r.b = s.b AND r.a BETWEEN 1 AND 5 AND s.c > 0 AND r.n <> 4",
    "s.c % 2 = 1 AND r.n = s.n",
    "s.n - r.n > 0 AND s.n - r.n <= 4 AND r.k = s.k",
    "r.ts = s.ts AND r.d = s.d",
    "r.n - s.n > 9 AND s.n - r.n > 9",
    "s.b - r.n BETWEEN 0.2 AND 2.5",
    "r.b - s.n > 1",
    "abs(s.c - r.b) <= 0.5",
    "s.ts - r.ts BETWEEN INTERVAL '0' SECOND AND INTERVAL '1' HOUR",
    "INTERVAL '2' HOURS <= r.ts - s.ts",
    "s.ts - r.ts = INTERVAL '3' HOURS",
    "INTERVAL '-1' MICROSECONDS > s.ts - r.ts",
]
KEPT = [  # something is
    "r.a = s.b",
    "s.b + r.b > 2",
    "s.n * r.n > 4",
    "10 / (s.c + 20) > 0.45 AND r.n = s.n",
    "r.k < s.k",
    "r.n = s.n OR r.a = 1",
    "s.b - r.b > 1 OR r.a = 1",
    "r.n IS NULL AND s.n = 1",
    "s.n - r.n > r.a",
    "upper(r.k) = upper(s.k)",
    "datediff(s.d, r.d) > 0",
    "length(r.k) > 0 AND s.n = r.n",
    "s.ts - r.ts <> INTERVAL '0' SECOND",
]


def condition(text: str) -> Expr:
    where = bind(f"SELECT 1 AS x FROM r JOIN s ON {text}", {"r": LEFT, "s": RIGHT}, name="q").where
    assert where is not None
    return where


Pair = dict[str, Any]
"""What Spark makes of expressions, by their text, for one pair of rows."""


@pytest.fixture(scope="module")
def pairs(spark: SparkSession) -> list[Pair]:
    """All expressions of all conditions, in one job."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for relation in (LEFT, RIGHT):
        session.createDataFrame(rows_of(relation)).createOrReplaceTempView(relation.name)
    wheres = [condition(text) for text in (*READ, *KEPT)]
    asked = [
        e
        for where in wheres
        for e in (where, *_attributes(conditions_of(where)), *conditions_of(where).rest)
    ]
    texts = list(dict.fromkeys(_text(own) for own in asked))
    shown = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
    found = session.sql(f"SELECT {shown} FROM r CROSS JOIN s").toArrow().to_pylist()
    return [{text: row[f"c{i}"] for i, text in enumerate(texts)} for row in found]


def rows_of(relation: Relation) -> pa.Table:
    values = {f.name: ("a" if f.name == "c" else f.name) for f in relation.fields}
    return pa.table(
        {
            name: pa.array(
                [
                    VALUES[own][(i * 7 + i // len(VALUES[own]) + len(name)) % len(VALUES[own])]
                    for i in range(40)
                ],
                KINDS[own],
            )
            for name, own in values.items()
        }
    )


def _text(expr: Expr) -> str:
    return emit(expr, sides=("r.", "s."))


@pytest.mark.parametrize("text", [*READ, *KEPT])
def test_a_condition_is_what_spark_takes_it_for(pairs: list[Pair], text: str) -> None:
    where = condition(text)
    found = conditions_of(where)
    assert bool(found.rest) == (text in KEPT)
    verdicts = set()
    for pair in pairs:
        values = {own: pair[_text(own)] for own in _attributes(found)}
        rest = all(pair[_text(own)] for own in found.rest)
        verdicts.add(bool(pair[_text(where)]))
        assert (_holds(found, values) and rest) == bool(pair[_text(where)]), pair
    assert verdicts == {True, False} or "9 AND" in text


def _attributes(found: Conditions) -> list[Expr]:
    pairs = [*found.equalities, *(pair for pair, _ in _differences(found))]
    own = [attribute for side in found.ranges for attribute, _ in side]
    return list(dict.fromkeys([*(e for pair in pairs for e in pair), *own]))


def _differences(found: Conditions) -> list[tuple[tuple[Expr, Expr], Band]]:
    """Of finite numbers a comparison is one too."""
    return [*found.differences, *((pair, band) for pair, band, _ in found.comparisons)]


def _holds(found: Conditions, values: dict[Expr, Any]) -> bool:
    """By the page: equalities of values, bands of keys."""
    for left, right in found.equalities:
        if values[left] is None or values[left] != values[right]:
            return False
    for (left, right), band in _differences(found):
        a, b = values[left], values[right]
        if a is None or b is None or _key(_number(b) - _number(a)) not in band:
            return False
    return all(
        values[own] is not None and _key(_number(values[own])) in band
        for side in found.ranges
        for own, band in side
    )


def _number(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - T0) // timedelta(microseconds=1) + 1_577_872_800_000_000
    return value.toordinal() - 719_163 if isinstance(value, date) else value


def _key(value: Any) -> int:
    return double_key(value) if isinstance(value, float) and not math.isnan(value) else int(value)


def test_what_is_told_apart() -> None:
    found = conditions_of(
        condition("r.k = s.k AND r.a BETWEEN 1 AND 5 AND s.c > 7 AND s.n - r.n < 3 AND r.k < s.k")
    )
    ((left, right),) = found.equalities
    assert (emit(left), emit(right), left == right) == ("`k`", "`k`", False)
    ((pair, band),) = found.differences
    assert band.intervals[0][1] == 2 and [emit(own) for own in pair] == ["`n`", "`n`"]
    assert [[emit(own) for own, _ in side] for side in found.ranges] == [["`a`"], ["`c`"]] and len(
        found.rest
    ) == 1
    assert conditions_of(None) == Conditions()
