"""A query that fails in any way at all, beside a hundred good ones, costs the good ones nothing.

The gate refuses what it can know; here it is got round: a text of a query is emitted as an
expression that Spark fails on, each in its own way and at its own stage (parser, analyzer,
optimizer, code generation, a task)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.evaluation.finish import Finish, compile_finish
from headrace.sql import emit
from headrace.sql.tree import Call, Expr, Literal
from tests.engine.race import Race, rows_of

W = "window(ts, '10 seconds')"
MARK = "fails by "
HOW = {  # a text for Spark, and words of which a person finds one in the reason
    "a pattern": ("string('a' RLIKE '[z-a]')", "PATTERN"),
    "a pattern to replace": ("regexp_replace('a', '[z-a]', '')", "[z-a]"),
    "an unknown function": ("nope(1)", "nope"),
    "an escape": ("string('a' LIKE 'a' ESCAPE '😀')", "INVALID_ESC"),
    "a literal": ("string(1e39F)", "outside the valid range"),
    "an interval": (
        "string(current_timestamp() + INTERVAL 9223372036854775807 MICROSECONDS)",
        "OVERFLOW",
    ),
    "its own words": ("string(raise_error('oh dear'))", "oh dear"),
    "a division": ("string(1 div 0)", "DIVIDE_BY_ZERO"),
    "a cast": ("string(int('x'))", "CAST_INVALID_INPUT"),
    "what seems a stop": ("string(int(concat('cancelled', current_user())))", "CAST_INVALID_INPUT"),
    "what seems a full disk": ("string(raise_error('No space left on device'))", "No space left"),
    "a stack": ("string(repeat('ab', 100000) RLIKE '^(a|b)*$')", "simpler"),
    "memory": ("array_join(array_repeat('x', 2000000000), '')", "MEMORY"),
    "depth": (f"{'upper(' * 20_000}'a'{')' * 20_000}", "simpler|complex"),
}
WHERE: dict[str, Callable[[str], str]] = {
    "predicate": lambda text: (
        f"SELECT count(*) AS c FROM s WHERE concat(k, CAST(n AS STRING)) = {text} GROUP BY {W}"
    ),
    "fact": lambda text: (
        f"SELECT k, count(*) AS c, window.end AS we FROM s WHERE k = {text} GROUP BY k, {W}"
    ),
    "key": lambda text: (
        f"SELECT count(*) AS c, window.end AS we FROM s GROUP BY concat(k, {text}), {W}"
    ),
    "argument": lambda text: (
        f"SELECT max(length(concat(k, {text}))) AS c, window.end AS we FROM s GROUP BY {W}"
    ),
    "sketched": lambda text: (
        f"SELECT count(DISTINCT concat(k, {text})) AS c, window.end AS we FROM s GROUP BY {W}"
    ),
    "plain": lambda text: (
        f"SELECT min(concat(k, {text})) AS c, window.end AS we FROM s GROUP BY {W}"
    ),
    "projection": lambda text: f"SELECT concat(k, {text}) AS c FROM s",
}


def good(count: int) -> dict[str, str]:
    """Of every kind that shares something with a bad one."""
    shapes = [
        "SELECT k, sum(n) AS t, window.end AS we FROM s GROUP BY k, {w}",
        "SELECT avg(x) AS p, window.end AS we FROM s WHERE n * 100 > {i} GROUP BY {w}",
        "SELECT k, max(n) AS t, window.end AS we FROM s WHERE k <> '{i}' GROUP BY k, {w}",
        "SELECT count(DISTINCT k) AS c, window.end AS we FROM s WHERE big < {i} GROUP BY {w}",
    ]
    widths = ["10 seconds", "20 seconds", "30 seconds"]
    return {
        f"good{i}": shapes[i % 4].format(w=f"window(ts, '{widths[i % 3]}')", i=i)
        for i in range(count)
    }


@pytest.fixture
def past_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    literal = emit._literal

    def emitted(found: Literal) -> str:
        text = str(found.value)
        return HOW[text[len(MARK) :]][0] if text.startswith(MARK) else literal(found)

    monkeypatch.setattr(emit, "_literal", emitted)


def answers_of(race: Race, names: list[str]) -> dict[str, pa.Table]:
    return {name: race.eng.results(name) for name in names}


def run(spark: SparkSession, folder: Path, queries: dict[str, str]) -> Race:
    folder.mkdir()
    race = Race(spark, folder)
    race.eng.add_many(queries)
    race.feed(rows_of(0, 25), rows_of(25, 40))
    race.eng.run()
    return race


def check(spark: SparkSession, folder: Path, bad: dict[str, tuple[str, str]], count: int) -> None:
    """`bad`: by name, how and where a query fails."""
    fine = good(count)
    alone = run(spark, folder / "alone", fine)
    texts = {name: WHERE[where](f"'{MARK}{how}'") for name, (how, where) in bad.items()}
    beside = run(spark, folder / "beside", {**fine, **texts})
    for name, (how, where) in bad.items():
        state, reason = beside.state(name)
        assert state == "quarantined", (how, where)
        assert any(word in reason for word in HOW[how][1].split("|")), (how, where, reason)
        assert "\n" not in reason and "\tat " not in reason, (how, where, reason)
    assert {q.name for q in beside.eng.queries() if q.state != "live"} == bad.keys()
    expected, found = answers_of(alone, list(fine)), answers_of(beside, list(fine))
    for name in fine:
        key = [(column, "ascending") for column in expected[name].column_names]
        assert expected[name].num_rows and found[name].sort_by(key).equals(
            expected[name].sort_by(key)
        ), name


@pytest.mark.usefixtures("past_the_gate")
def test_a_query_that_fails_in_any_way_beside_a_hundred_good_ones(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw = Random(seed)
    hows, wheres = draw.sample(sorted(HOW), 3), draw.sample(sorted(WHERE), 3)
    check(
        spark,
        tmp_path,
        {f"bad{i}": pair for i, pair in enumerate(zip(hows, wheres, strict=True))},
        100,
    )


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("past_the_gate")
@pytest.mark.parametrize("where", WHERE)
def test_every_way_to_fail(spark: SparkSession, tmp_path: Path, where: str) -> None:
    check(spark, tmp_path, {f"bad{i}": (how, where) for i, how in enumerate(HOW)}, 12)


def test_what_our_own_evaluation_fails_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only errors we know: whatever an expression over aggregates raises is its queries'
    fault."""

    def compiled(expr: Expr) -> Finish:
        if isinstance(expr, Call) and any(
            isinstance(a, Literal) and str(a.value) == "77" for a in expr.args
        ):
            raise RecursionError("maximum recursion depth exceeded")
        return compile_finish(expr)

    monkeypatch.setattr("headrace.families.windows.rings.answering.compile_finish", compiled)
    fine = good(8)
    race = run(
        spark,
        tmp_path / "one",
        {
            **fine,
            "output": f"SELECT sum(n) + 77 AS t FROM s GROUP BY {W}",
            "having": f"SELECT count(*) AS c FROM s GROUP BY {W} HAVING count(*) > 77",
        },
    )
    for name in ("output", "having"):
        state, reason = race.state(name)
        assert state == "quarantined" and "EVALUATION_FAILED" in reason and "recursion" in reason
    race.check(*fine)


def test_rows_that_say_the_work_was_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """A message quotes the value it fails on: that a row says "cancelled" does not mean that the
    round was."""
    fine = good(8)
    race = run(
        spark,
        tmp_path / "one",
        {
            **fine,
            "shared": f"SELECT count(*) AS c FROM s WHERE CAST(concat('cancelled ', k) AS INT) = 1 GROUP BY {W}",
            "key": f"SELECT count(*) AS c FROM s GROUP BY CAST(concat('No space left on device', k) AS INT), {W}",
            "plain": f"SELECT min(CAST(CAST(concat('interrupted', k) AS INT) AS STRING)) AS c FROM s GROUP BY {W}",
        },
    )
    for name in ("shared", "key", "plain"):
        state, reason = race.state(name)
        assert state == "quarantined" and "CAST_INVALID_INPUT" in reason, (name, reason)
    race.check(*fine)
