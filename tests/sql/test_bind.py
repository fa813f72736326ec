"""Binding: names, groups, aggregates, outputs; equal meanings become equal trees."""

from __future__ import annotations

import pytest

from headrace.errors import SQLError
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.sql.tree import COUNT_ROWS, Aggregate, Bound, Call, Column, Expr, Key, Literal
from headrace.values import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Relation
from tests.sql.refusals import bound, refused

SYMBOL, PRICE, QTY = Column("symbol", STRING), Column("price", DOUBLE), Column("qty", INT)


def expr(text: str) -> Expr:
    return bound(f"SELECT {text} AS x FROM trades").outputs[0].expr


def test_a_stateless_query() -> None:
    query = bound("SELECT symbol, price * 2 AS twice FROM trades WHERE qty > 3")
    assert [o.name for o in query.outputs] == ["symbol", "twice"]
    assert query.outputs[0].expr == SYMBOL
    assert query.where == Call(">", (QTY, Literal(3, INT)), BOOLEAN)
    assert not query.grouped
    assert query.keys == ()
    assert query.columns == {"symbol", "price", "qty"}


def test_a_grouped_query_speaks_of_keys() -> None:
    query = bound(
        "SELECT upper(symbol) || '!' AS s, avg(price) * 2 + 1 AS p FROM trades GROUP BY upper(symbol), qty "
        "HAVING qty > 1 AND p > 0"
    )
    assert query.grouped
    assert query.keys == (Call("upper", (SYMBOL,), STRING), QTY)
    assert query.outputs[0].expr == Call("concat", (Key(0, STRING), Literal("!", STRING)), STRING)
    average = Aggregate("avg", (PRICE,), DOUBLE)
    assert query.aggregates == (average,)
    assert isinstance(query.having, Call)
    assert query.having.args[0] == Call(">", (Key(1, INT), Literal(1, INT)), BOOLEAN)


def test_a_global_aggregate_has_no_keys() -> None:
    query = bound("SELECT count(*), max(price) FROM trades")
    assert query.grouped
    assert query.keys == ()
    assert query.window is None


@pytest.mark.parametrize(
    "group", ["1", "s", "S", "upper(symbol)", "UPPER(Trades.SYMBOL)", "1, s, upper(symbol)"]
)
def test_keys_by_position_alias_and_expression(group: str) -> None:
    query = bound(f"SELECT upper(symbol) AS s, count(*) FROM trades GROUP BY {group}")
    assert query.keys == (Call("upper", (SYMBOL,), STRING),)
    assert query.outputs[0].expr == Key(0, STRING)


def test_columns_win_over_aliases_in_group_by() -> None:
    query = bound("SELECT upper(symbol) AS symbol, count(*) FROM trades GROUP BY symbol")
    assert query.keys == (SYMBOL,)


def test_having_prefers_keys_then_aliases_and_columns_inside_aggregates() -> None:
    key = bound("SELECT upper(symbol) AS symbol FROM trades GROUP BY symbol HAVING symbol = 'a'")
    assert isinstance(key.having, Call)
    assert key.having.args[0] == Key(0, STRING)
    alias = bound(
        "SELECT symbol, sum(qty) AS qty FROM trades GROUP BY symbol HAVING qty > 1 AND sum(qty) > 1"
    )
    assert isinstance(alias.having, Call)
    assert alias.having.args[0] == alias.having.args[1]
    refused(
        "SELECT count(*) AS symbol FROM trades GROUP BY upper(symbol) HAVING upper(symbol) = 'A'",
        "both an alias",
    )


def test_names_have_no_case_and_may_be_qualified() -> None:
    assert expr("PRICE") == expr("`Price`") == expr("trades.price") == expr("TRADES.Price") == PRICE
    assert bound("SELECT t.price FROM trades t").outputs[0].expr == PRICE
    assert bound("SELECT t.price FROM Trades AS t WHERE t.qty = 1").source == "trades"
    refused("SELECT trades.price FROM trades t", "t.name", at="trades.price")
    refused("SELECT stock.price FROM trades", "trades.name", at="stock.price")
    refused("SELECT a.b.price FROM trades", "unknown column", at="a.b.price")


