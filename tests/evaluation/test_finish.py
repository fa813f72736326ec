"""Expressions over aggregates against Spark itself: random trees, rows with every odd value, and
what raises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.evaluation.finish import FinishError, compile_finish, why_unsupported
from headrace.sql.emit import emit
from headrace.sql.functions import SCALARS
from headrace.sql.tree import Aggregate, Bound, Call, Column, Expr, Key, Literal
from headrace.sql.types import MismatchError
from headrace.values import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    VOID,
    Type,
    decimal,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BIG = (1 << 63) - 1
FIELDS: dict[str, tuple[Type, pa.DataType, list[Any]]] = {
    "n": (
        BIGINT,
        pa.int64(),
        [0, 1, -1, 7, -7, 10, None, BIG, -BIG - 1, 1 << 40, 3_000_000_000, 100],
    ),
    "m": (BIGINT, pa.int64(), [3, 0, -1, 2, -3, None, 5, 2, -1, 1 << 30, -4, 10]),
    "i": (INT, pa.int32(), [0, 5, -5, 2**31 - 1, -(2**31), None, 46341, 3, 1, -1, 12, 9]),
    "h": (SMALLINT, pa.int16(), [0, 5, -5, 32767, -32768, None, 181, 3, 1, -1, 12, 9]),
    "x": (
        DOUBLE,
        pa.float64(),
        [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, None, 1e300, 0.125, 2.675, 1e15],
    ),
    "y": (
        DOUBLE,
        pa.float64(),
        [1.0, 0.0, math.nan, 4.0, 0.5, None, 2.0, 1e-300, 1e308, -7.25, 1.005, 3.0],
    ),
    "f": (
        FLOAT,
        pa.float32(),
        [0.0, 1.5, math.nan, math.inf, None, -3.25, 0.1, 3e38, 1.0, 7.0, -0.0, 16777216.0],
    ),
    "b": (
        BOOLEAN,
        pa.bool_(),
        [True, False, None, True, False, None, True, True, False, False, None, True],
    ),
    "s": (STRING, pa.string(), ["", "a", "b", "ab", "é", "𝄞", "\ufffd", None, "Z", "a", "aa", "0"]),
    "t": (STRING, pa.string(), ["a", "a", None, "b", "z", "\ufffd", "𝄞", "", "Z", "A", "aa", "1"]),
    "d": (
        DATE,
        pa.date32(),
        [date(2024, 1, d) for d in (1, 2, 3, 4, 5, 6)]
        + [
            None,
            date(1969, 12, 31),
            date(1, 1, 1),
            date(9999, 12, 31),
            date(2024, 1, 1),
            date(2000, 2, 29),
        ],
    ),
    "w": (
        TIMESTAMP,
        pa.timestamp("us", "UTC"),
        [datetime(2024, 1, 1, h, tzinfo=UTC) for h in (0, 1, 2, 3, 4, 5)]
        + [
            None,
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2024, 1, 2, tzinfo=UTC),
            datetime(2024, 1, 3, 12, tzinfo=UTC),
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(2024, 1, 6, tzinfo=UTC),
        ],
    ),
}
NAMES = tuple(FIELDS)
ROWS = 48
LEAVES: dict[str, Key] = {
    name: Key(at, kind) for at, (name, (kind, _, _)) in enumerate(FIELDS.items())
}


def table() -> pa.Table:
    """Each field repeats at its own offset, so that its odd values meet different ones of the
    others."""
    columns = {"row": pa.array(range(ROWS), pa.int32())}
    for at, (name, (_, kind, values)) in enumerate(FIELDS.items()):
        picked = [values[(row + (row // len(values)) * at) % len(values)] for row in range(ROWS)]
        columns[name] = pa.array(picked, kind)
    return pa.table(columns)


TABLE = table()
INPUTS: dict[Expr, pa.Array] = {leaf: TABLE[name].combine_chunks() for name, leaf in LEAVES.items()}


def call(op: str, *args: Expr) -> Call:
    return Call(op, args, SCALARS[op].rule(args))


def to(kind: Type, arg: Expr) -> Call:
    return Call("cast", (arg,), kind)


# -- trees -----------------------------------------------------------------------------------------

numbers: st.SearchStrategy[Expr] = st.one_of(
    st.sampled_from([LEAVES[n] for n in "nmixyfnmxy"]),
    st.sampled_from([Literal(v, INT) for v in (0, 1, 2, -1, 3, 10, 100)]),
    st.sampled_from([Literal(v, DOUBLE) for v in (0.0, 0.5, -2.0, 100.0)]),
    st.sampled_from(
        [Literal("2.5", decimal(2, 1)), Literal("-0.10", decimal(2, 2)), Literal(5, BIGINT)]
    ),
    st.just(Literal(None, VOID)),
)
texts: st.SearchStrategy[Expr] = st.sampled_from(
    [LEAVES["s"], LEAVES["t"], Literal("a", STRING), Literal("é", STRING)]
)
times: st.SearchStrategy[Expr] = st.sampled_from(
    [
        LEAVES["d"],
        LEAVES["w"],
        Literal("2024-01-02", DATE),
        Literal("2024-01-01 02:00:00", TIMESTAMP),
    ]
)
booleans: st.SearchStrategy[Expr] = st.sampled_from(
    [LEAVES["b"], Literal(True, BOOLEAN), Literal(False, BOOLEAN)]
)
COMPARE = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@st.composite
def number(draw: st.DrawFn, depth: int) -> Expr:
    if depth == 0:
        return draw(numbers)
    op = draw(
        st.sampled_from(
            [
                "+",
                "-",
                "*",
                "/",
                "%",
                "div",
                "case",
                "coalesce",
                "nullif",
                "greatest",
                "least",
                "abs",
                "negate",
                "floor",
                "ceil",
                "round",
                "sign",
                "sqrt",
                "cast",
                "try_cast",
                "try_divide",
                "if",
                "leaf",
            ]
        )
    )
    one = number(depth - 1)
    if op == "leaf":
        return draw(numbers)
    if op in ("cast", "try_cast"):
        return Call(op, (draw(one),), draw(st.sampled_from([INT, BIGINT, DOUBLE, FLOAT, SMALLINT])))
    if op == "round":
        return call("round", draw(one), Literal(draw(st.integers(-2, 4)), INT))
    if op in ("case", "if"):
        return call("case", draw(condition(depth - 1)), draw(one), draw(one))
    if op in ("abs", "negate", "floor", "ceil", "sign", "sqrt"):
        return call(op, draw(one))
    if op in ("coalesce", "greatest", "least"):
        return call(op, draw(one), draw(one), draw(one))
    return call(op, draw(one), draw(one))


@st.composite
def condition(draw: st.DrawFn, depth: int) -> Expr:
    if depth == 0:
        return draw(booleans)
    op = draw(
        st.sampled_from(
            [
                "and",
                "or",
                "not",
                "compare",
                "compare",
                "in",
                "null",
                "isnan",
                "case",
                "text",
                "time",
            ]
        )
    )
    one = condition(depth - 1)
    if op in ("and", "or"):
        return call(op, draw(one), draw(one))
    if op == "not":
        return call("not", draw(one))
    if op == "case":
        return call("case", draw(one), draw(one), Literal(None, VOID))
    kind = texts if op == "text" else times if op == "time" else number(depth - 1)
    if op == "isnan":
        return call("isnan", to(DOUBLE, draw(number(depth - 1))))
    if op == "null":
        return call(draw(st.sampled_from(["is_null", "is_not_null"])), draw(kind))
    if op == "in":
        return call("in", draw(kind), *draw(st.lists(kind, min_size=1, max_size=4)))
    return call(draw(st.sampled_from(COMPARE)), draw(kind), draw(kind))


@st.composite
def tree(draw: st.DrawFn) -> Expr | None:
    """None where Spark's typing, or ours, has no such tree."""
    try:
        found = draw(st.one_of(number(3), condition(3), number(2), condition(2)))
    except MismatchError:
        return None
    return found if why_unsupported(found) is None else None


