"""Who sits elsewhere than best is told in runs of ids; a placement that no query can have is passed
over."""

from __future__ import annotations

import pytest

from headrace.families.windows.figures import Elsewhere, Placement
from headrace.families.windows.placement import (
    BestPlacement,
    Placements,
    PlacementsTold,
    form_at,
)
from headrace.families.windows.plan import SHARED_PANES_MAX, Share, share
from headrace.sql.bind import bind
from headrace.values import US_PER_S
from tests.families.windows.test_cost import RELATION


def asked(slide_s: int, where: str = "", panes: int = 4) -> Share:
    window = f"window(ts, '{panes * slide_s} seconds', '{slide_s} seconds')"
    sql = f"SELECT k, sum(n) AS t FROM s {where} GROUP BY k, {window}"
    found = share(bind(sql, {"s": RELATION}, name="q"), RELATION)
    assert isinstance(found, Share)
    return found


def seen(placements: Placements, come: dict[int, Share], gone: tuple[int, ...] = ()) -> None:
    for query_id in gone:
        placements.assignment.remove(query_id)
    placements.expect(come, gone)
    for query_id, own in come.items():
        placements.add(query_id, own, lambda form: 0)
    placements.note_exceptions()


def test_thousands_that_stay_behind_are_one_run() -> None:
    placements = Placements(())
    seen(placements, {i: asked(10) for i in range(1, 5_000)})
    assert not placements.exceptions
    seen(placements, {7_000: asked(1), 7_001: asked(10)}, gone=(30, 40))
    assert placements.exceptions == (Elsewhere((10 * US_PER_S,), ((1, 4_999),)),)
    told = PlacementsTold(placements.exceptions)
    assert told.of(1) == told.of(4_999) == (10 * US_PER_S,)
    assert told.of(0) is told.of(5_000) is told.of(7_000) is None
    seen(placements, {}, gone=(7_000,))
    assert placements.exceptions == (Elsewhere((US_PER_S,), ((7_001, 7_001),)),)


def test_an_engine_that_starts_again_places_them_as_they_sat() -> None:
    before = Placements(())
    queries = {1: asked(10), 2: asked(1), 3: asked(20)}
    for query_id, own in queries.items():
        seen(before, {query_id: own})
    after, best = Placements(before.exceptions), BestPlacement()
    seen(after, queries)
    best.update(queries, ())
    rings = [
        {i: ring.key for i, ring in own.ring_of.items()}
        for own in (before.assignment, after.assignment, best.but(before.exceptions))
    ]
    assert rings[0] == rings[1] == rings[2]
    assert after.exceptions == before.exceptions != ()
    assert len(set(rings[0].values())) == 2 and len(best.assignment.rings) == 1


@pytest.mark.parametrize(
    "odd",
    [(), (0,), (-1,), (3,), (US_PER_S, 0), (1, 0, 0), (10 * US_PER_S, 7), (10 * US_PER_S, -1)],
)
def test_a_placement_that_no_query_can_have_is_passed_over(odd: Placement) -> None:
    queries = {1: asked(10, "WHERE x > 1"), 2: asked(10)}
    exceptions = (Elsewhere(odd, ((-(2**62), 2**62),)),)
    best, again = BestPlacement(), Placements(exceptions)
    best.update(queries, ())
    seen(again, queries)
    own = {i: ring.key for i, ring in best.assignment.ring_of.items()}
    assert own == {i: ring.key for i, ring in best.but(exceptions).ring_of.items()}
    assert own == {i: ring.key for i, ring in again.assignment.ring_of.items()}


def test_a_window_of_very_many_panes_sits_on_its_own_grain_or_nowhere() -> None:
    """What an engine remembers of it after a restart is where it sat, if it can sit there."""
    many, few = (asked(1, panes=panes) for panes in (SHARED_PANES_MAX + 1, SHARED_PANES_MAX // 2))
    assert form_at(many, (US_PER_S,)) == many and form_at(few, (US_PER_S,)) == few
    assert form_at(many, (US_PER_S // 2,)) is None and form_at(few, (US_PER_S // 2,)) == few
    assert form_at(few, (US_PER_S // 4,)) is None
    assert form_at(few, (2 * US_PER_S,)) is None, "its edges are not edges of such panes"
