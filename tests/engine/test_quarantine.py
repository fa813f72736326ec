"""A query that fails on one row is taken out, alone: the others answer on, complete and right."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.sql.emit import emit_query
from headrace.sql.query import Query
from headrace.values import Relation
from tests.engine.race import Race, row, rows_of, said
from tests.streams import EPOCH_US

W = "window(ts, '10 seconds')"
GOOD = {
    "plain_window": f"SELECT k, sum(DISTINCT n) AS c, window.end AS we FROM s GROUP BY k, {W}",
    "shared": f"SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, {W}",
    "shared_where": f"SELECT avg(x) AS p, window.end AS we FROM s WHERE n > 2 GROUP BY {W}",
}
BAD = {
    "argument": (f"SELECT k, sum(10 div n) AS t FROM s GROUP BY k, {W}", "DIVIDE_BY_ZERO"),
    "double_argument": (f"SELECT sum(x / n) AS t FROM s GROUP BY {W}", "DIVIDE_BY_ZERO"),
    "predicate": (f"SELECT count(*) AS c FROM s WHERE 10 / n > 1 GROUP BY {W}", "DIVIDE_BY_ZERO"),
    "key": (f"SELECT 10 div n AS g, count(*) AS c FROM s GROUP BY 10 div n, {W}", "DIVIDE_BY_ZERO"),
    "over_aggregates": (f"SELECT sum(x) / min(n) AS r FROM s GROUP BY {W}", "DIVIDE_BY_ZERO"),
    "having": (
        f"SELECT count(*) AS c FROM s GROUP BY {W} HAVING 10 / min(n) > 1",
        "DIVIDE_BY_ZERO",
    ),
    "projection": ("SELECT k, 10 / n AS r FROM s", "DIVIDE_BY_ZERO"),
    "filter": ("SELECT k FROM s WHERE 10 / n > 1", "DIVIDE_BY_ZERO"),
    "plain_argument": (f"SELECT sum(DISTINCT 10 / n) AS c FROM s GROUP BY {W}", "DIVIDE_BY_ZERO"),
    "sketched": (f"SELECT count(DISTINCT 10 / n) AS c FROM s GROUP BY {W}", "DIVIDE_BY_ZERO"),
    "over_sketches": (f"SELECT 1 / percentile(n, 0) AS r FROM s GROUP BY {W}", "DIVIDE_BY_ZERO"),
    "unwindowed": ("SELECT sum(10 / n) AS t FROM s", "DIVIDE_BY_ZERO"),
    "cast": (
        f"SELECT sum(CAST(k AS INT)) AS t FROM s WHERE n = 0 GROUP BY {W}",
        "CAST_INVALID_INPUT",
    ),
    "overflow": (f"SELECT sum(big) AS t FROM s GROUP BY {W}", "ARITHMETIC_OVERFLOW"),
    "overflow_argument": (f"SELECT max(big * 2) AS t FROM s GROUP BY {W}", "ARITHMETIC_OVERFLOW"),
}
HUGE = 2**62
# the last window without the bad row ends here
SAFE = datetime.fromtimestamp(EPOCH_US / 1e6 + 20, UTC)


def test_only_the_query_that_fails_is_taken_out(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path)
    race.eng.add_many({**GOOD, **{name: sql for name, (sql, _) in BAD.items()}})
    race.feed(
        rows_of(0, 21),
        [*rows_of(21, 8), row(29, n=0, big=HUGE), row(29.1, big=HUGE), *rows_of(30, 20)],
    )
    race.eng.run()
    for name, (_, code) in BAD.items():
        state, reason = race.state(name)
        assert state == "quarantined", name
        assert code in reason and "ansi" not in reason, f"{name}: {reason}"
        assert f"quarantined: {reason}" in race.eng.explain(name)
        assert f"{name}: {reason}" in race.eng.explain()
        answers = race.eng.results(name)
        assert answers.num_rows or name == "cast", name
        if "window_end" in answers.column_names:
            assert max(answers.column("window_end").to_pylist(), default=SAFE) <= SAFE, name

    race.open()
    assert {race.state(n)[0] for n in BAD} == {"quarantined"}
    for name, (sql, _) in list(BAD.items())[1:]:
        race.eng.drop(name)
        race.eng.add(sql, name=name)
        assert race.eng.results(name).num_rows == 0
    race.feed(rows_of(50, 20), rows_of(70, 31))
    race.eng.run()
    race.check(*GOOD)
    assert [name for name in BAD if race.state(name)[0] != "live"] == ["argument"]
    for name in BAD:
        assert race.eng.results(name).num_rows or name == "cast", name


def test_an_expression_that_fails_for_one_of_those_who_share_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Shared expressions are evaluated together; who else has the expression must not suffer."""
    ratio = "10 / min(n) AS r, window.end AS we"
    race = Race(spark, tmp_path)
    race.eng.add_many(
        {
            "all": f"SELECT {ratio} FROM s GROUP BY {W}",
            "some": f"SELECT {ratio} FROM s WHERE n > 0 GROUP BY {W}",
            "kept": f"SELECT {ratio} FROM s GROUP BY {W} HAVING min(n) > 0",
            "asked": f"SELECT window.end AS we, count(*) AS c FROM s WHERE n > 0 GROUP BY {W} HAVING 10 / min(n) > 1",
        }
    )
    race.feed(rows_of(0, 21), [*rows_of(21, 8), row(29, n=0), *rows_of(30, 20)])
    race.eng.run()
    assert {q.name: q.state for q in race.eng.queries()} == {
        "all": "quarantined",
        "some": "live",
        "kept": "live",
        "asked": "live",
    }
    race.check("some", "kept", "asked")


