"""Benchmark `accuracy`: sums over 10⁹ synthetic rows against exact arithmetic.

Every value is a function of its row number, and a multiple of 2⁻⁵²: so the exact sums are whole
numbers, added up by Spark as BIGINT parts that cannot overflow and joined as Python fractions.
Three columns:

* `mixed`: 53 random bits × 2⁰ … 2³⁶, three of four positive;
* `hard`: large numbers (2⁴⁰) that cancel in pairs, each with a number below 1 added: what is left
  is 10⁻¹² of Σ|x|; one task of Spark sees the positive ones, the other the negative ones;
* `level`: 28 random bits, for means and deviations.

Windows of three ranges, the longest with all rows in it, grouped and not.  The relative error is
against the exact value; for `hard` the condition Σ|x| / |Σx| says what plain doubles can give at
best: errors of 10⁻¹⁶ and more of Σ|x|. `hard_split` is the same sum as a query can ask for it where
that matters: adding and subtracting 1.5·2⁶² rounds a number to a multiple of 2¹⁰; those add up
exactly below 2⁶³, and what is left of each number is small.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from headrace.bench.report import Figure, Report, machine
from headrace.bench.windows import Tell, wait_for_rounds
from headrace.config import Config
from headrace.engine import Engine
from headrace.runtime.session import make_session
from headrace.values import US_PER_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ERROR_MAX = 1e-9
COST_ROWS, COST_TRIES = 5_000_000, 5
GROUPS = 4
PANES = 100
PANE_S = 10
WINDOWS = ((1, 1), (10, 2), (PANES, PANES))  # range and slide in panes
ROUNDS = 20
START_S = 1_700_000_000  # a multiple of every range
UNIT = Fraction(1, 1 << 52)
LEVEL_UNIT = Fraction(1, 1 << 12)
HALF_WORD, LOW = 26, (1 << 26) - 1
BIG = repr(1.5 * 2.0**62)
WHOLE = f"((hard + {BIG}) - {BIG})"
VALUES = (
    "sum(mixed) AS mixed_sum, avg(mixed) AS mixed_avg, sum(hard) AS hard_sum, "
    f"sum({WHOLE}) + sum(hard - {WHOLE}) AS hard_split, avg(level) AS level_avg, stddev_pop(level) AS level_dev"
)
FIGURES = ("mixed_sum", "mixed_avg", "level_avg", "level_dev", "hard_split", "hard_sum")


@dataclass(frozen=True, slots=True)
class Size:
    """So many rows in so many rounds; all of them fall into PANES panes."""

    rows: int
    rounds: int = ROUNDS

    @property
    def rows_per_pane(self) -> int:
        return self.rows // PANES


FULL, QUICK = Size(1_000_000_000), Size(10_000_000, 5)


def run(quick: bool, tell: Tell) -> Report:
    size = QUICK if quick else FULL
    spark = make_session(Config.from_environment())
    try:
        with tempfile.TemporaryDirectory(
            prefix="headrace-bench-", ignore_cleanup_errors=True
        ) as made:
            tell(f"{size.rows:,} rows through the engine")
            began = perf_counter()
            answers = answered(spark, Path(made), size)
            engine_s = perf_counter() - began
            tell("the same rows in exact arithmetic")
            began = perf_counter()
            exact = exact_panes(spark, size)
            exact_s = perf_counter() - began
            plain_s, split_s = sum_seconds(spark, size)
    finally:
        spark.stop()
    figures = [
        *figures_of(worst_errors(answers, exact)),
        Figure("engine_s", engine_s, "s"),
        Figure("exact_s", exact_s, "s", note="the check, in Spark"),
        Figure("rows_per_s", size.rows / engine_s, "rows/s"),
        Figure(
            "split_time",
            split_s / plain_s,
            "×",
            note="Spark's time for hard_split against hard_sum, alone",
        ),
    ]
    title = f"{size.rows:,} rows, {len(answers):,} answers"
    return Report(title, tuple(figures), None, machine(size.rounds, 0) | {"rows": str(size.rows)})


# -- rows ------------------------------------------------------------------------------------------


def rows_of(frame: DataFrame, size: Size) -> DataFrame:
    """`value` numbers the rows; what else there is follows from it."""
    pane_us = PANE_S * US_PER_S
    hashed = frame.selectExpr(
        "value", "xxhash64(value) AS a", "xxhash64(value, 1) AS b", "xxhash64(value div 2) AS c"
    )
    tiny = f"{float(UNIT)!r}"
    return hashed.selectExpr(
        f"timestamp_micros({START_S * US_PER_S}L + value * {pane_us}L div {size.rows_per_pane}L) AS ts",
        f"CAST(pmod(b, {GROUPS}) AS INT) AS g",
        "CAST(shiftrightunsigned(a, 11) AS DOUBLE) * CAST(shiftleft(1L, CAST(pmod(shiftright(b, 8), 37) AS INT)) "
        f"AS DOUBLE) * {tiny} * IF(b & 192 = 0, -1, 1) AS mixed",
        "CAST(IF(value & 1 = 0, 1, -1) * ((c & 1099511627775) | 549755813888) AS DOUBLE) "
        f"+ CAST(shiftrightunsigned(a, 12) AS DOUBLE) * {tiny} AS hard",
        "CAST(shiftrightunsigned(a, 36) AS DOUBLE) / 4096 AS level",
    )


# -- ours ------------------------------------------------------------------------------------------


Key = tuple[int, int, int | None]
"""First pane, panes, group."""


def answered(spark: SparkSession, folder: Path, size: Size) -> dict[Key, Mapping[str, float]]:
    """What the engine answers, by window and group."""
    source = spark.readStream.format("rate-micro-batch").option(
        "rowsPerBatch", size.rows // size.rounds
    )
    frame = rows_of(source.option("numPartitions", 2).load(), size)
    with Engine(folder / "race", spark=spark) as engine:
        engine.create_stream("numbers", frame, time="ts")
        engine.add_many({_name(w, by): _sql(w, by) for w in WINDOWS for by in (True, False)})
        engine.start()
        # the row after the last closes the last window
        wait_for_rounds(engine, size.rounds + 1, "numbers")
        engine.stop()
        return {
            key: row for w in WINDOWS for by in (True, False) for key, row in _read(engine, w, by)
        }


def _name(window: tuple[int, int], by_group: bool) -> str:
    return f"w{window[0]}{'_by_g' if by_group else ''}"


def _sql(window: tuple[int, int], by_group: bool) -> str:
    keys = "g, " if by_group else ""
    spans = ", ".join(f"'{n * PANE_S} seconds'" for n in window)
    return f"SELECT {keys}{VALUES} FROM numbers GROUP BY {keys}window(ts, {spans})"


def _read(
    engine: Engine, window: tuple[int, int], by_group: bool
) -> Iterator[tuple[Key, Mapping[str, float]]]:
    for row in engine.results(_name(window, by_group)).to_pylist():
        first = round(row["window_start"].timestamp() - START_S) // PANE_S
        # no window that began before the first row, or after the last
        if 0 <= first <= PANES - window[0]:
            yield (first, window[0], row["g"] if by_group else None), row


# -- exact -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact totals of some rows."""

    rows: int = 0
    mixed: Fraction = Fraction(0)
    hard: Fraction = Fraction(0)
    hard_size: float = 0.0
    level: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)

    def __add__(self, other: Exact) -> Exact:
        return Exact(
            self.rows + other.rows,
            self.mixed + other.mixed,
            self.hard + other.hard,
            self.hard_size + other.hard_size,
            self.level + other.level,
            self.squares + other.squares,
        )

    def value(self, name: str) -> Fraction | float:
        """What the column of the answer should be."""
        match name:
            case "mixed_sum":
                return self.mixed
            case "mixed_avg":
                return self.mixed / self.rows
            case "hard_sum" | "hard_split":
                return self.hard
            case "level_avg":
                return self.level / self.rows
            case _:
                return sqrt(self.squares / self.rows - (self.level / self.rows) ** 2)


