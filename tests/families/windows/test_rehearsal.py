"""A rehearsal: what is made up has the columns that Spark leaves, and nothing stays of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.catalog.catalog import Registered
from headrace.config import Config
from headrace.families.windows import rehearsal
from headrace.families.windows.aggregation.aggregate import NEWEST, aggregate_sql
from headrace.families.windows.aggregation.columns import KIND
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.rehearsal import rehearse
from headrace.families.windows.rings.rings import Rings
from headrace.runtime.collecting import to_arrow
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.values import Relation

SCHEMA = "k STRING, d DATE, b BOOLEAN, i INT, n BIGINT, x DOUBLE, ts TIMESTAMP"
RELATION = Relation("s", "none:", parse_schema(SCHEMA), "ts", 2_000_000)
WINDOW = "GROUP BY {} window(ts, '1 minute', '20 seconds')"
TEXTS = [
    f"SELECT count(*) AS n FROM s {WINDOW.format('')}",
    f"SELECT k, sum(i) AS a, avg(i) AS b, stddev(i) AS c FROM s {WINDOW.format('k,')}",
    f"SELECT d, sum(n) AS a, min(n) AS b, max(x) AS c, avg(x) AS e FROM s {WINDOW.format('d,')}",
    f"SELECT b, i, variance(x) AS a FROM s WHERE k = 'a' {WINDOW.format('b, i,')}",
    f"SELECT k, sum(x) AS a FROM s WHERE i > 3 {WINDOW.format('k,')} HAVING count(*) > 1",
    f"SELECT k, max(d) AS a, min(ts) AS b FROM s WHERE x > 17.25 {WINDOW.format('k,')}",
]


def registered(texts: list[str]) -> list[Registered]:
    relations = {"s": RELATION}
    return [
        Registered(i, bind(text, relations, name=f"q{i}", config=Config()), 1)
        for i, text in enumerate(texts)
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_made_up_panes_are_as_sparks(
    text: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types decide what is compiled."""
    seen: list[Cuts] = []
    take = Rings.take

    def note(self: Rings, cuts: Cuts, *rest: object) -> object:
        seen.append(cuts)
        return take(self, cuts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Rings, "take", note)
    rehearse(registered([text]), RELATION, Config())
    spark.createDataFrame([], RELATION.ddl()).createOrReplaceTempView("rehearsed")
    found = to_arrow(spark.sql(aggregate_sql(seen[0], RELATION, "0", "rehearsed")))
    asked = {f.name: f.type for f in found.drop_columns([KIND, NEWEST]).schema}
    assert {f.name: f.type for f in rehearsal._panes(seen[0], 0).schema} == asked


def test_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answered: list[int] = []
    close = Rings.close

    def note(self: Rings, *asked: object) -> object:
        for closed in close(self, *asked):  # type: ignore[arg-type]
            answered.append(1)
            yield closed

    monkeypatch.setattr(Rings, "close", note)
    rehearse(registered(TEXTS), RELATION, Config())
    assert answered, "no window was answered: kernels that answer are not compiled"
    assert list(tmp_path.iterdir()) == []


def test_few_of_many_and_none_of_long_ones() -> None:
    many = registered([f"SELECT sum(x) + {i} AS a FROM s {WINDOW.format('')}" for i in range(100)])
    assert len(rehearsal._of_each_kind(many, RELATION)) == 1
    long = "SELECT count(*) AS n FROM s GROUP BY window(ts, '300 days', '1 second')"
    sketch = f"SELECT median(x) AS m FROM s {WINDOW.format('')}"
    assert rehearsal._of_each_kind(registered([long, sketch]), RELATION) == []
    rehearse(registered([long, sketch]), RELATION, Config())
