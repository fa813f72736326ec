"""Parameters of sketches have limits, named when a query is added; what sketches take is known
before they run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.config import Config
from headrace.errors import HeadraceError, RoundError
from headrace.families.windows import driver_work
from tests.engine.race import DDL, Race, row, rows_of, said
from tests.engine.test_sketches import asked

REFUSED = [
    (
        "approx_count_distinct(k, 0.0001)",
        "sketch_registers_max = 65,536",
        "134,217,728 registers",
        "0.00433",
    ),
    ("approx_count_distinct(n, 1e-300D)", "sketch_registers_max = 65,536", "registers", "0.00433"),
    (
        "approx_count_distinct(x, 0.004) FILTER (WHERE n > 1)",
        "sketch_registers_max = 65,536",
        "131,072",
        "0.00433",
    ),
    (
        "percentile_approx(x, 0.5, 1000001)",
        "sketch_accuracy_max = 1,000,000",
        "1000001",
        "percentile",
    ),
    (
        "approx_percentile(n, 0.5, 2147483647)",
        "sketch_accuracy_max = 1,000,000",
        "2147483647",
        "percentile",
    ),
]


@pytest.fixture
def eng(tmp_path: Path) -> headrace.Engine:
    eng = headrace.Engine(tmp_path / "race")
    eng.create_stream("s", f"parquet:{tmp_path}/src", schema=DDL, time="ts")
    return eng


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, {} AS v FROM s GROUP BY k, window(ts, '10 seconds')",
        "SELECT {} AS v, max_by(k, n) AS other FROM s GROUP BY window(ts, '10 seconds')",
    ],
    ids=["shared", "plain"],
)
@pytest.mark.parametrize("case", REFUSED, ids=[c[0] for c in REFUSED])
def test_parameters_above_a_limit_are_refused(
    eng: headrace.Engine, case: tuple[str, ...], text: str
) -> None:
    """Wherever the query would run: Spark alone would take gigabytes for two rows."""
    with pytest.raises(HeadraceError) as found:
        eng.add(text.format(case[0]))
    said(found.value, *case[1:])
    assert not eng.queries()


def test_the_limits_are_settings(tmp_path: Path) -> None:
    config = Config.of(sketch_registers_max=512, sketch_accuracy_max=50)
    eng = headrace.Engine(tmp_path / "race", config=config)
    eng.create_stream("s", f"parquet:{tmp_path}/src", schema=DDL, time="ts")
    eng.add(
        asked("approx_count_distinct(n) AS v, percentile_approx(n, 0.5, 50) AS p", "'10 seconds'")
    )
    for what, limit in (
        ("approx_count_distinct(n, 0.04)", "sketch_registers_max = 512"),
        ("percentile_approx(n, 0.5, 51)", "sketch_accuracy_max = 50"),
        ("percentile_approx(n, 0.5)", "sketch_accuracy_max = 50"),
    ):
        with pytest.raises(HeadraceError) as found:
            eng.add(asked(f"{what} AS v", "'10 seconds'"))
        said(found.value, limit)


def test_what_registers_take_is_known_before_they_run(eng: headrace.Engine) -> None:
    """EXPLAIN says it; more than the limit for one group alone is refused, whatever the rows will
    be."""
    eng.add(asked("approx_count_distinct(n, 0.01) AS v", "'10 minutes', '1 second'"), name="fine")
    eng.add(asked("approx_count_distinct(n) AS v, median(x) AS m", "'10 seconds'"), name="coarse")
    assert "at most 19,824,640 bytes a group" in eng.explain("fine")
    assert "at most 1,024 bytes a group" in eng.explain("coarse")
    assert "16 bytes a value" in eng.explain("coarse")
    with pytest.raises(HeadraceError) as found:
        eng.add(asked("approx_count_distinct(n, 0.01) AS v", "'20 hours', '1 second'"))
    said(found.value, "sketch_bytes_max = 1,073,741,824", "a larger error")
    assert {q.name for q in eng.queries()} == {"fine", "coarse"}


def test_registers_of_a_round_are_weighed_before_they_are_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two hundred groups of one row each, 16 KiB of registers a group; its neighbour goes on."""
    race = Race(spark, tmp_path, config=Config.of(sketch_bytes_max=2_000_000))
    race.eng.add_many(
        {
            "many": asked("approx_count_distinct(n, 0.01) AS v", "'10 seconds'", "big"),
            "few": asked("approx_count_distinct(n, 0.01) AS v", "'10 seconds'", ""),
        }
    )
    race.feed([row(i / 50, n=i, big=i) for i in range(200)], [row(40)])
    race.eng.run()
    state, reason = race.state("many")
    assert (
        state == "quarantined"
        and "SKETCH_BYTES" in reason
        and "sketch_bytes_max = 2,000,000" in reason
    )
    assert "3,276,800" in reason, "what they would have taken"
    race.check("few")


def test_a_spark_without_tables_costs_only_who_needs_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(*_: object) -> None:
        raise RoundError("this Spark does not show the tables of its approx_count_distinct")

    monkeypatch.setattr(driver_work, "hll_tables", hidden)
    race = Race(spark, tmp_path)
    window = "window.end AS we FROM s GROUP BY window(ts, '10 seconds')"
    race.eng.add(f"SELECT approx_count_distinct(k) AS c, {window}", name="registers")
    race.eng.add(f"SELECT count(*) AS c, {window}", name="rows")
    race.feed(rows_of(0, 25))
    race.eng.run()
    race.check("rows")
    assert race.state("rows")[0] == "live"
    state, reason = race.state("registers")
    assert state == "quarantined" and "tables" in reason
