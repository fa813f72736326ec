"""Queries as data and back, and quickly."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import CatalogError, SQLError
from headrace.sql.codec import decode, decode_expr, encode, encode_expr
from headrace.sql.tree import Literal
from headrace.values import DOUBLE, Type
from tests.sql.oracle import bound
from tests.sql.queries import grouped, stateless


@settings(max_examples=150)
@given(sql=st.one_of(stateless(), grouped()))
def test_a_query_survives_the_journey(sql: str) -> None:
    try:
        query = bound(sql)
    except SQLError:
        return
    assert decode(json.loads(json.dumps(encode(query)))) == query


def test_every_part_of_a_query_survives() -> None:
    query = bound(
        "SELECT /*+ WITHIN(8) */ upper(symbol) AS `ß\n`, window, collect_list(dec) AS l, count(DISTINCT qty) AS n, "
        "CASE WHEN max(price) > 1.5D THEN '\\u0000😀' END AS t FROM trades WHERE ts > '2024-01-01' AND ok IS NULL "
        "GROUP BY 1, window(ts, '90 minutes', '20 minutes', '5 minutes') HAVING n > 1 AND window.start < window.end"
    )
    assert decode(json.loads(json.dumps(encode(query)))) == query


def test_odd_numbers_survive() -> None:
    for value in (1e-310, 1.7976931348623157e308, 0.1, float("inf"), 0.0, -0.0):
        assert decode_expr(encode_expr(Literal(value, DOUBLE))) == Literal(value, DOUBLE)
    assert decode_expr(encode_expr(Literal("1.50", Type("decimal", 3, 2)))).type == Type(
        "decimal", 3, 2
    )


def test_ten_thousand_queries_load_within_a_second() -> None:
    texts = [
        f"SELECT symbol, avg(price) AS p, sum(qty) AS q FROM trades WHERE qty > {i % 50} "
        f"GROUP BY symbol, window(ts, '{i % 90 + 10} minutes', '{i % 9 + 1} minutes')"
        for i in range(500)
    ]
    stored = [json.dumps(encode(bound(text))) for text in texts]
    began_s = process_time()
    queries = [decode(json.loads(text)) for _ in range(20) for text in stored]
    assert len(queries) == 10_000
    assert process_time() - began_s < 1
    assert queries[0].outputs[1].expr is queries[500].outputs[1].expr


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": None},
        {"outputs": [["a"]]},
        {"outputs": [["a", "[1]"]]},
        {"keys": ["{"]},
        {"window": [1]},
        {"where": '["call","+",[]]'},
        {"having": '["literal",[],"int"]'},
        {"keys": [f"{'[' * 5000}"]},
    ],
)
def test_damaged_data_is_a_catalog_error(change: dict[str, object]) -> None:
    data = encode(bound("SELECT qty FROM trades")) | change
    with pytest.raises(CatalogError, match="cannot be read"):
        decode(data)
    with pytest.raises(CatalogError, match="cannot be read"):
        decode({})


ODD: list[object] = [
    None,
    True,
    False,
    0,
    -1,
    1 << 70,
    0.5,
    "",
    "x",
    "\ud800",
    [],
    [[]],
    [""],
    [0],
    {},
    {"x": 1},
]
PARTS = [*encode(bound("SELECT qty FROM trades")), "joined"]


@pytest.mark.parametrize("part", PARTS)
def test_what_is_read_is_what_would_be_written(part: str) -> None:
    """Whatever stands in a part: an error of ours, or a query that is written as it was read."""
    for query in (
        bound("SELECT qty FROM trades"),
        bound("SELECT count(*) AS n FROM trades GROUP BY symbol"),
    ):
        for odd in ODD:
            data = encode(query) | {part: odd}
            try:
                found = decode(data)
            except CatalogError:
                continue
            hash((found, found.relations))
            assert encode(found) == {
                k: v for k, v in data.items() if k != "joined" or v is not None
            }, odd
