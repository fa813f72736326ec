"""The shared job of a round fails: whose fault that is, and whose it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

import pytest
from py4j.protocol import Py4JError

from headrace.families.joins.plan import FILTER, NOBODY, JoinShape
from headrace.families.joins.round_runner import PendingRound, RoundRunner, Tasks
from headrace.families.joins.suspects import take_or_blame
from headrace.relations.keeper import PendingRows
from headrace.relations.rounds import NONE
from headrace.runtime.family import Round
from headrace.sql.tree import Column
from headrace.values import INT

JOINTS = [
    JoinShape(("s", NOBODY), FILTER, ((), ()), (Column(f"c{i}", INT), None)) for i in range(9)
]
QUERIES = {shape: [10 * i, 10 * i + 1] for i, shape in enumerate(JOINTS)}
ROUND = Round(0, None, 0)
NO_ROWS = PendingRows(1, NONE)


class Failing:
    """Turns that fail as they are told to."""

    def __init__(self, why: Callable[[Collection[JoinShape], int], Exception | None]) -> None:
        self._why = why
        self.tries = 0

    def take(
        self, tasks: Tasks, round: Round, only: Collection[JoinShape] | None = None
    ) -> PendingRound:
        self.tries += 1
        error = self._why(JOINTS if only is None else only, self.tries)
        if error is not None:
            raise error
        return PendingRound((), (), (), NO_ROWS)


def blamed(runner: Failing) -> tuple[PendingRound | None, dict[int, str]]:
    return take_or_blame(cast(RoundRunner, runner), cast(Tasks, None), ROUND, QUERIES, 100)


@pytest.mark.parametrize("bad", [{0}, {8}, {2, 3}, {0, 4, 8}])
def test_the_queries_of_a_joint_that_fails_go(bad: set[int]) -> None:
    def why(shapes: Collection[JoinShape], tries: int) -> Exception | None:
        return next((ValueError(f"c{i}") for i in bad if JOINTS[i] in shapes), None)

    turn, faults = blamed(Failing(why))
    assert turn is None
    assert faults == {10 * i + k: f"ValueError: c{i}" for i in bad for k in (0, 1)}


def test_what_fails_only_together_loses_one() -> None:
    turn, faults = blamed(
        Failing(lambda shapes, _: MemoryError("full") if len(shapes) == 9 else None)
    )
    assert turn is None and len(faults) == 2


def test_what_passes_when_it_is_tried_again_is_nobodys_fault() -> None:
    """A worker that was killed, say; also where there is one shape only."""
    runner = Failing(lambda shapes, tries: OSError("worker died") if tries == 1 else None)
    found = take_or_blame(
        cast(RoundRunner, runner), cast(Tasks, None), ROUND, {JOINTS[0]: [1]}, 100
    )
    assert found == (PendingRound((), (), (), NO_ROWS), {})


def test_a_round_is_taken_whole_when_nothing_fails_any_more() -> None:
    """It fails twice, and then no part of it does: there is nobody to blame, and its rows are not
    left out."""
    runner = Failing(lambda shapes, tries: MemoryError("full") if tries in (1, 3) else None)
    assert blamed(runner) == (PendingRound((), (), (), NO_ROWS), {})


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("no"), Py4JError("An error occurred while calling o1.x")]
)
def test_nobody_is_blamed_when_spark_dies_among_the_tries(error: Exception) -> None:
    """Also once every shape has failed alone: a Spark that is gone fails for all of them."""

    def after(died: int) -> Callable[[Collection[JoinShape], int], Exception | None]:
        return lambda shapes, tries: (
            error if tries >= died else ValueError("x") if JOINTS[3] in shapes else None
        )

    for died in range(1, 11):
        with pytest.raises(type(error)):
            blamed(Failing(after(died)))


@pytest.mark.parametrize("error", [OSError("no file"), OSError("No space left on device")])
def test_what_fails_without_any_query_is_the_rounds_failure(error: Exception) -> None:
    with pytest.raises(OSError, match=str(error)):
        blamed(Failing(lambda shapes, tries: error))
