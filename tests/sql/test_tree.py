"""Trees that are equal mean equal work."""

from __future__ import annotations

import pytest

from headrace.sql.tree import Call, Column, Expr, Literal
from headrace.values import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, STRING, VOID

APART = [
    Literal(0.0, DOUBLE),
    Literal(-0.0, DOUBLE),
    Literal(-0.0, FLOAT),
    Literal(1.0, DOUBLE),
    Literal(1, DOUBLE),
    Literal(0, INT),
    Literal(0, BIGINT),
    Literal(1, INT),
    Literal(True, BOOLEAN),
    Literal(False, BOOLEAN),
    Literal("0", STRING),
    Literal("", STRING),
    Literal(None, VOID),
    Literal(None, DOUBLE),
]


@pytest.mark.parametrize("depth", [0, 2])
def test_constants_are_one_only_if_all_that_is_computed_from_them_is(depth: int) -> None:
    def deep(leaf: Expr) -> Expr:
        for _ in range(depth):
            leaf = Call("*", (Column("b", DOUBLE), leaf), DOUBLE)
        return leaf

    assert len({deep(own) for own in APART}) == len(APART)
    assert all(deep(own) == deep(Literal(own.value, own.type)) for own in APART)
    assert all(hash(deep(own)) == hash(deep(Literal(own.value, own.type))) for own in APART)
    assert Literal(1, INT) != 1
