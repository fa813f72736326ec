"""Random joins and filters over values at the edges of their types: the answers are Spark's to the
user's own text.

Rows that a join cannot place (NaN, infinities and whole numbers beyond ±2⁶² in what it subtracts or
has a range on) are dead letters, as docs/joins.md says: Spark is asked without them.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession

import headrace
from headrace.catalog.catalog import Registered
from headrace.families.joins.plan import BAND, share
from headrace.runtime.answers import CHANGE
from headrace.sql.emit import emit
from headrace.sql.tree import Expr
from tests.odd_values import DRAWS, doubles, draw_column, exact_rows, floats
from tests.streams import EPOCH_US, INTERPRETED, NOT_AHEAD, write_file

DDL = ", ".join(f"{name} {kind}" for name, (kind, _, _) in DRAWS.items()) + ", ts TIMESTAMP"
CONSTANTS = {
    "t": ["0", "-1", "127Y", "-128Y", "3"],
    "s": ["0", "32767S", "-32768S", "2"],
    "i": ["0", "2147483647", "-2147483648", "-3"],
    "n": ["0", "9223372036854775807", "-9223372036854775808", "4", "-4611686018427387904"],
    "d": [
        "0D",
        "-0D",
        "1.5D",
        "CAST('NaN' AS DOUBLE)",
        "CAST('Infinity' AS DOUBLE)",
        "CAST('-Infinity' AS DOUBLE)",
        "4.9E-324D",
        "1.7976931348623157E308D",
    ],
    "f": [
        "0F",
        "-0F",
        "1.5F",
        "CAST('NaN' AS FLOAT)",
        "CAST('-Infinity' AS FLOAT)",
        "1E38F",
        "0.1D",
    ],
    "m": [
        "0.0",
        "2.5",
        "-1.0000000001",
        "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999",
    ],
    "k": ["''", "'a'", "'😀'", "'ab'", "'\\u00e9'", "'%'"],
    "day": ["DATE '1970-01-01'", "DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '2022-01-10'"],
    "at": [
        "TIMESTAMP '1970-01-01 00:00:00'",
        "TIMESTAMP '0001-01-01 00:00:00'",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
        "TIMESTAMP '2023-11-14 22:13:25'",
    ],
}
KEY = ("i", "k")
REFUSED = ("EMPTY_RANGE", "ZEROS_TOLD_APART")
OPS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
OUTPUTS = ("{}", "{}", "CAST({} AS STRING)", "{} IS NULL", "coalesce({}, {})")
DIFFERENCES = (
    "{1}.n - {0}.n",
    "{1}.d - {0}.d",
    "CAST({1}.i AS BIGINT) - CAST({0}.i AS BIGINT)",
    "abs({1}.d - {0}.d)",
    "datediff({1}.day, {0}.day)",
)
WHOLE = re.compile(r"\b([rs]\.n) - ([rs]\.n)\b")


def condition(r: Random, side: str) -> str:
    """Of the columns of one relation."""
    name = r.choice(list(CONSTANTS))
    column, constant = f"{side}{name}", r.choice(CONSTANTS[name])
    match r.randrange(8):
        case 0:
            return f"{column} BETWEEN {constant} AND {r.choice(CONSTANTS[name])} OR {side}b"
        case 1:
            return f"{column} IN ({constant}, {r.choice(CONSTANTS[name])})"
        case 2:
            return f"{column} IS {r.choice(['', 'NOT '])}NULL"
        case 3:
            text = r.choice(["-0.0", "0.0", "NaN"])
            return f"CAST({side}{r.choice('df')} AS STRING) {r.choice(['=', '<>'])} '{text}'"
        case 4:
            return f"NOT ({column} {r.choice(OPS)} {constant})"
        case _:
            return f"{column} {r.choice(OPS)} {constant}"


def outputs(r: Random, sides: tuple[str, ...]) -> str:
    shown = []
    for i in range(r.randint(1, 4)):
        column = f"{r.choice(sides)}{r.choice(list(DRAWS))}"
        shown.append(f"{r.choice(OUTPUTS).format(column, column)} AS c{i}")
    return ", ".join(shown)


def draw_filter(r: Random) -> str:
    parts = [f"({condition(r, '')})" for _ in range(r.choice([1, 1, 2, 3]))]
    where = parts[0][1:-1] if len(parts) == 1 else r.choice([" AND ", " OR "]).join(parts)
    return f"SELECT {outputs(r, ('',))} FROM r WHERE {where}"


def draw_join(r: Random) -> str:
    parts = [_meeting(r)] + [
        f"({condition(r, r.choice(('r.', 's.')))})" for _ in range(r.choice([0, 1, 1, 2]))
    ]
    return f"SELECT {outputs(r, ('r.', 's.'))} FROM r JOIN s ON {' AND '.join(parts)}"


def _meeting(r: Random) -> str:
    match r.randrange(3):
        case 0:
            names = r.sample(list(DRAWS), r.choice([1, 1, 2]))
            return " AND ".join(f"r.{name} = s.{name}" for name in names)
        case 1:
            low, apart = (
                r.randint(-5, 3),
                r.choice(DIFFERENCES).format(*r.choice([("r", "s"), ("s", "r")])),
            )
            return f"{apart} BETWEEN {low} AND {low + r.randint(0, 6)}"
        case _:
            name = r.choice(["d", "n", "t", "day", "at", "f", "m"])
            return f"r.{name} {r.choice(OPS[2:6])} s.{name} AND r.k = s.k"


def rows_of(r: Random, count: int) -> pa.Table:
    columns = {name: draw_column(name, r, count) for name in DRAWS}
    times = pa.array([EPOCH_US + r.randrange(10_000_000) for _ in range(count)], pa.int64())
    return pa.table(columns).append_column("ts", times.cast(pa.timestamp("us", "UTC")))


class Both:
    """A stream and another, or a table, in one engine, and Spark on the same rows."""

    def __init__(self, spark: SparkSession, folder: Path, has_table: bool) -> None:
        self.folder, self.has_table = folder, has_table
        self.rows: dict[str, list[pa.Table]] = {"r": [], "s": []}
        self.spark = spark.newSession()
        settings = {"spark.sql.ansi.enabled": "true", **NOT_AHEAD, **INTERPRETED}
        for setting, value in settings.items():
            self.spark.conf.set(setting, value)
        self.eng = headrace.Engine(folder / "race", spark=spark)
        for name in "rs":
            (folder / name).mkdir()
            source = f"parquet:{folder / name}?maxFilesPerTrigger=1"
            if has_table and name == "s":
                self.eng.create_table(name, source, schema=DDL, key=", ".join(KEY))
            else:
                self.eng.create_stream(name, source, schema=DDL, time="ts", late="1 day")

    def feed(self, r: Random) -> None:
        for name, files in self.rows.items():
            for _ in range(r.randint(1, 3)):
                rows = rows_of(r, r.choice([1, 8, 25]))
                write_file(self.folder / name, len(files), rows)
                files.append(rows)
        self.eng.run()

    def there(self, name: str) -> pa.Table:
        """All rows of a stream, the last one of each key of a table."""
        rows = pa.concat_tables(self.rows[name])
        if name == "r" or not self.has_table:
            return rows
        keys = zip(*(rows.column(k).to_pylist() for k in KEY), strict=True)
        return rows.take(sorted({key: place for place, key in enumerate(keys)}.values()))

    def check(self, name: str) -> None:
        own = self.eng.catalog.query(name)
        theirs = Counter(exact_rows(self.theirs(own)))
        ours = net(self.eng.results(name))
        assert ours == theirs, (
            f"{own.query.sql}\nours only:  {ours - theirs}\nspark only: {theirs - ours}\n{self.eng.explain(name)}"
        )

    def theirs(self, own: Registered) -> pa.Table:
        for side, name in enumerate("rs"):
            frame = self.spark.createDataFrame(self.there(name), DDL)
            self._placed(frame, own, side).createOrReplaceTempView(name)
        try:
            return self.spark.sql(own.query.sql).toArrow()
        except ArithmeticException:
            # its optimizer puts a constant in place of a column, and subtracts what no row holds;
            # ours are exact
            exact = WHOLE.sub(r"CAST(\1 AS DECIMAL(20)) - CAST(\2 AS DECIMAL(20))", own.query.sql)
            return self.spark.sql(exact).toArrow()

    def _placed(self, frame: DataFrame, own: Registered, side: int) -> DataFrame:
        """Without the rows of a side that the join cannot place."""
        if own.query.joined is None:
            return frame
        shape = share(
            own.query, self.eng.catalog.relation("r"), self.eng.catalog.relation("s")
        ).shape
        placed = (
            shape.meets[side]
            if shape.kind == BAND
            else tuple(e for e in (shape.ranged[side],) if e is not None)
        )
        for expr in placed:
            frame = frame.where(f"({_is_placed(expr, shape.kind == BAND)}) IS NOT FALSE")
        return frame


def net(answers: pa.Table) -> Counter[tuple[Any, ...]]:
    """What is left of answers that come and are taken back."""
    if CHANGE not in answers.column_names:
        return Counter(exact_rows(answers))
    left: Counter[tuple[Any, ...]] = Counter()
    changes = answers.column(CHANGE).to_pylist()
    for row, change in zip(exact_rows(answers.drop_columns([CHANGE])), changes, strict=True):
        left[row] += change
    assert all(count >= 0 for count in left.values())
    return +left


def _is_placed(expr: Expr, is_subtracted: bool) -> str:
    text = emit(expr)
    if expr.type.is_fractional:
        return f"abs({text}) < double('Infinity')"
    if is_subtracted and expr.type.is_integral:
        return f"CAST({text} AS BIGINT) BETWEEN {-(2**62)} AND {2**62}"
    return "TRUE"


def check_seed(
    spark: SparkSession,
    seed: int,
    queries: int,
    draws: Sequence[Callable[[Random], str]] = (draw_filter, draw_join),
) -> int:
    """How many queries were right."""
    r = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        both = Both(spark, Path(folder), r.random() < 0.4)
        texts: list[str] = []
        while len(texts) < queries:
            sql = r.choice(draws)(r)
            try:
                texts.append(both.eng.add(sql))
            except headrace.HeadraceError as error:
                assert error.code in REFUSED, f"{sql}\n{error}"
        both.feed(r)
        for name in texts:
            both.check(name)
        quarantined = [q.reason for q in both.eng.queries() if q.state != "live"]
        assert not quarantined, quarantined
    return len(texts)


SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=3, deadline=None, phases=[Phase.generate])
LONG = settings(max_examples=30, deadline=None, phases=[Phase.generate])


@pytest.mark.filterwarnings("ignore:every row")
@QUICK
@given(seed=SEEDS)
def test_joins_and_filters_of_odd_values_are_sparks(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed, 12)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore:every row")
@LONG
@given(seed=SEEDS)
def test_joins_and_filters_of_odd_values_are_sparks_long(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed, 40)


def test_no_row_is_skipped_by_statistics(spark: SparkSession, tmp_path: Path) -> None:
    """Statistics of Parquet, and of rows Spark keeps in memory for several readers, leave NaN
    out."""
    filters = {
        "above": "SELECT i FROM r WHERE NOT (f <= 1E38F)",
        "nan": "SELECT i FROM r WHERE d = CAST('NaN' AS DOUBLE) AND CAST(d AS STRING) = 'NaN'",
        "zero": "SELECT i FROM r WHERE d <=> -0D AND CAST(f AS STRING) = '0.0'",
    }
    for has_neighbour in (False, True):
        folder = tmp_path / str(has_neighbour)
        folder.mkdir()
        both = Both(spark, folder, has_table=False)
        both.eng.add_many(filters)
        if has_neighbour:
            both.eng.add("SELECT i FROM r WHERE i > 3", name="neighbour")
        blank = rows_of(Random(0), 4)
        d, f = doubles([0.0, 0x7FF8000000000001, 1.0, None]), floats([0.0, 0x7FC00001, 1.0, None])
        arrays = {"d": d, "f": f, "i": pa.array([1, 2, 3, 4], pa.int32())}
        rows = pa.table({n: arrays.get(n, blank.column(n)) for n in blank.column_names})
        write_file(folder / "r", 0, rows)
        both.rows["r"].append(rows)
        both.rows["s"].append(rows.slice(0, 0))
        both.eng.run()
        for name in filters:
            both.check(name)
            assert both.eng.results(name).num_rows == 1