# -- the two sides ---------------------------------------------------------------------------------


def ours(expr: Expr) -> list[object]:
    """Per row the value, or the FinishError."""
    finish = compile_finish(expr)
    try:
        return list(finish.run(INPUTS, ROWS).to_pylist())
    except FinishError:
        return [_one_row(expr, row) for row in range(ROWS)]


def _one_row(expr: Expr, row: int) -> object:
    try:
        one = {leaf: array.slice(row, 1) for leaf, array in INPUTS.items()}
        return compile_finish(expr).run(one, 1)[0].as_py()
    except FinishError as error:
        return error


def theirs(spark: SparkSession, exprs: Sequence[Expr], mine: Sequence[list[object]]) -> pa.Table:
    """All at once; an expression is evaluated on the rows where we say it does not raise."""
    selected = ["row"]
    for at, (expr, values) in enumerate(zip(exprs, mine, strict=True)):
        sql = emit(expr, keys=NAMES)
        fine = [str(row) for row, v in enumerate(values) if not isinstance(v, FinishError)]
        guarded = (
            sql
            if len(fine) == ROWS
            else f"CASE WHEN row IN ({', '.join(fine) or '-1'}) THEN {sql} END"
        )
        selected.append(f"{guarded} AS c{at}")
    return spark.sql(f"SELECT {', '.join(selected)} FROM finish_rows").toArrow().sort_by("row")


