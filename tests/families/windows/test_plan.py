"""What queries share: slots, rings and cuts, against what they promise, for drawn queries."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headrace.families.contract import Refusal
from headrace.families.windows.cuts import plan_cuts
from headrace.families.windows.plan import (
    SHARED_PANES_MAX,
    RingAssignment,
    Share,
    in_order,
    share,
)
from headrace.sql.bind import bind
from headrace.sql.tree import Column
from headrace.values import US_PER_S, Relation
from tests.families.windows.test_cost import RELATION

KEYS = ("", "k, ", "k, n, ")
WHERES = ("", "WHERE n > 3", "WHERE k = 'a'", "WHERE n % 2 = 0")
AGGREGATES = ("count(*)", "sum(n)", "avg(n)", "max(n)")
ASKED = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(WHERES),
    st.sampled_from(AGGREGATES),
    st.integers(1, 400),
    st.sampled_from([1, 2, 3, 10, 60, 600]),
)


def made(keys: str, where: str, aggregate: str, slides: int, slide_s: int) -> Share:
    window = f"window(ts, '{slides * slide_s} seconds', '{slide_s} seconds')"
    sql = f"SELECT {aggregate} AS v FROM s {where} GROUP BY {keys}{window}"
    found = share(bind(sql, {"s": RELATION}, name="q"), RELATION)
    assert isinstance(found, Share)
    return found


def check(assignment: RingAssignment, shares: dict[int, Share]) -> None:
    """Each query sits on one ring, of its slot, that has its measures and whose panes it is made
    of; no ring is empty."""
    assert assignment.shares == shares
    assert {i for ring in assignment.rings.values() for i in ring.members} == shares.keys()
    for query_id, own in shares.items():
        ring = assignment.ring_of[query_id]
        assert assignment.rings[ring.key] is ring and ring.members[query_id] is own
        assert ring.slot == own.slot and set(own.measures) <= set(ring.measures)
        assert own.window.grain_us % ring.grain_us == 0
        panes = own.window.range_us // ring.grain_us
        assert panes <= ring.length and (
            ring.grain_us == own.window.grain_us or panes <= SHARED_PANES_MAX
        )


@given(asked=st.lists(ASKED, max_size=12), gone=st.sets(st.integers(0, 11)))
def test_every_query_sits_on_a_ring_it_can_be_answered_from(
    asked: list[tuple[str, str, str, int, int]], gone: set[int]
) -> None:
    assignment, shares = RingAssignment(), dict[int, Share]()
    for query_id, own in enumerate(asked):
        shares[query_id] = made(*own)
        assignment.add(query_id, shares[query_id])
    check(assignment, shares)
    for query_id in gone & shares.keys():
        assignment.remove(query_id)
        del shares[query_id]
    check(assignment, shares)


@given(asked=st.lists(ASKED, min_size=1, max_size=12), united=st.booleans())
def test_every_ring_can_be_fed_from_the_cuts(
    asked: list[tuple[str, str, str, int, int]], united: bool
) -> None:
    assignment = RingAssignment()
    for query_id, own in enumerate(asked):
        assignment.add(query_id, made(*own))
    rings = in_order(assignment)
    cuts = plan_cuts(rings, united)
    assert not united or len(cuts.cuts) == 1
    for ring in rings:
        at = cuts.find(ring.slot)
        assert at is not None and set(ring.slot.keys) <= set(cuts.cuts[at].keys)
        assert ring.grain_us % cuts.pane_us == 0 and set(ring.measures) <= set(cuts.measures)


@given(asked=st.lists(ASKED, min_size=1, max_size=8), order=st.randoms(use_true_random=False))
def test_cuts_do_not_depend_on_who_came_first(
    asked: list[tuple[str, str, str, int, int]], order: Random
) -> None:
    def cuts_of(numbers: list[int]) -> object:
        assignment = RingAssignment()
        for i in sorted(numbers, key=lambda i: (shares[i].window.grain_us, i)):
            assignment.add(i, shares[i])
        return plan_cuts(in_order(assignment))

    shares = {i: made(*own) for i, own in enumerate(asked)}
    shuffled = list(shares)
    order.shuffle(shuffled)
    assert cuts_of(shuffled) == cuts_of(list(shares))


def test_queries_that_differ_in_the_window_alone_share_rows_and_groups() -> None:
    first, second = (
        made("k, ", "WHERE n > 3", "sum(n)", 6, 10),
        made("k, ", "WHERE n > 3", "avg(n)", 1, 60),
    )
    assert first.slot == second.slot and first.slot.keys == (Column("k", RELATION.fields[0].type),)
    assert (first.window.grain_us, second.window.grain_us) == (10 * US_PER_S, 60 * US_PER_S)
    assignment = RingAssignment()
    assert assignment.add(1, first) is assignment.add(2, second)


def test_a_table_has_no_windows_that_close() -> None:
    table = Relation("t", "parquet:t", RELATION.fields, key=(RELATION.fields[0].name,))
    query = bind(
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '1 minute')", {"s": RELATION}, name="q"
    )
    assert share(query, table) == Refusal("it is over a table")
