"""Two relations in FROM: what is understood, and what is refused with a place and a next step."""

from __future__ import annotations

import pytest

from headrace.sql.codec import decode, encode
from headrace.sql.emit import emit, emit_join
from tests.sql.refusals import bound, refused

SIDES = ("t.", "s.")


@pytest.mark.parametrize(
    ("sql", "where"),
    [
        (
            "SELECT t.price FROM trades t JOIN stock s ON s.price - t.price BETWEEN 3 AND 9",
            "(((s.`price` - t.`price`) >= 3) AND ((s.`price` - t.`price`) <= 9))",
        ),
        (
            "SELECT t.qty FROM trades AS t INNER JOIN stock AS s ON t.symbol = s.symbol WHERE s.qty > t.qty",
            "((t.`symbol` = s.`symbol`) AND (s.`qty` > t.`qty`))",
        ),
        (
            "SELECT t.qty FROM trades t, stock s WHERE t.symbol = s.symbol",
            "(t.`symbol` = s.`symbol`)",
        ),
        ("SELECT t.qty FROM trades t CROSS JOIN stock s WHERE s.ok", "s.`ok`"),
    ],
)
def test_on_and_where_are_one_condition(sql: str, where: str) -> None:
    query = bound(sql)
    assert query.source == "trades" and query.joined == "stock" and query.where is not None
    assert emit(query.where, sides=SIDES) == where
    assert decode(encode(query)) == query


def test_relations_go_by_their_names_without_aliases() -> None:
    query = bound(
        "SELECT trades.qty AS a, stock.qty AS b FROM trades JOIN stock ON trades.symbol = stock.symbol"
    )
    assert emit_join(query, ("x", "y")) == (
        "SELECT l.`qty` AS `a`, r.`qty` AS `b` FROM `x` AS l CROSS JOIN `y` AS r WHERE (l.`symbol` = r.`symbol`)"
    )


def test_stars() -> None:
    query = bound("SELECT s.* FROM trades t JOIN stock s ON t.symbol = s.symbol")
    assert [o.name for o in query.outputs] == [
        "symbol",
        "price",
        "qty",
        "dec",
        "ok",
        "ts",
        "seen",
        "day",
    ]
    assert {emit(o.expr, sides=SIDES)[:2] for o in query.outputs} == {"s."}
    refused("SELECT * FROM trades t JOIN stock s ON true", "same name", "alias")


def test_a_relation_with_itself() -> None:
    query = bound(
        "SELECT a.price AS x, b.price AS y FROM trades a JOIN trades b ON b.price - a.price > 5"
    )
    assert (query.source, query.joined) == ("trades", "trades")
    refused("SELECT 1 FROM trades JOIN trades ON true", "same name here", "alias")


def test_columns_of_the_joined_relation_are_another_expression() -> None:
    """Families share by equality."""
    a, b = (
        bound(f"SELECT {own}.qty FROM trades t JOIN stock s ON true").outputs[0].expr
        for own in "ts"
    )
    assert a != b and hash(a) != hash(b)


@pytest.mark.parametrize(
    ("sql", "words", "at"),
    [
        (
            "SELECT price FROM trades t JOIN stock s ON true",
            ("fits several", "t.price", "s.price"),
            "price",
        ),
        (
            "SELECT u.price FROM trades t JOIN stock s ON true",
            ("unknown column in trades and stock", "s.name"),
            "u.",
        ),
        ("SELECT t.pric FROM trades t JOIN stock s ON true", ("unknown column", "price"), "t.pric"),
        (
            "SELECT 1 FROM trades t JOIN nowhere s ON true",
            ("unknown stream or table", "nowhere"),
            "nowhere",
        ),
        ("SELECT 1 FROM trades t JOIN stock s", ("expected ON", "CROSS JOIN"), None),
        (
            "SELECT 1 FROM trades t JOIN stock s USING (symbol)",
            ("USING is not available", "ON a.column"),
            "USING",
        ),
        (
            "SELECT 1 FROM trades t LEFT JOIN stock s ON true",
            ("LEFT is not available", "inner joins"),
            "LEFT",
        ),
        (
            "SELECT 1 FROM trades t NATURAL JOIN stock s",
            ("NATURAL is not available", "inner joins"),
            "NATURAL",
        ),
        (
            "SELECT 1 FROM trades t JOIN stock s ON true JOIN stock u ON true",
            ("joins two relations",),
            "JOIN stock u",
        ),
        ("SELECT 1 FROM trades t, stock s, stock u", ("joins two relations",), ", stock u"),
        ("SELECT 1 FROM trades t JOIN (SELECT 1) s ON true", ("FROM takes the name",), "(SELECT"),
        ("SELECT 1 FROM trades t JOIN stock s ON t.qty", ("ON takes a condition",), "t.qty"),
        (
            "SELECT count(*) FROM trades t JOIN stock s ON true",
            ("aggregates are not available over a join", "two steps", "eng.results(q)"),
            "stock",
        ),
        (
            "SELECT t.qty FROM trades t JOIN stock s ON true GROUP BY t.qty",
            ("GROUP BY is not available over a join", "two steps"),
            "stock",
        ),
        (
            "SELECT t.qty FROM trades t JOIN stock s ON true HAVING t.qty > 1",
            ("HAVING is not available over a join", "after WHERE"),
            "stock",
        ),
        (
            "SELECT t.qty FROM trades t JOIN stock s ON true HAVING max(t.qty) > 1",
            ("aggregates are not available over a join", "two steps"),
            "stock",
        ),
        (
            "SELECT DISTINCT t.qty FROM trades t JOIN stock s ON true",
            ("DISTINCT is not", "answers are read"),
            "DIST",
        ),
        (
            "SELECT DISTINCT t.qty FROM trades t, stock s",
            ("DISTINCT is not", "where answers are read"),
            "DISTINCT",
        ),
        (
            "SELECT t.qty FROM trades t JOIN stock s ON true LIMIT 5",
            ("LIMIT is not", "filter with WHERE, "),
            "LIMIT",
        ),
        (
            "SELECT t.qty FROM trades t CROSS JOIN stock s ON t.qty = s.qty",
            ("CROSS JOIN takes no ON", "JOIN …"),
            "ON",
        ),
        (
            "SELECT t.qty FROM trades t CROSS JOIN stock s USING (qty)",
            ("CROSS JOIN takes no USING", "WHERE"),
            "USING",
        ),
        (
            "SELECT t.qty FROM trades t, stock s ON t.qty = s.qty",
            ("a comma takes no ON", "after WHERE"),
            "ON",
        ),
    ],
)
def test_refusals_of_joins(sql: str, words: tuple[str, ...], at: str | None) -> None:
    refused(sql, *words, at=at)
