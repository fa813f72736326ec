"""What the tests of the gate share: bind a text and look at how it is refused."""

from __future__ import annotations

import pytest

from headrace.config import Config
from headrace.errors import SQLError
from headrace.sql.bind import bind
from headrace.sql.query import Query
from headrace.sql.schema import parse_schema
from headrace.values import Relation

FIELDS = parse_schema(
    "symbol STRING, price DOUBLE, qty INT, dec DECIMAL(10,2), ok BOOLEAN, ts TIMESTAMP, seen TIMESTAMP, day DATE"
)
TRADES = Relation("trades", "parquet:trades", FIELDS, time="ts")
STOCK = Relation("stock", "parquet:stock", FIELDS, key=("symbol",))
RELATIONS = {"trades": TRADES, "stock": STOCK}


def bound(sql: str, config: Config | None = None) -> Query:
    return bind(sql, RELATIONS, name="q", config=config or Config())


def refused(sql: str, *words: str, at: str | None = None, config: Config | None = None) -> SQLError:
    """The refusal of `sql`: it says these words, and points at the first place of `at` in the
    text."""
    with pytest.raises(SQLError) as caught:
        bound(sql, config)
    error = caught.value
    for word in words:
        assert word in str(error), f"{word!r} is not in\n{error}"
    if at is not None:
        assert error.at == sql.index(at), f"points at {sql[error.at or 0 :][:20]!r}\n{error}"
    return error
