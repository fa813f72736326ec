"""The allow-list: every row of it means the same to Spark, and what may raise is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.sql.emit import emit_query
from headrace.sql.functions import AGGREGATES, ALIASES, SCALARS, function_names, lookup, may_raise
from tests.sql.oracle import TRADES, bound, compare, make_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALAR_TEXTS = [
    "qty + 1, big - qty, price * 2, qty / 2, qty % 7, big div 3, -price, -dec",
    "qty = 3, qty <> 3, qty < 3, qty <= 3, qty > 3, qty >= 3, qty <=> NULL, ok AND qty > 0, ok OR qty > 0, NOT ok",
    "qty IS NULL, qty IS NOT NULL, ok IS TRUE, ok IS NOT FALSE",
    "qty IS DISTINCT FROM 3, qty IN (1, 3), qty NOT IN (1, NULL)",
    "qty BETWEEN 1 AND 5, day BETWEEN '2024-01-01' AND '2024-12-31', ts > '2024-01-01 00:30'",
    "symbol LIKE 'a%', symbol ILIKE 'A%', symbol LIKE '%!%!_%' ESCAPE '!', symbol RLIKE '^a', regexp_like(symbol, 'b')",
    r"symbol LIKE 'b\\%\\_\\\\', symbol = 'b%_\\', symbol = ' x\'y\n', symbol || '😀', '${env:HOME}'",
    "CASE WHEN ok THEN 1 WHEN qty > 3 THEN 2.5 END, CASE qty WHEN 3 THEN 'x' ELSE 'y' END, IF(ok, 1, 2L)",
    "coalesce(qty, 0), nvl(qty, 1.5), ifnull(symbol, 'x')",
    "nullif(qty, 3), nvl2(qty, 1, 2), greatest(qty, big), least(dec, 1)",
    "abs(qty), ceil(price), ceiling(price), floor(dec), round(price), round(dec, 1), round(qty, -1), sign(price)",
    "signum(price), sqrt(abs(price)), exp(qty), ln(qty), log10(big)",
    "power(price, 2), pow(qty, 2), mod(qty, 7), pmod(qty, 7)",
    "try_divide(price, qty), isnan(price), upper(symbol), ucase(symbol), lower(symbol), lcase(symbol), trim(symbol)",
    "ltrim(symbol), rtrim(symbol), length(symbol), char_length(symbol), substring(symbol, 2), substr(symbol, 1, 2)",
    "left(symbol, 1), right(symbol, 1), concat(symbol, 'x', symbol), replace(symbol, 'a', 'z'), replace(symbol, 'a')",
    "startswith(symbol, 'a'), endswith(symbol, 'b'), contains(symbol, 'b'), isnull(qty), isnotnull(qty)",
    "year(ts), quarter(day), month(ts), weekofyear(day), dayofyear(day), dayofweek(ts), day(ts), dayofmonth(day)",
    "hour(ts), minute(ts), second(ts), date_trunc('HOUR', ts)",
    "date_trunc('week', day), date_add(day, 1), date_sub(day, 1)",
    "datediff(day, ts), unix_timestamp(ts), unix_timestamp(day)",
    "to_date(ts), hash(qty, symbol, price), hash(dec, ok, ts)",
    "CAST(price AS STRING), CAST(qty AS DECIMAL(12,2)), CAST(ts AS DATE), CAST(day AS TIMESTAMP), CAST(ok AS INT)",
    "TRY_CAST(symbol AS DOUBLE), CAST(ts AS BIGINT), qty::double, CAST(small AS TIMESTAMP), CAST(price AS FLOAT)",
    "x.dec, X.Symbol",
    "cast(price + 1 AS STRING), ts + INTERVAL 5 MINUTES AS a",
    "ts - INTERVAL '1 hour 30 minutes' AS b, day + 1 AS c, day - 1 AS d",
    "`odd name`, `odd name` + small, ratio * 2, ratio + ratio, ratio / 2, small + 1S, price + ratio, dec + ratio",
    "1.5e300, 1e-7, 123456789.0D, 0.001D, 5., .5, 2.50BD",
    "NULL IS NULL, -0.5, 12345678901, TIMESTAMP '2024-01-01 10:00'",
    "ok = TRUE = FALSE, 1 - 2 - 3, 2 * 3 % 4, -qty * 2, NOT ok = ok, qty = 3 OR ok AND qty < 1, 'a' || 'b' = 'ab'",
    "ts - ts > INTERVAL 5 MINUTES AS a, INTERVAL 1 DAY < ts - TIMESTAMP '2020-01-01 00:00:00' AS b, qty * 1.5, 1 + 2.5",
]
AGGREGATE_TEXTS = [
    "count(*), count(qty), count(DISTINCT qty), count(qty, price)",
    "count(DISTINCT qty, ok), sum(qty), sum(dec), sum(ratio)",
    "avg(price), mean(qty), avg(dec), min(symbol), max(ts), max(ok), min(day), sum(DISTINCT qty), avg(DISTINCT dec)",
    "stddev(dec), std(dec), stddev_samp(qty), stddev_pop(qty), variance(qty), var_samp(dec), var_pop(dec)",
    "collect_list(qty), collect_set(symbol), first(qty), last(qty)",
    "any_value(symbol), first_value(qty), array_agg(dec)",
    "percentile(qty, 0.5), percentile_approx(qty, 0.5), approx_percentile(big, 0.9, 100), median(qty), mode(symbol)",
    "approx_count_distinct(qty), bool_and(ok), every(ok), bool_or(ok)",
    "approx_count_distinct(qty, 0.1), approx_count_distinct(symbol, 2e-2) FILTER (WHERE ok)",
    "some(ok), any(ok), corr(qty, big), covar_pop(qty, big)",
    "covar_samp(qty, big), skewness(qty), kurtosis(qty), min_by(symbol, qty), max_by(symbol, big), count_if(qty > 3)",
    "count(*) FILTER (WHERE ok), sum(qty) FILTER (WHERE price > 1), percentile(qty, 0.5) FILTER (WHERE ok)",
    "min_by(symbol, qty) FILTER (WHERE ok), count_if(ok) FILTER (WHERE qty > 0), count(DISTINCT qty) FILTER (WHERE ok)",
    "sum(0.05) FILTER (WHERE ok), count(NULL), count(DISTINCT 1)",
    "avg(price) * 2 + 1, CASE WHEN max(qty) > 3 THEN 1 END",
    "CAST(max(qty) AS STRING), sum(qty + 1) / count(*), round(avg(dec), 1), upper(min(symbol)) || '!', NOT bool_or(ok)",
]
GROUPED_TEXTS = [
    "SELECT symbol, count(*) FROM trades GROUP BY symbol",
    "SELECT upper(symbol), count(*) c FROM trades GROUP BY 1 HAVING C > 1",
    "SELECT window.start, window.end, window, count(*)"
    " FROM trades GROUP BY window(ts, '1 hour', '20 minutes', '5 minutes')",
    "SELECT window(ts, '1 hour') AS w, ok, max(price) FROM trades GROUP BY w, ok",
    "SELECT window(ts, '1 hour').start, count(*) FROM trades GROUP BY window(ts, '1 hour')",
    "SELECT count(*) FROM trades HAVING count(*) > 100",
    "SELECT 1 AS x FROM trades GROUP BY 'a', symbol",
    "SELECT qty % 2 + 1, sum(qty) FROM trades WHERE qty > 0 GROUP BY qty % 2",
    "SELECT sum(qty) AS qty, upper(symbol) AS symbol FROM trades GROUP BY symbol HAVING qty > 3 OR symbol = 'Abc'",
    "SELECT sum(qty) AS qty FROM trades GROUP BY symbol HAVING sum(qty) > 3",
    "SELECT ok FROM trades GROUP BY ok, ok",
]


@pytest.fixture(scope="module", autouse=True)
def view(spark: SparkSession) -> None:
    make_view(spark)


@pytest.mark.parametrize("text", SCALAR_TEXTS)
def test_scalars_mean_what_spark_means(spark: SparkSession, text: str) -> None:
    assert isinstance(compare(spark, f"SELECT {text} FROM trades x"), list)


@pytest.mark.parametrize("text", AGGREGATE_TEXTS)
def test_aggregates_mean_what_spark_means(spark: SparkSession, text: str) -> None:
    assert isinstance(compare(spark, f"SELECT {text} FROM trades"), list)


@pytest.mark.parametrize("sql", GROUPED_TEXTS)
def test_groups_mean_what_spark_means(spark: SparkSession, sql: str) -> None:
    assert isinstance(compare(spark, sql), list)


def test_a_slide_longer_than_the_range_leaves_gaps(spark: SparkSession) -> None:
    query = bound(
        "SELECT window, count(*) AS n FROM trades GROUP BY window(ts, '10 minutes', '1 hour', '-5 minutes')"
    )
    rows = spark.sql(emit_query(query, TRADES, "trades")).orderBy("window_start").collect()
    seen = [
        (str(r.window_start)[11:16], str(r.window_end)[11:16], r.window.end == r.window_end, r.n)
        for r in rows
    ]
    assert seen == [("23:55", "00:05", True, 1), ("00:55", "01:05", True, 2)]


def test_spark_sees_the_characters_of_a_string_and_nothing_else(spark: SparkSession) -> None:
    text = "${env:HOME} $x \\ ' \" \n \x00 `"
    query = bound("SELECT '${env:HOME} $x \\\\ \\' \" \\n \\0 `' AS x FROM trades")
    spark.conf.set("spark.sql.variable.substitute", "true")
    try:
        assert spark.sql(emit_query(query, TRADES, "trades")).head() == (text,)
    finally:
        spark.conf.set("spark.sql.variable.substitute", "false")


def test_every_row_of_the_list_was_asked() -> None:
    everything = " ".join(SCALAR_TEXTS + AGGREGATE_TEXTS)
    named = [f.name for f in (*SCALARS.values(), *AGGREGATES.values()) if f.callable]
    assert [name for name in named if f"{name}(" not in everything] == []


def test_aliases_lead_somewhere() -> None:
    assert all(lookup(name) is not None for name in ALIASES)
    assert len(set(function_names())) == len(function_names())


@pytest.mark.parametrize(
    ("text", "raises"),
    [
        ("price + 1", False),
        ("price * price", False),
        ("qty + 1", True),
        ("-qty", True),
        ("-price", False),
        ("price / 2", False),
        ("price / 0", True),
        ("price / qty", True),
        ("price % 2D", False),
        ("dec / 2", True),
        ("abs(price)", False),
        ("abs(qty)", True),
        ("qty div 2", True),
        ("try_divide(price, 0)", False),
        ("CAST(symbol AS INT)", True),
        ("TRY_CAST(symbol AS INT)", False),
        ("CAST(qty AS STRING)", False),
        ("CAST(qty AS BIGINT)", False),
        ("CAST(big AS INT)", True),
        ("CAST(price AS INT)", True),
        ("CAST(qty AS DOUBLE)", False),
        ("CAST(qty AS DECIMAL(12,2))", False),
        ("CAST(qty AS DECIMAL(11,2))", True),
        ("CAST(price AS DECIMAL(38,2))", True),
        ("CAST(dec AS DECIMAL(12,3))", False),
        ("CAST(dec AS DECIMAL(9,1))", True),
        ("CAST(dec AS DECIMAL(10,1))", False),
        ("CAST(ok AS INT)", False),
        ("CAST(ts AS DATE)", False),
        ("CAST(ts AS INT)", True),
        ("upper(symbol)", False),
        ("symbol LIKE 'a%'", False),
        ("qty > 3 AND ok", False),
        ("ts + INTERVAL 1 DAY", True),
        ("sum(price)", False),
        ("sum(qty)", True),
        ("avg(qty)", False),
        ("avg(dec)", True),
        ("count(*)", False),
        ("max(qty)", False),
        ("sum(qty / 2)", False),
        ("max(CAST(symbol AS INT))", True),
        ("CASE WHEN ok THEN 1 / qty END", True),
        ("1.5F / 1e-40F", False),
        ("1.5F / 1e-46F", True),
        ("price % 1e-50F", True),
        ("price / 1e-50D", False),
    ],
)
def test_what_may_raise_is_known(text: str, raises: bool) -> None:
    assert may_raise(bound(f"SELECT {text} AS x FROM trades").outputs[0].expr) is raises