def same(a: object, b: object, close: float = 0.0) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (
            close > 0 and math.isclose(a, b, rel_tol=close)
        )
    return type(a) is type(b) and a == b


def compare(spark: SparkSession, exprs: Sequence[Expr], close: float = 0.0) -> None:
    mine = [ours(e) for e in exprs]
    found = theirs(spark, exprs, mine)
    for at, (expr, values) in enumerate(zip(exprs, mine, strict=True)):
        wanted = found[f"c{at}"].to_pylist()
        for row, (a, b) in enumerate(zip(values, wanted, strict=True)):
            if not isinstance(a, FinishError):
                assert same(a, b, close), (
                    emit(expr, keys=NAMES),
                    TABLE.slice(row, 1).to_pylist(),
                    a,
                    b,
                )
    check_errors(spark, exprs, mine)


def check_errors(
    spark: SparkSession, exprs: Sequence[Expr], mine: Sequence[list[object]], most: int = 4
) -> None:
    """Where we raise, Spark raises, and the same."""
    failing = [
        (e, row, v)
        for e, values in zip(exprs, mine, strict=True)
        for row, v in enumerate(values)
        if isinstance(v, FinishError)
    ]
    for expr, row, error in failing[:: max(1, len(failing) // most)][:most]:
        sql = emit(expr, keys=NAMES)
        with pytest.raises(Exception, match=r"OVERFLOW|BY_ZERO") as caught:
            spark.sql(f"SELECT {sql} FROM finish_rows WHERE row = {row}").collect()
        code = str(caught.value).split("]")[0].split("[")[-1].removeprefix("BINARY_").split(".")[0]
        assert code == error.code, (sql, TABLE.slice(row, 1).to_pylist())


RULES = (
    "NullPropagation",
    "ConstantFolding",
    "BooleanSimplification",
    "SimplifyConditionals",
    "SimplifyBinaryComparison",
    "PushFoldableIntoBranches",
    "OptimizeIn",
    "ReorderAssociativeOperator",
    "UnwrapCastInBinaryComparison",
    "ReplaceNullWithFalseInPredicate",
    "SimplifyConditionalsInPredicate",
    "RemoveDispensableExpressions",
    "NullDownPropagation",
)
PLAINLY = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{r}" for r in RULES
    ),
}


@pytest.fixture(scope="module", autouse=True)
def finish_rows(spark: SparkSession) -> Iterator[None]:
    """Spark evaluates as written: no operand is left out because another is a constant NULL, and
    none is evaluated because another of our many columns has it too.  Both change what raises,
    never a value."""
    for name, value in PLAINLY.items():
        spark.conf.set(name, value)
    spark.createDataFrame(TABLE).cache().createOrReplaceTempView("finish_rows")
    yield
    for name in PLAINLY:
        spark.conf.unset(name)


BATCH = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)


@given(trees=st.lists(tree(), min_size=60, max_size=90))
@BATCH
def test_random_trees(spark: SparkSession, trees: list[Expr | None]) -> None:
    exprs = [t for t in trees if t is not None]
    assert len(exprs) > 10
    compare(spark, exprs)


@pytest.mark.slow
@given(trees=st.lists(tree(), min_size=60, max_size=90))
@settings(BATCH, max_examples=60)
def test_many_random_trees(spark: SparkSession, trees: list[Expr | None]) -> None:
    compare(spark, [t for t in trees if t is not None])


