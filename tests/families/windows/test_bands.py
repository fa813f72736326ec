"""Predicates as bands of cells: the algebra against Spark's own evaluation, the fold against a page
of Python."""

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

from headrace.families.windows.bands import banding as module
from headrace.families.windows.bands.band_groups import BandGroups, RingBandGroups, Taken
from headrace.families.windows.bands.banding import Banding, answers_of, shapes_of
from headrace.families.windows.bands.waiting import CellRows
from headrace.families.windows.cells import (
    attribute_sql,
    cell,
    declare_sql,
    drop_sql,
    rank_sql,
    ranks_of,
)
from headrace.families.windows.measures import ROWS, Measure, arrange
from headrace.families.windows.plan import SharedRing
from headrace.families.windows.rings.ring import Answers
from headrace.families.windows.rollup.feed import SlotRows
from headrace.sql.bands import LEAST, MOST, NO_BANDS, Band, double_key, double_of, split
from headrace.sql.bind import bind
from headrace.sql.emit import emit
from headrace.sql.schema import parse_schema
from headrace.sql.tree import Column, Expr
from headrace.values import DOUBLE, INT, Relation, Window

DDL = "x DOUBLE, n INT, big BIGINT, day DATE, at TIMESTAMP, k STRING, f FLOAT, ts TIMESTAMP"
RELATION = Relation("s", "parquet:s", parse_schema(DDL), time="ts")
VALUES: dict[str, list[Any]] = {
    "x": [
        None,
        -math.inf,
        -1e308,
        -2.5,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        0.1,
        2.0,
        2.5,
        math.nextafter(2.5, 3),
        1e308,
        float(2**53),
        math.inf,
        math.nan,
    ],
    "n": [None, -(2**31), -7, -1, 0, 1, 2, 3, 100, 101, 2**31 - 1],
    "big": [None, -(2**63), -(2**53) - 1, -1, 0, 1, 100, 2**53, 2**53 + 1, 2**63 - 1],
    "day": [
        None,
        date(1, 1, 1),
        date(1969, 12, 31),
        date(1970, 1, 1),
        date(2020, 2, 29),
        date(9999, 12, 31),
    ],
    "at": [
        None,
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2020, 1, 1, 10, 0, 0, 1, UTC),
        datetime(2020, 1, 1, 10, tzinfo=UTC),
    ],
}
TYPES = {
    "x": pa.float64(),
    "n": pa.int32(),
    "big": pa.int64(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}
PREDICATES = [
    "x > 2.5",
    "x >= 2.5",
    "x < 2.5D",
    "x <= 2",
    "x = 0",
    "x <> 0",
    "x = -0.0D",
    "x > 1e308",
    "x < -1e308",
    "x IN (0, 2.5, 7)",
    "x NOT IN (0.1, 2)",
    "NOT x > 2",
    "x > 1 AND x <= 2.5",
    "x < 0 OR x > 2",
    "x BETWEEN -1 AND 1",
    "NOT (x BETWEEN -1 AND 1)",
    "x IS NOT NULL AND x < 9007199254740993",
    "x > 5 AND x < 3 OR x = 2",
    "x * 2 > 3",
    "x > 0.1",
    "n > 1",
    "n > 1.5",
    "n >= 1.5",
    "n < 1.5D",
    "n = 2",
    "n IN (1, 2, 2147483648)",
    "n > -2147483648",
    "n <= 2147483647",
    "n < 3000000000",
    "n > 1e10",
    "n % 3 = 1",
    "n + 0.5D > 2",
    "big > 9007199254740992",
    "big < 0.5",
    "big < 9223372036854775807 AND big > -1",
    "big = 100.0",
    "day > DATE '1970-01-01'",
    "day <= '2020-02-29'",
    "day <> DATE '1969-12-31'",
    "day IN ('1970-01-01')",
    "at > '2020-01-01 10:00:00'",
    "at <= TIMESTAMP '1969-12-31 23:59:59.999999'",
    "at = '2020-01-01 10:00:00.000001'",
    "length(cast(n AS STRING)) > 1",
    "year(day) < 2000",
]
UNFIT = [
    "k = 'a'",
    "k > 'b'",
    "f > 1",
    "f > 1.5",
    "x IS NULL",
    "x > 1 OR x IS NULL",
    "NOT (x IS NOT NULL AND x > 5)",
    "NOT (x > 5 AND x IS NOT NULL)",
    "x IS NOT NULL",
    "x > n",
    "x > NULL",
    "10 / n > 1",
    "n <> 0 AND 10 / n > 1",
    "x > 1 OR n > 1",
    "big > 1e300",
    "x <=> 1",
    "at > DATE '2020-01-01'",
    "n = 1.5",
    "n <> 1.5",
    "big > 9223372036854775807",
    "1 < 2",
    "n > 5 AND n < 3",
    "big >= -9223372036854775808",
    "CASE WHEN x > 1 THEN true END",
    "day > TIMESTAMP '2020-01-01'",
]


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
    """Every predicate at every value: Spark's verdict, and whether the value's cell lies in the
    band."""
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
        verdicts = ", ".join(
            f"coalesce({emit(where_of(text))}, false) AS p{i}" for i, text in enumerate(mine)
        )
        rank = rank_sql(key, keys, "v")
        placed = frames.sql(
            f"SELECT {rank} AS r, * FROM (SELECT {attribute_sql(key)} AS v, {verdicts} FROM v_{name})"
        )
        table = placed.toArrow()
        frames.sql(drop_sql(key, keys))
        cells = [
            None if rank is None else [LEAST, *keys][rank] for rank in table.column("r").to_pylist()
        ]
        for i, (text, band) in enumerate(mine.items()):
            got = [c is not None and c in band for c in cells]
            assert got == table.column(f"p{i}").to_pylist(), text


@pytest.mark.parametrize("text", UNFIT)
def test_what_is_no_band_is_left_alone(text: str) -> None:
    """Some are true of NULL, which is in no band: NULL IS NOT NULL AND NULL > 5 is false, not null."""
    assert split(where_of(text)).bands == ()


def test_a_conjunction_is_split_by_attribute() -> None:
    found = split(where_of("x > 1 AND k = 'a' AND n < 5 AND x <= 3 AND (x > 2 OR n > 7)"))
    (x, band_x), (n, band_n) = found.bands
    assert (emit(x), emit(n)) == ("`x`", "`n`")
    assert band_x == Band(
        ((double_key(math.nextafter(1, 2)), double_key(3.0)),)
    ) and band_n == Band(((LEAST, 4),))
    rest = {
        names: emit(found.rest(taken) or x)
        for names, taken in {"x": [x], "n": [n], "both": [x, n]}.items()
    }
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
    lambda found: sum_of([Band((i,)) for i in found])
)


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


