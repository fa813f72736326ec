"""Predicates as bands of cells: the algebra against Spark's own evaluation, the fold against a page of Python."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.families.windows.banding import CellOrder, bands_of, fold_bands
from headrace.families.windows.bands import LEAST, MOST, NO_BANDS, Band, double_key, double_of, split
from headrace.families.windows.cells import attribute_sql, cell, declare_sql, drop_sql, lower_edges, rank_sql
from headrace.families.windows.groups import Groups
from headrace.families.windows.ring import Ring
from headrace.sql.bind import bind
from headrace.sql.emit import emit
from headrace.sql.schema import parse_schema
from headrace.sql.tree import Column, Expr
from headrace.values import BIGINT, INT, Relation
from tests.families.windows.test_ring import LAYOUT, Row, Shape, add_rows, check, expected, windows_of

DDL = "x DOUBLE, n INT, big BIGINT, day DATE, at TIMESTAMP, k STRING, f FLOAT, ts TIMESTAMP"
RELATION = Relation("s", "parquet:s", parse_schema(DDL), time="ts")
VALUES: dict[str, list[Any]] = {
    "x": [None, -math.inf, -1e308, -2.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 2.0, 2.5, math.nextafter(2.5, 3), 1e308,
          float(2**53), math.inf, math.nan],
    "n": [None, -(2**31), -7, -1, 0, 1, 2, 3, 100, 101, 2**31 - 1],
    "big": [None, -(2**63), -(2**53) - 1, -1, 0, 1, 100, 2**53, 2**53 + 1, 2**63 - 1],
    "day": [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2020, 2, 29), date(9999, 12, 31)],
    "at": [None, datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
           datetime(2020, 1, 1, 10, 0, 0, 1, UTC), datetime(2020, 1, 1, 10, tzinfo=UTC)],
}  # fmt: skip
TYPES = {"x": pa.float64(), "n": pa.int32(), "big": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us", "UTC")}
PREDICATES = [
    "x > 2.5", "x >= 2.5", "x < 2.5D", "x <= 2", "x = 0", "x <> 0", "x = -0.0D", "x > 1e308", "x < -1e308",
    "x IN (0, 2.5, 7)", "x NOT IN (0.1, 2)", "NOT x > 2", "x > 1 AND x <= 2.5", "x < 0 OR x > 2", "x BETWEEN -1 AND 1",
    "NOT (x BETWEEN -1 AND 1)", "x IS NOT NULL AND x < 9007199254740993", "x > 5 AND x < 3 OR x = 2",
    "x * 2 > 3", "x > 0.1",
    "n > 1", "n > 1.5", "n >= 1.5", "n < 1.5D", "n = 2", "n IN (1, 2, 2147483648)",
    "n > -2147483648", "n <= 2147483647", "n < 3000000000", "n > 1e10", "n % 3 = 1", "n + 0.5D > 2",
    "big > 9007199254740992", "big < 0.5",
    "big < 9223372036854775807 AND big > -1", "big = 100.0",
    "day > DATE '1970-01-01'", "day <= '2020-02-29'", "day <> DATE '1969-12-31'", "day IN ('1970-01-01')",
    "at > '2020-01-01 10:00:00'", "at <= TIMESTAMP '1969-12-31 23:59:59.999999'", "at = '2020-01-01 10:00:00.000001'",
    "length(cast(n AS STRING)) > 1", "year(day) < 2000",
]  # fmt: skip
UNFIT = [
    "k = 'a'", "k > 'b'", "f > 1", "f > 1.5", "x IS NULL", "x > 1 OR x IS NULL", "x IS NOT NULL", "x > n", "x > NULL",
    "10 / n > 1", "n <> 0 AND 10 / n > 1", "x > 1 OR n > 1", "big > 1e300", "x <=> 1", "at > DATE '2020-01-01'",
    "n = 1.5", "n <> 1.5", "big > 9223372036854775807", "1 < 2",
    "n > 5 AND n < 3", "big >= -9223372036854775808", "CASE WHEN x > 1 THEN true END", "day > TIMESTAMP '2020-01-01'",
]  # fmt: skip


def where_of(text: str) -> Expr:
    sql = f"SELECT count(*) FROM s WHERE {text} GROUP BY window(ts, '1 minute')"
    where = bind(sql, {"s": RELATION}, name="q").where
    assert where is not None
    return where


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    for name, values in VALUES.items():
        table = pa.table({name: pa.array(values, TYPES[name])})
        session.createDataFrame(table).createOrReplaceTempView(f"v_{name}")
    return session


def column_in(where: Expr) -> str:
    (name,) = [n for n in VALUES if f"`{n}`" in emit(where)]
    return name


def test_bands_are_what_spark_selects(frames: SparkSession) -> None:
    """Every predicate at every value: Spark's verdict, and whether the value's cell lies in the band."""
    edges: dict[Expr, set[int]] = {}
    band_of: dict[str, tuple[Expr, Band]] = {}
    for text in PREDICATES:
        found = split(where_of(text))
        ((attribute, band),) = found.bands
        assert found.rest([attribute]) is None
        band_of[text] = (attribute, band)
        edges.setdefault(attribute, set()).update(band.edges())
    for attribute, own in edges.items():
        keys = tuple(sorted(own))
        key = cell(attribute)
        name = column_in(attribute)
        mine = {text: band for text, (its, band) in band_of.items() if its == attribute}
        frames.sql(declare_sql(key, keys))
        verdicts = ", ".join(f"coalesce({emit(where_of(text))}, false) AS p{i}" for i, text in enumerate(mine))
        rank = rank_sql(key, keys, "v")
        placed = frames.sql(f"SELECT {rank} AS r, * FROM (SELECT {attribute_sql(key)} AS v, {verdicts} FROM v_{name})")
        table = placed.toArrow()
        frames.sql(drop_sql(key, keys))
        cells = lower_edges(keys, table.column("r").combine_chunks()).to_pylist()
        for i, (text, band) in enumerate(mine.items()):
            got = [c is not None and c in band for c in cells]
            assert got == table.column(f"p{i}").to_pylist(), text


@pytest.mark.parametrize("text", UNFIT)
def test_what_is_no_band_is_left_alone(text: str) -> None:
    assert split(where_of(text)).bands == ()


def test_a_conjunction_is_split_by_attribute() -> None:
    found = split(where_of("x > 1 AND k = 'a' AND n < 5 AND x <= 3 AND (x > 2 OR n > 7)"))
    (x, band_x), (n, band_n) = found.bands
    assert (emit(x), emit(n)) == ("`x`", "`n`")
    assert band_x == Band(((double_key(math.nextafter(1, 2)), double_key(3.0)),)) and band_n == Band(((LEAST, 4),))
    rest = {names: emit(found.rest(taken) or x) for names, taken in {"x": [x], "n": [n], "both": [x, n]}.items()}
    assert "`x` <= 3" not in rest["x"] and "`n` < 5" in rest["x"] and "`n` < 5" not in rest["n"]
    assert rest["both"] == emit(where_of("k = 'a' AND (x > 2 OR n > 7)"))
    assert split(None) == NO_BANDS


@given(st.floats(), st.floats())
def test_keys_keep_the_order_of_doubles(a: float, b: float) -> None:
    for x in (a, b):
        back = double_of(double_key(x))
        assert back == x or (math.isnan(back) and math.isnan(x))
    if not math.isnan(a) and not math.isnan(b):
        assert (double_key(a) < double_key(b)) == (a < b)
    if math.isnan(a) and not math.isnan(b):
        assert double_key(a) > double_key(b)
    if math.isfinite(a):
        assert double_of(double_key(a) + 1) == math.nextafter(a, math.inf)


ends = st.integers(-6, 6).map(lambda i: LEAST if i == -6 else MOST if i == 6 else i)
bands = st.lists(st.tuples(ends, ends).filter(lambda i: i[0] <= i[1]), max_size=4).map(
    lambda found: sum_of([Band((i,)) for i in found]))


def sum_of(found: list[Band]) -> Band:
    whole = Band(())
    for band in found:
        whole = whole.union(band)
    return whole


@given(bands, bands)
def test_band_algebra(a: Band, b: Band) -> None:
    for key in (LEAST, LEAST + 1, *range(-7, 8), MOST - 1, MOST):
        assert (key in a.union(b)) == (key in a or key in b)
        assert (key in a.intersection(b)) == (key in a and key in b)
        assert (key in a.complement()) == (key not in a)
    for band in (a.union(b), a.intersection(b), a.complement()):
        gaps = [(f, t) for (_, f), (t, _) in zip(band.intervals, band.intervals[1:], strict=False)]
        assert all(t - f > 1 for f, t in gaps)


Cells = tuple[int, ...]
"""The cells of a row; 0 is that of a null."""


def numbered(rows: list[Row], cells: dict[Row, Cells], r: Random) -> tuple[list[Row], CellOrder]:
    """Rows by pair of group and cells, numbered in chance order."""
    column = Column("g", INT)
    keys = tuple(cell(Column(name, INT)) for name in "ab"[: len(cells[rows[0]])])
    pairs, groups = Groups((column, *keys)), Groups((column,))
    wanted = list({(row.group, *cells[row]) for row in rows})
    r.shuffle(wanted)
    columns = [pa.array([w[0] for w in wanted], pa.int32())]
    columns += [pa.array([w[i + 1] or None for w in wanted], pa.int64()) for i in range(len(keys))]
    pairs.encode(columns, len(wanted))
    number = {pair: i for i, pair in enumerate(wanted)}
    paired = [Row(row.pane, number[row.group, *cells[row]], row.y, row.x) for row in rows]
    return paired, CellOrder(pairs, groups, keys)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_fold_is_that_of_the_rows(seed: int) -> None:
    r = Random(seed)
    rows = [Row(r.randint(0, 9), r.randint(0, 3), r.randint(0, 40), r.choice([r.uniform(-9, 9), 1e15, math.nan]))
            for _ in range(r.randint(1, 80))]  # fmt: skip
    cells = {row: (row.y % 7, row.y * 5 % 4)[: 1 + seed % 2] for row in rows}
    shapes = [Shape(r.randint(1, 5), r.randint(1, 4), r.randint(0, 3), -100) for _ in range(r.randint(1, 3))]
    asked = [[tuple(_draw_band(r) for _ in cells[rows[0]]) for _ in range(r.randint(1, 6))] for _ in shapes]
    ring = Ring(LAYOUT, 5, 0)
    paired, order = numbered(rows, cells, r)
    add_rows(ring, [row for row in paired if row.pane <= 4])
    add_rows(ring, [row for row in paired if row.pane > 4])
    answers = ring.close(9, windows_of(shapes))
    got = fold_bands(answers, LAYOUT, bands_of(asked), order.numbered())
    number = {g: i for i, g in enumerate(order.groups.arrays([pa.int32()])[0].to_pylist())}
    wanted = []
    for i, (shape, own) in enumerate((s, own) for s, some in zip(shapes, asked, strict=True) for own in some):
        inside = [row for row in rows if all(c and c in b for c, b in zip(cells[row], own, strict=True))]
        wanted += sorted((i, end, number[group], its) for _, end, group, its in expected(inside, [shape], 0, 9))
    check(got, wanted)


def _draw_band(r: Random) -> Band:
    cuts = sorted(r.sample(range(9), r.choice([1, 2, 3, 4])))
    intervals = [(LEAST, cuts[0])] if r.random() < 0.4 else []
    intervals += [(a + 1, b) for a, b in zip(cuts[1::2], cuts[2::2], strict=False) if a + 2 < b]
    if r.random() < 0.4 or not intervals:
        intervals.append((cuts[-1] + 1, MOST))
    return sum_of([Band((i,)) for i in intervals])


def test_order_grows_with_pairs() -> None:
    column, key = Column("g", INT), cell(Column("x", BIGINT))
    pairs, groups = Groups((column, key)), Groups((column,))
    order = CellOrder(pairs, groups, (key,))
    r = Random(5)
    for _ in range(20):
        g, c = [r.randint(0, 9) for _ in range(30)], [r.choice([None, r.randint(-50, 50)]) for _ in range(30)]
        pairs.encode([pa.array(g, pa.int32()), pa.array(c, pa.int64())], 30)
        found = order.numbered()
        group, cells = pairs.into(groups), pairs.values_from(key, 0).to_pylist()
        ranked = [int(i) for i in np.argsort(found.rank, kind="stable") if found.rank[i] >= 0]
        assert ranked == sorted(ranked, key=lambda i: (group[i], cells[i]))
        assert len(ranked) == sum(c is not None for c in cells)
