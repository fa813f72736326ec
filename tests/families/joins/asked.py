"""Standing joins drawn at random, each with its SQL and, as a page of Python, its verdict on any
pair of rows.

Side 0 is `x`, side 1 is `y`.  A row *takes part* in a query if nothing that its shape compares is
null or odd; a pair is a *candidate* if it also meets and is in the query's ranges of the shape; an
answer passes all the rest too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

Row = dict[str, Any]
T0 = datetime(2020, 1, 1, tzinfo=UTC)
D0 = date(2020, 1, 1)
WIDEST = 2**62 - 1  # of numbers up to this, any difference fits 64 bits
KINDS = {
    "k": "STRING",
    "n": "BIGINT",
    "a": "INT",
    "b": "DOUBLE",
    "d": "DATE",
    "ts": "TIMESTAMP",
    "u": "BIGINT",
    "gone": "BOOLEAN",
}
VALUES: dict[str, Sequence[Any]] = {
    "k": (None, "", "x", "x", "y", "X", " x", "é", "a\0b", "a", "😀", "x'--"),
    "n": (
        None,
        *range(-3, 5),
        *range(-3, 5),
        2**62 - 1,
        1 - 2**62,
        2**62,
        -(2**62),
        2**62 + 1,
        2**63 - 1,
        -(2**63),
    ),
    "a": (None, *range(-2, 7), 2**31 - 1, -(2**31)),
    "b": (
        None,
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        0.0,
        0.1,
        0.2,
        0.3,
        0.1 + 0.2,
        0.7,
        -0.1,
        1.1,
        2.0,
        2.5,
        -3.0,
        1e308,
        -1e308,
        5e-324,
        1e16,
        9007199254740993.0,
    ),
    "d": (None, *(D0 + timedelta(days=i) for i in range(-2, 5)), date(1, 1, 1), date(9999, 12, 31)),
}


def rank(value: Any) -> Any:
    """In Spark's order: NaN is a value above all others, and both zeros are one."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value


def is_odd(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and abs(value) > WIDEST


# -- pieces of a condition -------------------------------------------------------------------------


@dataclass(frozen=True)
class Test:
    """A comparison of {v} with constants."""

    text: str
    of: Callable[[Any], bool]


@dataclass(frozen=True)
class Range:
    column: str
    test: Test

    def text(self, side: int) -> str:
        return self.test.text.format(v=f"{'xy'[side]}.{self.column}")

    def holds(self, row: Row) -> bool:
        return row[self.column] is not None and self.test.of(row[self.column])


@dataclass(frozen=True)
class Apart:
    """How far y is from x in some columns.  `odd`: whether a value of x, of y, may be; one that is
    cast may not."""

    text: str
    columns: tuple[str, str]
    holds: Callable[[Any, Any], bool]
    odd: tuple[bool, bool] = (True, True)

    def passes(self, x: Row, y: Row) -> bool:
        a, b = x[self.columns[0]], y[self.columns[1]]
        return a is not None and b is not None and self.holds(a, b)


@dataclass(frozen=True)
class Other:
    """Anything else; of a null it is what SQL says, and null is no."""

    text: str
    passes: Callable[[Row, Row], bool]


@dataclass(frozen=True)
class Asked:
    """A query."""

    relations: tuple[str, str]
    select: tuple[tuple[str, Callable[[Row, Row], Any]], ...]
    equal: tuple[tuple[str, str], ...]
    apart: tuple[Apart, ...]
    ranges: tuple[tuple[Range, ...], tuple[Range, ...]]
    others: tuple[Other, ...]
    is_timed: bool

    def __repr__(self) -> str:
        return self.sql

    @property
    def sql(self) -> str:
        parts = [f"x.{a} = y.{b}" for a, b in self.equal] + [own.text for own in self.apart]
        parts += [own.text(side) for side in (0, 1) for own in self.ranges[side]] + [
            own.text for own in self.others
        ]
        shown = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(self.select))
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        return f"SELECT {shown} FROM {self.relations[0]} AS x CROSS JOIN {self.relations[1]} AS y{where}"

    @property
    def band(self) -> Apart | None:
        """The difference of the shape, if it is a band: not that of event times, if there is
        another."""
        if self.equal or not self.apart:
            return None
        timed = [self.is_timed and own.columns == ("ts", "ts") for own in self.apart]
        return self.apart[timed.index(False) if False in timed else 0]

    def is_odd(self, side: int, row: Row) -> bool:
        """NaN, infinite or too large in what the shape compares; equal values may be any."""
        if self.band is not None:
            return self.band.odd[side] and is_odd(row[self.band.columns[side]])
        ranged = self.ranges[side][:1]
        return any(isinstance(row[own.column], float) and is_odd(row[own.column]) for own in ranged)

    def takes(self, side: int, row: Row) -> bool:
        if self.band is not None:
            columns = [self.band.columns[side]]
        else:
            columns = [pair[side] for pair in self.equal] + [
                own.column for own in self.ranges[side][:1]
            ]
        return all(row[name] is not None for name in columns) and not self.is_odd(side, row)

    def is_candidate(self, x: Row, y: Row) -> bool:
        if not self.takes(0, x) or not self.takes(1, y):
            return False
        if self.band is not None:
            return self.band.passes(x, y)
        ranged = all(
            own.holds(row) for row, side in ((x, 0), (y, 1)) for own in self.ranges[side][:1]
        )
        return ranged and all(rank(x[a]) == rank(y[b]) for a, b in self.equal)

    def answers(self, x: Row, y: Row) -> bool:
        parts: tuple[Apart | Other, ...] = (*self.apart, *self.others)
        return (
            self.is_candidate(x, y)
            and all(own.passes(x, y) for own in parts)
            and all(own.holds(row) for row, side in ((x, 0), (y, 1)) for own in self.ranges[side])
        )

    def shown(self, x: Row, y: Row) -> tuple[Any, ...]:
        return tuple(rank(of(x, y)) for _, of in self.select)


