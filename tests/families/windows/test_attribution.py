"""The split of a round among its queries: it adds up, nobody gains, equals pay the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.families.windows.costs.attribution import Users, split
from headrace.families.windows.costs.workload import Floats, quantities_of
from headrace.families.windows.cuts import plan_cuts
from headrace.families.windows.explain import assignment_of
from headrace.sql.bind import bind
from tests.families.windows.test_cost import FLOW, RELATION, Ask, queries, sql_of


def parts_of(
    asks: Sequence[Ask], answers: dict[int, int], united: bool = True
) -> dict[str, Floats]:
    """By stage, in the order of the asks."""
    bound = [(i, bind(sql_of(ask), {"s": RELATION}, name=f"q{i}")) for i, ask in enumerate(asks)]
    assignment = assignment_of(bound, RELATION)
    users = Users(assignment, plan_cuts(assignment.rings.values(), united))
    order = np.argsort(users.ids)
    return {
        stage: p[order]
        for stage, p in split(users, quantities_of(users.work, FLOW), answers).items()
    }


@given(st.lists(queries, min_size=1, max_size=12), st.booleans(), st.data())
def test_shares_add_up_and_nobody_gains(asks: list[Ask], united: bool, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 50), min_size=len(asks), max_size=len(asks)))
    for stage, parts in parts_of(asks, dict(enumerate(counts)), united).items():
        assert abs(parts.sum() - 1) < 1e-9, stage
        assert (parts >= 0).all(), stage


@given(st.lists(queries, min_size=1, max_size=8), queries)
def test_identical_queries_pay_the_same(asks: list[Ask], twin: Ask) -> None:
    for parts in parts_of([twin, *asks, twin], {}).values():
        assert parts[0] == pytest.approx(parts[-1], rel=1e-9)


@given(
    st.sampled_from(["k, ", ""]), st.sampled_from(["sum(x)", "avg(x), max(n)"]), st.integers(2, 6)
)
def test_a_predicate_of_its_own_costs_at_least_a_share_of_one(
    keys: str, aggregates: str, sharing: int
) -> None:
    own = ("n > 1", keys, aggregates, 10)
    shared = ("n > 2", keys, aggregates, 10)
    for stage, parts in parts_of([own, *[shared] * sharing], {}).items():
        assert parts[0] >= parts[1] * (1 - 1e-9), stage
    assert (
        parts_of([own, *[shared] * sharing], {})["spark"][0]
        > parts_of([own, *[shared] * sharing], {})["spark"][1]
    )


def test_a_crowd_of_constants_shares_its_cells() -> None:
    crowd: list[Ask] = [(f"x < {i}", "k, ", "sum(x)", 10) for i in range(20)]
    parts = parts_of([*crowd, ("", "k, ", "sum(x)", 10)], {})
    for stage in parts.values():
        assert abs(stage.sum() - 1) < 1e-9
        assert stage[:20] == pytest.approx(stage[0])
    assert parts["spark"][0] > parts["spark"][20], "who has no predicate pays for no cells"


def test_who_is_answered_more_pays_more_of_the_answers() -> None:
    twin = ("n > 1", "k, ", "sum(x)", 10)
    parts = parts_of([twin, twin], {0: 30, 1: 10})
    assert parts["answer"][0] > parts["answer"][1]
    assert parts["write"][0] > parts["write"][1]
    assert parts["spark"][0] == pytest.approx(parts["spark"][1])


def test_who_wants_few_columns_does_not_pay_for_the_columns_of_others() -> None:
    few, many = ("", "k, ", "count(*)", 10), ("", "k, ", "stddev(x)", 10)
    parts = parts_of([few, many], {})
    assert parts["roll"][0] < parts["roll"][1]
    assert parts["spark"][0] < parts["spark"][1]
