"""What a standing join shares: shapes, boxes, what is left over, bounds on event times; and what is
refused."""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.families.joins.plan import (
    BAND,
    BOXES_MAX,
    SELECT,
    Share,
    filter_share,
    horizon_us,
    share,
)
from headrace.sql.bands import LEAST, MOST
from headrace.sql.bind import bind
from headrace.sql.emit import emit
from headrace.sql.schema import parse_schema
from headrace.values import Relation

DDL = "k STRING, n BIGINT, a INT, b DOUBLE, m DECIMAL(9, 2), d DATE, ts TIMESTAMP"
LEFT = Relation("r", "parquet:r", parse_schema(DDL), time="ts")
RIGHT = Relation("s", "parquet:s", parse_schema(DDL), time="ts")
TABLE = Relation("s", "parquet:s", parse_schema(DDL), key=("k",))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALL = (LEAST, MOST)


def shared(condition: str, right: Relation = RIGHT, select: str = "1 AS x") -> Share:
    query = bind(f"SELECT {select} FROM r JOIN s ON {condition}", {"r": LEFT, "s": right}, name="q")
    return share(query, LEFT, right)


def met(own: Share) -> tuple[list[str], list[str]]:
    left, right = own.shape.meets
    return [emit(e) for e in left], [emit(e) for e in right]


def test_queries_of_one_joint_differ_by_their_ranges_only() -> None:
    bands = [shared(f"s.b - r.b BETWEEN {i} AND {i + 2} AND r.a > {i}") for i in range(3)]
    assert len({own.shape for own in bands}) == 1 and bands[0].shape.kind == BAND
    assert [own.boxes for own in bands] == [((i, i + 2, i, i + 2),) for i in range(3)]
    selects = [shared(f"r.n = s.n AND r.k = s.k AND r.a > {i} AND s.b < {i}") for i in range(3)]
    assert len({own.shape for own in selects}) == 1 and selects[0].shape.kind == SELECT
    assert met(selects[0]) == met(shared("s.k = r.k AND s.n = r.n AND r.a > 1 AND s.b < 1"))
    assert (
        len(
            {
                shared(c).shape
                for c in ("r.n = s.n AND r.a > 1", "r.n = s.n AND r.b > 1", "r.n = s.n")
            }
        )
        == 3
    )


def test_an_equality_goes_before_a_difference_and_any_difference_before_that_of_event_times() -> (
    None
):
    assert shared("s.b - r.b > 1 AND r.n = s.n").shape.kind == SELECT
    near = "s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts"
    for condition in (f"s.b - r.b > 1 AND {near}", f"{near} AND s.b > r.b"):
        assert met(shared(condition)) == (["`b`"], ["`b`"])
    assert met(shared(near)) == (["`ts`"], ["`ts`"])
    # a table has no event times
    assert met(shared(f"{near} AND s.b - r.b > 1", TABLE)) == (
        ["`ts`"],
        ["`ts`"],
    )


def test_what_the_joint_does_not_ask_is_left_over() -> None:
    ranges = "r.a > 1 AND r.d > DATE '2020-01-01' AND s.a < 2"
    own = shared(f"r.n = s.n AND s.b - r.b > 1 AND {ranges} AND r.k < s.k AND s.b > r.b")
    assert (own.residue.equalities, len(own.residue.differences), len(own.residue.rest)) == (
        (),
        1,
        2,
    )
    assert [[emit(e) for e, _ in side] for side in own.residue.ranges] == [["`d`"], []]
    assert len(shared("r.n = s.n AND r.k = s.k").residue.equalities) == 2  # a hash is not all
    assert len(shared("r.k = s.k").residue.equalities) == 1
    assert not shared("r.b = s.b").residue.equalities


def test_boxes_are_all_pairs_of_intervals_but_not_too_many() -> None:
    def some(column: str, count: int) -> str:
        return f"{column} IN ({', '.join(str(2 * i) for i in range(count))})"

    own = shared(f"r.n = s.n AND {some('r.a', 3)} AND {some('s.a', 4)}")
    assert set(own.boxes) == {(2 * i, 2 * i, 2 * j, 2 * j) for i in range(3) for j in range(4)}
    own = shared(f"r.n = s.n AND {some('r.a', 20)} AND {some('s.a', 20)}")
    assert (
        len(own.boxes) == 20 <= BOXES_MAX
        and own.shape.ranged[1] is None
        and {b[2:] for b in own.boxes} == {ALL}
    )
    assert len(own.residue.ranges[1]) == 1