def test_every_operator_on_every_pair(spark: SparkSession) -> None:
    pairs = [
        ("n", "m"),
        ("i", "m"),
        ("i", "h"),
        ("h", "h"),
        ("x", "y"),
        ("f", "x"),
        ("f", "f"),
        ("n", "x"),
    ]
    ops = [
        "+",
        "-",
        "*",
        "/",
        "%",
        *COMPARE,
        "greatest",
        "least",
        "nullif",
        "coalesce",
        "try_divide",
    ]
    exprs: list[Expr] = [call(op, LEAVES[a], LEAVES[b]) for a, b in pairs for op in ops]
    exprs += [call("div", LEAVES[a], LEAVES[b]) for a, b in (("n", "m"), ("i", "h"), ("n", "i"))]
    exprs += [
        call(op, LEAVES[a])
        for a in "nihxf"
        for op in ("abs", "negate", "floor", "ceil", "sign", "sqrt")
    ]
    exprs += [
        call(op, LEAVES[a], LEAVES[b])
        for a, b in (("s", "t"), ("d", "w"), ("b", "b"))
        for op in COMPARE
    ]
    exprs += [
        Call(op, (LEAVES[a],), to)
        for a in "nihxfb"
        for to in (INT, BIGINT, SMALLINT, DOUBLE, FLOAT, BOOLEAN)
        for op in ("cast", "try_cast")
    ]
    exprs += [to(TIMESTAMP, LEAVES["d"]), to(DATE, LEAVES["w"])]
    edge = to(DOUBLE, LEAVES["n"])  # among them 2⁶³ and -2⁶³
    exprs += [call("floor", edge), call("ceil", edge), to(BIGINT, edge)]
    exact = [e for e in exprs if why_unsupported(e) is None]
    assert len(exprs) - len(exact) <= 8
    compare(spark, exact)


def test_whole_numbers_beside_decimals(spark: SparkSession) -> None:
    limits = [
        Literal("2.5", decimal(2, 1)),
        Literal("-7.00", decimal(3, 2)),
        Literal("100", decimal(3, 0)),
        Literal("3000000000.0000001", decimal(17, 7)),
    ]
    exprs = [call(op, LEAVES[n], c) for op in COMPARE for n in "ni" for c in limits]
    exprs += [call(op, c, LEAVES["n"]) for op in COMPARE for c in limits]
    assert [why_unsupported(e) for e in exprs] == [None] * len(exprs)
    compare(spark, exprs)


def test_choices_are_lazy(spark: SparkSession) -> None:
    n, m, b = LEAVES["n"], LEAVES["m"], LEAVES["b"]
    risky = call("/", n, m)
    zero, one = Literal(0, INT), Literal(1, INT)
    positive = call(">", risky, zero)
    guards: list[Expr] = [
        call("case", call("<>", m, zero), risky, Literal(0.5, DOUBLE)),
        call("and", call("<>", m, zero), positive),
        call("or", call("=", m, zero), positive),
        call("case", call("=", m, zero), Literal(None, VOID), b, risky, to(DOUBLE, one)),
        call("/", n, call("nullif", m, zero)),
        call("try_divide", risky, call("nullif", m, zero)),
        call("try_divide", risky, m),
    ]
    assert all(not isinstance(v, FinishError) for e in guards for v in ours(e))
    unguarded: list[Expr] = [
        call("and", positive, call("<>", m, zero)),
        call("coalesce", to(DOUBLE, m), risky),
        call("in", n, zero, to(BIGINT, risky)),
        call("+", call("nullif", n, n), risky),
        call("/", risky, call("nullif", m, m)),
    ]
    compare(spark, guards + unguarded)


def test_round_is_of_the_shortest_decimal(spark: SparkSession, seed: int) -> None:
    random = np.random.default_rng(seed)
    ties = [
        round(k + 0.5) / 10.0**p + 0.5 / 10.0**p
        for p in range(5)
        for k in random.integers(-10_000, 10_000, 60)
    ]
    spread = (random.standard_normal(300) * 10.0 ** random.integers(-8, 18, 300)).tolist()
    spread += (random.integers(-(10**6), 10**6, 300) / 1000).tolist()
    values = pa.array(
        [*ties, *spread, 5e-324, 1.7976931348623157e308, -0.0, 0.005, 1.005, 2.675, 1e22, -0.4]
    )
    spark.createDataFrame(pa.table({"v": values})).createOrReplaceTempView("finish_round")
    leaf = Key(0, DOUBLE)
    # by Java 17, 4.35653023535365e16 rounds to …536000; by Java 19, to …537000
    for digits in (
        -3,
        -1,
    ):
        assert why_unsupported(call("round", leaf, Literal(digits, INT))) == "round to tens or more"
    for digits in (0, 1, 2, 3, 4, 10, 17, 25):
        expr = call("round", leaf, Literal(digits, INT))
        got = compile_finish(expr).run({leaf: values}, len(values)).to_pylist()
        wanted = spark.sql(f"SELECT v, {emit(expr, keys=['v'])} AS r FROM finish_round").toArrow()
        pairs = dict(zip(wanted["v"].to_pylist(), wanted["r"].to_pylist(), strict=True))
        for v, r in zip(values.to_pylist(), got, strict=True):
            assert same(r, pairs[v]), (digits, v, r, pairs[v])