def test_a_row_that_does_not_count_harms_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows and rows a query does not select are not asked the question that fails."""
    race = Race(spark, tmp_path)
    race.eng.add(f"SELECT sum(10 div n) AS t, window.end AS we FROM s GROUP BY {W}", name="late")
    race.eng.add(
        f"SELECT sum(10 div n) AS t, window.end AS we FROM s WHERE n <> 0 GROUP BY {W}",
        name="guarded",
    )
    race.eng.add(
        f"SELECT count(*) AS c, window.end AS we FROM s WHERE n <> 0 AND 10 / n > 2 GROUP BY {W}",
        name="and",
    )
    race.feed(rows_of(0, 20), [row(3, n=0), *rows_of(20, 20)])
    race.eng.run()
    race.check("late", "guarded", "and")
    race.feed([row(41, n=0), *rows_of(42, 20)])
    race.eng.run()
    race.check("guarded", "and")
    assert [race.state(n)[0] for n in ("late", "guarded", "and")] == ["quarantined", "live", "live"]


def test_a_plain_query_that_keeps_too_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    race = Race(spark, tmp_path, config=Config.of(plain_rows_max=35))
    race.eng.add_many(GOOD)
    race.eng.add("SELECT count(DISTINCT k) AS c FROM s", name="all_rows")
    race.eng.add("SELECT k FROM s WHERE n > 3", name="each")
    race.feed(rows_of(0, 20))
    race.eng.run()
    assert race.eng.read("all_rows").to_pylist() == [{"c": 3}]
    race.feed(rows_of(20, 20))
    race.eng.run()
    state, reason = race.state("all_rows")
    assert state == "quarantined"
    assert "40 rows" in reason and "plain_rows_max is 35" in reason
    race.feed(rows_of(40, 20))
    race.eng.run()
    # as of its last round, as long as it is not dropped
    present = race.folder / "race/streams/s/present"
    assert race.eng.read("all_rows").to_pylist() == [{"c": 3}]
    assert len(list(present.iterdir())) == 1
    race.eng.drop("all_rows")
    race.feed(rows_of(60, 20))
    race.eng.run()
    assert not list(present.iterdir())
    assert race.state("shared") == ("live", "")
    assert race.state("each")[0] == "live"
    race.check("shared", "shared_where")


def test_rows_a_plain_query_let_go_do_not_count_against_the_limit(
    spark: SparkSession, tmp_path: Path
) -> None:
    race = Race(spark, tmp_path, config=Config.of(plain_rows_max=45))
    race.eng.add(GOOD["plain_window"], name="plain_window")
    race.feed(*(rows_of(20 * i, 20) for i in range(5)))
    race.eng.run()
    assert race.state("plain_window")[0] == "live", race.state("plain_window")
    race.check("plain_window")


def test_windows_that_need_too_much_memory(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever brings them does not stop the others."""
    race = Race(spark, tmp_path, config=Config.of(ring_bytes_max=100_000))
    race.eng.add_many({name: GOOD[name] for name in ("shared", "shared_where")})
    race.feed(rows_of(0, 20))
    race.eng.run()
    race.eng.add(
        "SELECT k, n, sum(x) AS t FROM s GROUP BY k, n, window(ts, '1 hour', '1 second')",
        name="wide",
    )
    race.feed(rows_of(20, 20), rows_of(40, 20))
    race.eng.run()
    state, reason = race.state("wide")
    assert state == "quarantined" and race.eng.results("wide").num_rows == 0
    assert all(
        word in reason
        for word in ("RING_BYTES", "3,600 panes", "ring_bytes_max = 100,000", "raise the limit")
    )
    race.check("shared", "shared_where")