def test_ranges_beyond_what_a_query_may_have_are_left_over() -> None:
    """Each of the four says at most 64 ranges of one difference; of all there are more."""
    apart = ("s.n - r.n", "r.n - s.n", "abs(s.n - r.n)", "abs(r.n - s.n)")
    parts = [
        f"{d} NOT IN ({', '.join(str(200 * i + 2 * j) for j in range(63))})"
        for i, d in enumerate(apart)
    ]
    few = shared(" AND ".join(parts[:3]))
    count = len(few.boxes)
    assert 200 < count <= BOXES_MAX and not few.residue.differences
    many = shared(" AND ".join([*parts, "s.n - r.n BETWEEN -1000 AND 2000", "s.b > r.b"]))
    assert (
        many.shape == few.shape
        and set(many.boxes) == {(-1000, 2000, -1000, 2000)}
        and not many.is_cross
    )
    (own,) = many.residue.differences
    assert (
        own[0] == tuple(side[0] for side in many.shape.meets) and len(own[1].intervals) > BOXES_MAX
    )
    assert len(many.residue.rest) == 1 and shared(" AND ".join(parts)).is_cross


def test_a_share_is_kept_as_long_as_its_query() -> None:
    sql, relations = "SELECT 1 AS x FROM r JOIN s ON s.n - r.n = 31415", {"r": LEFT, "s": RIGHT}
    query, same = (bind(sql, relations, name="q") for _ in range(2))
    own = share(query, LEFT, RIGHT)
    assert share(same, LEFT, RIGHT) is own and share(query, LEFT, TABLE) is not own

    def kept() -> int:
        gc.collect()
        return sum(
            isinstance(found, Share) and found.boxes[0][0] == 31415 for found in gc.get_objects()
        )

    del own
    assert kept() == 2
    del query, same
    assert kept() == 0


@pytest.mark.parametrize(
    ("condition", "is_cross"),
    [
        ("true", True),
        ("abs(s.n - r.n) >= 0", True),
        ("abs(s.b - r.b) > -1", True),
        ("r.k < s.k", True),
        ("r.n = s.n", False),
        ("s.n > r.n", False),
        ("r.a > 1", False),
        ("r.n = s.n AND s.a < 3", False),
        ("s.n - r.n <> 3", False),
    ],
)
def test_a_query_that_asks_every_pair_is_known(condition: str, is_cross: bool) -> None:
    assert shared(condition).is_cross == is_cross


# -- time ------------------------------------------------------------------------------------------


def test_bounds_are_of_event_times_only() -> None:
    hour = 3_600_000_000
    assert shared("s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts AND r.n = s.n").bound == (
        -hour,
        0,
    )
    assert shared("r.n = s.n AND s.ts > r.ts").bound == (1, MOST)
    assert shared("r.n = s.n").bound is None
    assert shared("s.ts BETWEEN r.ts - INTERVAL '1' HOUR AND r.ts", TABLE).bound is None


@given(
    bound=st.tuples(st.integers(-50, 50) | st.just(LEAST), st.integers(0, 60) | st.just(MOST)),
    side=st.integers(0, 1),
    watermark=st.integers(-20, 20),
    own=st.integers(-200, 200),
)
def test_a_row_is_past_when_nothing_to_come_can_join_it(
    bound: tuple[int, int], side: int, watermark: int, own: int
) -> None:
    least, most = bound[0], bound[1] if bound[1] == MOST else max(bound[0], -50) + bound[1]
    horizon = horizon_us((least, most), side, watermark)
    others = range(watermark, watermark + 400)
    joins = any(least <= (other - own if side == 0 else own - other) <= most for other in others)
    assert (horizon is None or own >= horizon) == joins or (horizon is None and not joins)
    assert (
        horizon_us((least, most), side, None) is None and horizon_us(None, side, watermark) is None
    )


# -- what is refused -------------------------------------------------------------------------------


TOGETHER = "put the smaller end first (BETWEEN low AND high)"