EDGES = tuple(range(1, 10))
LANE = SharedRing(
    Window(1, 1),
    (ROWS, Measure("sum_int", Column("y", INT)), Measure("moments", Column("z", DOUBLE))),
)
OTHER = SharedRing(
    Window(2, 1),
    (ROWS, Measure("max_float", Column("x", DOUBLE)), Measure("min_int", Column("y", INT))),
)


def rows_in(r: Random, panes: range, cells: int) -> tuple[list[dict[str, Any]], CellRows]:
    """Rows as Spark may leave them, some of several, and as they come out of the feed."""
    most = r.choice([1, 3])
    rows: list[dict[str, Any]] = [
        {
            "pane": r.choice(panes),
            "group": r.randint(0, 3),
            "cells": [r.randint(0, 9) for _ in range(cells)],
            "y": r.randint(-9, 9),
            "x": r.choice([r.uniform(-9, 9), 1e15, math.nan]),
            "z": r.uniform(-9, 9),
            "rows": r.randint(1, most),
        }
        for _ in range(r.randint(0, 60))
    ]
    rows.sort(key=lambda row: (row["pane"], row["group"], row["cells"][0]))
    x, y, z = ([row[name] for row in rows] for name in "xyz")
    ones, zeros = [1] * len(rows), [0] * len(rows)
    ints: dict[str, Any] = {
        "rows": [[row["rows"] for row in rows]],
        "sum_int": [zeros, y],
        "min_int": [y],
    }
    floats: dict[str, Any] = {"moments": [ones, z, zeros], "max_float": [x]}
    ranks = np.array([row["cells"] for row in rows], np.int32).reshape(-1, cells).T.copy()
    return rows, CellRows(
        np.array([row["pane"] for row in rows], np.int64),
        np.array([row["group"] for row in rows], np.int32),
        ranks,
        (EDGES,) * cells,
        np.array([line for m in GIVEN.ints for line in ints.get(m.kind, ())], np.int64),
        np.array([line for m in GIVEN.ints for line in floats.get(m.kind, ())], np.float64),
    )