def exact_panes(spark: SparkSession, size: Size) -> dict[tuple[int, int], Exact]:
    """By pane and group, each value as whole part, and its 52 bits behind the point as two
    halves."""
    rows = rows_of(spark.range(0, size.rows, 1, 4).withColumnRenamed("id", "value"), size)
    pane = (
        f"CAST((unix_micros(ts) - {START_S * US_PER_S}L) div {PANE_S * US_PER_S}L AS INT) AS pane"
    )
    bits = [
        f"CAST(({c} - CAST(floor({c}) AS DOUBLE)) * {float(1 << 52)!r} AS BIGINT) AS {c}_bits"
        for c in SUMMED
    ]
    parts = rows.selectExpr(
        pane,
        "g",
        "hard",
        *(f"floor({c}) AS {c}_whole" for c in SUMMED),
        *bits,
        "CAST(level * 4096 AS BIGINT) AS n",
    )
    parts.createOrReplaceTempView("parts")
    sums = ", ".join(f"sum({part}) AS {name}" for name, part in PARTS.items())
    counts = "count(1) AS rows, sum(abs(hard)) AS hard_size"
    found = spark.sql(f"SELECT pane, g, {counts}, {sums} FROM parts GROUP BY pane, g")
    return {(row["pane"], row["g"]): _exact(row) for row in found.toArrow().to_pylist()}