def test_odd_names() -> None:
    fields = parse_schema(
        "`select` INT, `a b` INT, `ä` INT, naïve INT, `x``y` INT, end_ INT, date DATE, timestamp INT"
    )
    odd = Relation("odd", "parquet:x", fields)
    query = bind(
        "SELECT `select`, `a b`, `ä`, ä + 1, naïve, `x``y`, date, timestamp, `order`.`select` + 1 AS `group by` "
        "FROM odd AS `order`",
        {"odd": odd},
        name="q",
    )
    assert [o.name for o in query.outputs] == [
        "select",
        "a b",
        "ä",
        "(ä + 1)",
        "naïve",
        "x`y",
        "date",
        "timestamp",
        "group by",
    ]
    twice = Relation("twice", "x", (*fields, *fields))
    with pytest.raises(SQLError, match="fits several columns"):
        bind("SELECT date FROM twice", {"twice": twice}, name="q")


def test_star() -> None:
    assert [o.name for o in bound("SELECT *, price * 2 AS p FROM trades").outputs][-3:] == [
        "seen",
        "day",
        "p",
    ]
    assert len(bound("SELECT trades.* FROM trades").outputs) == 8
    refused("SELECT x.* FROM trades", "unknown relation", at="x.*")
    refused("SELECT * FROM trades GROUP BY symbol", "from groups", at="*")
    refused("SELECT count(*), * FROM trades")
    refused("SELECT sum(*) FROM trades", "count(*) only")
    refused("SELECT count(DISTINCT *) FROM trades", "count(*) only")
    refused("SELECT upper(*) FROM trades", "stands alone")


def test_every_column_of_a_group_has_one_value() -> None:
    refused("SELECT symbol, price FROM trades GROUP BY symbol", "any_value(price)", at="price")
    refused("SELECT max(price), price + 1 FROM trades", at="price + 1")
    refused("SELECT symbol FROM trades GROUP BY upper(symbol)", at="symbol")
    refused("SELECT symbol FROM trades GROUP BY symbol HAVING price > 1", at="price")
    refused("SELECT symbol FROM trades HAVING count(*) > 1", at="symbol")