GIVEN = arrange((*OTHER.measures, *LANE.measures))


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_every_band_gets_its_rows_of_every_group(seed: int) -> None:
    """Bands come and go between rounds; a band group keeps its number, and what is written to it is
    what a page of Python makes of the rows."""
    r = Random(seed)
    cells = r.choice([1, 1, 2, 3])
    band_groups = BandGroups()
    banding = Banding(band_groups)
    asked: list[tuple[SharedRing, Taken]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_MAX", r.choice([1, 7, 1 << 20]))
        for turn in range(4):
            for _ in range(r.randint(1, 80 if turn == 1 else 4)):
                asked.append((r.choice([LANE, OTHER]), tuple(_draw_band(r) for _ in range(cells))))
                band_groups.join(*asked[-1], 0)
            if turn and r.random() < 0.7:
                band_groups.leave(*asked.pop(r.randrange(len(asked))))
            rows, given = rows_in(r, range(turn * 2, turn * 2 + 3), cells)
            _check_fold(rows, list(banding.fold(given, GIVEN)), band_groups, asked)
            if r.random() < 0.4:
                _renumber(r, band_groups)
            if r.random() < 0.2 and asked:
                gone = asked[0][0]
                band_groups.drop(gone)
                asked = [
                    (shared_ring, taken) for shared_ring, taken in asked if shared_ring != gone
                ]


def _check_fold(
    rows: list[dict[str, Any]],
    folded: list[tuple[SharedRing, Any, SlotRows]],
    band_groups: BandGroups,
    asked: list[tuple[SharedRing, Taken]],
) -> None:
    got: dict[tuple[SharedRing, int, int, int], tuple[list[int], list[float]]] = {}
    for shared_ring, arrangement, own in folded:
        assert arrangement == arrange(shared_ring.measures) and np.all(np.diff(own.pane_us) >= 0)
        for i, band_group in enumerate(own.groups.tolist()):
            held = band_groups.shared_rings[shared_ring]
            place = (
                shared_ring,
                int(held.band[band_group]),
                int(held.group[band_group]),
                int(own.pane_us[i]),
            )
            assert place not in got
            got[place] = own.ints[:, i].tolist(), own.floats[:, i].tolist()
    wanted: dict[tuple[SharedRing, int, int, int], list[dict[str, Any]]] = {}
    for shared_ring, taken in set(asked):
        for row in rows:
            inside = all(_placed(c) in band for c, band in zip(row["cells"], taken, strict=True))
            if inside:
                wanted.setdefault(
                    (
                        shared_ring,
                        band_groups.shared_rings[shared_ring].bands[taken],
                        row["group"],
                        row["pane"],
                    ),
                    [],
                ).append(row)
    assert got.keys() == wanted.keys()
    for place, own_rows in wanted.items():
        ints, floats = got[place]
        x, y, z = ([row[name] for row in own_rows] for name in "xyz")
        count = sum(row["rows"] for row in own_rows)
        if place[0] == LANE:
            assert ints == [count, 0, sum(y)]
            np.testing.assert_allclose(
                floats, [len(z), np.mean(z), np.var(z) * len(z)], rtol=1e-9, atol=1e-9
            )
        else:
            assert ints == [count, min(y)]
            np.testing.assert_equal(floats, [np.max(x)])


def _placed(rank: int) -> int:
    """A key in the cell of this rank."""
    return LEAST if rank == 0 else EDGES[rank - 1]


def _renumber(r: Random, band_groups: BandGroups) -> None:
    """Idle band groups go, then groups get other numbers: those that stay are still found."""
    for key, shared_ring in band_groups.shared_rings.items():
        kept = np.flatnonzero([r.random() < 0.7 for _ in range(shared_ring.band.size)])
        band_groups.keep(key, kept)
    order = np.array(r.sample(range(4), 4))
    band_groups.regroup(order)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_answers_of_spots_are_answers_of_shapes(seed: int) -> None:
    r = Random(seed)
    shared_ring = RingBandGroups(
        np.array([r.randint(-1, 4) for _ in range(9)], np.int32), np.arange(9, dtype=np.int32) * 2
    )
    taken = [_draw_band(r) for _ in range(5)]
    shared_ring.bands = {(band,): i for i, band in enumerate(dict.fromkeys(taken))}
    shapes = [((r.choice(taken),), r.randint(0, 6)) for _ in range(r.randint(1, 6))]
    found = [(end, band_group) for end in range(7) for band_group in range(9) if r.random() < 0.6]
    ends, group = (
        np.array([e for e, _ in found], np.int64),
        np.array([s for _, s in found], np.int32),
    )
    answers = Answers(
        np.zeros(ends.size, np.int32),
        ends,
        group,
        ends[None, :] * 100 + group,
        np.empty((0, ends.size)),
        np.array([0, ends.size]),
    )
    got = answers_of(
        answers,
        shared_ring,
        shapes_of([t for t, _ in shapes], np.array([f for _, f in shapes]), shared_ring),
    )
    wanted = [
        (i, end, band_group * 2, end * 100 + band_group)
        for i, (own, first) in enumerate(shapes)
        for end, band_group in found
        if shared_ring.band[band_group] == shared_ring.bands[own] and end >= first
    ]
    columns = (got.shape, got.end, got.group, got.ints[0])
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == wanted
    assert got.offsets.tolist() == [sum(w[0] < i for w in wanted) for i in range(len(shapes) + 1)]


def _draw_band(r: Random) -> Band:
    cuts = sorted(r.sample(range(9), r.choice([1, 2, 3, 4])))
    intervals = [(LEAST, cuts[0])] if r.random() < 0.4 else []
    intervals += [(a + 1, b) for a, b in zip(cuts[1::2], cuts[2::2], strict=False) if a + 2 < b]
    if r.random() < 0.4 or not intervals:
        intervals.append((cuts[-1] + 1, MOST))
    return sum_of([Band((i,)) for i in intervals])


def test_rows_that_are_sent_are_placed_as_spark_places_them(frames: SparkSession) -> None:
    for name, text in {
        "x": "x IN (-2.5, 0, 0.1, 2.5, 1e308) OR x > 1e308",
        "n": "n IN (-7, 0, 101)",
        "big": "big IN (-1, 9007199254740992)",
        "day": "day > DATE '1970-01-01'",
        "at": "at <= '2020-01-01 10:00:00'",
    }.items():
        ((attribute, band),) = split(where_of(text)).bands
        key, edges = cell(attribute), tuple(sorted(band.edges()))
        frames.sql(declare_sql(key, edges))
        values = f"(SELECT {attribute_sql(key)} AS v FROM v_{name})"
        got = frames.sql(f"SELECT v, {rank_sql(key, edges, 'v')} AS r FROM {values}").toArrow()
        frames.sql(drop_sql(key, edges))
        assert ranks_of(key, edges, got.column("v")).to_pylist() == got.column("r").to_pylist()
