"""What a round changes of an answer is what Spark's EXCEPT ALL says; also of maps, which it
refuses."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from headrace.families.plain.differences import changes_of

DDL = (
    "c0 DOUBLE, c1 FLOAT, c2 STRING, c3 DECIMAL(38,2), c4 TIMESTAMP, c5 ARRAY<DOUBLE>, "
    "c6 STRUCT<x: DOUBLE, `y z`: ARRAY<STRUCT<w: FLOAT>>>, c7 BINARY, c8 BOOLEAN"
)
MAPS = (
    "c0 MAP<STRING, DOUBLE>, c1 ARRAY<MAP<INT, STRUCT<m: MAP<STRING, FLOAT>, n: INT>>>, "
    "c2 STRUCT<m: MAP<DOUBLE, INT>, x: DOUBLE>"
)


def drawn(spark: SparkSession, ddl: str, seed: int) -> DataFrame:
    """Rows of few different values, so that many are the same."""
    chance = Random(seed)

    def double() -> float | None:
        return chance.choice([math.nan, -0.0, 0.0, 1.5, None])

    def plain() -> tuple[Any, ...]:
        inner = None if chance.random() < 0.3 else (double(), [(double(),), None])
        every = [double(), double(), "a", None, None, [double()], inner, b"x", True]
        own = chance.randrange(len(every))
        return tuple(value if at in (0, own) else None for at, value in enumerate(every))

    def mapped() -> tuple[Any, ...]:
        keys = chance.sample(["a", "b", "c"], chance.choice([1, 2, 3, 3]))
        flat = None if chance.random() < 0.2 else {key: chance.choice([0.0, -0.0]) for key in keys}
        deep = [{n: (dict.fromkeys(keys, math.nan), n) for n in chance.sample([1, 2], 2)}, None, {}]
        struct = ({n + 0.5: n for n in chance.sample([1, 2, 3], 3)}, double())
        return flat, chance.choice([deep, None]), chance.choice([struct, None])

    rows = [(mapped if "MAP" in ddl else plain)() for _ in range(chance.randrange(40))]
    return spark.createDataFrame(rows, ddl)


def named(value: Any) -> Any:
    """The same for values that Spark takes for the same, as something to count."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return frozenset((named(k), named(v)) for k, v in value.items())
    if isinstance(value, list | Row):
        return tuple(map(named, value))
    return bytes(value) if isinstance(value, bytearray) else value


def counted(frame: DataFrame) -> Counter[Any]:
    return Counter(named(row) for row in frame.collect())


def changes(old: DataFrame | None, new: DataFrame) -> Counter[Any]:
    """As often as each row comes and goes."""
    return counted(changes_of(old, new))


def test_it_is_except_all(spark: SparkSession, seed: int) -> None:
    for step in range(3):
        old, new = (drawn(spark, DDL, seed + 2 * step + i) for i in range(2))
        came, went = counted(new.exceptAll(old)), counted(old.exceptAll(new))
        expected = Counter({(*row, 1): n for row, n in came.items()})
        assert changes(old, new) == expected + Counter({(*row, -1): n for row, n in went.items()})
        assert not changes(new, new)
        assert changes(None, new) == Counter({(*r, 1): n for r, n in counted(new).items()})


def test_maps_are_the_same_by_their_entries(spark: SparkSession, seed: int) -> None:
    old, new = (drawn(spark, MAPS, seed + i) for i in range(2))
    before, after = counted(old), counted(new)
    expected = Counter({(*row, 1): n for row, n in (after - before).items()})
    expected.update({(*row, -1): n for row, n in (before - after).items()})
    assert changes(old, new) == expected
    found = changes_of(old, new)
    assert [f.dataType.simpleString() for f in found.schema.fields[:-1]] == [
        f.dataType.simpleString() for f in new.schema.fields
    ]
    # the same rows in another order, of entries too
    assert not changes(new, new.orderBy("c2.x", ascending=False))


def test_a_row_looks_the_same_when_it_comes_and_when_it_goes(spark: SparkSession) -> None:
    """Zeros without a sign, maps in order of their keys: who keeps rows can find them."""
    sql = "SELECT {zero}D AS c0, map('{a}', 1, '{b}', 2) AS c1, array({zero}D) AS c2"
    came = spark.sql(
        sql.format(zero="-0.0", a="y", b="x").replace("'y', 1, 'x', 2", "'y', 2, 'x', 1")
    )
    same = spark.sql(sql.format(zero="0.0", a="x", b="y"))
    none = same.where("false")
    first, last = changes_of(None, came).collect(), changes_of(same, none).collect()
    assert [repr(row[:-1]) for row in first] == [repr(row[:-1]) for row in last]
    assert (first[0][-1], last[0][-1]) == (1, -1)
    assert not changes_of(came, same).collect()