SUMMED = ("mixed", "hard")
PARTS = {
    **{
        f"{c}_{name}": part
        for c in SUMMED
        for name, part in (
            ("whole", f"{c}_whole"),
            ("high", f"shiftright({c}_bits, {HALF_WORD})"),
            ("low", f"{c}_bits & {LOW}L"),
        )
    },
    "n": "n",
    "high_high": "shiftright(n, 14) * shiftright(n, 14)",
    "high_low": "shiftright(n, 14) * (n & 16383)",
    "low_low": "(n & 16383) * (n & 16383)",
}


def _exact(row: Mapping[str, int]) -> Exact:
    total = {
        c: row[f"{c}_whole"] + ((row[f"{c}_high"] << HALF_WORD) + row[f"{c}_low"]) * UNIT
        for c in SUMMED
    }
    squares = (row["high_high"] << 28) + (row["high_low"] << 15) + row["low_low"]
    return Exact(
        row["rows"],
        total["mixed"],
        total["hard"],
        row["hard_size"],
        row["n"] * LEVEL_UNIT,
        squares * LEVEL_UNIT**2,
    )


def sum_seconds(spark: SparkSession, size: Size) -> tuple[float, float]:
    """The time Spark takes for a plain sum and for a split one over some of the rows; the best of a
    few."""
    rows = rows_of(spark.range(0, COST_ROWS, 1, 2).withColumnRenamed("id", "value"), size)
    rows.createOrReplaceTempView("numbers")

    def once(values: str) -> float:
        began = perf_counter()
        spark.sql(f"SELECT g, {values} FROM numbers GROUP BY g").toArrow()
        return perf_counter() - began

    plain, split = "sum(hard)", f"sum({WHOLE}) + sum(hard - {WHOLE})"
    times = [(once(plain), once(split)) for _ in range(COST_TRIES)]
    return min(t for t, _ in times), min(t for _, t in times)


# -- errors ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Errors:
    """The worst of all answers, by column; `condition` and `hard_to_size` are of `hard`."""

    relative: Mapping[str, float]
    hard_to_size: float
    condition: float
    answers: int


def worst_errors(
    answers: Mapping[Key, Mapping[str, float]], exact: Mapping[tuple[int, int], Exact]
) -> Errors:
    relative = dict.fromkeys(FIGURES, 0.0)
    to_size = condition = 0.0
    for (first, panes, group), row in answers.items():
        groups: Sequence[int] = range(GROUPS) if group is None else (group,)
        total = sum(
            (exact[p, g] for p in range(first, first + panes) for g in groups if (p, g) in exact),
            Exact(),
        )
        for name in FIGURES:
            wanted = Fraction(total.value(name))
            relative[name] = max(
                relative[name], float(abs(Fraction(row[name]) - wanted) / abs(wanted))
            )
        off = abs(Fraction(row["hard_sum"]) - total.hard)
        to_size, condition = (
            max(to_size, float(off) / total.hard_size),
            max(condition, total.hard_size / abs(float(total.hard))),
        )
    return Errors(relative, to_size, condition, len(answers))


def figures_of(errors: Errors) -> list[Figure]:
    found = [
        Figure(f"{name}_error", errors.relative[name], "", note=_note(name, errors))
        for name in FIGURES
    ]
    worst = max(e for name, e in errors.relative.items() if name != "hard_sum")
    return [
        *found,
        Figure(
            "hard_sum_error_to_size",
            errors.hard_to_size,
            "",
            note="of a plain double sum, against Σ|x|",
        ),
        Figure("hard_condition", errors.condition, "", note="Σ|x| / |Σx|, the worst"),
        Figure(
            "worst_error", worst, "", note=f"all but hard_sum; want ≤ {ERROR_MAX}: {_held(worst)}"
        ),
        Figure("answers", errors.answers),
    ]


def _note(name: str, errors: Errors) -> str:
    error = errors.relative[name]
    if name == "hard_sum":
        return f"a plain double sum, relative to what is left after cancelling; {ERROR_MAX}: {_held(error)}"
    return f"worst relative error; want ≤ {ERROR_MAX}: {_held(error)}"


def _held(error: float) -> str:
    return "met" if error <= ERROR_MAX else "MISSED"
