"""The market workload: seeded, bounded disorder, distinct queries."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from headrace.bench import market
from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.values import US_PER_S, Relation


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_trades_are_deterministic_for_a_seed() -> None:
    first = market.trades(generator(), market.START_US, 2, 5_000)
    assert first.equals(market.trades(generator(), market.START_US, 2, 5_000))
    assert not first.equals(market.trades(generator(8), market.START_US, 2, 5_000))


def test_trades_have_the_declared_columns_and_some_nulls() -> None:
    table = market.trades(generator(), market.START_US, 4, 50_000)
    assert table.num_rows == 200_000
    assert table.column_names == [part.split()[0] for part in market.SCHEMA.split(", ")]
    assert len(pc.unique(table["symbol"])) == 100
    for name in ("price", "qty"):
        assert 0 < table[name].null_count < 0.02 * table.num_rows


def test_disorder_is_bounded_by_the_lateness() -> None:
    ts = market.trades(generator(), market.START_US, 10, 5_000)["ts"].cast("int64").to_numpy()
    behind = np.maximum.accumulate(ts) - ts
    assert 0 < behind.max() <= market.DELAY_MAX_S * US_PER_S
    assert ts.min() >= market.START_US - market.DELAY_MAX_S * US_PER_S
    assert ts.max() < market.START_US + 10 * US_PER_S


def test_prices_walk_on_between_calls() -> None:
    walking = market.Market(generator())
    walking.trades(market.START_US, 4, 1_000)
    level = walking.levels.copy()
    later = walking.trades(market.START_US + 4 * US_PER_S, 1, 20_000)
    for k in (0, 50, 99):
        mine = later.filter(pc.equal(later["symbol"], market.SYMBOLS[k]))["price"]
        assert pc.mean(mine).as_py() == pytest.approx(level[k], rel=0.01)


def test_ten_thousand_queries_are_distinct_and_deterministic() -> None:
    texts = market.queries(generator(), 10_000)
    assert len(set(texts.values())) == len(texts) == 10_000
    assert texts == market.queries(generator(), 10_000)


def test_queries_cover_the_shapes() -> None:
    text = "\n".join(market.queries(generator(), 1_000).values())
    for piece in (
        "HAVING",
        "LIKE",
        " IN (",
        "CASE",
        "'1 hour'",
        "'10 seconds')",
        "'45 seconds', '30 seconds'",
    ):
        assert piece in text


def test_queries_are_accepted() -> None:
    fields = parse_schema(market.SCHEMA)
    relations = {"trades": Relation("trades", "parquet:trades", fields, market.TIME, 2 * US_PER_S)}
    for name, sql in market.queries(generator(), 300).items():
        assert bind(sql, relations, name=name, config=Config()).window is not None


def test_asking_for_more_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market, "_draw", lambda rng: (10, 10, "", (), ("count(*) AS n",), ""))
    with pytest.raises(HeadraceError, match="not that many"):
        market.queries(generator(), 2)