# -- drawing ---------------------------------------------------------------------------------------

CONSTANTS: dict[str, Sequence[Any]] = {
    "n": (-3, -1, 0, 1, 2, 4, 2**62, -(2**62)),
    "a": (-2, 0, 1, 3, 5),
    "b": (-0.5, -0.1, 0.0, 0.1, 0.2, 1.0, 2.5, 1e308),
    "d": tuple(D0 + timedelta(days=i) for i in (-1, 0, 1, 3)),
    "ts": tuple(T0 + timedelta(seconds=i) for i in (5, 15, 25, 40)),
}


def literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    return f"DATE '{value}'" if isinstance(value, date) else repr(value)


def draw_test(chance: Random, constants: Sequence[Any], is_difference: bool = False) -> Test:
    c = chance.choice(constants)
    lo, hi = sorted(chance.choices(constants, k=2))
    some = chance.sample(constants, 3)
    tests = [
        Test(
            f"{{v}} BETWEEN {literal(lo)} AND {literal(hi)}",
            lambda v: rank(lo) <= rank(v) <= rank(hi),
        ),
        Test(f"{{v}} > {literal(c)}", lambda v: rank(v) > rank(c)),
        Test(f"{{v}} <= {literal(c)}", lambda v: rank(v) <= rank(c)),
        Test(f"{{v}} = {literal(c)}", lambda v: rank(v) == rank(c)),
        Test(f"{{v}} <> {literal(c)}", lambda v: rank(v) != rank(c)),
        Test(f"{{v}} IN ({', '.join(map(literal, some))})", lambda v: rank(v) in map(rank, some)),
        Test(
            f"NOT ({{v}} BETWEEN {literal(lo)} AND {literal(hi)})",
            lambda v: not rank(lo) <= rank(v) <= rank(hi),
        ),
    ]
    if is_difference:
        far = abs(c)
        tests += [
            Test(f"abs({{v}}) <= {literal(far)}", lambda v: rank(abs(v)) <= rank(far)),
            Test(f"abs({{v}}) > {literal(far)}", lambda v: rank(abs(v)) > rank(far)),
        ]
    return chance.choice(tests)


def draw_apart(shape: Random, chance: Random) -> Apart:
    match shape.choice(
        ["double", "double", "whole", "mixed", "above", "shifted", "dates", "times"]
    ):
        case "double":
            test = draw_test(chance, CONSTANTS["b"], is_difference=True)
            return Apart(test.text.format(v="y.b - x.b"), ("b", "b"), lambda a, b: test.of(b - a))
        case "whole":
            test = draw_test(chance, CONSTANTS["n"], is_difference=True)
            return Apart(test.text.format(v="(y.n - x.n)"), ("n", "n"), lambda a, b: test.of(b - a))
        case "mixed":
            test = draw_test(chance, CONSTANTS["b"], is_difference=True)
            if shape.random() < 0.5:
                text = test.text.format(v="(y.b - x.n)")
                return Apart(text, ("n", "b"), lambda a, b: test.of(b - float(a)), (False, True))
            text = test.text.format(v="(x.b - y.n)")
            return Apart(text, ("b", "n"), lambda a, b: test.of(a - float(b)), (True, False))
        case "above":
            own = shape.choice("bna")
            if chance.random() < 0.5:
                return Apart(f"y.{own} > x.{own}", (own, own), lambda a, b: rank(b) > rank(a))
            return Apart(f"x.{own} >= y.{own}", (own, own), lambda a, b: rank(a) >= rank(b))
        case "shifted":
            lo, hi = sorted(chance.choices(range(-3, 4), k=2))
            return Apart(
                f"y.n BETWEEN x.n + {lo} AND x.n + {hi}",
                ("n", "n"),
                lambda a, b: a + lo <= b <= a + hi,
            )
        case "dates":
            days = chance.randrange(4)
            return Apart(
                f"y.d <= x.d + {days}",
                ("d", "d"),
                lambda a, b: b.toordinal() <= a.toordinal() + days,
            )
    return draw_times(chance)


