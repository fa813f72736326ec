"""Which of many things make what is done with all of them fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.halving import failing_alone, failing_together


def counted(
    failing: Callable[[Sequence[int]], str | None],
) -> tuple[Callable[[Sequence[int]], str | None], list[int]]:
    tries: list[int] = []

    def counting(things: Sequence[int]) -> str | None:
        tries.append(len(things))
        return failing(things)

    return counting, tries


@given(st.integers(1, 400), st.data())
def test_each_that_fails_alone_is_found_with_its_own_reason(size: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=5))
    failing, tries = counted(
        lambda things: next((f"because of {t}" for t in things if t in bad), None)
    )
    found = failing_alone(range(size), "together", failing, 10_000)
    assert found == {t: "together" if size == 1 else f"because of {t}" for t in bad}
    assert len(tries) <= 2 * len(bad) * max(1, math.ceil(math.log2(size)))


@given(st.integers(2, 200), st.data())
def test_of_those_that_fail_only_together_some_go(size: int, data: st.DataObject) -> None:
    pair = data.draw(st.sets(st.integers(0, size - 1), min_size=2, max_size=2))
    failing, tries = counted(lambda things: "both" if pair <= set(things) else None)
    assert failing_alone(range(size), "both", failing, 10_000) == {}
    found = failing_together(range(size), "both", failing, 10_000)
    assert len(found) == 1 and set(found) < pair
    assert len(tries) <= 4 * (math.ceil(math.log2(size)) + 1)


@given(st.integers(2, 200), st.integers(1, 199))
def test_where_all_are_too_many_as_many_stay_as_fit(size: int, limit: int) -> None:
    limit = min(limit, size - 1)
    found = failing_together(
        range(size), "too many", lambda t: "too many" if len(t) > limit else None, 10_000
    )
    assert len(found) == size - limit


@given(st.integers(2, 300), st.integers(0, 20))
def test_tries_are_limited_and_nobody_who_fails_stays(size: int, tries_max: int) -> None:
    bad = set(range(0, size, 3))
    failing, tries = counted(lambda things: "bad" if bad & set(things) else None)
    found = failing_alone(range(size), "bad", failing, tries_max)
    assert bad <= set(found)
    assert len(tries) <= 2 * tries_max + 1
    assert all("quarantine_probes_max" in found[thing] for thing in found.keys() - bad), (
        "it may be another's fault"
    )