@pytest.mark.parametrize(
    ("sql", "what", "at"),
    [
        ("SELECT sum(max(price)) FROM trades", "inside an aggregate", "max"),
        ("SELECT qty FROM trades WHERE sum(price) > 1", "use HAVING", "sum"),
        ("SELECT count(*) FROM trades GROUP BY sum(price)", "not allowed in GROUP BY", "sum"),
        ("SELECT sum(price) AS s FROM trades GROUP BY s", "not allowed in GROUP BY", "sum"),
        ("SELECT sum(price) FROM trades GROUP BY 1", "not allowed in GROUP BY", "sum"),
        ("SELECT symbol FROM trades GROUP BY 2", "positions 1 to 1", "2"),
        ("SELECT symbol FROM trades GROUP BY 0", "positions 1 to 1", "0"),
        ("SELECT symbol FROM trades GROUP BY -1", "positions 1 to 1", "-1"),
        ("SELECT symbol FROM trades GROUP BY NULL", "type void", "NULL"),
        ("SELECT price AS p, p + 1 AS q FROM trades", "alias of this SELECT", "p + 1"),
        ("SELECT price AS p FROM trades WHERE p > 1", "alias of this SELECT", "p > 1"),
        ("SELECT price, price FROM trades", "same name", "price FROM"),
        ("SELECT price AS x, qty AS X FROM trades", "same name", "qty"),
        ("SELECT count(*), count(1) FROM trades", "same name", "count(1)"),
        ("SELECT sum(price) FILTER (WHERE qty) FROM trades", "takes a condition", "qty"),
        ("SELECT sum(price) FILTER (WHERE max(qty) > 1) FROM trades", "inside an aggregate", "max"),
        ("SELECT first(price) FILTER (WHERE ok) FROM trades", "FILTER does not go", "first"),
        ("SELECT price AS `` FROM trades", "needs a name", "price"),
    ],
)
def test_bad_groups_and_outputs(sql: str, what: str, at: str) -> None:
    refused(sql, what, at=at)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("qty != 1", "qty <> 1"),
        ("qty == 1", "qty = 1"),
        ("1 < qty", "qty > 1"),
        ("5 >= qty", "qty <= 5"),
        ("qty BETWEEN 1 AND 5", "qty >= 1 AND qty <= 5"),
        ("qty NOT BETWEEN 1 AND 5", "NOT (1 <= qty AND 5 >= qty)"),
        ("qty NOT IN (1, 2)", "NOT (qty IN (2, 1, 2))"),
        ("IF(ok, 1, 2)", "CASE WHEN ok THEN 1 ELSE 2 END"),
        ("CASE WHEN ok THEN 1 END", "CASE WHEN ok THEN 1 ELSE NULL END"),
        ("CASE qty WHEN 1 THEN 2 END", "CASE WHEN qty = 1 THEN 2 END"),
        ("nvl(qty, 0)", "coalesce(qty, 0)"),
        ("nvl2(qty, 1, 0)", "IF(qty IS NOT NULL, 1, 0)"),
        ("mod(qty, 2)", "qty % 2"),
        ("pow(price, 2)", "power(price, 2)"),
        ("symbol || 'x'", "concat(symbol, 'x')"),
        ("substr(symbol, 2)", "SUBSTRING(symbol, 2)"),
        ("isnull(qty)", "qty IS NULL"),
        ("ok IS TRUE", "ok <=> true"),
        ("qty IS DISTINCT FROM 1", "NOT (qty <=> 1)"),
        ("to_date(ts)", "CAST(ts AS DATE)"),
        ("qty::double", "CAST(qty AS DOUBLE)"),
        ("+qty", "qty"),
        ("ts > '2024-01-01'", "ts > TIMESTAMP '2024-01-01 00:00:00'"),
        ("rlike(symbol, 'a')", "symbol REGEXP 'a'"),
        ("mean(price)", "avg(price)"),
        ("stddev(price)", "stddev_samp(price)"),
        ("std(price)", "stddev_samp(price)"),
        ("variance(price)", "var_samp(price)"),
        ("count(*)", "count(1)"),
        ("count(*)", "count('x')"),
        ("count(1, qty)", "count(qty)"),
        ("count_if(ok)", "count(*) FILTER (WHERE ok)"),
        ("max(DISTINCT price)", "max(price)"),
        ("every(ok)", "bool_and(ok)"),
    ],
)
def test_equal_meanings_are_equal_trees(one: str, other: str) -> None:
    assert expr(one) == expr(other)


def test_count() -> None:
    assert expr("count(*)") == COUNT_ROWS
    assert expr("count(qty)") == Aggregate("count", (QTY,), BIGINT)
    assert expr("count(DISTINCT qty)") == Aggregate("count", (QTY,), BIGINT, distinct=True)
    both = expr("count(qty, price)")
    assert both == expr("count(CASE WHEN qty IS NOT NULL THEN price END)")
    refused("SELECT count() FROM trades", "takes 1 to")


def test_the_window_in_outputs() -> None:
    query = bound(
        "SELECT window.start, window.end AS e, window, max(price) FROM trades GROUP BY window(ts, '1 hour')"
    )
    assert [o.expr for o in query.outputs][:3] == [Bound("start"), Bound("end"), Bound("window")]
    assert [o.name for o in query.outputs] == ["start", "e", "window", "max(price)"]
    assert query.grouped
    assert query.keys == ()
