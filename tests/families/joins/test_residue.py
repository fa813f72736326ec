"""The columns of an answer, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from headrace.families.joins.conditions import Conditions
from headrace.families.joins.reading.remaining_conditions import Rows, answers_of, empty_answer
from headrace.sql.bind import bind
from headrace.sql.emit import emit
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.sql.tree import Expr
from headrace.values import Relation

FIELDS = parse_schema("n BIGINT, b DOUBLE, ts TIMESTAMP")
RELATIONS = {name: Relation(name, f"parquet:{name}", FIELDS, time="ts") for name in "rs"}
ROWS = [pa.table({"n": [7, 8], "b": [2.0, -3.0]}), pa.table({"n": [42, 43], "b": [1.0, 1.0]})]


def selected(outputs: str) -> Query:
    return bind(f"SELECT {outputs} FROM r JOIN s ON r.n = s.n", RELATIONS, name="q")


def texts(exprs: Sequence[Expr], rows: Rows) -> list[pa.Array]:
    """An answer of Spark's that says what was asked."""
    return [pa.array([emit(expr, sides=("r.", "s."))] * rows[0].num_rows) for expr in exprs]


@pytest.mark.parametrize(
    ("outputs", "name"),
    [
        ("r.n, s.b", "change"),
        ("r.n AS change", "_change"),
        ("r.n AS Change", "_change"),
        ("r.n AS change, s.n AS _change", "__change"),
        ("r.n AS _CHANGE, s.n AS CHANGE", "__change"),
        ("r.n AS _change", "change"),
    ],
)
def test_no_column_of_the_query_is_taken_for_the_change(outputs: str, name: str) -> None:
    query = selected(outputs)
    own = [o.name for o in query.outputs]
    found = answers_of(query, Conditions(), ROWS, np.array([1, -1]), texts)
    assert found.column_names == [*own, name] == empty_answer(query, has_table=True).column_names
    assert found.column(name).to_pylist() == [1, -1] and found.column(own[0]).to_pylist() == [7, 8]


def test_both_zeros_are_constants_of_their_own() -> None:
    here = answers_of(selected("r.b * 0e0 AS p, r.b * -0e0 AS m"), Conditions(), ROWS, None, texts)
    assert [[str(v) for v in c.to_pylist()] for c in here.columns] == [
        ["0.0", "-0.0"],
        ["-0.0", "0.0"],
    ]
    query = selected("CAST(r.b * 0e0 AS STRING) AS p, CAST(r.b * -0e0 AS STRING) AS m")
    asked = answers_of(query, Conditions(), ROWS, None, texts)
    assert [c.to_pylist()[0] for c in asked.columns] == [
        f"cast((r.`b` * {z}D) AS string)" for z in ("0.0", "-0.0")
    ]
