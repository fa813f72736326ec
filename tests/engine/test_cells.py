"""Crowds of predicates: thousands of constants on one attribute run as cells, and every answer is
still Spark's."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.families.windows import plan
from headrace.families.windows.bands import banding
from headrace.families.windows.explain import assignment_of
from headrace.families.windows.rings import feeding
from tests.engine import test_oracle as oracle
from tests.engine.race import Race, row, rows_of
from tests.streams import EPOCH_US

FORMS = (
    "x > {c}",
    "x <= {c}",
    "x BETWEEN {c} AND {d}",
    "x < {c} OR x >= {d}",
    "NOT x = {c}",
    "x IN ({c}, {d})",
    "x > {c} AND k = 'a'",
    "n % 2 = 0 AND x < {d} AND x >= {c}",
    "x > {c} AND n <= {e}",
    "n > {e} AND big < {b} AND x < {d}",
)


def crowded(r: Random, count: int) -> dict[str, str]:
    """Queries that differ in their constants, and some in keys, windows and aggregates."""
    found: dict[str, str] = {}
    while len(found) < count:
        c = r.randint(0, 11) / 4 + r.choice([0, 0.001, -0.001])
        where = FORMS[len(found) % len(FORMS)].format(
            c=c, d=c + r.choice([0.25, 0.6, 1.5]), e=r.randint(0, 7), b=r.randint(0, 2500)
        )
        keys = r.choice(["k, ", "", "k, n, "])
        window = r.choice(
            ["'10 seconds'", "'20 seconds', '10 seconds'", "'30 seconds', '5 seconds'"]
        )
        what = r.choice(
            [
                "sum(n) AS t, count(*) AS c",
                "avg(x) AS p, min(x) AS lo",
                "stddev(x) AS d, max(big) AS m",
            ]
        )
        having = r.choice(["", "", " HAVING count(*) > 1"])
        sql = f"SELECT {keys}{what}, window.end AS we FROM s WHERE {where} GROUP BY {keys}window(ts, {window}){having}"
        found[f"q{len(found)}"] = sql
    return found


def rows_at(first_s: int, count: int) -> list[dict[str, object]]:
    """With nulls and NaN among the values."""
    odd = {3: None, 8: float("nan"), 9: float("inf")}
    return [
        row(first_s + i, "abc"[i % 3], i % 7 + 1, odd.get(i % 17, (i * 37 % 11) / 4), i * i)
        for i in range(count)
    ]


@pytest.fixture
def crowd_of_six(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six are a crowd: Spark's own answer to each query takes its time."""
    monkeypatch.setattr(plan, "CROWD_MIN", 6)