@pytest.mark.parametrize(
    ("condition", "what", "why"),
    [
        ("r.n = s.n AND r.a BETWEEN 5 AND 3", "r.a", TOGETHER),
        ("s.b - r.b BETWEEN 2 AND 1", "(s.b - r.b)", TOGETHER),
        ("s.n - r.n > 3 AND s.n - r.n < 2", "(s.n - r.n)", TOGETHER),
        ("s.n > r.n AND s.n < r.n", "(s.n - r.n)", TOGETHER),
        ("s.b > r.b AND s.b < r.b", "(s.b - r.b)", TOGETHER),
        ("s.n - r.n < 3 AND s.n > r.n + 5", "(s.n - r.n)", TOGETHER),
        ("r.a = 1 AND r.a = 2", "r.a", TOGETHER),
        ("s.ts > r.ts + INTERVAL '1' HOUR AND s.ts < r.ts", "(s.ts - r.ts)", TOGETHER),
        ("abs(s.b - r.b) < 0", "(s.b - r.b)", "(abs((s.b - r.b)) < 0) is never true"),
        ("r.n > 9223372036854775807", "r.n", "(r.n > 9223372036854775807L) is never true"),
        (
            "s.n - r.n > 9223372036854775807",
            "(s.n - r.n)",
            "((s.n - r.n) > 9223372036854775807L) is never true",
        ),
        ("r.n = s.n AND s.a = 1.5", "s.a", "(s.a = 1.5BD) is never true"),
        ("r.n = s.n AND r.a + 1 > 5 AND r.a + 1 < 3", "(r.a + 1)", TOGETHER),
    ],
)
def test_an_empty_range_is_refused(condition: str, what: str, why: str) -> None:
    with pytest.raises(PlanError) as found:
        shared(condition)
    assert found.value.code == "EMPTY_RANGE"
    assert f"'q': its range of {what} is empty" in str(found.value) and why in found.value.hint
    assert (TOGETHER in found.value.hint) == (why == TOGETHER)


def test_an_empty_range_of_a_filter_or_of_a_relation_with_itself_is_told_by_name() -> None:
    odd = Relation("r", "parquet:r", parse_schema("`a b` INT, ts TIMESTAMP"), time="ts")
    with pytest.raises(PlanError, match=r"its range of `a b` is empty"):
        filter_share(
            bind("SELECT ts FROM r WHERE `a b` BETWEEN 2 AND 1", {"r": odd}, name="q"), odd
        )
    with pytest.raises(PlanError, match=r"its range of \(right\.n - left\.n\) is empty"):
        share(
            bind("SELECT x.n FROM r x JOIN r y ON y.n > x.n AND y.n < x.n", {"r": LEFT}, name="q"),
            LEFT,
            LEFT,
        )


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("datediff(s.d, r.d) > 3", 1),
        ("s.m - r.m > 1", 1),
        ("s.m - r.b > 1", 1),
        ("upper(r.k) = s.k", 1),
        ("length(r.k) > 2 AND r.k LIKE 'a%'", 2),
        ("CAST(r.k AS INT) > 1", 1),
    ],
)
def test_what_is_not_evaluated_here_is_left_over(condition: str, left: int) -> None:
    assert shared(condition).is_cross and len(shared(condition).residue.rest) == left
    assert (
        shared(f"{condition} AND r.n = s.n AND s.a > 1").shape
        == shared("r.n = s.n AND s.a > 1").shape
    )


def test_times_that_are_subtracted_are_apart_by_an_interval() -> None:
    hour = 3_600_000_000
    own = shared("s.ts - r.ts BETWEEN INTERVAL '0' SECOND AND INTERVAL '1' HOUR")
    assert met(own) == (["`ts`"], ["`ts`"]) and (*own.boxes[0], own.bound) == (
        0,
        hour,
        0,
        hour,
        (0, hour),
    )
    within = shared("INTERVAL '1' HOUR > r.ts - s.ts AND r.n = s.n")
    assert within.bound is not None and within.bound[0] == 1 - hour and within.shape.kind == SELECT
    assert shared("r.ts - s.ts = INTERVAL '1' HOUR").bound == (-hour, -hour)
    assert shared("s.ts - s.ts > INTERVAL '1' HOUR").is_cross


def test_times_of_the_test_are_micros() -> None:
    own = shared("r.n = s.n AND r.ts > TIMESTAMP '2020-01-01 00:00:00'")
    assert (
        own.boxes[0][0]
        == (datetime(2020, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) + 1
    )