def test_windows_that_grow_out_of_their_memory(spark: SparkSession, tmp_path: Path) -> None:
    """The dearest ring goes, when groups have become too many for all."""
    race = Race(spark, tmp_path, config=Config.of(ring_bytes_max=400_000))
    race.eng.add(
        "SELECT big, sum(x) AS t FROM s GROUP BY big, window(ts, '100 seconds', '1 second')",
        name="growing",
    )
    race.eng.add(GOOD["shared"], name="shared")
    race.feed(*(rows_of(40 * i, 40) for i in range(12)))
    race.feed(
        [row(480 + i / 100, big=1_000 + i) for i in range(400)],
        *(rows_of(490 + 5 * i, 5) for i in range(8)),
    )
    race.eng.run()
    state, reason = race.state("growing")
    assert state == "quarantined" and "RING_BYTES" in reason
    assert race.eng.results("growing").num_rows
    race.check("shared")


@pytest.mark.parametrize(
    ("dear", "word"),
    [
        (f"SELECT big, count(*) AS c FROM s GROUP BY big, {W}", "50 values of a key"),
        (
            f"SELECT big % 1000 AS b, count(*) AS c FROM s GROUP BY big % 1000, {W}",
            "values of a key",
        ),
        (
            "SELECT count(*) AS c FROM s GROUP BY window(ts, '1 second', '1 millisecond')",
            "panes of 1,000 µs",
        ),
    ],
)
def test_too_many_groups(spark: SparkSession, tmp_path: Path, dear: str, word: str) -> None:
    """The queries with the key that has them, or with the finest panes, do not stop the others."""
    race = Race(spark, tmp_path, config=Config.of(cut_rows_max=40))
    race.eng.add_many({name: GOOD[name] for name in ("shared", "shared_where")})
    race.eng.add(dear, name="dear")
    race.feed(rows_of(0, 50, 0.2), rows_of(10, 50, 0.2))
    race.eng.run()
    state, reason = race.state("dear")
    assert state == "quarantined" and word in reason and "cut_rows_max = 40" in reason
    assert race.eng.results("dear").num_rows == 0
    race.check("shared", "shared_where")


def test_keys_that_have_nothing_to_do_with_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """3 × 7 groups together are too many, 3 + 7 are not: nobody is to blame."""
    race = Race(spark, tmp_path, config=Config.of(cut_rows_max=15))
    race.eng.add(GOOD["shared"], name="by_k")
    race.eng.add(f"SELECT n, count(*) AS c, window.end AS we FROM s GROUP BY n, {W}", name="by_n")
    race.feed(rows_of(0, 50, 0.2), rows_of(10, 50, 0.2))
    race.eng.run()
    assert [race.state(name)[0] for name in ("by_k", "by_n")] == ["live", "live"]
    assert "2 groupings" in race.eng.explain()
    race.check("by_k", "by_n")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("java.io.IOException: No space left on device", "DISK_FULL"),
        ("Job 7 cancelled part of cancelled job group", "ROUND_FAILED"),
    ],
)
def test_what_is_not_the_querys_fault(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, code: str
) -> None:
    """A full disk or a stop in the middle of a plain query's job: the round is repeated, nobody is
    taken out."""
    race = Race(spark, tmp_path)
    race.eng.add_many(GOOD)
    race.feed(rows_of(0, 20))

    def fail(writer: object, path: str) -> None:
        raise PySparkException(message)

    with monkeypatch.context() as patched:
        patched.setattr("pyspark.sql.classic.dataframe.DataFrameWriter.parquet", fail)
        with pytest.raises(HeadraceError) as found:
            race.eng.run()
        said(found.value, code)
    assert {race.state(name)[0] for name in GOOD} == {"live"}
    race.eng.run()
    race.check(*GOOD)


def test_a_plain_query_that_spark_does_not_take(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should our own check of the SQL ever be wrong, it is that query that goes."""
    race = Race(spark, tmp_path)
    race.eng.add_many({**GOOD, "odd": "SELECT k FROM s"})

    def emit(query: Query, relation: Relation, view: str) -> str:
        return (
            f"SELECT nope FROM {view}" if query.name == "odd" else emit_query(query, relation, view)
        )

    monkeypatch.setattr("headrace.families.plain.job.emit_query", emit)
    race.feed(rows_of(0, 21))
    race.eng.run()
    race.check(*GOOD)
    assert race.state("odd")[0] == "quarantined"
    assert "UNRESOLVED_COLUMN" in race.state("odd")[1]
