"""Wrong types are refused where they stand, with the cast to write."""

from __future__ import annotations

import pytest

from tests.sql.refusals import bound, refused


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("sum(symbol)", "symbol", "CAST"),
        ("avg(ts)", "ts", "a number"),
        ("stddev(ok)", "ok", "a number"),
        ("symbol + 1", "symbol", "CAST"),
        ("1 + symbol", "symbol", "CAST"),
        ("price AND ok", "price", "boolean"),
        ("price AND qty", "price", "boolean"),
        ("NOT qty", "qty", "boolean"),
        ("price LIKE 'a'", "price", "CAST"),
        ("symbol LIKE 3", "3", "string"),
        ("symbol = 3", "3", "CAST"),
        ("qty = 'three'", "'three'", "CAST"),
        ("ok = 1", "1", "does not go with"),
        ("qty IN (1, 'a')", "'a'", "CAST"),
        ("coalesce(qty, symbol)", "symbol", "CAST"),
        ("CASE WHEN ok THEN 1 ELSE 'a' END", "'a'", "CAST"),
        ("CASE WHEN qty THEN 1 END", "qty", "a condition"),
        ("CASE qty WHEN 'a' THEN 1 END", "'a'", "CAST"),
        ("IF(qty, 1, 2)", "qty", "a condition"),
        ("upper(qty)", "qty", "CAST"),
        ("concat(symbol, qty)", "qty", "CAST"),
        ("substring(symbol, 'a')", "'a'", "an int"),
        ("year(qty)", "qty", "a date or timestamp"),
        ("hour(day)", "day", "a timestamp"),
        ("price div 2", "price", "floor"),
        ("ts + 1", "1", "interval"),
        ("day + INTERVAL 1 DAY", "INTERVAL", "number of days"),
        ("ts - day", "day", "datediff"),
        ("CAST(day AS INT)", "CAST", "cannot be cast"),
        ("CAST(ts AS BOOLEAN)", "CAST", "cannot be cast"),
        ("CAST(ok AS TIMESTAMP)", "CAST", "cannot be cast"),
        ("TRY_CAST(qty AS BINARY)", "TRY_CAST", "cannot be cast"),
        ("CAST(qty AS DECIMAL(40, 2))", "DECIMAL", "not a decimal type"),
        ("CAST(qty AS DECIMAL(2, 3))", "DECIMAL", "not a decimal type"),
        ("CAST(qty AS NUMBER)", "NUMBER", "unknown type"),
        ("ts > '2024-13-01'", "'2024-13-01'", "month"),
        ("ts > 'yesterday'", "'yesterday'", "not a timestamp"),
        ("DATE '2024-02-30'", "'2024-02-30'", "day"),
        ("TIMESTAMP '2024-01-01 00:00:00+01:00'", "'2024", "not a timestamp"),
        ("300Y", "300Y", "does not fit"),
        ("1.5L", "1.5L", "no fraction"),
        ("1e999", "1e999", "does not fit"),
        ("1234567890123456789012345678901234567890", "123456", "38 digits"),
        ("round(price, qty)", "qty", "constant"),
        ("percentile(price, 2)", "2", "between 0 and 1"),
        ("percentile(price, qty)", "qty", "between 0 and 1"),
        ("approx_count_distinct(price, 0.5)", "0.5", "up to 0.39"),
        ("approx_count_distinct(price, qty)", "qty", "constant"),
        ("date_trunc('fortnight', ts)", "'fortnight'", "choices"),
        ("abs()", "abs", "takes 1"),
        ("abs(1, 2)", "abs", "takes 1"),
        ("nullif(1)", "nullif", "takes 2"),
        ("isnan(qty)", "qty", "float or double"),
        ("ts - seen", "ts", "type interval"),
        ("NULL", "NULL", "CAST(NULL AS DOUBLE)"),
        ("INTERVAL 1 MONTH", "INTERVAL", "no fixed length"),
        ("INTERVAL '1:30' HOUR TO MINUTE", "TO", "not available"),
    ],
)
def test_wrong_types_are_refused_in_place(text: str, at: str, words: str) -> None:
    sql = f"SELECT {text} FROM trades"
    refused(sql, words, at=at)


@pytest.mark.parametrize("condition", ["price", "NULL", "symbol", "1", "count(*) > 1"])
def test_where_takes_a_condition(condition: str) -> None:
    refused(f"SELECT qty FROM trades WHERE {condition}", at=condition)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "int"),
        ("2147483648", "bigint"),
        ("99999999999999999999", "decimal(20,0)"),
        ("2.5", "decimal(2,1)"),
        (".05", "decimal(2,2)"),
        ("1e3", "double"),
        ("1.5D", "double"),
        ("1.5F", "float"),
        ("5L", "bigint"),
        ("5S", "smallint"),
        ("5Y", "tinyint"),
        ("1.50BD", "decimal(3,2)"),
        ("-2147483648", "int"),
        ("-9223372036854775808", "bigint"),
        ("TRUE", "boolean"),
        ("'a'", "string"),
        ("DATE '2024-01-01'", "date"),
        ("TIMESTAMP '2024-01-01'", "timestamp"),
        ("TIMESTAMP_NTZ '2024-01-01 10:00'", "timestamp_ntz"),
        ("dec + 1", "decimal(11,2)"),
        ("dec * qty", "decimal(21,2)"),
        ("dec / 3", "decimal(14,6)"),
        ("NULL / 1.5", "double"),
        ("1.5 / NULL", "decimal(8,6)"),
        ("qty / 2", "double"),
        ("dec + price", "double"),
        ("sum(qty)", "bigint"),
        ("sum(dec)", "decimal(20,2)"),
        ("avg(dec)", "decimal(14,6)"),
        ("collect_list(dec)", "array<decimal(10,2)>"),
        ("CAST(qty AS DECIMAL)", "decimal(10,0)"),
        ("ts + INTERVAL 1 DAY", "timestamp"),
        ("CASE WHEN ok THEN 1 ELSE 2.5 END", "decimal(11,1)"),
        ("CASE WHEN ok THEN day ELSE ts END", "timestamp"),
    ],
)
def test_types_of_expressions(text: str, kind: str) -> None:
    group = " GROUP BY qty, price, dec, ok, ts, day" if "(" in text and "CAST" not in text else ""
    assert str(bound(f"SELECT {text} AS x FROM trades{group}").outputs[0].expr.type) == kind