def test_transcendentals_within_a_few_ulp(spark: SparkSession) -> None:
    exprs: list[Expr] = [call(op, LEAVES[a]) for op in ("exp", "ln", "log10") for a in "nixyf"]
    exprs += [call("power", LEAVES[a], LEAVES[b]) for a in "nxyi" for b in "yxm"]
    exprs += [call("power", Literal(v, INT), LEAVES["x"]) for v in (1, -1, 0, 2)]
    compare(spark, exprs, close=1e-15)


# -- without Spark ---------------------------------------------------------------------------------

TOTAL = Aggregate("sum", (Column("q", INT),), BIGINT)


def test_what_fails_has_sparks_code() -> None:
    count = Aggregate("count", (), BIGINT)
    inputs: dict[Expr, pa.Array] = {TOTAL: pa.array([4, 5, None, 7]), count: pa.array([2, 1, 0, 1])}
    ratio = compile_finish(call("/", TOTAL, count))
    assert ratio.run(inputs, 4).to_pylist() == [2.0, 5.0, None, 7.0]
    inputs[TOTAL] = pa.array([4, 5, 6, 7])
    with pytest.raises(FinishError) as caught:
        ratio.run(inputs, 4)
    assert caught.value.code == "DIVIDE_BY_ZERO"


def test_bare_outputs_are_passed_through() -> None:
    array = pa.array([1, 2])
    assert compile_finish(TOTAL).run({TOTAL: array}, 2) is array
    assert compile_finish(Literal("x", STRING)).run({}, 2).to_pylist() == ["x", "x"]


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        (call("*", TOTAL, Literal("1.5", decimal(2, 1))), "decimal"),
        (call("/", TOTAL, Literal("1.5", decimal(2, 1))), "decimal"),
        (
            call(
                ">",
                Aggregate("sum", (Column("p", decimal(9, 2)),), decimal(19, 2)),
                Literal(1, INT),
            ),
            "decimal",
        ),
        (call("upper", LEAVES["s"]), "upper"),
        (call("=", call("lower", LEAVES["s"]), Literal("a", STRING)), "lower"),
        (to(STRING, TOTAL), "cast from bigint to string"),
        (to(INT, LEAVES["s"]), "cast from string to int"),
        (call("round", TOTAL, Literal(-1, INT)), "round"),
        (call("+", LEAVES["d"], Literal(1, INT)), "date"),
        (call("+", TOTAL, call("/", Literal(1, INT), Literal(0, INT))), "DIVIDE_BY_ZERO"),
        (Call("is_null", (Bound("window"),), BOOLEAN), "window"),
        (Literal("1.5", decimal(2, 1)), "decimal"),
        (to(DOUBLE, to(FLOAT, TOTAL)), "DOUBLE"),
        (call("+", to(FLOAT, TOTAL), Literal(1.0, DOUBLE)), "DOUBLE"),
        (to(DOUBLE, call("coalesce", to(FLOAT, TOTAL), Literal(None, VOID))), "DOUBLE"),
    ],
)
def test_refusals(expr: Expr, reason: str) -> None:
    found = why_unsupported(expr)
    assert found is not None and reason in found


def test_decimal_constants_beside_doubles() -> None:
    mean = Aggregate("avg", (Column("p", DOUBLE),), DOUBLE)
    tenth = Literal("0.1", decimal(1, 1))
    exprs = (
        call("*", mean, tenth),
        call(">", mean, tenth),
        call("coalesce", mean, tenth),
        to(DOUBLE, tenth),
        call("nullif", mean, tenth),
        call("in", mean, tenth, Literal("0.2", decimal(1, 1))),
    )
    assert [why_unsupported(e) for e in exprs] == [None] * 6
    outputs = [compile_finish(e).run({mean: pa.array([3.0, 0.1, None])}, 3) for e in exprs]
    assert [a.to_pylist() for a in outputs] == [
        [3.0 * 0.1, 0.1 * 0.1, None],
        [True, False, None],
        [3.0, 0.1, 0.1],
        [0.1, 0.1, 0.1],
        [3.0, None, None],
        [False, True, None],
    ]