def draw_times(chance: Random) -> Apart:
    before, after = chance.choice([(0, 5), (10, 0), (20, 3), (3, 20)])
    text = f"y.ts BETWEEN x.ts - INTERVAL '{before}' SECONDS AND x.ts + INTERVAL '{after}' SECONDS"
    return Apart(
        text,
        ("ts", "ts"),
        lambda a, b: a - timedelta(seconds=before) <= b <= a + timedelta(seconds=after),
    )


def _either(x: Row, y: Row) -> bool:
    return bool(x["a"] == 1 or y["a"] == 1)


def _unlike(x: Row, y: Row) -> bool:
    return x["k"] is not None and y["k"] is not None and bool(x["k"] != y["k"])


OTHERS = (
    Other("x.u + y.u > 3", lambda x, y: x["u"] + y["u"] > 3),
    Other("(x.a = 1 OR y.a = 1)", _either),
    Other("x.k <> y.k", _unlike),
    Other("x.n IS NOT NULL", lambda x, y: x["n"] is not None),
    Other("y.k IS NULL", lambda x, y: y["k"] is None),
)
EQUAL = (("k", "k"), ("n", "n"), ("a", "n"), ("b", "b"), ("d", "d"), ("ts", "ts"))
SHOWN: tuple[tuple[str, Callable[[Row, Row], Any]], ...] = (
    ("x.u", lambda x, y: x["u"]),
    ("y.u", lambda x, y: y["u"]),
    ("x.k", lambda x, y: x["k"]),
    ("y.b", lambda x, y: y["b"]),
    ("x.ts", lambda x, y: x["ts"]),
    ("y.d", lambda x, y: y["d"]),
    ("1", lambda x, y: 1),
    ("y.b - x.b", lambda x, y: None if x["b"] is None or y["b"] is None else y["b"] - x["b"]),
)


def draw_query(
    shape: Random,
    chance: Random,
    relations: tuple[str, str],
    is_timed: bool,
    is_bounded: bool = False,
) -> Asked:
    """Queries of the same shape are mostly of one shape.  `is_timed`: both relations have event
    times; `is_bounded`: how far these are apart is limited."""
    equal: tuple[tuple[str, str], ...] = ()
    apart: list[Apart] = []
    match shape.choice(["band", "band", "select", "select", "several", "cross"]):
        case "band":
            apart.append(draw_apart(shape, chance))
        case "select":
            equal = (shape.choice(EQUAL),)
        case "several":
            equal = tuple(shape.sample(EQUAL, shape.choice([2, 3])))
    if equal and shape.random() < 0.4:
        apart.append(draw_apart(shape, chance))
    has_times = any(own.columns == ("ts", "ts") for own in apart)
    if (is_timed or equal or not apart) and not has_times and (is_bounded or shape.random() < 0.3):
        # without an equality, at most one difference is not of event times
        apart.append(draw_times(chance))
    count = 0 if apart and not equal else 2
    ranges = tuple(
        _ranges(shape, chance, shape.choice([0, 1, 1, 2][: count + 2])) for _ in range(2)
    )
    others = tuple(chance.sample(OTHERS, chance.choice([0, 0, 0, 1, 2])))
    select = tuple(chance.sample(SHOWN, chance.choice([1, 2, 4])))
    return Asked(relations, select, equal, tuple(apart), (ranges[0], ranges[1]), others, is_timed)


def _ranges(shape: Random, chance: Random, count: int) -> tuple[Range, ...]:
    columns = shape.sample(sorted(CONSTANTS), count)
    return tuple(Range(name, draw_test(chance, CONSTANTS[name])) for name in columns)


def draw_row(chance: Random, at_s: int, u: int) -> Row:
    late = chance.random() < 0.1
    ts = (
        None
        if chance.random() < 0.05
        else T0 + timedelta(seconds=at_s + chance.randrange(10) - (30 if late else 0))
    )
    row = {name: chance.choice(values) for name, values in VALUES.items()}
    return {**row, "ts": ts, "u": u, "gone": chance.choice([False, False, False, None, True])}
