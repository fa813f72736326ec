"""The cost model: it counts what a plan does, and never finds more work cheaper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.families.windows.costs.cost import RATES, priced
from headrace.families.windows.costs.workload import (
    Flow,
    RingWorks,
    Workload,
    cells_of,
    quantities_of,
    workload_of,
)
from headrace.families.windows.cuts import plan_cuts
from headrace.families.windows.explain import assignment_of
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.values import US_PER_S, Relation

RELATION = Relation(
    "s", "parquet:/s", parse_schema("k STRING, g STRING, n INT, x DOUBLE, ts TIMESTAMP"), "ts", 0
)
PREDICATES = ("", "n > 1", "n > 2", "x < 5", "n % 3 = 0")
KEYS = ("", "k, ", "g, ", "k, g, ")
AGGREGATES = ("count(*)", "sum(x)", "avg(x), max(n)", "stddev(x)")
FLOW = Flow(
    10_000, 100 * US_PER_S, 120 * US_PER_S, 900, US_PER_S, 2, ("`k`",), {"`k`": 40, "`g`": 3}
)

queries = st.tuples(
    *map(st.sampled_from, (PREDICATES, KEYS, AGGREGATES)), st.sampled_from([5, 10, 20])
)
Ask = tuple[str, str, str, int]


def sql_of(ask: Ask) -> str:
    where, keys, aggregates, slide_s = ask
    return (
        f"SELECT {keys}{aggregates} FROM s {'WHERE ' + where if where else ''} "
        f"GROUP BY {keys}window(ts, '60 seconds', '{slide_s} seconds')"
    )


def workload(asks: Sequence[Ask]) -> Workload:
    bound = [(i, bind(sql_of(ask), {"s": RELATION}, name=f"q{i}")) for i, ask in enumerate(asks)]
    rings = assignment_of(bound, RELATION).rings.values()
    return workload_of(RingWorks().of(rings), plan_cuts(rings))


def seconds(asks: Sequence[Ask], flow: Flow = FLOW) -> dict[str, float]:
    return priced(quantities_of(workload(asks), flow))


def test_what_a_plan_does_is_counted() -> None:
    asks = [("n > 1", "k, ", "sum(x)", 10), ("n > 1", "k, ", "sum(x)", 5), ("", "", "count(*)", 20)]
    work = workload(asks)
    assert (work.queries, work.predicates, work.keys, work.pane_us) == (
        3,
        1,
        ("`k`",),
        5 * US_PER_S,
    )
    assert (len(work.slots), work.ring_slot.size, work.shape_ring.size) == (2, 2, 3)
    found = quantities_of(work, FLOW)
    # 20 s pass: 2, 4 and 1 windows end, the first two for each of 40 groups
    assert sorted(found["answer_row"]) == [1, 2 * 40, 4 * 40]
    assert found["spark_row_predicate"].sum() == 10_000
    assert found["plan_query"].sum() == 3


def test_a_crowd_of_constants_is_counted_as_cells() -> None:
    crowd: list[Ask] = [(f"x < {i}", "k, ", "sum(x)", 10) for i in range(20)]
    work = workload(crowd)
    assert (work.predicates, work.queries, work.cell_steps.tolist()) == (0, 20, [5])
    assert len(work.keys) == 2 and 21 in work.key_values
    found = quantities_of(work, replace(FLOW, groups={"`k`": 40}))
    assert found["spark_row_step"].sum() == 5 * FLOW.rows
    assert found["answer_row"].sum() == 2 * 40 * 20
    # a ring keeps every band of every group
    assert found["answer_shape"].sum() == 2 * 40 * 20 * work.ring_columns[0]
    assert seconds(crowd)["spark"] < seconds([*crowd, ("n % 7 = 1", "g, ", "max(n)", 10)])["spark"]


def test_every_quantity_has_a_rate_of_a_known_stage() -> None:
    assert set(quantities_of(workload([("", "", "count(*)", 5)]), FLOW)) == set(RATES)
    assert {rate.stage for rate in RATES.values()} == {
        "plan",
        "spark",
        "roll",
        "answer",
        "write",
        "commit",
    }


@given(st.lists(queries, min_size=1, max_size=8), queries)
def test_one_more_query_is_never_cheaper(asks: list[Ask], more: Ask) -> None:
    # of one window and no predicate that follows from a key: then no ring is given up for a finer
    # one
    before, after = seconds(asks), seconds([*asks, more])
    for stage, value in before.items():
        grows = more[3] in {a[3] for a in asks} and any(
            (a[0], a[1]) == (more[0], more[1]) for a in asks
        )
        if stage != "roll" or grows:
            assert after[stage] >= value * (1 - 1e-9), stage


@given(st.lists(queries, min_size=1, max_size=5), st.floats(1, 1e7), st.floats(1, 100))
def test_more_rows_are_never_cheaper(asks: list[Ask], rows: float, more: float) -> None:
    few = Flow(rows, 0, US_PER_S, min(900.0, rows), US_PER_S, 2, ("`k`",), {"`k`": 40})
    many = replace(few, rows=rows * more, counted_rows=rows)
    less, greater = seconds(asks, few), seconds(asks, many)
    assert all(greater[stage] >= value * (1 - 1e-9) for stage, value in less.items())


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_cells_of_the_plan_that_was_counted_are_those_counted(rows: int, cells: int) -> None:
    work = workload([("n > 1", "k, ", "sum(x)", 10)])
    known = Flow(rows, 0, US_PER_S, min(rows, cells), work.pane_us, work.predicates, work.keys)
    assert math.isclose(cells_of(work, known), min(rows, cells), rel_tol=1e-3)


def test_a_finer_plan_has_more_cells_but_never_more_than_rows() -> None:
    known = Flow(10_000, 0, US_PER_S, 900, 10 * US_PER_S, 1, ("`k`",))
    coarse = workload([("n > 1", "k, ", "sum(x)", 10)])
    fine = workload([("n > 1", "k, g, ", "sum(x)", 5), ("n > 2", "", "sum(x)", 5)])
    assert cells_of(coarse, known) < cells_of(fine, known) <= 10_000


def test_an_empty_plan_is_priced() -> None:
    assert seconds([])["spark"] > 0
    assert quantities_of(workload([]), FLOW)["answer_row"].sum() == 0