def test_a_crowd_is_answered_by_cells(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    race = Race(spark, tmp_path, late_s=3)
    queries = crowded(Random(seed), 40)
    names = race.eng.add_many(queries)
    race.feed(rows_at(0, 30), rows_at(30, 40), [*rows_at(70, 25), row(69, "b", 3, 1.5)])
    race.eng.run()
    race.check(*names[::8])
    text = race.eng.explain()
    assert re.search(r"\d\d bands as runs of \d+ cells of `x`", text)
    relation = race.eng.catalog.relation("s")
    assignment = assignment_of(
        [(r.id, r.query) for r in race.eng.catalog.queries.values()], relation
    )
    assert sum(bool(s.bands) for s in assignment.shares.values()) == len(queries)


@pytest.mark.usefixtures("crowd_of_six")
def test_a_crowd_comes_and_goes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Few at first, as bits; then a crowd, as cells; a restart between; then most leave and others
    come."""
    race = Race(spark, tmp_path, late_s=3)
    queries = crowded(Random(seed), 24)
    first = dict(list(queries.items())[:4])
    second = dict(list(queries.items())[4:16])
    third = dict(list(queries.items())[16:])
    race.eng.add_many(first)
    race.feed(rows_at(0, 30), rows_at(30, 20))
    race.eng.run()
    race.eng.add_many(second)
    race.feed(rows_at(50, 30))
    race.eng.run()
    race.open()
    race.feed(rows_at(80, 30))
    race.eng.run()
    for name in list(second)[:8]:
        race.eng.drop(name)
    race.eng.add_many(third)
    race.feed(rows_at(110, 30), rows_at(140, 40))
    race.eng.run()
    race.open()
    race.feed(rows_at(180, 40))
    race.eng.run()
    race.check(*first)
    race.check(*list(second)[8:], whole=False, whole_from_s=80 + 30)
    race.check(*third, whole=False, whole_from_s=140 + 30)


@pytest.mark.usefixtures("crowd_of_six")
def test_those_with_history_keep_it_when_a_crowd_comes(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """A query that ran as a bit still does after a restart amid a crowd: the log knows its bit, not
    its cells."""
    race = Race(spark, tmp_path)
    long = "SELECT count(*) AS c, window.end AS we FROM s WHERE x > 1.3 GROUP BY window(ts, '60 seconds', '10 seconds')"
    race.eng.add(long, name="long")
    race.feed(rows_at(0, 45))
    race.eng.run()
    race.eng.add_many(crowded(Random(seed), 10))
    race.open()
    race.feed(rows_at(45, 40))
    race.eng.run()
    race.check("long")
    assert len(race.answers("long")) >= 6


SEEDS = oracle.SEEDS


@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS)
def test_any_predicate_as_cells(spark: SparkSession, seed: int) -> None:
    _check_seed(spark, seed)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@settings(max_examples=30, deadline=None, phases=[Phase.generate])
@given(seed=SEEDS)
def test_any_predicate_as_cells_long(spark: SparkSession, seed: int) -> None:
    _check_seed(spark, seed)


def _check_seed(spark: SparkSession, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CROWD_MIN", 1)
        oracle.check_seed(spark, seed)


@pytest.mark.usefixtures("crowd_of_six")
def test_rows_are_told_apart_only_where_asked(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """An edge that comes later splits no history: its query waits for whole windows, the others do
    not notice."""
    race = Race(spark, tmp_path)
    base = crowded(Random(seed), 8)
    race.eng.add_many(base)
    race.feed(rows_of(0, 33))
    race.eng.run()
    race.eng.add(
        "SELECT sum(n) AS t, window.end AS we FROM s WHERE x > 1.2345 GROUP BY window(ts, '20 seconds')",
        name="late",
    )
    race.feed(rows_of(33, 50))
    race.eng.run()
    race.check(*base)
    race.check("late", whole=False)
    ends_s = [round(r["we"].timestamp() - EPOCH_US / 1e6) for r in race.answers("late")]
    assert ends_s == [60, 80]


@pytest.mark.usefixtures("crowd_of_six")
@pytest.mark.parametrize("what", ["sum(x) AS t", "median(n) AS t"], ids=["as bands", "told"])
def test_crowds_on_several_attributes(
    spark: SparkSession, tmp_path: Path, what: str, seed: int
) -> None:
    """As bands of several cells; over sketches, told when rows are rolled up by the cells Spark
    placed them in."""
    race = Race(spark, tmp_path, late_s=3)
    r = Random(seed)
    names = race.eng.add_many(crossed(r, what, 12, 0))
    race.feed(rows_at(0, 30), rows_at(30, 40))
    race.eng.run()
    text = race.eng.explain()
    assert re.search(r"runs of \d+ cells of `x`", text) and re.search(
        r"runs of \d+ cells of `n`", text
    )
    later = race.eng.add_many(crossed(r, what, 6, 12))
    race.open()
    race.feed(rows_at(70, 30))
    race.eng.run()
    for name in names[:9]:
        race.eng.drop(name)
    race.feed(rows_at(100, 60))
    race.eng.run()
    race.check(*names[9:])
    race.check(*later, whole=False, whole_from_s=100)


def crossed(r: Random, what: str, count: int, first: int) -> dict[str, str]:
    """Predicates on two attributes, some with a third that is no band, or a key."""
    rests = ["", " AND k = 'a'", " AND k <> 'b'", " AND big % 2 = 0"]
    found: dict[str, str] = {}
    for i in range(first, first + count):
        # so that enough of them differ
        op, limit = (
            ("<=", ">", "<>")[i // 7 % 3],
            i % 7 + r.choice([0, 0.5]),
        )
        where = f"x > {r.randint(0, 40) / 16} AND n {op} {limit}{rests[i % 4]}"
        keys = ("k, ", "", "k, n, ")[i % 3]
        found[f"c{i}"] = (
            f"SELECT {keys}count(*) AS c, {what}, window.end AS we FROM s WHERE {where} "
            f"GROUP BY {keys}window(ts, '20 seconds', '10 seconds')"
        )
    return found


@pytest.mark.usefixtures("crowd_of_six")
def test_a_crowd_that_is_too_large_leaves_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round of many groups, every band of which has rows: found out while it is folded, not
    after."""
    monkeypatch.setattr(feeding, "FED_MAX", 1_000)
    monkeypatch.setattr(banding, "ROWS_MAX", 2_000)
    race = Race(spark, tmp_path, config=Config.of(ring_bytes_max=400_000))
    ask = "SELECT k, count(*) AS c, window.end AS we FROM s WHERE x {} GROUP BY k, window(ts, {})"
    race.eng.add_many({f"short{i}": ask.format(f"> {i}", "'10 seconds'") for i in range(3)})
    race.eng.add_many(
        {f"long{i}": ask.format(f"< {i + 50}", "'5 minutes', '10 seconds'") for i in range(9)}
    )
    race.eng.add(
        "SELECT sum(n) AS t, window.end AS we FROM s GROUP BY window(ts, '10 seconds')",
        name="plain",
    )
    race.feed(
        *([row(10 * turn + i / 100, f"k{i}", 1, 2.5) for i in range(900)] for turn in (0, 1)),
        [row(30, "k1")],
    )
    race.eng.run()
    states = {q.name: q for q in race.eng.queries()}
    gone = {name for name, q in states.items() if q.state != "live"}
    assert gone == {f"long{i}" for i in range(9)}
    assert all(str(states[name].reason).startswith("RING_BYTES") for name in gone)
    race.check("plain", "short0", "short2")
