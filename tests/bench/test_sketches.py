"""The benchmark of sketches: its queries are accepted, and every operator is driven over the same
panes."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.bench import market, sketches
from headrace.bench.sketches import KINDS, OPERATORS, operators, queries


def test_its_queries_are_different_and_shared(tmp_path: Path) -> None:
    texts = queries(sketches.QUERIES)
    assert len(set(texts.values())) == sketches.QUERIES
    eng = headrace.Engine(tmp_path / "race")
    eng.create_stream(
        "trades", "parquet:/data/trades", schema=market.SCHEMA, time=market.TIME, late=market.LATE
    )
    eng.add_many(texts)
    assert {q.family for q in eng.queries()} == {"windows"}
    assert "dyadic table" in eng.explain()


@pytest.mark.parametrize("kind", KINDS)
def test_every_operator_is_measured(kind: str) -> None:
    told: list[str] = []
    figures = operators("families", kind, 140, told.append)
    assert [f.name for f in figures] == [
        f"families_{kind}_{o.replace(' ', '_')}" for o in OPERATORS
    ]
    assert all(f.value > 0 for f in figures) and len(told) == len(OPERATORS)
